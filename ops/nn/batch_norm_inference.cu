// SPDX-License-Identifier: Apache-2.0
// batch_norm_inference and batch_norm_fold on GPUs.
#include <cmath>

#include "ops/nn/device_norm.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

/// The vectors over channels, for a normalisation that is folded into a convolution.
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

template <typename T>
struct InferencePlan {
  BatchNorm v;
  NormNumbers<Wide<T>>* numbers;  ///< of each channel
};

template <typename T>
InferencePlan<T> cut_inference(const OpCall& call, ScratchCut& scratch, T) {
  const BatchNorm v = read_batch_norm(call, call.inputs[0].shape);
  return {v, scratch.take<NormNumbers<Wide<T>>>(v.channels)};
}

template <typename T>
base::Status run_inference(const OpCall& call, const KernelContext& context,
                           const InferencePlan<T>& plan) {
  const BatchNorm& v = plan.v;
  TROUPE_TRY(with_vectors<T>(call.inputs[1], [&](auto zero) -> base::Status {
    using V = decltype(zero);
    const auto in = [&](std::size_t i) -> const V* { return context.inputs[i].as<V>(); };
    const NormVectors<V> vectors{v.fix_gamma ? nullptr : in(1), in(2), static_cast<Wide<T>>(v.eps),
                                 plan.numbers};
    return for_each_index(context, v.channels, NormGivenAt<V>{vectors, in(3), in(4), {}, {}});
  }));
  return run_norm_output(
      context,
      NormOutputAt<T>{norm_channels(v, call.inputs[0]), plan.numbers, context.inputs[0].as<T>(),
                      v.epilogue.sum ? context.inputs.back().as<T>() : nullptr, v.epilogue.relu,
                      device_output<T>(call, context, 0)});
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
       planes_device_kernel(
           norm_may_be_last, [](auto&&... x) { return run_inference(x...); },
           [](auto&&... x) { return cut_inference(x...); })},
      {"batch_norm_fold", real_device_kernel([](auto&&... x) { return run_fold(x...); })}};
  return kernels;
}

}  // namespace troupe::ops
