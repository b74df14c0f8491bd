// SPDX-License-Identifier: Apache-2.0
// Metrics of classification on GPUs: pairs (sum, weight) in f64.
#include "ops/nn/device_classes.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

/// Sums up pairs over all rows: score(row, label) and how many there are.
template <typename Score>
struct MetricRows : DeviceTwoSums<double> {
  DeviceLabels labels;
  Score score;
  double* sum;
  double* weight;

  TROUPE_HOST_DEVICE TwoSums<double> load(std::int64_t, std::int64_t row) const {
    const std::int64_t label = labels.at(row);
    if (label == DeviceLabels::kIgnored) return {0.0, 0.0};
    if (label == DeviceLabels::kNoClass) return {std::numeric_limits<double>::quiet_NaN(), 1.0};
    return {score(row, label), 1.0};
  }
  TROUPE_HOST_DEVICE void store(std::int64_t, TwoSums<double> total) const {
    *sum = total.first;
    *weight = total.second;
  }
};

/// The best class of each row and what is needed to add them up.
struct MetricPlan {
  ClassAxis v;
  DeviceReduction rows;
  TwoSums<double>* partial;
};

template <typename T>
MetricPlan cut_metric(const OpCall& call, ScratchCut& scratch, T) {
  const base::Shape& shape = call.inputs[0].shape;
  const int axis = resolve_axis(call.params.integer("axis"), shape).value();
  MetricPlan plan{class_axis(shape, axis), {}, nullptr};
  plan.rows = device_reduction(1, plan.v.rows());
  plan.partial = take_partial<TwoSums<double>>(plan.rows, scratch);
  return plan;
}

template <typename Score>
base::Status run_metric_rows(const OpCall& call, const KernelContext& context,
                             const MetricPlan& plan, const Score& score) {
  const MetricRows<Score> rows{{},
                               device_labels(context.inputs[1], call.params, plan.v.classes),
                               score,
                               context.outputs[0].as<double>(),
                               context.outputs[1].as<double>()};
  return device_reduce(context, plan.rows, rows, plan.partial);
}

/// -log(probability of the label), which counts as the least one at least.
template <typename T>
struct CrossEntropyScore {
  DeviceAxis v;
  const T* data;

  TROUPE_HOST_DEVICE double operator()(std::int64_t row, std::int64_t label) const {
    using std::log;
    constexpr double kLeast = 1e-12;
    const auto p = static_cast<double>(static_cast<Wide<T>>(data[v.offset(row, label)]));
    return -log(p < kLeast ? kLeast : p);
  }
};

/// What cut_metric() makes, and the dtype of the scores.
template <typename T>
struct CrossEntropySumPlan {
  MetricPlan metric;
};

template <typename T>
base::Status run_cross_entropy_sum(const OpCall& call, const KernelContext& context,
                                   const CrossEntropySumPlan<T>& plan) {
  const CrossEntropyScore<T> score{device_axis(plan.metric.v), context.inputs[0].as<T>()};
  return run_metric_rows(call, context, plan.metric, score);
}

/// The best of some classes.
template <typename W>
struct BestClass {
  W score;
  std::int64_t number;
};

/// The class of each row's greatest score, the first of equals; -1 where one is NaN.
template <typename T>
struct BestClassRows {
  using W = Wide<T>;
  using Accumulator = BestClass<W>;
  DeviceAxis v;
  const T* data;
  std::int64_t* best;

  TROUPE_HOST_DEVICE Accumulator none() const {
    return {-std::numeric_limits<W>::infinity(), std::numeric_limits<std::int64_t>::max()};
  }
  TROUPE_HOST_DEVICE Accumulator load(std::int64_t row, std::int64_t k) const {
    const auto x = static_cast<W>(data[v.offset(row, k)]);
    return x == x ? Accumulator{x, k} : Accumulator{std::numeric_limits<W>::infinity(), -1};
  }
  TROUPE_HOST_DEVICE Accumulator join(Accumulator a, Accumulator b) const {
    return b.score > a.score || (b.score == a.score && b.number < a.number) ? b : a;
  }
  TROUPE_HOST_DEVICE void store(std::int64_t row, Accumulator total) const {
    best[row] = total.number;
  }
};

struct AccuracyScore {
  const std::int64_t* best;
  TROUPE_HOST_DEVICE double operator()(std::int64_t row, std::int64_t label) const {
    return best[row] == label ? 1.0 : 0.0;
  }
};

template <typename T>
struct AccuracyPlan {
  MetricPlan metric;
  DeviceReduction classes;
  BestClass<Wide<T>>* partial;
  std::int64_t* best;
};

template <typename T>
AccuracyPlan<T> cut_accuracy(const OpCall& call, ScratchCut& scratch, T zero) {
  AccuracyPlan<T> plan{cut_metric(call, scratch, zero), {}, nullptr, nullptr};
  plan.classes = reduce_classes(plan.metric.v);
  plan.partial = take_partial<BestClass<Wide<T>>>(plan.classes, scratch);
  plan.best = scratch.take<std::int64_t>(plan.metric.v.rows());
  return plan;
}

template <typename T>
base::Status run_accuracy_count(const OpCall& call, const KernelContext& context,
                                const AccuracyPlan<T>& plan) {
  const BestClassRows<T> rows{device_axis(plan.metric.v), context.inputs[0].as<T>(), plan.best};
  TROUPE_TRY(device_reduce(context, plan.classes, rows, plan.partial));
  return run_metric_rows(call, context, plan.metric, AccuracyScore{plan.best});
}

}  // namespace

std::span<const BackendKernel> kernels_classification_cuda() {
  static const BackendKernel kernels[] = {
      {"cross_entropy_sum",
       blocks_device_kernel([](auto&&... x) { return run_cross_entropy_sum(x...); },
                            [](const auto& call, auto& scratch, auto zero) {
                              return CrossEntropySumPlan<decltype(zero)>{
                                  cut_metric(call, scratch, zero)};
                            })},
      {"accuracy_count", blocks_device_kernel([](auto&&... x) { return run_accuracy_count(x...); },
                                              [](auto&&... x) { return cut_accuracy(x...); })}};
  return kernels;
}

}  // namespace troupe::ops
