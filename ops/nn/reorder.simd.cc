// SPDX-License-Identifier: Apache-2.0
// Weights in the form that Winograd's convolution reads.
#include "ops/support/winograd.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

using base::Errc;
using base::Layout;
using base::Result;
using base::Status;

class TransformKernel final : public Kernel {
 public:
  TransformKernel(const base::Shape& weight, Layout to, bool rotated) : to_(std::move(to)) {
    constexpr std::int64_t kTaps = 9;
    const std::int64_t filters = weight[0], channels = weight[1];
    taps_.rotated = rotated;
    taps_.channels = rotated ? filters : channels;
    taps_.filters = rotated ? channels : filters;
    taps_.channel_stride = rotated ? channels * kTaps : kTaps;
    taps_.filter_stride = rotated ? kTaps : channels * kTaps;
  }

  std::string name() const override { return "simd:winograd"; }
  std::vector<Layout> input_layouts() const override { return {Layout::dense()}; }
  std::vector<Layout> output_layouts() const override { return {to_}; }

  Status run(const KernelContext& context) const override {
    WinogradTaps taps = taps_;
    taps.weight = context.inputs[0].as<float>();
    transform_weights(context, taps, context.outputs[0].as<float>());
    return {};
  }

 private:
  Layout to_;
  WinogradTaps taps_;
};

Result<std::unique_ptr<Kernel>> prepare_weights(const OpCall& call) {
  const TensorDesc& weight = call.inputs[0];
  const Layout& to = call.outputs[0].layout;
  if (call.outputs[0].any_layout || to.kind != Layout::Kind::opaque) {
    return base::error(Errc::unimplemented, "only transformed weights");
  }
  const bool dense = !weight.any_layout && weight.layout.is_dense();
  if (!dense || weight.dtype != base::DType::f32 || weight.shape.rank() != 4 ||
      weight.shape[2] != 3 || weight.shape[3] != 3) {
    return base::error(Errc::unimplemented, "only dense weights of 3x3 in f32");
  }
  const std::int64_t lanes = winograd_lanes();
  for (const bool rotated : {false, true}) {
    const std::int64_t filters = weight.shape[rotated ? 1 : 0];
    const std::int64_t channels = weight.shape[rotated ? 0 : 1];
    if (lanes == 0 || filters % lanes != 0) continue;
    if (to != winograd_layout(channels, filters, rotated)) continue;
    return std::unique_ptr<Kernel>(std::make_unique<TransformKernel>(weight.shape, to, rotated));
  }
  return base::error(Errc::unimplemented, "layout {}", to.to_string());
}

}  // namespace

std::span<const BackendKernel> kernels_reorder_simd() {
  static const std::vector<BackendKernel> kernels = {{"reorder", {"simd", prepare_weights}}};
  return kernels;
}

}  // namespace troupe::ops
