// SPDX-License-Identifier: Apache-2.0
// The layout that an element-wise call can run flat over, and the frame of SIMD kernels that do.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ops/op.h"

namespace troupe::ops {

/// The layout that all tensors of a call share or are free to take. Dense always fits; a blocked
/// one fits element-wise operators, with equal shapes; where it has padding, only such that map
/// zero to zero. Else unimplemented. Where all are free, a blocked layout that one of them has now
/// goes before dense.
base::Result<base::Layout> common_layout(const OpCall& call);

/// A kernel that runs over the memory of the outputs from start to end, in common_layout(). `run`
/// honours the call's write modes itself.
base::Result<std::unique_ptr<Kernel>> make_flat(
    const std::string& name, const OpCall& call,
    const std::function<base::Status(const OpCall&, const KernelContext&)>& run);

/// make_flat() for f32, f64 and bf16, which `run` computes with in f32; `accepts`, where given, may
/// decline more.
KernelDef flat_kernel(std::string name,
                      std::function<base::Status(const OpCall&, const KernelContext&)> run,
                      std::function<base::Status(const OpCall&)> accepts = {});
/// For `accepts`: an error where the output is f64.
base::Status not_f64(const OpCall& call);

/// make_flat() for f32.
KernelDef flat_kernel_of_f32(std::string name,
                             std::function<base::Status(const OpCall&, const KernelContext&)> run,
                             std::function<base::Status(const OpCall&)> accepts = {});

}  // namespace troupe::ops
