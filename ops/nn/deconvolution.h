// SPDX-License-Identifier: Apache-2.0
// Kernels of deconvolution and its gradient are those of convolution's operators: with the same
// windows, deconvolution is the gradient of a convolution with respect to its data, made from the
// gradient of its output, which is deconvolution's data. Pure functions; any thread.
#pragma once

#include <span>
#include <vector>

#include "ops/nn/convolution.h"
#include "ops/table.h"

namespace troupe::ops {

/// Kernels of deconvolution's operators from one back-end's kernels of convolution's. A bias is
/// added behind deconvolution's.
std::vector<BackendKernel> deconvolution_kernels(std::span<const BackendKernel> convolution);

/// The extents of the convolution that a call of one of deconvolution's operators computes a pass
/// of. Its data is deconvolution's output.
Convolution twin_convolution(const OpCall& call);

}  // namespace troupe::ops
