// SPDX-License-Identifier: Apache-2.0
// fully_connected and its gradients on GPUs, where no library takes them.
#include "ops/nn/fully_connected.h"

#include "ops/nn/device_linear.h"
#include "ops/nn/linear.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

template <typename T>
ProductPlan<T> cut_connected(const OpCall& call, ScratchCut& scratch, T) {
  const FullyConnected e = read_fully_connected(call.params, call.inputs[0].shape);
  DeviceProduct product{.rows = e.rows, .columns = e.hidden, .inner = e.inner};
  product.y_columns_aside = false;
  return plan_product<T>(product, scratch);
}

template <typename T>
base::Status run_connected(const OpCall& call, const KernelContext& context,
                           const ProductPlan<T>& plan) {
  const FullyConnected e = read_fully_connected(call.params, call.inputs[0].shape);
  const StridedMultiplier<T> multiplier{context.inputs[0].as<T>(),
                                        context.inputs[1].as<T>(),
                                        has_bias(call.params) ? context.inputs[2].as<T>() : nullptr,
                                        e.inner,
                                        1,
                                        1,
                                        e.inner,
                                        e.hidden,
                                        device_output<T>(call, context, 0)};
  return device_product(context, plan.product, multiplier, plan.partial);
}

template <typename T>
ProductPlan<T> cut_connected_data(const OpCall& call, ScratchCut& scratch, T) {
  const FullyConnected e = read_fully_connected(call.params, call.inputs[2].shape);
  return plan_product<T>({.rows = e.rows, .columns = e.inner, .inner = e.hidden}, scratch);
}

template <typename T>
base::Status run_connected_data(const OpCall& call, const KernelContext& context,
                                const ProductPlan<T>& plan) {
  const FullyConnected e = read_fully_connected(call.params, call.inputs[2].shape);
  const StridedMultiplier<T> multiplier{context.inputs[0].as<T>(),
                                        context.inputs[1].as<T>(),
                                        nullptr,
                                        e.hidden,
                                        1,
                                        e.inner,
                                        1,
                                        e.inner,
                                        device_output<T>(call, context, 0)};
  return device_product(context, plan.product, multiplier, plan.partial);
}

template <typename T>
WeightPlan<T> cut_connected_weights(const OpCall& call, ScratchCut& scratch, T) {
  const FullyConnected e = read_fully_connected(call.params, call.inputs[1].shape);
  DeviceProduct product{.rows = e.hidden, .columns = e.inner, .inner = e.rows};
  product.x_inner_aside = false;
  return plan_weight<T>(product, {e.rows, e.hidden, 1}, has_bias(call.params), scratch);
}

/// Gradients are of type Out.
template <typename Out, typename T>
base::Status connected_weights(const OpCall& call, const KernelContext& context,
                               const WeightPlan<T>& plan) {
  const FullyConnected e = read_fully_connected(call.params, call.inputs[1].shape);
  const T* gradient = context.inputs[0].as<T>();
  const StridedMultiplier<T, Out> multiplier{
      gradient, context.inputs[1].as<T>(),           nullptr, 1, e.hidden, e.inner, 1,
      e.inner,  device_output<Out>(call, context, 0)};
  TROUPE_TRY(device_product(context, plan.weight.product, multiplier, plan.weight.partial));
  if (!has_bias(call.params)) return {};
  return sum_channels(context, plan.bias, gradient, device_output<Out>(call, context, 1));
}
template <typename T>
base::Status run_connected_weights(const OpCall& call, const KernelContext& context,
                                   const WeightPlan<T>& plan) {
  const bool wide = call.outputs[0].dtype != call.inputs[0].dtype;
  return wide ? connected_weights<Wide<T>>(call, context, plan)
              : connected_weights<T>(call, context, plan);
}

}  // namespace

std::span<const BackendKernel> kernels_fully_connected_cuda() {
  static const BackendKernel kernels[] = {
      {"fully_connected", product_device_kernel([](auto&&... x) { return run_connected(x...); },
                                                [](auto&&... x) { return cut_connected(x...); })},
      {"fully_connected_backward_data",
       product_device_kernel([](auto&&... x) { return run_connected_data(x...); },
                             [](auto&&... x) { return cut_connected_data(x...); })},
      {"fully_connected_backward_weights",
       product_device_kernel([](auto&&... x) { return run_connected_weights(x...); },
                             [](auto&&... x) { return cut_connected_weights(x...); })}};
  return kernels;
}

}  // namespace troupe::ops
