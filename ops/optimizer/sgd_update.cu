// SPDX-License-Identifier: Apache-2.0
// sgd_update on GPUs: the reference's operations in its order, each rounded by itself.
#include "ops/support/device_kernel.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

template <typename T>
struct SgdAt {
  using W = Wide<T>;
  const T *weight, *gradient, *velocity, *rate, *count;
  T *new_weight, *new_velocity;
  W momentum, decay, limit;

  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    const auto w = static_cast<W>(weight[i]);
    W g = static_cast<W>(gradient[i]) / static_cast<W>(*count);
    if (limit > W{0}) g = g < -limit ? -limit : (g > limit ? limit : g);
    g = g + w * decay;
    const W v = static_cast<W>(velocity[i]) * momentum + g;
    new_weight[i] = T(w - v * static_cast<W>(*rate));
    new_velocity[i] = T(v);
  }
};

template <typename T>
base::Status run_sgd_update(const OpCall& call, const KernelContext& context, T) {
  const auto in = [&](std::size_t index) -> const T* { return context.inputs[index].as<T>(); };
  const auto number = [&](const char* name) {
    return static_cast<Wide<T>>(call.params.real(name));
  };
  return for_each_index(context, flat_elements<T>(context),
                        SgdAt<T>{in(0), in(1), in(2), in(3), in(4), context.outputs[0].as<T>(),
                                 context.outputs[1].as<T>(), number("momentum"), number("wd"),
                                 number("clip_gradient")});
}

}  // namespace

std::span<const BackendKernel> kernels_sgd_update_cuda() {
  static const BackendKernel kernels[] = {
      {"sgd_update", real_device_kernel([](auto&&... x) { return run_sgd_update(x...); })}};
  return kernels;
}

}  // namespace troupe::ops
