// SPDX-License-Identifier: Apache-2.0
// The numeric class of a process whose workers may compute on GPUs. Any thread.
#pragma once

#include <span>

#include "base/device.h"
#include "base/numeric_class.h"

namespace troupe::ops {

/// numeric_class() of table.h for workers on `devices`. Where any are GPUs, device_model names
/// their models behind the processor's (once where they are equal, else of each worker), and the
/// versions of the libraries that they use, which this call loads.
base::NumericClass numeric_class(int threads, std::span<const base::Device> devices);

}  // namespace troupe::ops
