// SPDX-License-Identifier: Apache-2.0
// softmax, log_softmax and their gradients on GPUs.
#include "ops/nn/device_classes.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

ClassAxis softmax_axis(const OpCall& call) {
  const base::Shape& shape = call.outputs[0].shape;
  return class_axis(shape, resolve_axis(call.params.integer("axis"), shape).value());
}

template <typename T>
SoftmaxPlan<T> cut_softmax(const OpCall& call, ScratchCut& scratch, T) {
  return plan_softmax<T>(softmax_axis(call), scratch);
}

/// Sums a row of gradients; without the logarithm, each times its output.
template <bool kLogarithm, typename T>
struct SoftmaxGradientRows : DeviceSum<Wide<T>> {
  static constexpr int kRun = DevicePack<T>::kSize, kReads = kLogarithm ? 1 : 2;
  DeviceAxis v;
  const T* gradient;
  const T* output;
  Wide<T>* sums;

  TROUPE_HOST_DEVICE Wide<T> load(std::int64_t row, std::int64_t k) const {
    const std::int64_t at = v.offset(row, k);
    const auto g = static_cast<Wide<T>>(gradient[at]);
    return kLogarithm ? g : g * static_cast<Wide<T>>(output[at]);
  }
  TROUPE_HOST_DEVICE void load_run(std::int64_t row, std::int64_t k, Wide<T>* loaded) const {
    const std::int64_t at = v.offset(row, k);
    const DevicePack<T> g = pack_at(gradient, at);
    TROUPE_UNROLL
    for (int e = 0; e < kRun; ++e) loaded[e] = static_cast<Wide<T>>(g.values[e]);
    if constexpr (!kLogarithm) {
      const DevicePack<T> y = pack_at(output, at);
      TROUPE_UNROLL
      for (int e = 0; e < kRun; ++e) loaded[e] *= static_cast<Wide<T>>(y.values[e]);
    }
  }
  TROUPE_HOST_DEVICE void store(std::int64_t row, Wide<T> sum) const { sums[row] = sum; }
};

/// y * (g - sum), or g - exp(y) * sum for the logarithm.
template <bool kLogarithm, typename T>
struct SoftmaxGradientAt {
  using W = Wide<T>;
  static constexpr int kSize = DevicePack<T>::kSize;
  DeviceAxis v;
  const T* gradient;
  const T* output;
  const W* sums;
  DeviceOutput<T> out;

  TROUPE_HOST_DEVICE static W result(W g, W y, W sum) {
    using std::exp;
    return kLogarithm ? g - exp(y) * sum : y * (g - sum);
  }
  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    out.store(i, result(static_cast<W>(gradient[i]), static_cast<W>(output[i]), sums[v.row(i)]));
  }
  TROUPE_HOST_DEVICE void pack(std::int64_t i) const {
    const W sum = sums[v.row(i)];
    const DevicePack<T> g = pack_at(gradient, i), y = pack_at(output, i);
    W results[kSize];
    TROUPE_UNROLL
    for (int k = 0; k < kSize; ++k) {
      results[k] = result(static_cast<W>(g.values[k]), static_cast<W>(y.values[k]), sum);
    }
    out.store_pack(i, results);
  }
};

template <typename T>
struct SoftmaxGradientPlan {
  ClassAxis v;
  DeviceReduction reduction;
  Wide<T>* sums;
  Wide<T>* partial;
};

template <typename T>
SoftmaxGradientPlan<T> cut_softmax_gradient(const OpCall& call, ScratchCut& scratch, T) {
  SoftmaxGradientPlan<T> plan{softmax_axis(call), {}, nullptr, nullptr};
  plan.reduction = reduce_classes_by_packs<T>(plan.v);
  plan.sums = scratch.take<Wide<T>>(plan.v.rows());
  plan.partial = take_partial<Wide<T>>(plan.reduction, scratch);
  return plan;
}

template <bool kLogarithm, typename T>
base::Status run_softmax_gradient(const OpCall& call, const KernelContext& context,
                                  const SoftmaxGradientPlan<T>& plan) {
  const DeviceAxis v = device_axis(plan.v);
  const T* gradient = context.inputs[0].as<T>();
  const T* output = context.inputs[1].as<T>();
  const bool aligned = packs_align(gradient) && packs_align(output);
  TROUPE_TRY(device_reduce(context, plan.reduction.by_packs(aligned),
                           SoftmaxGradientRows<kLogarithm, T>{{}, v, gradient, output, plan.sums},
                           plan.partial));
  const SoftmaxGradientAt<kLogarithm, T> at{v, gradient, output, plan.sums,
                                            device_output<T>(call, context, 0)};
  const bool packs = rows_have_packs<T>(plan.v) && aligned && packs_align(at.out.data);
  return for_each_pack<T>(context, context.outputs[0].elements(), packs, at);
}

template <bool kLogarithm>
KernelDef softmax_device_kernel() {
  return blocks_device_kernel(
      [](const auto& call, const auto& context, const auto& plan) {
        return run_softmax_forward<kLogarithm>(call, context, plan);
      },
      [](auto&&... x) { return cut_softmax(x...); });
}

template <bool kLogarithm>
KernelDef softmax_gradient_device_kernel() {
  return blocks_device_kernel(
      [](const auto& call, const auto& context, const auto& plan) {
        return run_softmax_gradient<kLogarithm>(call, context, plan);
      },
      [](auto&&... x) { return cut_softmax_gradient(x...); });
}

}  // namespace

std::span<const BackendKernel> kernels_softmax_cuda() {
  static const BackendKernel kernels[] = {
      {"softmax", softmax_device_kernel<false>()},
      {"softmax_backward", softmax_gradient_device_kernel<false>()},
      {"log_softmax", softmax_device_kernel<true>()},
      {"log_softmax_backward", softmax_gradient_device_kernel<true>()}};
  return kernels;
}

}  // namespace troupe::ops
