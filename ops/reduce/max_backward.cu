// SPDX-License-Identifier: Apache-2.0
// The gradient of max on GPUs: the elements that equal the maximum are counted, then share.
#include "ops/support/device_copy.h"
#include "ops/support/device_reduce.h"
#include "ops/support/reduce.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

/// data seen as rows, one for each maximum: where a row begins, and its elements.
struct MaximumRows {
  CopyMap rows, elements;

  explicit MaximumRows(const BroadcastWalk& walk) {
    std::int64_t stride = 1;
    for (int axis = 0; axis < walk.rank; ++axis) stride *= walk.extent[std::size_t(axis)];
    for (std::size_t axis = 0; axis < std::size_t(walk.rank); ++axis) {
      stride /= std::max<std::int64_t>(1, walk.extent[axis]);
      (walk.stride_a[axis] == 0 ? elements : rows).add(walk.extent[axis], stride, 0);
    }
  }
};

/// How many elements of a row are its maximum.
template <typename T>
struct TiesOfRows {
  using Accumulator = std::int64_t;
  const T *data, *maximum;
  MaximumRows places;
  std::int64_t* ties;

  TROUPE_HOST_DEVICE Accumulator none() const { return 0; }
  TROUPE_HOST_DEVICE Accumulator load(std::int64_t row, std::int64_t i) const {
    const T x = data[places.rows.place(row).from + places.elements.place(i).from];
    return is_maximum(static_cast<Wide<T>>(x), static_cast<Wide<T>>(maximum[row])) ? 1 : 0;
  }
  TROUPE_HOST_DEVICE Accumulator join(Accumulator a, Accumulator b) const { return a + b; }
  TROUPE_HOST_DEVICE void store(std::int64_t row, Accumulator total) const { ties[row] = total; }
};

template <typename T>
struct TieShareAt {
  const T *gradient, *data, *maximum;
  const std::int64_t* ties;
  DeviceOutput<T> out;
  CopyMap map;

  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    using W = Wide<T>;
    const std::int64_t row = map.place(i).from;
    const bool equal = is_maximum(static_cast<W>(data[i]), static_cast<W>(maximum[row]));
    out.store(i, equal ? static_cast<W>(gradient[row]) / static_cast<W>(ties[row]) : W{0});
  }
};

struct MaxGradientPlan {
  BroadcastWalk walk;
  DeviceReduction reduction;
  std::int64_t *ties, *partial;
};

MaxGradientPlan cut_max_gradient(const OpCall& call, ScratchCut& scratch) {
  const base::Shape& data = call.inputs[1].shape;
  const base::Shape out = reduced_shape(call.params, data, true).value();
  const std::int64_t rows = out.elements();
  MaxGradientPlan plan{broadcast_walk(data, out, out), {}, nullptr, nullptr};
  plan.reduction = device_reduction(rows, data.elements() / std::max<std::int64_t>(1, rows));
  plan.ties = scratch.take<std::int64_t>(rows);
  plan.partial = take_partial<std::int64_t>(plan.reduction, scratch);
  return plan;
}

template <typename T>
base::Status run_max_backward(const KernelContext& context, const MaxGradientPlan& plan,
                              const DeviceOutput<T>& out) {
  const auto in = [&](std::size_t i) -> const T* { return context.inputs[i].as<T>(); };
  TROUPE_TRY(device_reduce(context, plan.reduction,
                           TiesOfRows<T>{in(1), in(2), MaximumRows(plan.walk), plan.ties},
                           plan.partial));
  return for_each_index(
      context, context.outputs[0].elements(),
      TieShareAt<T>{in(0), in(1), in(2), plan.ties, out, broadcast_map(plan.walk)});
}

}  // namespace

std::span<const BackendKernel> kernels_max_backward_cuda() {
  const auto run = [](const OpCall& call, const KernelContext& context,
                      const MaxGradientPlan& plan) {
    return with_real(call.inputs[0].dtype, [&](auto zero) {
      using T = decltype(zero);
      return run_max_backward<T>(context, plan, device_output<T>(call, context, 0));
    });
  };
  const auto cut = [](const OpCall& call, ScratchCut& scratch, auto) {
    return cut_max_gradient(call, scratch);
  };
  static const BackendKernel kernels[] = {{"max_backward", blocks_device_kernel(run, cut)}};
  return kernels;
}

}  // namespace troupe::ops
