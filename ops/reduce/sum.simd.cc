// SPDX-License-Identifier: Apache-2.0
// sum with the widest vectors of the machine; the reference's bits.
#include "ops/support/reduce_vectors.h"
#include "ops/table.h"

namespace troupe::ops {

std::span<const BackendKernel> kernels_sum_simd() {
  static const std::vector<BackendKernel> kernels = {
      {"sum", reduce_vectors_kernel<SumReducer>(walk_of_axes, finish_total)}};
  return kernels;
}

}  // namespace troupe::ops
