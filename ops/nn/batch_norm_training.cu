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

/// What one channel is normalised with.
template <typename W>
struct alignas(4 * sizeof(W)) NormNumbers {
  W mean, inverse, scale, beta;  // inverse = 1 / deviation, scale = gamma / deviation

  TROUPE_HOST_DEVICE W output(W x) const { return (x - mean) * scale + beta; }
  TROUPE_HOST_DEVICE W normal(W x) const { return (x - mean) * inverse; }
};

/// Channels along one axis.
template <typename W>
struct NormChannels {
  std::int64_t channels = 0, inner = 1;
  NormNumbers<W>* numbers = nullptr;  ///< of each channel

  /// Offset of element i of a channel.
  TROUPE_HOST_DEVICE std::int64_t offset(std::int64_t channel, std::int64_t i) const {
    return inner == 1 ? i * channels + channel
                      : (i / inner * channels + channel) * inner + i % inner;
  }
  TROUPE_HOST_DEVICE std::int64_t channel(std::int64_t at) const { return at / inner % channels; }
  /// Of the elements of a pack: all of one channel, or of neighbouring ones.
  TROUPE_HOST_DEVICE const NormNumbers<W>& of_pack(std::int64_t first, int k) const {
    return numbers[inner == 1 ? first + k : first];
  }
  bool packs(int size) const { return (inner == 1 ? channels : inner) % size == 0; }
};

/// What batch_norm's two operators share. T: data; V: vectors over channels.
template <typename T>
struct NormPlan {
  BatchNorm v;
  NormChannels<Wide<T>> at;
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
  plan.at.numbers = scratch.take<NormNumbers<Wide<T>>>(v.channels);
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

/// Numbers of a channel from statistics in S; gamma and beta count as one and zero where they are
/// null.
template <typename S, typename V>
struct NormNumbersAt {
  using W = Wide<V>;
  const V* gamma;
  const V* beta;
  const S* mean;
  const S* variance;
  W eps;
  NormNumbers<W>* numbers;

  TROUPE_HOST_DEVICE void operator()(std::int64_t channel) const {
    using std::sqrt;
    const W deviation = sqrt(static_cast<W>(variance[channel]) + eps);
    const W factor = gamma == nullptr ? W{1} : static_cast<W>(gamma[channel]);
    numbers[channel] = {static_cast<W>(mean[channel]), W{1} / deviation, factor / deviation,
                        beta == nullptr ? W{0} : static_cast<W>(beta[channel])};
  }
};

/// Means of channels.
template <typename T, typename V>
struct NormMeanRows : DeviceSum<Wide<T>> {
  using W = Wide<T>;
  NormChannels<W> at;
  const T* data;
  std::int64_t count;
  W* mean;
  DeviceOutput<V> out;

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
template <typename T, typename V>
struct NormVarianceRows : DeviceSum<Wide<T>> {
  using W = Wide<T>;
  NormChannels<W> at;
  const T* data;
  std::int64_t count;
  const W* mean;
  W* variance;
  DeviceOutput<V> out;

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
template <typename V>
struct NormGivenAt {
  const V* given_mean;
  const V* given_variance;
  Wide<V>* mean;
  Wide<V>* variance;
  DeviceOutput<V> out_mean, out_variance;

  TROUPE_HOST_DEVICE void operator()(std::int64_t channel) const {
    mean[channel] = static_cast<Wide<V>>(given_mean[channel]);
    variance[channel] = static_cast<Wide<V>>(given_variance[channel]);
    out_mean.store(channel, mean[channel]);
    out_variance.store(channel, variance[channel]);
  }
};

/// Normalised data, an addend, relu.
template <typename T>
struct NormOutputAt {
  using W = Wide<T>;
  NormChannels<W> at;
  const T* data;
  const T* addend;
  bool relu;
  DeviceOutput<T> out;

  TROUPE_HOST_DEVICE W finish(W y) const { return relu && y <= W{0} ? W{0} : y; }
  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    W y = at.numbers[at.channel(i)].output(static_cast<W>(data[i]));
    if (addend != nullptr) y += static_cast<W>(addend[i]);
    out.store(i, finish(y));
  }
  TROUPE_HOST_DEVICE void pack(std::int64_t i) const {
    constexpr int kSize = DevicePack<T>::kSize;
    const std::int64_t first = at.channel(i);
    const DevicePack<T> x = pack_at(data, i);
    DevicePack<T> more{};
    if (addend != nullptr) more = pack_at(addend, i);
    W results[kSize];
    for (int k = 0; k < kSize; ++k) {
      W y = at.of_pack(first, k).output(static_cast<W>(x.values[k]));
      if (addend != nullptr) y += static_cast<W>(more.values[k]);
      results[k] = finish(y);
    }
    out.store_pack(i, results);
  }
};

/// f(V{}) for the type of the vectors over channels: that of data, or f32 beside data of 16 bits.
template <typename T, typename F>
base::Status with_vectors(const TensorDesc& vector, F f) {
  if constexpr (sizeof(T) == sizeof(base::F16)) {
    if (vector.dtype == base::DType::f32) return f(float{});
  }
  return f(T{});
}

template <typename T, typename V>
base::Status measure_norm(const OpCall& call, const KernelContext& context, const NormPlan<T>& plan,
                          V) {
  const auto mean = device_output<V>(call, context, 1);
  const auto variance = device_output<V>(call, context, 2);
  if (plan.v.global) {
    return for_each_index(context, plan.v.channels,
                          NormGivenAt<V>{context.inputs[3].as<V>(), context.inputs[4].as<V>(),
                                         plan.first, plan.second, mean, variance});
  }
  const T* data = context.inputs[0].as<T>();
  const std::int64_t count = plan.v.count();
  auto* const partial = reinterpret_cast<Wide<T>*>(plan.partial);  // room for two sums
  TROUPE_TRY(device_reduce(context, plan.reduction,
                           NormMeanRows<T, V>{{}, plan.at, data, count, plan.first, mean},
                           partial));
  return device_reduce(
      context, plan.reduction,
      NormVarianceRows<T, V>{{}, plan.at, data, count, plan.first, plan.second, variance}, partial);
}

template <typename T>
base::Status run_norm(const OpCall& call, const KernelContext& context, const NormPlan<T>& plan) {
  constexpr std::size_t kAddend = 5;
  const BatchNorm& v = plan.v;
  TROUPE_TRY(with_vectors<T>(call.inputs[1], [&](auto zero) -> base::Status {
    using V = decltype(zero);
    TROUPE_TRY(measure_norm(call, context, plan, zero));
    const V* gamma = v.fix_gamma ? nullptr : context.inputs[1].as<V>();
    return for_each_index(
        context, v.channels,
        NormNumbersAt<Wide<T>, V>{gamma, context.inputs[2].as<V>(), plan.first, plan.second,
                                  static_cast<Wide<T>>(v.eps), plan.at.numbers});
  }));
  const NormOutputAt<T> output{plan.at, context.inputs[0].as<T>(),
                               v.epilogue.sum ? context.inputs[kAddend].as<T>() : nullptr,
                               v.epilogue.relu, device_output<T>(call, context, 0)};
  const bool packs = plan.at.packs(DevicePack<T>::kSize) && packs_align(output.data) &&
                     packs_align(output.addend) && packs_align(output.out.data);
  return for_each_pack<T>(context, context.outputs[0].elements(), packs, output);
}

/// The gradient before relu. The forward pass's output, and so relu, follows from data.
template <typename W>
TROUPE_HOST_DEVICE W norm_gradient(const NormNumbers<W>& numbers, bool relu, W gradient, W x) {
  return relu && numbers.output(x) <= W{0} ? W{0} : gradient;
}

/// Sums of gradients, and of gradients times normalised data.
template <typename T, typename V>
struct NormGradientRows : DeviceTwoSums<Wide<T>> {
  using W = Wide<T>;
  NormChannels<W> at;
  const T* output_gradient;
  const T* data;
  bool relu;
  W* sums;
  W* weighted;
  bool fix_gamma;
  DeviceOutput<V> out_gamma, out_beta;

  TROUPE_HOST_DEVICE TwoSums<W> load(std::int64_t channel, std::int64_t i) const {
    const std::int64_t place = at.offset(channel, i);
    const NormNumbers<W> numbers = at.numbers[channel];
    const auto x = static_cast<W>(data[place]);
    const W gradient = norm_gradient(numbers, relu, static_cast<W>(output_gradient[place]), x);
    return {gradient, gradient * numbers.normal(x)};
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
  NormChannels<W> at;
  const T* output_gradient;
  const T* data;
  bool relu;
  const W* sums;
  const W* weighted;
  W share;
  bool global;
  DeviceOutput<T> out;

  TROUPE_HOST_DEVICE W result(std::int64_t channel, const NormNumbers<W>& numbers, W gradient,
                              W x) const {
    W centred = norm_gradient(numbers, relu, gradient, x);
    if (!global) centred -= share * (sums[channel] + numbers.normal(x) * weighted[channel]);
    return numbers.scale * centred;
  }
  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t channel = at.channel(i);
    out.store(i, result(channel, at.numbers[channel], static_cast<W>(output_gradient[i]),
                        static_cast<W>(data[i])));
  }
  TROUPE_HOST_DEVICE void pack(std::int64_t i) const {
    constexpr int kSize = DevicePack<T>::kSize;
    const std::int64_t first = at.channel(i);
    const DevicePack<T> gradients = pack_at(output_gradient, i), x = pack_at(data, i);
    W results[kSize];
    for (int k = 0; k < kSize; ++k) {
      results[k] = result(at.inner == 1 ? first + k : first, at.of_pack(first, k),
                          static_cast<W>(gradients.values[k]), static_cast<W>(x.values[k]));
    }
    out.store_pack(i, results);
  }
};

template <typename T>
base::Status run_norm_gradient(const OpCall& call, const KernelContext& context,
                               const NormPlan<T>& plan) {
  using W = Wide<T>;
  const BatchNorm& v = plan.v;
  const bool relu = v.epilogue.relu;
  const T* gradient = context.inputs[0].as<T>();
  const T* data = context.inputs[1].as<T>();
  TROUPE_TRY(with_vectors<T>(call.inputs[2], [&](auto zero) -> base::Status {
    using V = decltype(zero);
    const V* gamma = v.fix_gamma ? nullptr : context.inputs[2].as<V>();
    const V* beta = relu ? context.inputs[5].as<V>() : nullptr;
    TROUPE_TRY(for_each_index(
        context, v.channels,
        NormNumbersAt<V, V>{gamma, beta, context.inputs[3].as<V>(), context.inputs[4].as<V>(),
                            static_cast<W>(v.eps), plan.at.numbers}));
    const NormGradientRows<T, V> rows{{},
                                      plan.at,
                                      gradient,
                                      data,
                                      relu,
                                      plan.first,
                                      plan.second,
                                      v.fix_gamma,
                                      device_output<V>(call, context, 1),
                                      device_output<V>(call, context, 2)};
    return device_reduce(context, plan.reduction, rows, plan.partial);
  }));
  const W share = W{1} / static_cast<W>(std::max<std::int64_t>(v.count(), 1));
  const NormDataGradientAt<T> result{plan.at, gradient,   data,
                                     relu,    plan.first, plan.second,
                                     share,   v.global,   device_output<T>(call, context, 0)};
  const bool packs = plan.at.packs(DevicePack<T>::kSize) && packs_align(gradient) &&
                     packs_align(data) && packs_align(result.out.data);
  return for_each_pack<T>(context, context.outputs[0].elements(), packs, result);
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
