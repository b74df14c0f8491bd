// SPDX-License-Identifier: Apache-2.0
// What this process computes with. Any thread.
#pragma once

#include <span>
#include <string_view>

#include "base/device.h"
#include "base/numeric_class.h"

namespace troupe::ops {

/// NumericClass::build of this process. Unlike numeric_class() it asks no library what the
/// processor has, after which that can no longer be capped.
std::string_view build_name();

/// numeric_class() of table.h for workers on `devices`. Where any are GPUs, device_model names
/// their models behind the processor's (once where they are equal, else of each worker), and the
/// versions of the libraries that they use, which this call loads.
base::NumericClass numeric_class(int threads, std::span<const base::Device> devices);

/// True where products of bf16 are computed by instructions for them, AMX's or avx512_bf16's: the
/// processor has them, and this build has kernels that use them. Elsewhere, and in a process whose
/// instruction set is capped, they are computed in f32.
bool has_bf16_products();

}  // namespace troupe::ops
