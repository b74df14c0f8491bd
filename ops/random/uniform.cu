// SPDX-License-Identifier: Apache-2.0
// uniform on GPUs, with the bits of the reference.
#include "ops/random/uniform.h"
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
  template <typename T>
  UniformValue<Wide<T>> operator()(const Params& params, T) const {
    using W = Wide<T>;
    const W low = static_cast<W>(params.real("low")), high = static_cast<W>(params.real("high"));
    return {low, high, uniform_last<T>(low, high)};
  }
};

}  // namespace

std::span<const BackendKernel> kernels_uniform_cuda() {
  static const BackendKernel kernels[] = {{"uniform", draw_device_kernel(MakeUniform())}};
  return kernels;
}

}  // namespace troupe::ops
