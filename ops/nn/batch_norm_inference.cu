// SPDX-License-Identifier: Apache-2.0
// batch_norm_inference and batch_norm_fold on GPUs.
#include <cmath>

#include "ops/nn/batch_norm.h"
#include "ops/support/channels_last.h"
#include "ops/support/device_blocks.h"
#include "ops/support/device_kernel.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

/// Of the vectors over channels.
template <typename T>
struct InferenceVectors {
  using W = Wide<T>;
  const T *gamma, *beta, *mean, *var;
  bool fix_gamma;
  W eps;

  TROUPE_HOST_DEVICE W scale(std::int64_t c) const {
    using std::sqrt;
    return (fix_gamma ? W{1} : static_cast<W>(gamma[c])) / sqrt(static_cast<W>(var[c]) + eps);
  }
  TROUPE_HOST_DEVICE W normal(W x, std::int64_t c) const {
    return (x - static_cast<W>(mean[c])) * scale(c) + static_cast<W>(beta[c]);
  }
};

/// From input `first` on.
template <typename T>
InferenceVectors<T> inference_vectors(const OpCall& call, const KernelContext& context,
                                      std::size_t first) {
  const auto in = [&](std::size_t i) -> const T* { return context.inputs[first + i].as<T>(); };
  return {in(0),
          in(1),
          in(2),
          in(3),
          call.params.boolean("fix_gamma"),
          static_cast<Wide<T>>(call.params.real("eps"))};
}

template <typename T, typename V>
struct InferenceAt {
  const T* data;
  InferenceVectors<V> vectors;
  const T* addend;  ///< or null
  T* out;
  std::int64_t channels, inner;
  bool relu;

  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    using W = Wide<T>;
    W result = vectors.normal(static_cast<W>(data[i]), i / inner % channels);
    if (addend != nullptr) result += static_cast<W>(addend[i]);
    out[i] = T(relu && result <= W{0} ? W{0} : result);
  }
};

bool inference_may_be_last(const OpCall& call) {
  return resolve_axis(call.params.integer("axis"), call.inputs[0].shape).value() == 1;
}

template <typename T, typename V>
base::Status run_inference_with(const OpCall& call, const KernelContext& context, T, V) {
  const BatchNorm v = read_batch_norm(call, call.inputs[0].shape);
  const T* addend = v.epilogue.sum ? context.inputs.back().as<T>() : nullptr;
  return for_each_index(
      context, call.outputs[0].shape.elements(),
      InferenceAt<T, V>{context.inputs[0].as<T>(), inference_vectors<V>(call, context, 1), addend,
                        context.outputs[0].as<T>(), v.channels,
                        is_channels_last(call.inputs[0]) ? 1 : v.inner, v.epilogue.relu});
}

/// Vectors over channels have the type of data, or are f32 beside data of 16 bits.
template <typename T>
base::Status run_inference(const OpCall& call, const KernelContext& context, T zero) {
  if constexpr (sizeof(T) == sizeof(base::F16)) {
    if (call.inputs[1].dtype == base::DType::f32) {
      return run_inference_with(call, context, zero, float{});
    }
  }
  return run_inference_with(call, context, zero, zero);
}

template <typename T>
struct FoldedWeightAt {
  const T* weight;
  InferenceVectors<T> vectors;
  T* out;
  std::int64_t taps;

  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    out[i] = T(static_cast<Wide<T>>(weight[i]) * vectors.scale(i / taps));
  }
};

template <typename T>
struct FoldedBiasAt {
  const T* bias;  ///< or null
  InferenceVectors<T> vectors;
  T* out;

  TROUPE_HOST_DEVICE void operator()(std::int64_t filter) const {
    using W = Wide<T>;
    out[filter] = T(vectors.normal(bias == nullptr ? W{0} : static_cast<W>(bias[filter]), filter));
  }
};

template <typename T>
base::Status run_fold(const OpCall& call, const KernelContext& context, T) {
  const base::Shape& shape = call.inputs[0].shape;
  const bool biased = !call.params.boolean("no_bias");
  const InferenceVectors<T> vectors = inference_vectors<T>(call, context, biased ? 2 : 1);
  TROUPE_TRY(for_each_index(
      context, shape.elements(),
      FoldedWeightAt<T>{context.inputs[0].as<T>(), vectors, context.outputs[0].as<T>(),
                        shape.elements(1, shape.rank())}));
  return for_each_index(context, shape[0],
                        FoldedBiasAt<T>{biased ? context.inputs[1].as<T>() : nullptr, vectors,
                                        context.outputs[1].as<T>()});
}

}  // namespace

std::span<const BackendKernel> kernels_batch_norm_inference_cuda() {
  static const BackendKernel kernels[] = {
      {"batch_norm_inference",
       planes_device_kernel(inference_may_be_last,
                            [](auto&&... x) { return run_inference(x...); })},
      {"batch_norm_fold", real_device_kernel([](auto&&... x) { return run_fold(x...); })}};
  return kernels;
}

}  // namespace troupe::ops
