// SPDX-License-Identifier: Apache-2.0
// deconvolution and its gradient by oneDNN's direct convolutions.
#include "ops/nn/deconvolution.h"

namespace troupe::ops {

std::span<const BackendKernel> kernels_convolution_onednn();

std::span<const BackendKernel> kernels_deconvolution_onednn() {
  static const std::vector<BackendKernel> kernels =
      deconvolution_kernels(kernels_convolution_onednn());
  return kernels;
}

}  // namespace troupe::ops
