// SPDX-License-Identifier: Apache-2.0
// sum, mean, max and reduce_to_like on GPUs.
#include <limits>

#include "ops/support/device_reduce.h"
#include "ops/support/reduce.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

/// Some axes of a tensor, innermost first.
struct ReductionAxes {
  int rank = 0;
  Divider extent[base::kRankMax + 1];
  std::int64_t stride[base::kRankMax + 1];

  void add(std::int64_t axis_extent, std::int64_t axis_stride) {
    extent[rank] = Divider(axis_extent);
    stride[rank++] = axis_stride;
  }
  /// Of the index-th combination.
  TROUPE_HOST_DEVICE std::int64_t offset(std::int64_t index) const {
    std::int64_t result = 0;
    for (int axis = 0; axis < rank; ++axis) {
      const Divider::Digits at = extent[axis].digits(index);
      result += (axis + 1 == rank ? index : at.remainder) * stride[axis];
      index = at.quotient;
    }
    return result;
  }
};

/// `axes` behind a run of `inner` neighbours, where it belongs to them.
ReductionAxes reduction_axes(const ReduceWalk::Axes& axes, bool has_inner, std::int64_t inner) {
  ReductionAxes result;
  if (has_inner) result.add(inner, 1);
  for (int axis = 0; axis < axes.rank; ++axis) {
    result.add(axes.extent[std::size_t(axis)], axes.stride[std::size_t(axis)]);
  }
  return result;
}

struct ReductionSum {
  template <typename W>
  TROUPE_HOST_DEVICE static W none(W) {
    return W{0};
  }
  template <typename W>
  TROUPE_HOST_DEVICE static W join(W a, W b) {
    return a + b;
  }
};

/// NaN wins.
struct ReductionMax {
  template <typename W>
  TROUPE_HOST_DEVICE static W none(W) {
    return -std::numeric_limits<W>::infinity();
  }
  template <typename W>
  TROUPE_HOST_DEVICE static W join(W a, W b) {
    return b > a || b != b ? b : a;
  }
};

/// out[row] = total of the row / divisor.
template <typename Join, typename T>
struct ReductionRows {
  using Accumulator = Wide<T>;
  static constexpr int kRun = DevicePack<T>::kSize, kEach = kRun;
  const T* data;
  ReductionAxes kept, reduced;
  DeviceOutput<T> out;
  Accumulator divisor;

  TROUPE_HOST_DEVICE Accumulator none() const { return Join::none(Accumulator{}); }
  TROUPE_HOST_DEVICE Accumulator load(std::int64_t row, std::int64_t i) const {
    return static_cast<Accumulator>(data[kept.offset(row) + reduced.offset(i)]);
  }
  TROUPE_HOST_DEVICE void load_run(std::int64_t row, std::int64_t i, Accumulator* loaded) const {
    const DevicePack<T> pack = pack_at(data, kept.offset(row) + reduced.offset(i));
    TROUPE_UNROLL
    for (int k = 0; k < kRun; ++k) loaded[k] = static_cast<Accumulator>(pack.values[k]);
  }
  TROUPE_HOST_DEVICE Accumulator join(Accumulator a, Accumulator b) const {
    return Join::join(a, b);
  }
  TROUPE_HOST_DEVICE void store(std::int64_t row, Accumulator total) const {
    out.store(row, total / divisor);
  }
};

template <typename T>
struct ReductionPlan {
  ReduceWalk walk;
  DeviceReduction reduction;
  Wide<T>* partial;
};

/// By packs where the innermost run consists of them.
template <typename T>
DeviceReduction plan_reduction(const ReduceWalk& walk) {
  constexpr int kPack = DevicePack<T>::kSize;
  const int pack = walk.inner % kPack == 0 ? kPack : 1;
  const std::int64_t outputs = walk.outputs(), inputs = walk.inputs_per_output();
  if (walk.inner_reduced && pack > 1) return reduction_by_runs(outputs, inputs, pack);
  return device_reduction(outputs, inputs, !walk.inner_reduced && walk.inner > 1, pack);
}

/// data -> out by the walk of the call; `mean`: divided by the elements of each output.
template <typename Join>
KernelDef reduction_kernel(ReduceWalkOf walk_of, bool mean) {
  const auto cut = [walk_of](const OpCall& call, ScratchCut& scratch, auto zero) {
    using T = decltype(zero);
    const ReduceWalk walk = walk_of(call);
    const auto reduction = plan_reduction<T>(walk);
    return ReductionPlan<T>{walk, reduction, take_partial<Wide<T>>(reduction, scratch)};
  };
  const auto run = [mean]<typename T>(const OpCall& call, const KernelContext& context,
                                      const ReductionPlan<T>& plan) {
    const ReduceWalk& w = plan.walk;
    const std::int64_t divisor = mean ? plan.reduction.length : 1;
    const ReductionRows<Join, T> rows{
        context.inputs[0].as<T>(), reduction_axes(w.kept, !w.inner_reduced, w.inner),
        reduction_axes(w.reduced, w.inner_reduced, w.inner), device_output<T>(call, context, 0),
        static_cast<Wide<T>>(divisor)};
    return device_reduce(context, plan.reduction.by_packs(packs_align(rows.data)), rows,
                         plan.partial);
  };
  return blocks_device_kernel(run, cut);
}

}  // namespace

std::span<const BackendKernel> kernels_reductions_cuda() {
  static const BackendKernel kernels[] = {
      {"sum", reduction_kernel<ReductionSum>(walk_of_axes, false)},
      {"mean", reduction_kernel<ReductionSum>(walk_of_axes, true)},
      {"max", reduction_kernel<ReductionMax>(walk_of_axes, false)},
      {"reduce_to_like", reduction_kernel<ReductionSum>(walk_of_like, false)}};
  return kernels;
}

}  // namespace troupe::ops
