// SPDX-License-Identifier: Apache-2.0
// batch_norm and its gradient on GPUs: sums over each channel, then one pass over all elements.
// Mean and variance are taken in two passes, the second by distances from the mean.
#include <cmath>
#include <limits>

#include "ops/nn/batch_norm.h"
#include "ops/support/channels_last.h"
#include "ops/support/device_reduce.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

/// Channels along one axis.
struct NormChannels {
  std::int64_t channels = 0, inner = 1;

  /// Offset of element i of a channel.
  TROUPE_HOST_DEVICE std::int64_t offset(std::int64_t channel, std::int64_t i) const {
    return inner == 1 ? i * channels + channel
                      : (i / inner * channels + channel) * inner + i % inner;
  }
  TROUPE_HOST_DEVICE std::int64_t channel(std::int64_t at) const { return at / inner % channels; }
};

/// Vectors over channels: gamma and beta count as one and zero where they are null.
template <typename T>
struct NormVectors {
  using W = Wide<T>;
  const T* gamma_data;
  const T* beta_data;
  W eps;

  TROUPE_HOST_DEVICE W gamma(std::int64_t channel) const {
    return gamma_data == nullptr ? W{1} : static_cast<W>(gamma_data[channel]);
  }
  TROUPE_HOST_DEVICE W beta(std::int64_t channel) const {
    return beta_data == nullptr ? W{0} : static_cast<W>(beta_data[channel]);
  }
  TROUPE_HOST_DEVICE W deviation(W variance) const {
    using std::sqrt;
    return sqrt(variance + eps);
  }
};

/// What batch_norm's two operators share.
template <typename T>
struct NormPlan {
  BatchNorm v;
  NormChannels at;
  DeviceReduction reduction;
  Wide<T>* first;   ///< by channel: mean, or sum of gradients
  Wide<T>* second;  ///< by channel: variance, or sum of gradients times normalised data
  TwoSums<Wide<T>>* partial;
};

template <typename T>
NormPlan<T> plan_norm(const OpCall& call, const TensorDesc& data, ScratchCut& scratch) {
  const BatchNorm v = read_batch_norm(call, data.shape);
  const std::int64_t inner = is_channels_last(data) ? 1 : v.inner;
  NormPlan<T> plan{v, {v.channels, inner}, {}, nullptr, nullptr, nullptr};
  plan.reduction = device_reduction(v.channels, v.count(), inner == 1 && v.channels > 1);
  plan.first = scratch.take<Wide<T>>(v.channels);
  plan.second = scratch.take<Wide<T>>(v.channels);
  plan.partial = take_partial<TwoSums<Wide<T>>>(plan.reduction, scratch);
  return plan;
}

bool norm_may_be_last(const OpCall& call) {
  return resolve_axis(call.params.integer("axis"), call.inputs[0].shape).value() == 1;
}

template <typename T>
NormPlan<T> cut_norm(const OpCall& call, ScratchCut& scratch, T) {
  return plan_norm<T>(call, call.inputs[0], scratch);
}

template <typename T>
NormPlan<T> cut_norm_gradient(const OpCall& call, ScratchCut& scratch, T) {
  return plan_norm<T>(call, call.inputs[1], scratch);
}

/// Means of channels.
template <typename T>
struct NormMeanRows : DeviceSum<Wide<T>> {
  using W = Wide<T>;
  NormChannels at;
  const T* data;
  std::int64_t count;
  W* mean;
  DeviceOutput<T> out;

  TROUPE_HOST_DEVICE W load(std::int64_t channel, std::int64_t i) const {
    return static_cast<W>(data[at.offset(channel, i)]);
  }
  TROUPE_HOST_DEVICE void store(std::int64_t channel, W sum) const {
    mean[channel] = count == 0 ? W{0} : sum / static_cast<W>(count);
    out.store(channel, mean[channel]);
  }
};

/// Variances of channels. One that overflows is NaN: normalised data would be beta, as if all were
/// well.
template <typename T>
struct NormVarianceRows : DeviceSum<Wide<T>> {
  using W = Wide<T>;
  NormChannels at;
  const T* data;
  std::int64_t count;
  const W* mean;
  W* variance;
  DeviceOutput<T> out;

  TROUPE_HOST_DEVICE W load(std::int64_t channel, std::int64_t i) const {
    const W distance = static_cast<W>(data[at.offset(channel, i)]) - mean[channel];
    return distance * distance;
  }
  TROUPE_HOST_DEVICE void store(std::int64_t channel, W squares) const {
    W result = count == 0 ? W{0} : squares / static_cast<W>(count);
    if (result == std::numeric_limits<W>::infinity()) {
      result = std::numeric_limits<W>::quiet_NaN();
    }
    variance[channel] = result;
    out.store(channel, result);
  }
};

/// Statistics that were given.
template <typename T>
struct NormGivenAt {
  const T* given_mean;
  const T* given_variance;
  Wide<T>* mean;
  Wide<T>* variance;
  DeviceOutput<T> out_mean, out_variance;

  TROUPE_HOST_DEVICE void operator()(std::int64_t channel) const {
    mean[channel] = static_cast<Wide<T>>(given_mean[channel]);
    variance[channel] = static_cast<Wide<T>>(given_variance[channel]);
    out_mean.store(channel, mean[channel]);
    out_variance.store(channel, variance[channel]);
  }
};

/// (data - mean) * scale + beta, an addend, relu.
template <typename T>
struct NormOutputAt {
  using W = Wide<T>;
  NormChannels at;
  NormVectors<T> vectors;
  const T* data;
  const T* addend;
  const W* mean;
  const W* variance;
  bool relu;
  DeviceOutput<T> out;

  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t channel = at.channel(i);
    const W scale = vectors.gamma(channel) / vectors.deviation(variance[channel]);
    W y = (static_cast<W>(data[i]) - mean[channel]) * scale + vectors.beta(channel);
    if (addend != nullptr) y += static_cast<W>(addend[i]);
    out.store(i, relu && y <= W{0} ? W{0} : y);
  }
};

template <typename T>
base::Status measure_norm(const OpCall& call, const KernelContext& context,
                          const NormPlan<T>& plan) {
  const auto mean = device_output<T>(call, context, 1);
  const auto variance = device_output<T>(call, context, 2);
  if (plan.v.global) {
    return for_each_index(context, plan.v.channels,
                          NormGivenAt<T>{context.inputs[3].as<T>(), context.inputs[4].as<T>(),
                                         plan.first, plan.second, mean, variance});
  }
  const T* data = context.inputs[0].as<T>();
  const std::int64_t count = plan.v.count();
  auto* const partial = reinterpret_cast<Wide<T>*>(plan.partial);  // room for two sums
  TROUPE_TRY(device_reduce(context, plan.reduction,
                           NormMeanRows<T>{{}, plan.at, data, count, plan.first, mean}, partial));
  return device_reduce(
      context, plan.reduction,
      NormVarianceRows<T>{{}, plan.at, data, count, plan.first, plan.second, variance}, partial);
}

template <typename T>
base::Status run_norm(const OpCall& call, const KernelContext& context, const NormPlan<T>& plan) {
  constexpr std::size_t kAddend = 5;
  TROUPE_TRY(measure_norm(call, context, plan));
  const T* gamma = plan.v.fix_gamma ? nullptr : context.inputs[1].as<T>();
  const T* addend = plan.v.epilogue.sum ? context.inputs[kAddend].as<T>() : nullptr;
  const NormOutputAt<T> output{plan.at,
                               {gamma, context.inputs[2].as<T>(), static_cast<Wide<T>>(plan.v.eps)},
                               context.inputs[0].as<T>(),
                               addend,
                               plan.first,
                               plan.second,
                               plan.v.epilogue.relu,
                               device_output<T>(call, context, 0)};
  return for_each_index(context, context.outputs[0].elements(), output);
}

/// The gradient before relu, and normalised data.
template <typename T>
struct NormGradient {
  using W = Wide<T>;
  NormVectors<T> vectors;
  const T* output_gradient;
  const T* data;
  const T* mean;
  const T* variance;
  bool relu;

  TROUPE_HOST_DEVICE W deviation(std::int64_t channel) const {
    return vectors.deviation(static_cast<W>(variance[channel]));
  }
  TROUPE_HOST_DEVICE W distance(std::int64_t channel, std::int64_t at) const {
    return static_cast<W>(data[at]) - static_cast<W>(mean[channel]);
  }
  TROUPE_HOST_DEVICE W normal(std::int64_t channel, std::int64_t at) const {
    return distance(channel, at) * (W{1} / deviation(channel));
  }
  /// The forward pass's output, and so relu, follows from data.
  TROUPE_HOST_DEVICE W gradient(std::int64_t channel, std::int64_t at) const {
    const W scale = vectors.gamma(channel) / deviation(channel);
    if (relu && distance(channel, at) * scale + vectors.beta(channel) <= W{0}) return W{0};
    return static_cast<W>(output_gradient[at]);
  }
};

/// Sums of gradients, and of gradients times normalised data.
template <typename T>
struct NormGradientRows : DeviceTwoSums<Wide<T>> {
  using W = Wide<T>;
  NormChannels at;
  NormGradient<T> of;
  W* sums;
  W* weighted;
  bool fix_gamma;
  DeviceOutput<T> out_gamma, out_beta;

  TROUPE_HOST_DEVICE TwoSums<W> load(std::int64_t channel, std::int64_t i) const {
    const std::int64_t place = at.offset(channel, i);
    const W gradient = of.gradient(channel, place);
    return {gradient, gradient * of.normal(channel, place)};
  }
  TROUPE_HOST_DEVICE void store(std::int64_t channel, TwoSums<W> total) const {
    sums[channel] = total.first;
    weighted[channel] = total.second;
    out_gamma.store(channel, fix_gamma ? W{0} : total.second);
    out_beta.store(channel, total.first);
  }
};

/// The gradient of data. Given statistics do not depend on data; the batch's do.
template <typename T>
struct NormDataGradientAt {
  using W = Wide<T>;
  NormChannels at;
  NormGradient<T> of;
  const W* sums;
  const W* weighted;
  W share;
  bool global;
  DeviceOutput<T> out;

  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t channel = at.channel(i);
    W centred = of.gradient(channel, i);
    if (!global) centred -= share * (sums[channel] + of.normal(channel, i) * weighted[channel]);
    out.store(i, of.vectors.gamma(channel) / of.deviation(channel) * centred);
  }
};

template <typename T>
base::Status run_norm_gradient(const OpCall& call, const KernelContext& context,
                               const NormPlan<T>& plan) {
  using W = Wide<T>;
  const BatchNorm& v = plan.v;
  const T* gamma = v.fix_gamma ? nullptr : context.inputs[2].as<T>();
  const T* beta = v.epilogue.relu ? context.inputs[5].as<T>() : nullptr;
  const NormGradient<T> of{{gamma, beta, static_cast<W>(v.eps)},
                           context.inputs[0].as<T>(),
                           context.inputs[1].as<T>(),
                           context.inputs[3].as<T>(),
                           context.inputs[4].as<T>(),
                           v.epilogue.relu};
  const NormGradientRows<T> rows{{},
                                 plan.at,
                                 of,
                                 plan.first,
                                 plan.second,
                                 v.fix_gamma,
                                 device_output<T>(call, context, 1),
                                 device_output<T>(call, context, 2)};
  TROUPE_TRY(device_reduce(context, plan.reduction, rows, plan.partial));
  const W share = W{1} / static_cast<W>(std::max<std::int64_t>(v.count(), 1));
  return for_each_index(context, context.outputs[0].elements(),
                        NormDataGradientAt<T>{plan.at, of, plan.first, plan.second, share, v.global,
                                              device_output<T>(call, context, 0)});
}

}  // namespace

std::span<const BackendKernel> kernels_batch_norm_training_cuda() {
  static const BackendKernel kernels[] = {
      {"batch_norm", planes_device_kernel(
                         norm_may_be_last, [](auto&&... x) { return run_norm(x...); },
                         [](auto&&... x) { return cut_norm(x...); })},
      {"batch_norm_backward",
       planes_device_kernel(
           norm_may_be_last, [](auto&&... x) { return run_norm_gradient(x...); },
           [](auto&&... x) { return cut_norm_gradient(x...); })}};
  return kernels;
}

}  // namespace troupe::ops
