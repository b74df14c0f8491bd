// SPDX-License-Identifier: Apache-2.0
// deconvolution and its gradients on GPUs: the passes of the convolution whose data is
// deconvolution's output.
#include "ops/nn/deconvolution.h"

#include "ops/nn/device_convolution.h"
#include "ops/nn/linear.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

template <typename T>
ProductPlan<T> cut_deconvolution(const OpCall& call, ScratchCut& scratch, T) {
  return plan_product<T>(convolution_data_product(twin_convolution(call)), scratch);
}

template <typename T>
base::Status run_deconvolution(const OpCall& call, const KernelContext& context,
                               const ProductPlan<T>& plan) {
  const ConvolutionDataMultiplier<T> multiplier{
      device_convolution(twin_convolution(call), data_pass_tensors(call)),
      context.inputs[0].as<T>(), context.inputs[1].as<T>(),
      has_bias(call.params) ? context.inputs[2].as<T>() : nullptr,
      device_output<T>(call, context, 0)};
  return device_product(context, plan.product, multiplier, plan.partial);
}

template <typename T>
ProductPlan<T> cut_deconvolution_data(const OpCall& call, ScratchCut& scratch, T) {
  return plan_product<T>(convolution_product(twin_convolution(call)), scratch);
}

template <typename T>
base::Status run_deconvolution_data(const OpCall& call, const KernelContext& context,
                                    const ProductPlan<T>& plan) {
  const ConvolutionMultiplier<T> multiplier{
      device_convolution(twin_convolution(call), output_pass_tensors(call)),
      context.inputs[0].as<T>(),
      context.inputs[1].as<T>(),
      nullptr,
      nullptr,
      false,
      device_output<T>(call, context, 0)};
  return device_product(context, plan.product, multiplier, plan.partial);
}

template <typename T>
ProductPlan<T> cut_deconvolution_weights(const OpCall& call, ScratchCut& scratch, T) {
  return plan_product<T>(
      cut_sums(convolution_weight_product(twin_convolution(call), weight_pass_tensors(call))),
      scratch);
}

template <typename T>
base::Status run_deconvolution_weights(const OpCall& call, const KernelContext& context,
                                       const ProductPlan<T>& plan) {
  const ConvolutionWeightMultiplier<T> multiplier{
      device_convolution(twin_convolution(call), weight_pass_tensors(call)),
      context.inputs[0].as<T>(), context.inputs[1].as<T>(), device_output<T>(call, context, 0)};
  return device_product(context, plan.product, multiplier, plan.partial);
}

}  // namespace

std::span<const BackendKernel> kernels_deconvolution_cuda() {
  static const BackendKernel kernels[] = {
      {"deconvolution", product_device_kernel([](auto&&... x) { return run_deconvolution(x...); },
                                              [](auto&&... x) { return cut_deconvolution(x...); })},
      {"deconvolution_backward_data",
       product_device_kernel([](auto&&... x) { return run_deconvolution_data(x...); },
                             [](auto&&... x) { return cut_deconvolution_data(x...); })},
      {"deconvolution_backward_weights",
       product_device_kernel([](auto&&... x) { return run_deconvolution_weights(x...); },
                             [](auto&&... x) { return cut_deconvolution_weights(x...); })}};
  return kernels;
}

}  // namespace troupe::ops
