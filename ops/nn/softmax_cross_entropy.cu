// SPDX-License-Identifier: Apache-2.0
// softmax_cross_entropy and its gradient on GPUs.
#include "ops/nn/device_classes.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

/// The sum over rows of log(sum of exp(score)) - score at the label.
template <typename T>
struct CrossEntropyRows : DeviceSum<Wide<T>> {
  using W = Wide<T>;
  DeviceAxis v;
  DeviceLabels labels;
  const T* data;
  const SoftmaxTotal<W>* totals;
  DeviceOutput<T> out;

  TROUPE_HOST_DEVICE W load(std::int64_t, std::int64_t row) const {
    using std::log;
    const std::int64_t label = labels.at(row);
    if (label == DeviceLabels::kIgnored) return W{0};
    if (label == DeviceLabels::kNoClass) return std::numeric_limits<W>::quiet_NaN();
    const SoftmaxTotal<W> total = totals[row];
    return log(total.sum) - (static_cast<W>(data[v.offset(row, label)]) - total.peak);
  }
  TROUPE_HOST_DEVICE void store(std::int64_t row, W sum) const { out.store(row, sum); }
};

template <typename T>
struct CrossEntropyPlan {
  SoftmaxPlan<T> softmax;
  DeviceReduction sum;
  Wide<T>* partial;
};

template <typename T>
CrossEntropyPlan<T> cut_cross_entropy(const OpCall& call, ScratchCut& scratch, T) {
  const ClassAxis v = class_axis(call.inputs[0].shape, 1);
  CrossEntropyPlan<T> plan{plan_softmax<T>(v, scratch), device_reduction(1, v.rows()), nullptr};
  plan.partial = take_partial<Wide<T>>(plan.sum, scratch);
  return plan;
}

template <typename T>
base::Status run_cross_entropy_loss(const OpCall& call, const KernelContext& context,
                                    const CrossEntropyPlan<T>& plan) {
  const SoftmaxPlan<T>& softmax = plan.softmax;
  const T* data = context.inputs[0].as<T>();
  TROUPE_TRY(measure_softmax_rows(context, softmax, data));
  const CrossEntropyRows<T> rows{{},
                                 device_axis(softmax.v),
                                 device_labels(context.inputs[1], call.params, softmax.v.classes),
                                 data,
                                 softmax.totals,
                                 device_output<T>(call, context, 0)};
  return device_reduce(context, plan.sum, rows, plan.partial);
}

/// head * (softmax - 1 at the label); 0 where the label is left out, NaN where it is no class.
template <typename T>
struct CrossEntropyGradientAt {
  using W = Wide<T>;
  DeviceAxis v;
  DeviceLabels labels;
  const T* head;
  const T* data;
  const SoftmaxTotal<W>* totals;
  DeviceOutput<T> out;

  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    using std::exp;
    const std::int64_t row = v.row(i), label = labels.at(row);
    const W share = exp(static_cast<W>(data[i]) - totals[row].peak) / totals[row].sum;
    W gradient = static_cast<W>(*head) * (share - (label == v.index(i) ? W{1} : W{0}));
    if (label == DeviceLabels::kIgnored) gradient = W{0};
    if (label == DeviceLabels::kNoClass) gradient = std::numeric_limits<W>::quiet_NaN();
    out.store(i, gradient);
  }
};

template <typename T>
SoftmaxPlan<T> cut_cross_entropy_gradient(const OpCall& call, ScratchCut& scratch, T) {
  return plan_softmax<T>(class_axis(call.inputs[1].shape, 1), scratch);
}

template <typename T>
base::Status run_cross_entropy_gradient(const OpCall& call, const KernelContext& context,
                                        const SoftmaxPlan<T>& plan) {
  const T* data = context.inputs[1].as<T>();
  TROUPE_TRY(measure_softmax_rows(context, plan, data));
  const CrossEntropyGradientAt<T> at{device_axis(plan.v),
                                     device_labels(context.inputs[2], call.params, plan.v.classes),
                                     context.inputs[0].as<T>(),
                                     data,
                                     plan.totals,
                                     device_output<T>(call, context, 0)};
  return for_each_index(context, context.outputs[0].elements(), at);
}

}  // namespace

std::span<const BackendKernel> kernels_softmax_cross_entropy_cuda() {
  static const BackendKernel kernels[] = {
      {"softmax_cross_entropy",
       blocks_device_kernel([](auto&&... x) { return run_cross_entropy_loss(x...); },
                            [](auto&&... x) { return cut_cross_entropy(x...); })},
      {"softmax_cross_entropy_backward",
       blocks_device_kernel([](auto&&... x) { return run_cross_entropy_gradient(x...); },
                            [](auto&&... x) { return cut_cross_entropy_gradient(x...); })}};
  return kernels;
}

}  // namespace troupe::ops
