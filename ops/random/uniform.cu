// SPDX-License-Identifier: Apache-2.0
// uniform on GPUs, with the bits of the reference.
#include <cmath>

#include "ops/support/device_random.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

template <typename W>
struct UniformValue {
  W low, high, last;

  TROUPE_HOST_DEVICE W operator()(const PhiloxWords& words, int k) const {
    const W value = low + (high - low) * unit_number<W>(words.word[k]);
    return last < value ? last : value;
  }
};

struct MakeUniform {
  template <typename W>
  UniformValue<W> operator()(const Params& params, W) const {
    const W low = static_cast<W>(params.real("low")), high = static_cast<W>(params.real("high"));
    // Rounding can reach `high`, which is not in the interval.
    return {low, high, high > low ? std::nextafter(high, low) : low};
  }
};

}  // namespace

std::span<const BackendKernel> kernels_uniform_cuda() {
  static const BackendKernel kernels[] = {{"uniform", draw_device_kernel(MakeUniform())}};
  return kernels;
}

}  // namespace troupe::ops
