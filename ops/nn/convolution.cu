// SPDX-License-Identifier: Apache-2.0
// convolution and its gradients on GPUs, where no library takes them.
#include "ops/nn/device_convolution.h"
#include "ops/nn/linear.h"
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

}  // namespace

std::span<const BackendKernel> kernels_convolution_cuda() {
  static const BackendKernel kernels[] = {
      {"convolution", blocks_device_kernel([](auto&&... x) { return run_convolution(x...); },
                                           [](auto&&... x) { return cut_convolution(x...); })},
      {"convolution_backward_data",
       blocks_device_kernel([](auto&&... x) { return run_convolution_data(x...); },
                            [](auto&&... x) { return cut_convolution_data(x...); })},
      {"convolution_backward_weights",
       blocks_device_kernel([](auto&&... x) { return run_convolution_weights(x...); },
                            [](auto&&... x) { return cut_convolution_weights(x...); })}};
  return kernels;
}

}  // namespace troupe::ops
