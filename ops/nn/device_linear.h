// SPDX-License-Identifier: Apache-2.0
// The gradient of a bias on GPUs: sums over channels.
#pragma once

#include <cstdint>

#include "ops/nn/device_axis.h"
#include "ops/support/device_product.h"

namespace troupe::ops {

/// out[channel] = sum of data (outer, channels, inner) over the other axes.
template <typename T, typename Out = T>
struct ChannelSumRows : DeviceSum<Wide<T>> {
  static constexpr int kEach = DevicePack<T>::kSize, kRun = kEach;
  DeviceAxis channels;
  const T* data;
  DeviceOutput<Out> out;

  TROUPE_HOST_DEVICE Wide<T> load(std::int64_t channel, std::int64_t i) const {
    return static_cast<Wide<T>>(data[channels.offset(i, channel)]);
  }
  TROUPE_HOST_DEVICE void load_run(std::int64_t channel, std::int64_t i, Wide<T>* loaded) const {
    const DevicePack<T> pack = pack_at(data, channels.offset(i, channel));
    TROUPE_UNROLL
    for (int k = 0; k < kRun; ++k) loaded[k] = static_cast<Wide<T>>(pack.values[k]);
  }
  TROUPE_HOST_DEVICE void store(std::int64_t channel, Wide<T> sum) const {
    out.store(channel, sum);
  }
};

/// Sums of channels, and memory for them.
template <typename T>
struct ChannelSumPlan {
  DeviceAxis channels;
  DeviceReduction reduction;
  Wide<T>* partial = nullptr;
};
/// For data of shape (outer, channels, inner).
template <typename T>
ChannelSumPlan<T> plan_channel_sums(const ClassAxis& data, ScratchCut& scratch) {
  const DeviceAxis channels = device_axis(data);
  const auto reduction = reduce_each_index<T>(channels, data.classes, data.rows());
  return {channels, reduction, take_partial<Wide<T>>(reduction, scratch)};
}
template <typename T, typename Out>
base::Status sum_channels(const KernelContext& context, const ChannelSumPlan<T>& plan,
                          const T* data, const DeviceOutput<Out>& out) {
  return device_reduce(context, plan.reduction.by_packs(packs_align(data)),
                       ChannelSumRows<T, Out>{{}, plan.channels, data, out}, plan.partial);
}

/// A product for the gradient of a weight, and sums for that of a bias.
template <typename T>
struct WeightPlan {
  ProductPlan<T> weight;
  ChannelSumPlan<T> bias;
};
/// For an output's gradient of shape (outer, channels, inner).
template <typename T>
WeightPlan<T> plan_weight(const DeviceProduct& product, const ClassAxis& gradient, bool has_bias,
                          ScratchCut& scratch) {
  WeightPlan<T> plan{plan_product<T>(cut_sums(product), scratch), {}};
  if (has_bias) plan.bias = plan_channel_sums<T>(gradient, scratch);
  return plan;
}

}  // namespace troupe::ops
