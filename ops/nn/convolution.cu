// SPDX-License-Identifier: Apache-2.0
// convolution and its gradients on GPUs, where no library takes them.
#include "ops/nn/device_channels.h"
#include "ops/nn/device_convolution.h"
#include "ops/nn/device_epilogue.h"
#include "ops/nn/linear.h"
#include "ops/support/channels_last.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

/// Layouts of a call of `convolution`: an addend lies as the output does.
base::Result<OpCall> fix_forward(OpCall call) {
  const bool sum = read_epilogue(call.params).sum;
  if (sum && !call.inputs.back().any_layout && call.outputs[0].any_layout) {
    call.outputs[0].layout = call.inputs.back().layout;
    call.outputs[0].any_layout = false;
  }
  TROUPE_TRY_ASSIGN(OpCall fixed, fix_each(std::move(call), 0));
  if (!sum) return fixed;
  TensorDesc& addend = fixed.inputs.back();
  const base::Layout& output = fixed.outputs[0].layout;
  if (addend.any_layout) addend.layout = output;
  if (addend.layout == output) return fixed;
  return base::error(base::Errc::unimplemented, "addend and output lie differently");
}
/// Of its gradient of data, and of weights.
base::Result<OpCall> fix_data(OpCall call) {
  return fix_each(std::move(call), 0);
}
base::Result<OpCall> fix_weights(OpCall call) {
  return fix_each(std::move(call), std::nullopt);
}

Convolution extents_of(const OpCall& call, const ConvolutionTensors& tensors) {
  return read_convolution(call.params, tensors.data.shape, tensors.output.shape);
}
DeviceConvolution device_convolution(const OpCall& call, const ConvolutionTensors& tensors) {
  return troupe::ops::device_convolution(extents_of(call, tensors), tensors);
}

/// A tensor as (outer, channels, inner) around axis 1.
ClassAxis channels_of(const TensorDesc& tensor) {
  const base::Shape& shape = tensor.shape;
  const std::int64_t inner = shape.elements(2, shape.rank());
  if (is_channels_last(tensor)) return {shape[0] * inner, shape[1], 1};
  return {shape[0], shape[1], inner};
}

template <typename T>
ProductPlan<T> cut_convolution(const OpCall& call, ScratchCut& scratch, T) {
  return plan_product<T>(convolution_product(extents_of(call, output_pass_tensors(call))), scratch);
}

template <typename T>
base::Status run_convolution(const OpCall& call, const KernelContext& context,
                             const ProductPlan<T>& plan) {
  const Epilogue epilogue = read_epilogue(call.params);
  const ConvolutionMultiplier<T> multiplier{
      device_convolution(call, output_pass_tensors(call)),
      context.inputs[0].as<T>(),
      context.inputs[1].as<T>(),
      has_bias(call.params) ? context.inputs[2].as<T>() : nullptr,
      epilogue.sum ? context.inputs.back().as<T>() : nullptr,
      epilogue.relu,
      device_output<T>(call, context, 0)};
  return device_product(context, plan.product, multiplier, plan.partial);
}

template <typename T>
ProductPlan<T> cut_convolution_data(const OpCall& call, ScratchCut& scratch, T) {
  const Convolution c = extents_of(call, data_pass_tensors(call));
  return plan_product<T>(convolution_data_product(c), scratch);
}

template <typename T>
base::Status run_convolution_data(const OpCall& call, const KernelContext& context,
                                  const ProductPlan<T>& plan) {
  const ConvolutionDataMultiplier<T> multiplier{
      device_convolution(call, data_pass_tensors(call)), context.inputs[0].as<T>(),
      context.inputs[1].as<T>(), nullptr, device_output<T>(call, context, 0)};
  return device_product(context, plan.product, multiplier, plan.partial);
}

template <typename T>
WeightPlan<T> cut_convolution_weights(const OpCall& call, ScratchCut& scratch, T) {
  const ConvolutionTensors tensors = weight_pass_tensors(call);
  return plan_weight<T>(convolution_weight_product(extents_of(call, tensors), tensors),
                        channels_of(tensors.output), has_bias(call.params), scratch);
}

template <typename T>
base::Status run_convolution_weights(const OpCall& call, const KernelContext& context,
                                     const WeightPlan<T>& plan) {
  const T* gradient = context.inputs[0].as<T>();
  const ConvolutionWeightMultiplier<T> multiplier{
      device_convolution(call, weight_pass_tensors(call)), gradient, context.inputs[1].as<T>(),
      device_output<T>(call, context, 0)};
  TROUPE_TRY(device_product(context, plan.weight.product, multiplier, plan.weight.partial));
  if (!has_bias(call.params)) return {};
  return sum_channels(context, plan.bias, gradient, device_output<T>(call, context, 1));
}

/// values = relu(values + bias of their channels).
template <typename T>
struct FinishOutputAt {
  using W = Wide<T>;
  static constexpr int kSize = DevicePack<T>::kSize;
  struct Kept {
    W bias[kSize];
  };
  using Loaded = DevicePack<T>;
  DeviceAxis channels;
  const T* bias;  ///< or null
  bool relu;
  DeviceOutput<T> values;

  TROUPE_HOST_DEVICE W finish(T value, W own) const {
    const W result = static_cast<W>(value) + own;
    return relu && result <= W{0} ? W{0} : result;
  }
  TROUPE_HOST_DEVICE W bias_of(std::int64_t channel) const {
    return bias == nullptr ? W{0} : static_cast<W>(bias[channel]);
  }
  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    values.store(i, finish(values.data[i], bias_of(channels.index(i))));
  }
  template <int Step>
  TROUPE_HOST_DEVICE Kept keep(std::int64_t channel) const {
    Kept kept;
    TROUPE_UNROLL
    for (int k = 0; k < kSize; ++k) kept.bias[k] = bias_of(channel + k * Step);
    return kept;
  }
  TROUPE_HOST_DEVICE Loaded load(std::int64_t i) const { return pack_at(values.data, i); }
  TROUPE_HOST_DEVICE void pack(const Kept& kept, std::int64_t i, const Loaded& old) const {
    W results[kSize];
    TROUPE_UNROLL
    for (int k = 0; k < kSize; ++k) results[k] = finish(old.values[k], kept.bias[k]);
    values.store_pack(i, results);
  }
};

/// Element i of rows that are filled up.
template <typename T>
struct FillChannelsAt {
  Divider channels;  ///< of a filled row
  std::int64_t own;
  const T* from;
  T* to;

  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    const Divider::Digits at = channels.digits(i);
    to[i] = at.remainder < own ? from[at.quotient * own + at.remainder] : T{};
  }
};

/// Element i of what filled rows are cut to.
template <typename T>
struct CutChannelsAt {
  Divider own;
  std::int64_t channels;  ///< of a filled row
  const T* from;
  DeviceOutput<T> to;

  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    const Divider::Digits at = own.digits(i);
    to.store(i, static_cast<Wide<T>>(from[at.quotient * channels + at.remainder]));
  }
};

}  // namespace

base::Status finish_output(const OpCall& call, const KernelContext& context,
                           const base::TensorView* bias, bool relu) {
  const DeviceAxis channels = device_axis(channels_of(call.outputs[0]));
  return with_real(call.outputs[0].dtype, [&](auto zero) -> base::Status {
    using T = decltype(zero);
    const FinishOutputAt<T> finish{
        channels, bias == nullptr ? nullptr : bias->as<T>(), relu, {context.outputs[0].as<T>()}};
    return for_each_of_axis<T>(context, call.outputs[0].shape.elements(), channels,
                               packs_align(finish.values.data), finish);
  });
}

std::size_t output_gradient_sum_bytes(const OpCall& call) {
  ScratchCut scratch;
  const base::Status known = with_real(call.inputs[0].dtype, [&](auto zero) -> base::Status {
    plan_channel_sums<decltype(zero)>(channels_of(call.inputs[0]), scratch);
    return {};
  });
  TROUPE_CHECK(known.ok(), "a dtype that was accepted");
  return scratch.bytes();
}

base::Status sum_output_gradient(const OpCall& call, const KernelContext& context,
                                 std::byte* scratch) {
  return with_real(call.inputs[0].dtype, [&](auto zero) -> base::Status {
    using T = decltype(zero);
    ScratchCut cut(scratch);
    const auto plan = plan_channel_sums<T>(channels_of(call.inputs[0]), cut);
    const T* gradient = context.inputs[0].as<T>();
    return call.outputs[1].dtype == call.inputs[0].dtype
               ? sum_channels(context, plan, gradient, device_output<T>(call, context, 1))
               : sum_channels(context, plan, gradient, device_output<Wide<T>>(call, context, 1));
  });
}

base::Status fill_channels(const KernelContext& context, const base::TensorView& tensor,
                           std::int64_t channels, void* filled) {
  const std::int64_t own = tensor.shape[1], rows = tensor.elements() / own;
  return with_real(tensor.dtype, [&](auto zero) -> base::Status {
    using T = decltype(zero);
    return for_each_index(
        context, rows * channels,
        FillChannelsAt<T>{Divider(channels), own, tensor.as<T>(), static_cast<T*>(filled)});
  });
}

base::Status cut_channels(const KernelContext& context, const void* filled, std::int64_t channels,
                          const base::TensorView& tensor, bool adds) {
  return with_real(tensor.dtype, [&](auto zero) -> base::Status {
    using T = decltype(zero);
    return for_each_index(context, tensor.elements(),
                          CutChannelsAt<T>{Divider(tensor.shape[1]),
                                           channels,
                                           static_cast<const T*>(filled),
                                           {tensor.as<T>(), adds}});
  });
}

std::span<const BackendKernel> kernels_convolution_cuda() {
  static const BackendKernel kernels[] = {
      {"convolution", product_device_kernel(
                          fix_forward, [](auto&&... x) { return run_convolution(x...); },
                          [](auto&&... x) { return cut_convolution(x...); })},
      {"convolution_backward_data",
       product_device_kernel(
           fix_data, [](auto&&... x) { return run_convolution_data(x...); },
           [](auto&&... x) { return cut_convolution_data(x...); })},
      {"convolution_backward_weights",
       product_device_kernel(
           fix_weights, [](auto&&... x) { return run_convolution_weights(x...); },
           [](auto&&... x) { return cut_convolution_weights(x...); })}};
  return kernels;
}

}  // namespace troupe::ops
