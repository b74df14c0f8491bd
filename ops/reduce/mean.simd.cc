// SPDX-License-Identifier: Apache-2.0
// mean with the widest vectors of the machine; the reference's bits.
#include "ops/support/reduce_vectors.h"
#include "ops/table.h"

namespace troupe::ops {

std::span<const BackendKernel> kernels_mean_simd() {
  static const std::vector<BackendKernel> kernels = {
      {"mean", reduce_vectors_kernel<SumReducer>(walk_of_axes, finish_mean)}};
  return kernels;
}

}  // namespace troupe::ops
