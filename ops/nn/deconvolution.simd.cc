// SPDX-License-Identifier: Apache-2.0
// deconvolution and its gradient by Winograd's form of convolution.
#include "ops/nn/deconvolution.h"

namespace troupe::ops {

std::span<const BackendKernel> kernels_convolution_simd();

std::span<const BackendKernel> kernels_deconvolution_simd() {
  static const std::vector<BackendKernel> kernels =
      deconvolution_kernels(kernels_convolution_simd());
  return kernels;
}

}  // namespace troupe::ops
