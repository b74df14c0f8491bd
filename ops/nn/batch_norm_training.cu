// SPDX-License-Identifier: Apache-2.0
// batch_norm and its gradient on GPUs, in two passes over the elements: one for the statistics or
// sums of each channel, one that writes the output. Means and variances of parts are joined by
// Chan, Golub and LeVeque's formulas (1979), which lose little where a mean is far from zero.
#include <limits>

#include "ops/nn/device_norm.h"
#include "ops/support/device_reduce.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

/// What one channel's gradients of data are made with: scale * gradient - (x - mean) * slope -
/// shift. Not used where statistics were given, which do not depend on data.
template <typename W>
struct alignas(2 * sizeof(W)) NormSlope {
  W slope, shift;
};

/// What batch_norm's two operators share. T: data; A: what is reduced to.
template <typename T, typename A>
struct NormPlan {
  BatchNorm v;
  DeviceAxis channels;
  DeviceReduction reduction;
  NormNumbers<Wide<T>>* numbers;  ///< of each channel
  NormSlope<Wide<T>>* slopes;     ///< of each channel; the gradient's, else null
  A* partial;
};

template <typename A, typename T>
NormPlan<T, A> plan_norm(const OpCall& call, const TensorDesc& data, ScratchCut& scratch, T) {
  const BatchNorm v = read_batch_norm(call, data.shape);
  NormPlan<T, A> plan{v, norm_channels(v, data), {}, nullptr, nullptr, nullptr};
  plan.reduction = reduce_each_index<T>(plan.channels, v.channels, v.count());
  plan.numbers = scratch.take<NormNumbers<Wide<T>>>(v.channels);
  plan.partial = take_partial<A>(plan.reduction, scratch);
  return plan;
}

/// Mean and squared distances from it of some elements.
template <typename W>
struct NormMoments {
  W mean, squares, count;
};

template <typename T>
auto cut_norm(const OpCall& call, ScratchCut& scratch, T zero) {
  return plan_norm<NormMoments<Wide<T>>>(call, call.inputs[0], scratch, zero);
}

template <typename T>
auto cut_norm_gradient(const OpCall& call, ScratchCut& scratch, T zero) {
  auto plan = plan_norm<TwoSums<Wide<T>>>(call, call.inputs[1], scratch, zero);
  plan.slopes = scratch.take<NormSlope<Wide<T>>>(plan.v.channels);
  return plan;
}

/// Means and variances of channels.
template <typename T, typename V>
struct NormMomentRows {
  using W = Wide<T>;
  using Accumulator = NormMoments<W>;
  static constexpr int kEach = DevicePack<T>::kSize, kRun = kEach;

  DeviceAxis channels;
  const T* data;
  NormVectors<V> vectors;
  DeviceOutput<V> out_mean, out_variance;

  TROUPE_HOST_DEVICE Accumulator none() const { return {W{0}, W{0}, W{0}}; }
  TROUPE_HOST_DEVICE Accumulator load(std::int64_t channel, std::int64_t i) const {
    return {static_cast<W>(data[channels.offset(i, channel)]), W{0}, W{1}};
  }
  TROUPE_HOST_DEVICE void load_run(std::int64_t channel, std::int64_t i,
                                   Accumulator* loaded) const {
    const DevicePack<T> pack = pack_at(data, channels.offset(i, channel));
    TROUPE_UNROLL
    for (int k = 0; k < kRun; ++k) loaded[k] = {static_cast<W>(pack.values[k]), W{0}, W{1}};
  }
  TROUPE_HOST_DEVICE Accumulator join(Accumulator a, Accumulator b) const {
    const W count = a.count + b.count;
    const W share = count == W{0} ? W{0} : b.count / count, distance = b.mean - a.mean;
    // Where the distance overflows or a mean is infinite, the variance is lost, not the mean.
    const bool finite = distance - distance == W{0};
    return {finite ? a.mean + distance * share : a.mean * (W{1} - share) + b.mean * share,
            a.squares + b.squares + distance * a.count * share * distance, count};
  }
  /// The elements' own moments first: one division for all of them.
  template <int K>
  TROUPE_HOST_DEVICE Accumulator join_several(Accumulator total,
                                              const Accumulator (&loaded)[K]) const {
    W mean = 0, squares = 0;
    TROUPE_UNROLL
    for (int k = 0; k < K; ++k) mean += loaded[k].mean * (W{1} / W{K});  // finite where they are
    TROUPE_UNROLL
    for (int k = 0; k < K; ++k) {
      const W distance = loaded[k].mean - mean;
      squares += distance * distance;
    }
    return join(total, {mean, squares, W{K}});
  }
  /// A variance that V does not hold is NaN: normalised data would be beta, or gradients zero, as
  /// if all were well.
  TROUPE_HOST_DEVICE void store(std::int64_t channel, Accumulator total) const {
    W variance = total.count == W{0} ? W{0} : total.squares / total.count;
    if (static_cast<W>(static_cast<V>(variance)) == std::numeric_limits<W>::infinity()) {
      variance = std::numeric_limits<W>::quiet_NaN();
    }
    vectors.store(channel, total.mean, variance);
    out_mean.store(channel, total.mean);
    out_variance.store(channel, variance);
  }
};

template <typename T, typename A>
base::Status run_norm(const OpCall& call, const KernelContext& context,
                      const NormPlan<T, A>& plan) {
  constexpr std::size_t kAddend = 5;
  const BatchNorm& v = plan.v;
  const T* data = context.inputs[0].as<T>();
  const NormOutputAt<T> output{plan.channels,
                               plan.numbers,
                               data,
                               v.epilogue.sum ? context.inputs[kAddend].as<T>() : nullptr,
                               v.epilogue.relu,
                               device_output<T>(call, context, 0)};
  TROUPE_TRY(with_vectors<T>(call.inputs[1], [&](auto zero) -> base::Status {
    using V = decltype(zero);
    const NormVectors<V> vectors{v.fix_gamma ? nullptr : context.inputs[1].as<V>(),
                                 context.inputs[2].as<V>(), static_cast<Wide<T>>(v.eps),
                                 plan.numbers};
    const auto mean = device_output<V>(call, context, 1);
    const auto variance = device_output<V>(call, context, 2);
    if (v.global) {
      return for_each_index(context, v.channels,
                            NormGivenAt<V>{vectors, context.inputs[3].as<V>(),
                                           context.inputs[4].as<V>(), mean, variance});
    }
    return device_reduce(context, plan.reduction.by_packs(packs_align(data)),
                         NormMomentRows<T, V>{plan.channels, data, vectors, mean, variance},
                         plan.partial);
  }));
  return run_norm_output(context, output);
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
  static constexpr int kEach = DevicePack<T>::kSize, kRun = kEach, kReads = 2;
  struct Kept {
    NormNumbers<W> numbers[kEach];
  };
  DeviceAxis channels;
  const NormNumbers<W>* numbers;
  const T* output_gradient;
  const T* data;
  bool relu, fix_gamma;
  W count;
  NormSlope<W>* slopes;
  DeviceOutput<V> out_gamma, out_beta;

  TROUPE_HOST_DEVICE TwoSums<W> sums(const NormNumbers<W>& own, W gradient, W x) const {
    const W before = norm_gradient(own, relu, gradient, x);
    return {before, before * own.normal(x)};
  }
  TROUPE_HOST_DEVICE TwoSums<W> load(std::int64_t channel, std::int64_t i) const {
    const std::int64_t place = channels.offset(i, channel);
    return sums(numbers[channel], static_cast<W>(output_gradient[place]),
                static_cast<W>(data[place]));
  }
  TROUPE_HOST_DEVICE Kept rows(std::int64_t channel) const {
    Kept kept;
    TROUPE_UNROLL
    for (int k = 0; k < kEach; ++k) kept.numbers[k] = numbers[channel + k];
    return kept;
  }
  TROUPE_HOST_DEVICE void load_pack(const Kept& kept, std::int64_t channel, std::int64_t i,
                                    TwoSums<W>* loaded) const {
    const std::int64_t place = channels.offset(i, channel);
    const DevicePack<T> gradients = pack_at(output_gradient, place), x = pack_at(data, place);
    TROUPE_UNROLL
    for (int k = 0; k < kEach; ++k) {
      loaded[k] =
          sums(kept.numbers[k], static_cast<W>(gradients.values[k]), static_cast<W>(x.values[k]));
    }
  }
  TROUPE_HOST_DEVICE void load_run(std::int64_t channel, std::int64_t i, TwoSums<W>* loaded) const {
    const std::int64_t place = channels.offset(i, channel);
    const DevicePack<T> gradients = pack_at(output_gradient, place), x = pack_at(data, place);
    const NormNumbers<W> own = numbers[channel];
    TROUPE_UNROLL
    for (int k = 0; k < kRun; ++k) {
      loaded[k] = sums(own, static_cast<W>(gradients.values[k]), static_cast<W>(x.values[k]));
    }
  }
  TROUPE_HOST_DEVICE void store(std::int64_t channel, TwoSums<W> total) const {
    const NormNumbers<W> own = numbers[channel];
    const W share = own.scale / count;
    slopes[channel] = {share * total.second * own.inverse, share * total.first};
    out_gamma.store(channel, fix_gamma ? W{0} : total.second);
    out_beta.store(channel, total.first);
  }
};

/// The gradient of data.
template <typename T>
struct NormDataGradientAt {
  using W = Wide<T>;
  static constexpr int kSize = DevicePack<T>::kSize;
  struct Channel {
    NormNumbers<W> numbers;
    NormSlope<W> slope;
  };
  struct Kept {
    Channel channels[kSize];
  };
  struct Loaded {
    DevicePack<T> gradients, x;
  };
  DeviceAxis channels;
  const NormNumbers<W>* numbers;
  const NormSlope<W>* slopes;
  const T* output_gradient;
  const T* data;
  bool relu, global;
  DeviceOutput<T> out;

  TROUPE_HOST_DEVICE Channel channel(std::int64_t index) const {
    return {numbers[index], slopes[index]};
  }
  TROUPE_HOST_DEVICE W result(const Channel& own, W gradient, W x) const {
    const W before = norm_gradient(own.numbers, relu, gradient, x);
    if (global) return own.numbers.scale * before;
    return own.numbers.scale * before - (x - own.numbers.mean) * own.slope.slope - own.slope.shift;
  }
  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    out.store(i, result(channel(channels.index(i)), static_cast<W>(output_gradient[i]),
                        static_cast<W>(data[i])));
  }
  template <int Step>
  TROUPE_HOST_DEVICE Kept keep(std::int64_t first) const {
    Kept kept;
    TROUPE_UNROLL
    for (int k = 0; k < kSize; ++k) kept.channels[k] = channel(first + k * Step);
    return kept;
  }
  TROUPE_HOST_DEVICE Loaded load(std::int64_t i) const {
    return {pack_at(output_gradient, i), pack_at(data, i)};
  }
  TROUPE_HOST_DEVICE void pack(const Kept& kept, std::int64_t i, const Loaded& loaded) const {
    W results[kSize];
    TROUPE_UNROLL
    for (int k = 0; k < kSize; ++k) {
      results[k] = result(kept.channels[k], static_cast<W>(loaded.gradients.values[k]),
                          static_cast<W>(loaded.x.values[k]));
    }
    out.store_pack(i, results);
  }
};

template <typename T, typename A>
base::Status run_norm_gradient(const OpCall& call, const KernelContext& context,
                               const NormPlan<T, A>& plan) {
  using W = Wide<T>;
  const BatchNorm& v = plan.v;
  const bool relu = v.epilogue.relu;
  const T* gradient = context.inputs[0].as<T>();
  const T* data = context.inputs[1].as<T>();
  TROUPE_TRY(with_vectors<T>(call.inputs[2], [&](auto zero) -> base::Status {
    using V = decltype(zero);
    const V* gamma = v.fix_gamma ? nullptr : context.inputs[2].as<V>();
    const V* beta = relu ? context.inputs[5].as<V>() : nullptr;
    const NormVectors<V> vectors{gamma, beta, static_cast<W>(v.eps), plan.numbers};
    TROUPE_TRY(for_each_index(
        context, v.channels,
        NormGivenAt<V>{vectors, context.inputs[3].as<V>(), context.inputs[4].as<V>(), {}, {}}));
    const NormGradientRows<T, V> rows{{},
                                      plan.channels,
                                      plan.numbers,
                                      gradient,
                                      data,
                                      relu,
                                      v.fix_gamma,
                                      static_cast<W>(std::max<std::int64_t>(v.count(), 1)),
                                      plan.slopes,
                                      device_output<V>(call, context, 1),
                                      device_output<V>(call, context, 2)};
    const bool aligned = packs_align(gradient) && packs_align(data);
    return device_reduce(context, plan.reduction.by_packs(aligned), rows, plan.partial);
  }));
  const NormDataGradientAt<T> result{
      plan.channels, plan.numbers, plan.slopes, gradient,
      data,          relu,         v.global,    device_output<T>(call, context, 0)};
  const bool aligned = packs_align(gradient) && packs_align(data) && packs_align(result.out.data);
  return for_each_of_axis<T>(context, context.outputs[0].elements(), plan.channels, aligned,
                             result);
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
