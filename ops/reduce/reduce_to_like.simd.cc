// SPDX-License-Identifier: Apache-2.0
// reduce_to_like with the widest vectors of the machine; the reference's bits.
#include "ops/support/reduce_vectors.h"
#include "ops/table.h"

namespace troupe::ops {

std::span<const BackendKernel> kernels_reduce_to_like_simd() {
  static const std::vector<BackendKernel> kernels = {
      {"reduce_to_like", reduce_vectors_kernel<SumReducer>(walk_of_like, finish_total)}};
  return kernels;
}

}  // namespace troupe::ops
