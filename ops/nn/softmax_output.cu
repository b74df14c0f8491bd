// SPDX-License-Identifier: Apache-2.0
// softmax_output and its gradient on GPUs.
#include "ops/nn/softmax_output.h"

#include "ops/nn/device_classes.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

template <typename T>
SoftmaxPlan<T> cut_softmax_output(const OpCall& call, ScratchCut& scratch, T) {
  return plan_softmax<T>(softmax_output_axis(call.params, call.inputs[0].shape), scratch);
}

/// scale * (output - target), target `own` at the label and `other` elsewhere; 0 where the label is
/// left out, NaN where it is no class.
template <typename T>
struct SoftmaxOutputGradientAt {
  using W = Wide<T>;
  DeviceAxis v;
  DeviceLabels labels;
  const T* output;
  W scale, own, other;
  DeviceOutput<T> out;

  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t label = labels.at(v.row(i));
    const W target = label == v.index(i) ? own : other;
    W gradient = scale * (static_cast<W>(output[i]) - target);
    if (label == DeviceLabels::kIgnored) gradient = W{0};
    if (label == DeviceLabels::kNoClass) gradient = std::numeric_limits<W>::quiet_NaN();
    out.store(i, gradient);
  }
};

template <typename T>
base::Status run_softmax_output_gradient(const OpCall& call, const KernelContext& context, T) {
  using W = Wide<T>;
  const base::Shape& shape = call.inputs[0].shape;
  const ClassAxis v = softmax_output_axis(call.params, shape);
  const bool multiple = call.params.boolean("multi_output");
  const double parts = multiple ? static_cast<double>(label_positions(shape)) : 1.0;
  const double alpha = call.params.real("smooth_alpha");
  const double other = v.classes > 1 ? alpha / static_cast<double>(v.classes - 1) : 0.0;
  const SoftmaxOutputGradientAt<T> at{device_axis(v),
                                      device_labels(context.inputs[1], call.params, v.classes),
                                      context.inputs[0].as<T>(),
                                      static_cast<W>(call.params.real("grad_scale") / parts),
                                      static_cast<W>(1.0 - alpha),
                                      static_cast<W>(other),
                                      device_output<T>(call, context, 0)};
  return for_each_index(context, shape.elements(), at);
}

}  // namespace

std::span<const BackendKernel> kernels_softmax_output_cuda() {
  static const BackendKernel kernels[] = {
      {"softmax_output",
       blocks_device_kernel([](auto&&... x) { return run_softmax_forward<false>(x...); },
                            [](auto&&... x) { return cut_softmax_output(x...); })},
      {"softmax_output_backward",
       blocks_device_kernel([](auto&&... x) { return run_softmax_output_gradient(x...); })}};
  return kernels;
}

}  // namespace troupe::ops
