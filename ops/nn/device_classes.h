// SPDX-License-Identifier: Apache-2.0
// Classes along one axis and their labels for own kernels on GPUs. These cannot say which label is
// no class, so what such a label gives is NaN.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "ops/nn/device_axis.h"
#include "ops/support/device_reduce.h"

namespace troupe::ops {

/// A reduction over the classes of each row.
inline DeviceReduction reduce_classes(const ClassAxis& v) {
  return device_reduction(v.rows(), v.classes, v.inner > 1);
}

/// Whether a pack of T at a multiple of its size is of one row.
template <typename T>
bool rows_have_packs(const ClassAxis& v) {
  return v.inner == 1 && v.classes % DevicePack<T>::kSize == 0;
}
/// reduce_classes() for a reducer with runs of packs of T, where rows consist of them.
template <typename T>
DeviceReduction reduce_classes_by_packs(const ClassAxis& v) {
  if (!rows_have_packs<T>(v)) return reduce_classes(v);
  return reduction_by_runs(v.rows(), v.classes, DevicePack<T>::kSize);
}

/// Labels for devices.
struct DeviceLabels {
  static constexpr std::int64_t kIgnored = -1, kNoClass = -2;
  const void* data = nullptr;
  base::DType dtype = base::DType::i32;
  std::int64_t classes = 0;
  bool ignores = false;
  std::int64_t ignored = 0;

  TROUPE_HOST_DEVICE static std::int64_t integer(double value) {
    using std::floor;
    const bool moderate = value > -0x1.0p52 && value < 0x1.0p52;
    return moderate && value == floor(value) ? static_cast<std::int64_t>(value)
                                             : std::numeric_limits<std::int64_t>::min();
  }
  TROUPE_HOST_DEVICE std::int64_t raw(std::int64_t row) const {
    switch (dtype) {
      case base::DType::f32:
        return integer(static_cast<double>(static_cast<const float*>(data)[row]));
      case base::DType::f64:
        return integer(static_cast<const double*>(data)[row]);
      case base::DType::i64:
        return static_cast<const std::int64_t*>(data)[row];
      case base::DType::i32:
        return static_cast<const std::int32_t*>(data)[row];
      default:
        return static_cast<const std::uint8_t*>(data)[row];
    }
  }
  /// The class of a row, kIgnored, or kNoClass.
  TROUPE_HOST_DEVICE std::int64_t at(std::int64_t row) const {
    const std::int64_t label = raw(row);
    if (ignores && label == ignored) return kIgnored;
    return label >= 0 && label < classes ? label : kNoClass;
  }
};

inline DeviceLabels device_labels(const base::TensorView& view, const Params& p,
                                  std::int64_t classes) {
  DeviceLabels labels{view.data, view.dtype, classes};
  const double ignored = p.real("ignore_label");
  labels.ignores = p.boolean("use_ignore") && ignored > -0x1.0p63 && ignored < 0x1.0p63;
  if (labels.ignores) labels.ignored = static_cast<std::int64_t>(ignored);
  return labels;
}

/// The greatest of some scores, and the sum of exp(score - peak). The sum is NaN where a score is
/// NaN or +inf.
template <typename W>
struct SoftmaxTotal {
  W peak, sum;
};

/// Measures rows of scores: their totals go to `totals`.
template <typename T>
struct SoftmaxTotals {
  using W = Wide<T>;
  using Accumulator = SoftmaxTotal<W>;
  static constexpr int kRun = DevicePack<T>::kSize;
  DeviceAxis v;
  const T* data;
  Accumulator* totals;

  TROUPE_HOST_DEVICE Accumulator none() const {
    return {-std::numeric_limits<W>::infinity(), W{0}};
  }
  TROUPE_HOST_DEVICE Accumulator total_of(W x) const {
    if (x == -std::numeric_limits<W>::infinity()) return none();
    return {x, W{1} + (x - x)};
  }
  TROUPE_HOST_DEVICE Accumulator load(std::int64_t row, std::int64_t k) const {
    return total_of(static_cast<W>(data[v.offset(row, k)]));
  }
  TROUPE_HOST_DEVICE void load_run(std::int64_t row, std::int64_t k, Accumulator* loaded) const {
    const DevicePack<T> pack = pack_at(data, v.offset(row, k));
    TROUPE_UNROLL
    for (int e = 0; e < kRun; ++e) loaded[e] = total_of(static_cast<W>(pack.values[e]));
  }
  TROUPE_HOST_DEVICE Accumulator join(Accumulator a, Accumulator b) const {
    using std::exp;
    if (a.peak == b.peak) return {a.peak, a.sum + b.sum};
    if (a.peak < b.peak) return {b.peak, a.sum * exp(a.peak - b.peak) + b.sum};
    return {a.peak, a.sum + b.sum * exp(b.peak - a.peak)};
  }
  /// The greatest first: no exponential waits for another one.
  template <int N>
  TROUPE_HOST_DEVICE Accumulator join_several(Accumulator total,
                                              const Accumulator (&loaded)[N]) const {
    using std::exp;
    W peak = total.peak;
    TROUPE_UNROLL
    for (int k = 0; k < N; ++k) peak = loaded[k].peak > peak ? loaded[k].peak : peak;
    const bool none_yet = peak == -std::numeric_limits<W>::infinity();  // or NaN, in the sums
    W sum = none_yet ? total.sum : total.sum * exp(total.peak - peak);
    TROUPE_UNROLL
    for (int k = 0; k < N; ++k) {
      sum += none_yet ? loaded[k].sum : loaded[k].sum * exp(loaded[k].peak - peak);
    }
    return {peak, sum};
  }
  TROUPE_HOST_DEVICE void store(std::int64_t row, Accumulator total) const { totals[row] = total; }
};

/// How rows are measured, and where the totals of rows and of parts go.
template <typename T>
struct SoftmaxPlan {
  ClassAxis v;
  DeviceReduction reduction;
  SoftmaxTotal<Wide<T>>* totals;
  SoftmaxTotal<Wide<T>>* partial;
};
template <typename T>
SoftmaxPlan<T> plan_softmax(const ClassAxis& v, ScratchCut& scratch) {
  using Total = SoftmaxTotal<Wide<T>>;
  SoftmaxPlan<T> plan{v, reduce_classes_by_packs<T>(v), nullptr, nullptr};
  plan.totals = scratch.take<Total>(v.rows());
  plan.partial = take_partial<Total>(plan.reduction, scratch);
  return plan;
}

/// Fills plan.totals.
template <typename T>
base::Status measure_softmax_rows(const KernelContext& context, const SoftmaxPlan<T>& plan,
                                  const T* data) {
  return device_reduce(context, plan.reduction.by_packs(packs_align(data)),
                       SoftmaxTotals<T>{device_axis(plan.v), data, plan.totals}, plan.partial);
}

/// exp(x - peak) / sum, or its logarithm, at each offset.
template <bool kLogarithm, typename T>
struct SoftmaxAt {
  using W = Wide<T>;
  static constexpr int kSize = DevicePack<T>::kSize;
  DeviceAxis v;
  const T* data;
  const SoftmaxTotal<W>* totals;
  DeviceOutput<T> out;

  TROUPE_HOST_DEVICE static W result(const SoftmaxTotal<W>& total, W x) {
    using std::exp, std::log;
    // In this order: beside a large peak the logarithm would be rounded away.
    if constexpr (kLogarithm) return (x - total.peak) - log(total.sum);
    return exp(x - total.peak) / total.sum;
  }
  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    out.store(i, result(totals[v.row(i)], static_cast<W>(data[i])));
  }
  TROUPE_HOST_DEVICE void pack(std::int64_t i) const {
    const SoftmaxTotal<W> total = totals[v.row(i)];
    const DevicePack<T> x = pack_at(data, i);
    W results[kSize];
    TROUPE_UNROLL
    for (int k = 0; k < kSize; ++k) results[k] = result(total, static_cast<W>(x.values[k]));
    out.store_pack(i, results);
  }
};

/// Output 0 = softmax of input 0, or its logarithm.
template <bool kLogarithm, typename T>
base::Status run_softmax_forward(const OpCall& call, const KernelContext& context,
                                 const SoftmaxPlan<T>& plan) {
  const T* data = context.inputs[0].as<T>();
  TROUPE_TRY(measure_softmax_rows(context, plan, data));
  const SoftmaxAt<kLogarithm, T> at{device_axis(plan.v), data, plan.totals,
                                    device_output<T>(call, context, 0)};
  const bool packs = rows_have_packs<T>(plan.v) && packs_align(data) && packs_align(at.out.data);
  return for_each_pack<T>(context, context.inputs[0].elements(), packs, at);
}

}  // namespace troupe::ops
