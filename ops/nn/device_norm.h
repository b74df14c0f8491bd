// SPDX-License-Identifier: Apache-2.0
// Normalisation by numbers of each channel on GPUs: what batch_norm and batch_norm_inference share.
#pragma once

#include <cmath>
#include <cstdint>

#include "ops/nn/batch_norm.h"
#include "ops/nn/device_axis.h"
#include "ops/support/channels_last.h"

namespace troupe::ops {

/// What one channel is normalised with.
template <typename W>
struct alignas(4 * sizeof(W)) NormNumbers {
  W mean, inverse, scale, beta;  // inverse = 1 / deviation, scale = gamma / deviation

  TROUPE_HOST_DEVICE W output(W x) const { return (x - mean) * scale + beta; }
  TROUPE_HOST_DEVICE W normal(W x) const { return (x - mean) * inverse; }
};

/// Numbers of channels from their statistics; gamma and beta count as one and zero where they are
/// null.
template <typename V>
struct NormVectors {
  using W = Wide<V>;
  const V* gamma;
  const V* beta;
  W eps;
  NormNumbers<W>* numbers;

  TROUPE_HOST_DEVICE void store(std::int64_t channel, W mean, W variance) const {
    using std::sqrt;
    const W deviation = sqrt(variance + eps);
    const W factor = gamma == nullptr ? W{1} : static_cast<W>(gamma[channel]);
    numbers[channel] = {mean, W{1} / deviation, factor / deviation,
                        beta == nullptr ? W{0} : static_cast<W>(beta[channel])};
  }
};

/// Statistics that were given, or that the forward pass has left.
template <typename V>
struct NormGivenAt {
  NormVectors<V> vectors;
  const V* mean;
  const V* variance;
  DeviceOutput<V> out_mean, out_variance;  ///< of the forward pass; else null

  TROUPE_HOST_DEVICE void operator()(std::int64_t channel) const {
    const auto own_mean = static_cast<Wide<V>>(mean[channel]);
    const auto own_variance = static_cast<Wide<V>>(variance[channel]);
    vectors.store(channel, own_mean, own_variance);
    if (out_mean.data == nullptr) return;
    out_mean.store(channel, own_mean);
    out_variance.store(channel, own_variance);
  }
};

/// Normalised data, an addend, relu.
template <typename T>
struct NormOutputAt {
  using W = Wide<T>;
  static constexpr int kSize = DevicePack<T>::kSize;
  struct Kept {
    NormNumbers<W> numbers[kSize];
  };
  struct Loaded {
    DevicePack<T> x, more;
  };
  DeviceAxis channels;
  const NormNumbers<W>* numbers;
  const T* data;
  const T* addend;
  bool relu;
  DeviceOutput<T> out;

  TROUPE_HOST_DEVICE W finish(W y) const { return relu && y <= W{0} ? W{0} : y; }
  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    W y = numbers[channels.index(i)].output(static_cast<W>(data[i]));
    if (addend != nullptr) y += static_cast<W>(addend[i]);
    out.store(i, finish(y));
  }
  template <int Step>
  TROUPE_HOST_DEVICE Kept keep(std::int64_t channel) const {
    Kept kept;
    TROUPE_UNROLL
    for (int k = 0; k < kSize; ++k) kept.numbers[k] = numbers[channel + k * Step];
    return kept;
  }
  TROUPE_HOST_DEVICE Loaded load(std::int64_t i) const {
    Loaded loaded{};
    loaded.x = pack_at(data, i);
    if (addend != nullptr) loaded.more = pack_at(addend, i);
    return loaded;
  }
  TROUPE_HOST_DEVICE void pack(const Kept& kept, std::int64_t i, const Loaded& loaded) const {
    W results[kSize];
    TROUPE_UNROLL
    for (int k = 0; k < kSize; ++k) {
      W y = kept.numbers[k].output(static_cast<W>(loaded.x.values[k]));
      if (addend != nullptr) y += static_cast<W>(loaded.more.values[k]);
      results[k] = finish(y);
    }
    out.store_pack(i, results);
  }
};

template <typename T>
base::Status run_norm_output(const KernelContext& context, const NormOutputAt<T>& f) {
  const bool aligned = packs_align(f.data) && packs_align(f.addend) && packs_align(f.out.data);
  return for_each_of_axis<T>(context, context.outputs[0].elements(), f.channels, aligned, f);
}

/// The channels of data.
inline DeviceAxis norm_channels(const BatchNorm& v, const TensorDesc& data) {
  return {v.channels, is_channels_last(data) ? 1 : v.inner};
}

inline bool norm_may_be_last(const OpCall& call) {
  return resolve_axis(call.params.integer("axis"), call.inputs[0].shape).value() == 1;
}

/// f(V{}) for the type of the vectors over channels: that of data, or f32 beside data of 16 bits.
template <typename T, typename F>
base::Status with_vectors(const TensorDesc& vector, F f) {
  if constexpr (sizeof(T) == sizeof(base::F16)) {
    if (vector.dtype == base::DType::f32) return f(float{});
  }
  return f(T{});
}

}  // namespace troupe::ops
