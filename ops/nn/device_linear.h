// SPDX-License-Identifier: Apache-2.0
// The gradient of a bias on GPUs: sums over channels.
#pragma once

#include "ops/nn/class_axis.h"
#include "ops/support/device_product.h"

namespace troupe::ops {

/// out[channel] = sum of data (outer, channels, inner) over the other axes.
template <typename T>
struct ChannelSumRows : DeviceSum<Wide<T>> {
  std::int64_t channels, inner;
  const T* data;
  DeviceOutput<T> out;

  TROUPE_HOST_DEVICE Wide<T> load(std::int64_t channel, std::int64_t i) const {
    const std::int64_t at =
        inner == 1 ? i * channels + channel : (i / inner * channels + channel) * inner + i % inner;
    return static_cast<Wide<T>>(data[at]);
  }
  TROUPE_HOST_DEVICE void store(std::int64_t channel, Wide<T> sum) const {
    out.store(channel, sum);
  }
};

/// A product for the gradient of a weight, and sums for that of a bias.
template <typename T>
struct WeightPlan {
  ProductPlan<T> weight;
  DeviceReduction bias;
  Wide<T>* bias_partial;
  std::int64_t inner;  ///< of ChannelSumRows
};
/// For an output's gradient of shape (outer, channels, inner).
template <typename T>
WeightPlan<T> plan_weight(const DeviceProduct& product, const ClassAxis& gradient, bool has_bias,
                          ScratchCut& scratch) {
  WeightPlan<T> plan{plan_product<T>(cut_sums(product), scratch), {}, nullptr, gradient.inner};
  if (!has_bias) return plan;
  plan.bias = device_reduction(gradient.classes, gradient.rows(), gradient.inner == 1);
  plan.bias_partial = take_partial<Wide<T>>(plan.bias, scratch);
  return plan;
}

/// Output 1 = sums of the channels of `gradient`.
template <typename T>
base::Status sum_channels(const OpCall& call, const KernelContext& context,
                          const WeightPlan<T>& plan, const T* gradient) {
  const ChannelSumRows<T> rows{
      {}, plan.bias.rows, plan.inner, gradient, device_output<T>(call, context, 1)};
  return device_reduce(context, plan.bias, rows, plan.bias_partial);
}

}  // namespace troupe::ops
