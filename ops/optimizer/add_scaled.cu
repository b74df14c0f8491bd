// SPDX-License-Identifier: Apache-2.0
// add_scaled on GPUs: product and sum are rounded one by one.
#include "ops/support/device_kernel.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

template <typename T>
struct AddScaledAt {
  const T *lhs, *rhs, *factor;
  T* out;

  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    using W = Wide<T>;
    const W product = static_cast<W>(rhs[i]) * static_cast<W>(*factor);
    out[i] = T(static_cast<W>(lhs[i]) + product);
  }
};

template <typename T>
base::Status run_add_scaled(const OpCall&, const KernelContext& context, T) {
  return for_each_index(context, flat_elements<T>(context),
                        AddScaledAt<T>{context.inputs[0].as<T>(), context.inputs[1].as<T>(),
                                       context.inputs[2].as<T>(), context.outputs[0].as<T>()});
}

}  // namespace

std::span<const BackendKernel> kernels_add_scaled_cuda() {
  static const BackendKernel kernels[] = {
      {"add_scaled", real_device_kernel([](auto&&... x) { return run_add_scaled(x...); })}};
  return kernels;
}

}  // namespace troupe::ops
