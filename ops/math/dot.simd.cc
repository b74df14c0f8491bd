// SPDX-License-Identifier: Apache-2.0
// dot and its gradients with the widest vectors of the machine.
#include "ops/math/dot.h"
#include "ops/table.h"

namespace troupe::ops {

std::span<const BackendKernel> kernels_dot_simd() {
  static const std::vector<BackendKernel> kernels = {
      {"dot", product_kernel(product_of)},
      {"dot_backward_lhs", product_kernel(product_of)},
      {"dot_backward_rhs", product_kernel(product_of)},
  };
  return kernels;
}

}  // namespace troupe::ops
