// SPDX-License-Identifier: Apache-2.0
// average_update on GPUs.
#include <cmath>

#include "ops/support/device_kernel.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

template <typename T>
struct AverageAt {
  const T *state, *total, *count, *share;
  T* out;
  double momentum;

  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    using W = Wide<T>;
    using std::pow;
    const double kept = pow(momentum, static_cast<double>(*share));
    const W mean = static_cast<W>(total[i]) / static_cast<W>(*count);
    out[i] = T(static_cast<W>(state[i]) * static_cast<W>(kept) + mean * static_cast<W>(1.0 - kept));
  }
};

template <typename T>
base::Status run_average_update(const OpCall& call, const KernelContext& context, T) {
  const auto in = [&](std::size_t index) -> const T* { return context.inputs[index].as<T>(); };
  return for_each_index(context, flat_elements<T>(context),
                        AverageAt<T>{in(0), in(1), in(2), in(3), context.outputs[0].as<T>(),
                                     call.params.real("momentum")});
}

}  // namespace

std::span<const BackendKernel> kernels_average_update_cuda() {
  static const BackendKernel kernels[] = {
      {"average_update", real_device_kernel([](auto&&... x) { return run_average_update(x...); })}};
  return kernels;
}

}  // namespace troupe::ops
