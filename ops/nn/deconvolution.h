// SPDX-License-Identifier: Apache-2.0
// Kernels of deconvolution and its gradient are those of convolution's operators: with the same
// windows, deconvolution is the gradient of a convolution with respect to its data, made from the
// gradient of its output, which is deconvolution's data. Pure functions; any thread.
#pragma once

#include <span>
#include <vector>

#include "ops/table.h"

namespace troupe::ops {

/// Kernels of deconvolution's operators from one back-end's kernels of convolution's. A bias is
/// added behind deconvolution's.
std::vector<BackendKernel> deconvolution_kernels(std::span<const BackendKernel> convolution);

}  // namespace troupe::ops
