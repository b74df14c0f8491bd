// SPDX-License-Identifier: Apache-2.0
// max with the widest vectors of the machine; the reference's bits.
#include "ops/support/reduce_vectors.h"
#include "ops/table.h"

namespace troupe::ops {

std::span<const BackendKernel> kernels_max_simd() {
  static const std::vector<BackendKernel> kernels = {
      {"max", reduce_vectors_kernel<MaxReducer>(walk_of_axes, finish_total)}};
  return kernels;
}

}  // namespace troupe::ops
