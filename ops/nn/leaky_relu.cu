// SPDX-License-Identifier: Apache-2.0
// leaky_relu and its gradient on GPUs.
#include <algorithm>

#include "ops/nn/leaky_relu.h"
#include "ops/support/device_reduce.h"
#include "ops/support/pointwise_functions.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

/// use(f) for the function that the parameters name, but prelu.
template <typename W, typename Use>
base::Status with_leaky(const Params& p, const Use& use) {
  const std::string& type = p.text("act_type");
  const W slope = static_cast<W>(p.real("slope"));
  if (type == "leaky") return use(pointwise::Leaky<W>{slope});
  if (type == "elu") return use(pointwise::Elu<W>{slope, gradient_reads_output(p)});
  if (type == "selu") return use(pointwise::Selu<W>{});
  return use(pointwise::Gelu<W>{});
}

bool is_device_prelu(const OpCall& call) {
  return call.params.text("act_type") == "prelu";
}

/// The slopes of prelu: one of all channels or one of each.
template <typename T>
struct PreluSlopes {
  const T* gamma;
  std::int64_t channels, inner, count;

  TROUPE_HOST_DEVICE pointwise::Leaky<Wide<T>> at(std::int64_t i) const {
    return {static_cast<Wide<T>>(gamma[i / inner % channels % count])};
  }
};
template <typename T>
PreluSlopes<T> prelu_slopes(const base::Shape& data, const base::TensorView& gamma) {
  return {gamma.as<T>(), data[1], data.elements(2, data.rank()), gamma.shape[0]};
}

template <typename T>
struct PreluAt {
  const T* in;
  PreluSlopes<T> slopes;
  DeviceOutput<T> out;
  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    out.store(i, slopes.at(i)(static_cast<Wide<T>>(in[i])));
  }
};

template <typename T>
struct PreluGradientAt {
  const T *gradient, *data;
  PreluSlopes<T> slopes;
  DeviceOutput<T> out;
  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    out.store(i, slopes.at(i)(static_cast<Wide<T>>(gradient[i]), static_cast<Wide<T>>(data[i])));
  }
};

template <typename T>
base::Status run_leaky(const OpCall& call, const KernelContext& context, T) {
  const T* in = context.inputs[0].as<T>();
  const DeviceOutput<T> out = device_output<T>(call, context, 0);
  if (is_device_prelu(call)) {
    const base::Shape& data = call.inputs[0].shape;
    return for_each_index(context, data.elements(),
                          PreluAt<T>{in, prelu_slopes<T>(data, context.inputs[1]), out});
  }
  return with_leaky<Wide<T>>(call.params, [&](auto f) {
    return for_each_index(context, flat_elements<T>(context),
                          PointwiseAt<1, T, decltype(f)>{{in}, out, f});
  });
}

/// What the slopes get: dy * x of the elements that they multiplied.
template <typename T>
struct SlopeGradientRows : DeviceSum<Wide<T>> {
  const T *gradient, *data;
  std::int64_t row_step, inner, outer_step;  ///< of elements, in runs of `inner`
  DeviceOutput<T> out;

  TROUPE_HOST_DEVICE Wide<T> load(std::int64_t row, std::int64_t i) const {
    const std::int64_t at = row * row_step + i / inner * outer_step + i % inner;
    const auto x = static_cast<Wide<T>>(data[at]);
    return x > Wide<T>{0} ? Wide<T>{0} : static_cast<Wide<T>>(gradient[at]) * x;
  }
  TROUPE_HOST_DEVICE void store(std::int64_t row, Wide<T> total) const { out.store(row, total); }
};

template <typename T>
struct LeakyGradientPlan {
  DeviceReduction slopes;  ///< of prelu
  Wide<T>* partial = nullptr;
};

template <typename T>
LeakyGradientPlan<T> cut_leaky_gradient(const OpCall& call, ScratchCut& scratch, T) {
  if (!is_device_prelu(call)) return {};
  const base::Shape& data = call.inputs[1].shape;
  const std::int64_t slopes = call.inputs[2].shape[0];
  const bool aside = slopes > 1 && data.elements(2, data.rank()) == 1;
  const DeviceReduction plan =
      device_reduction(slopes, data.elements() / std::max<std::int64_t>(1, slopes), aside);
  return {plan, take_partial<Wide<T>>(plan, scratch)};
}

template <typename T>
base::Status run_prelu_backward(const OpCall& call, const KernelContext& context,
                                const LeakyGradientPlan<T>& plan) {
  const T *gradient = context.inputs[0].as<T>(), *value = context.inputs[1].as<T>();
  const base::Shape& data = call.inputs[1].shape;
  const PreluSlopes<T> slopes = prelu_slopes<T>(data, context.inputs[2]);
  SlopeGradientRows<T> rows{{}, gradient, value, 0, 1, 1, device_output<T>(call, context, 1)};
  if (slopes.count > 1) {
    rows.row_step = rows.inner = slopes.inner;
    rows.outer_step = slopes.channels * slopes.inner;
  }
  // First, since the gradient of data may lie where one of these is.
  TROUPE_TRY(device_reduce(context, plan.slopes, rows, plan.partial));
  return for_each_index(
      context, data.elements(),
      PreluGradientAt<T>{gradient, value, slopes, device_output<T>(call, context, 0)});
}

template <typename T>
base::Status run_leaky_backward(const OpCall& call, const KernelContext& context,
                                const LeakyGradientPlan<T>& plan) {
  if (is_device_prelu(call)) return run_prelu_backward(call, context, plan);
  const T *gradient = context.inputs[0].as<T>(), *value = context.inputs[1].as<T>();
  const DeviceOutput<T> out = device_output<T>(call, context, 0);
  return with_leaky<Wide<T>>(call.params, [&](auto f) {
    return for_each_index(context, context.outputs[0].elements(),
                          PointwiseAt<2, T, decltype(f)>{{gradient, value}, out, f});
  });
}

}  // namespace

std::span<const BackendKernel> kernels_leaky_relu_cuda() {
  static const BackendKernel kernels[] = {
      {"leaky_relu", real_device_kernel([](auto&&... x) { return run_leaky(x...); })},
      {"leaky_relu_backward",
       blocks_device_kernel([](auto&&... x) { return run_leaky_backward(x...); },
                            [](auto&&... x) { return cut_leaky_gradient(x...); })}};
  return kernels;
}

}  // namespace troupe::ops
