// SPDX-License-Identifier: Apache-2.0
// convolution and its gradients on GPUs, where no library takes them.
#include "ops/nn/device_convolution.h"
#include "ops/nn/device_epilogue.h"
#include "ops/nn/linear.h"
#include "ops/support/channels_last.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

Convolution convolution_of(const OpCall& call) {
  return read_convolution(call.params, call.inputs[0].shape, call.outputs[0].shape);
}
Convolution convolution_of_data_gradient(const OpCall& call) {
  return read_convolution(call.params, call.inputs[2].shape, call.inputs[0].shape);
}
Convolution convolution_of_weight_gradient(const OpCall& call) {
  return read_convolution(call.params, call.inputs[1].shape, call.inputs[0].shape);
}

template <typename T>
ProductPlan<T> cut_convolution(const OpCall& call, ScratchCut& scratch, T) {
  return plan_product<T>(convolution_product(convolution_of(call)), scratch);
}

template <typename T>
base::Status run_convolution(const OpCall& call, const KernelContext& context,
                             const ProductPlan<T>& plan) {
  const Epilogue epilogue = read_epilogue(call.params);
  const ConvolutionMultiplier<T> multiplier{
      device_convolution(convolution_of(call)),
      context.inputs[0].as<T>(),
      context.inputs[1].as<T>(),
      has_bias(call.params) ? context.inputs[2].as<T>() : nullptr,
      epilogue.sum ? context.inputs.back().as<T>() : nullptr,
      epilogue.relu,
      device_output<T>(call, context, 0)};
  return device_product(context, plan.product, multiplier, plan.partial);
}

template <typename T>
ProductPlan<T> cut_convolution_data(const OpCall& call, ScratchCut& scratch, T) {
  return plan_product<T>(convolution_data_product(convolution_of_data_gradient(call)), scratch);
}

template <typename T>
base::Status run_convolution_data(const OpCall& call, const KernelContext& context,
                                  const ProductPlan<T>& plan) {
  const ConvolutionDataMultiplier<T> multiplier{
      device_convolution(convolution_of_data_gradient(call)), context.inputs[0].as<T>(),
      context.inputs[1].as<T>(), nullptr, device_output<T>(call, context, 0)};
  return device_product(context, plan.product, multiplier, plan.partial);
}

template <typename T>
WeightPlan<T> cut_convolution_weights(const OpCall& call, ScratchCut& scratch, T) {
  const Convolution c = convolution_of_weight_gradient(call);
  return plan_weight<T>(convolution_weight_product(c), convolution_channels(c),
                        has_bias(call.params), scratch);
}

template <typename T>
base::Status run_convolution_weights(const OpCall& call, const KernelContext& context,
                                     const WeightPlan<T>& plan) {
  const T* gradient = context.inputs[0].as<T>();
  const ConvolutionWeightMultiplier<T> multiplier{
      device_convolution(convolution_of_weight_gradient(call)), gradient, context.inputs[1].as<T>(),
      device_output<T>(call, context, 0)};
  TROUPE_TRY(device_product(context, plan.weight.product, multiplier, plan.weight.partial));
  return has_bias(call.params) ? sum_channels(call, context, plan, gradient) : base::Status();
}

/// relu(value + bias of its channel).
template <typename T>
struct FinishOutputAt {
  using W = Wide<T>;
  std::int64_t channels, inner;
  const T* bias;
  bool relu;
  T* values;

  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    auto value = static_cast<W>(values[i]);
    if (bias != nullptr) value += static_cast<W>(bias[i / inner % channels]);
    values[i] = T(relu && value <= W{0} ? W{0} : value);
  }
};

/// A tensor as (outer, channels, inner) around axis 1.
ClassAxis channels_of(const TensorDesc& tensor) {
  const base::Shape& shape = tensor.shape;
  const std::int64_t inner = shape.elements(2, shape.rank());
  if (is_channels_last(tensor)) return {shape[0] * inner, shape[1], 1};
  return {shape[0], shape[1], inner};
}

template <typename T>
DeviceReduction gradient_reduction(const ClassAxis& v, ScratchCut& scratch, Wide<T>*& partial) {
  const DeviceReduction plan = device_reduction(v.classes, v.rows(), v.inner == 1);
  partial = take_partial<Wide<T>>(plan, scratch);
  return plan;
}

}  // namespace

base::Status finish_output(const OpCall& call, const KernelContext& context,
                           const base::TensorView* bias, bool relu) {
  const ClassAxis v = channels_of(call.outputs[0]);
  return with_real(call.outputs[0].dtype, [&](auto zero) -> base::Status {
    using T = decltype(zero);
    const FinishOutputAt<T> finish{v.classes, v.inner, bias == nullptr ? nullptr : bias->as<T>(),
                                   relu, context.outputs[0].as<T>()};
    return for_each_index(context, call.outputs[0].shape.elements(), finish);
  });
}

std::size_t output_gradient_sum_bytes(const OpCall& call) {
  ScratchCut scratch;
  const base::Status known = with_real(call.inputs[0].dtype, [&](auto zero) -> base::Status {
    Wide<decltype(zero)>* partial = nullptr;
    gradient_reduction<decltype(zero)>(channels_of(call.inputs[0]), scratch, partial);
    return {};
  });
  TROUPE_CHECK(known.ok(), "a dtype that was accepted");
  return scratch.bytes();
}

base::Status sum_output_gradient(const OpCall& call, const KernelContext& context,
                                 std::byte* scratch) {
  const ClassAxis v = channels_of(call.inputs[0]);
  return with_real(call.inputs[0].dtype, [&](auto zero) -> base::Status {
    using T = decltype(zero);
    ScratchCut cut(scratch);
    Wide<T>* partial = nullptr;
    const DeviceReduction plan = gradient_reduction<T>(v, cut, partial);
    const ChannelSumRows<T> rows{
        {}, v.classes, v.inner, context.inputs[0].as<T>(), device_output<T>(call, context, 1)};
    return device_reduce(context, plan, rows, partial);
  });
}

std::span<const BackendKernel> kernels_convolution_cuda() {
  static const BackendKernel kernels[] = {
      {"convolution", product_device_kernel([](auto&&... x) { return run_convolution(x...); },
                                            [](auto&&... x) { return cut_convolution(x...); })},
      {"convolution_backward_data",
       product_device_kernel([](auto&&... x) { return run_convolution_data(x...); },
                             [](auto&&... x) { return cut_convolution_data(x...); })},
      {"convolution_backward_weights",
       product_device_kernel([](auto&&... x) { return run_convolution_weights(x...); },
                             [](auto&&... x) { return cut_convolution_weights(x...); })}};
  return kernels;
}

}  // namespace troupe::ops
