// SPDX-License-Identifier: Apache-2.0
// A chain of element-wise operators as the source of one kernel for GPUs. Pure functions; any
// thread.
#pragma once

#include <string>
#include <vector>

#include "base/dtype.h"
#include "ops/pointwise_chain.h"

namespace troupe::ops::jit {

/// Threads of a block that the kernel is made for.
inline constexpr int kPointwiseThreads = 256;

/// The kernel's name in its source.
inline constexpr const char* kPointwiseKernel = "fused_pointwise";

/// Source of `void fused_pointwise(Arguments)` for tensors of `dtype`, a floating one: the same
/// operations in the same order as by the steps' own kernels, in f32 between steps where tensors
/// have 16 bits. Arguments is a struct of 8-byte fields, the addresses of the chain's inputs, that
/// of the output, the number of elements, and whether all addresses are multiples of 16 (1 or 0);
/// then chain_numbers() in f32, or f64 for f64, at least one. These numbers are no part of the
/// source, so chains that differ in them alone share a kernel. Of inputs that are 0-d the first
/// element counts, and their addresses may be any.
std::string pointwise_source(const PointwiseChain& chain, base::DType dtype);

/// What "#0", "#1", ... stand for, step by step.
std::vector<double> chain_numbers(const PointwiseChain& chain);

}  // namespace troupe::ops::jit
