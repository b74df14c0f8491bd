// SPDX-License-Identifier: Apache-2.0
// leaky_relu and its gradient on GPUs. Each function f(x) has its gradient f(dy, v) beside it, v
// being what gradient_reads_output() says.
#include <algorithm>
#include <cmath>

#include "ops/nn/leaky_relu.h"
#include "ops/support/device_reduce.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

template <typename W>
struct Leaky {
  W slope;
  TROUPE_HOST_DEVICE W operator()(W x) const { return x > W{0} ? x : slope * x; }
  TROUPE_HOST_DEVICE W operator()(W dy, W v) const { return v > W{0} ? dy : slope * dy; }
};

template <typename W>
struct Elu {
  W slope;
  bool reads_output;

  TROUPE_HOST_DEVICE W operator()(W x) const {
    using std::expm1;
    return x > W{0} ? x : slope * expm1(x);
  }
  TROUPE_HOST_DEVICE W operator()(W dy, W v) const {
    using std::exp;
    if (v > W{0}) return dy;
    return reads_output ? dy * (v + slope) : dy * (slope * exp(v));
  }
};

template <typename W>
struct Selu {
  TROUPE_HOST_DEVICE W operator()(W x) const {
    using std::expm1;
    return x > W{0} ? static_cast<W>(kSeluScale) * x : static_cast<W>(kSeluDepth) * expm1(x);
  }
  TROUPE_HOST_DEVICE W operator()(W dy, W y) const {
    return y > W{0} ? dy * static_cast<W>(kSeluScale) : dy * (y + static_cast<W>(kSeluDepth));
  }
};

template <typename W>
struct Gelu {
  /// The normal distribution.
  TROUPE_HOST_DEVICE static W phi(W x) {
    using std::erf;
    return W{0.5} * (W{1} + erf(x * static_cast<W>(0.70710678118654752440)));  // 1 / sqrt(2)
  }
  TROUPE_HOST_DEVICE W operator()(W x) const { return x * phi(x); }
  TROUPE_HOST_DEVICE W operator()(W dy, W x) const {
    using std::exp;
    const W peak = static_cast<W>(0.39894228040143267794);  // 1 / sqrt(2 pi)
    return dy * (phi(x) + x * peak * exp(W{-0.5} * x * x));
  }
};

/// use(f) for the function that the parameters name, but prelu.
template <typename W, typename Use>
base::Status with_leaky(const Params& p, const Use& use) {
  const std::string& type = p.text("act_type");
  const W slope = static_cast<W>(p.real("slope"));
  if (type == "leaky") return use(Leaky<W>{slope});
  if (type == "elu") return use(Elu<W>{slope, gradient_reads_output(p)});
  if (type == "selu") return use(Selu<W>{});
  return use(Gelu<W>{});
}

bool is_device_prelu(const OpCall& call) {
  return call.params.text("act_type") == "prelu";
}

/// The slopes of prelu: one of all channels or one of each.
template <typename T>
struct PreluSlopes {
  const T* gamma;
  std::int64_t channels, inner, count;

  TROUPE_HOST_DEVICE Leaky<Wide<T>> at(std::int64_t i) const {
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
