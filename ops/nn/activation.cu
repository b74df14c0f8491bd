// SPDX-License-Identifier: Apache-2.0
// activation and its gradient on GPUs.
#include "ops/support/device_kernel.h"
#include "ops/support/pointwise_functions.h"
#include "ops/support/variadic.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

/// use(function) for the one that the call names.
template <typename Use>
base::Status with_activation(const OpCall& call, const Use& use) {
  const std::string& type = call.params.text("act_type");
  if (type == "relu") return use(pointwise::Relu());
  if (type == "sigmoid") return use(pointwise::Sigmoid());
  if (type == "tanh") return use(pointwise::Tanh());
  if (type == "softrelu") return use(pointwise::Softrelu());
  return use(pointwise::Softsign());
}

/// Function::value as a plain function.
template <typename Function>
struct ActivationOf {
  template <typename W>
  TROUPE_HOST_DEVICE W operator()(W x) const {
    return Function::value(x);
  }
};

/// From the sum of the gradients, in their order.
template <typename Function, typename T>
struct ActivationGradientAt {
  const T* gradients[kSummedMost];
  std::size_t count;
  const T* value;
  DeviceOutput<T> out;

  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    auto sum = static_cast<Wide<T>>(gradients[0][i]);
    for (std::size_t k = 1; k < count; ++k) sum += static_cast<Wide<T>>(gradients[k][i]);
    out.store(i, Function::gradient(sum, static_cast<Wide<T>>(value[i])));
  }
  TROUPE_HOST_DEVICE void pack(std::int64_t i) const {
    constexpr int kSize = DevicePack<T>::kSize;
    const DevicePack<T> values = pack_at(value, i);
    Wide<T> sums[kSize] = {};
    for (std::size_t k = 0; k < count; ++k) {
      const DevicePack<T> addends = pack_at(gradients[k], i);
      for (int e = 0; e < kSize; ++e) {
        const auto addend = static_cast<Wide<T>>(addends.values[e]);
        sums[e] = k == 0 ? addend : sums[e] + addend;
      }
    }
    for (int e = 0; e < kSize; ++e) {
      sums[e] = Function::gradient(sums[e], static_cast<Wide<T>>(values.values[e]));
    }
    out.store_pack(i, sums);
  }
};

template <typename T>
base::Status run_activation(const OpCall& call, const KernelContext& context, T) {
  return with_activation(call, [&](auto function) {
    const PointwiseAt<1, T, ActivationOf<decltype(function)>> at{
        {context.inputs[0].as<T>()}, device_output<T>(call, context, 0), {}};
    return for_each_pack<T>(context, flat_elements<T>(context), at.aligned(), at);
  });
}

template <typename T>
base::Status run_activation_backward(const OpCall& call, const KernelContext& context, T) {
  return with_activation(call, [&](auto function) {
    const std::size_t count = context.inputs.size() - 1;
    ActivationGradientAt<decltype(function), T> at{
        {}, count, context.inputs[count].as<T>(), device_output<T>(call, context, 0)};
    bool aligned = packs_align(at.value) && packs_align(at.out.data);
    for (std::size_t k = 0; k < count; ++k) {
      at.gradients[k] = context.inputs[k].as<T>();
      aligned = aligned && packs_align(at.gradients[k]);
    }
    return for_each_pack<T>(context, flat_elements<T>(context), aligned, at);
  });
}

}  // namespace

std::span<const BackendKernel> kernels_activation_cuda() {
  static const BackendKernel kernels[] = {
      {"activation", real_device_kernel([](auto&&... x) { return run_activation(x...); })},
      {"activation_backward",
       real_device_kernel([](auto&&... x) { return run_activation_backward(x...); })}};
  return kernels;
}

}  // namespace troupe::ops
