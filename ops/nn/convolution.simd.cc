// SPDX-License-Identifier: Apache-2.0
// convolution and its gradient in Winograd's form; of dense tensors, convolution and the gradient
// of weights as products of gathered rows.
#include <algorithm>
#include <cmath>

#include "ops/nn/convolution.h"
#include "ops/nn/linear.h"
#include "ops/roofline.h"
#include "ops/support/layout_map.h"
#include "ops/support/patches.h"
#include "ops/support/relu.h"
#include "ops/support/winograd.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

using base::Errc;
using base::Layout;
using base::Result;
using base::Status;

/// (images, channels / lanes, height, width, lanes).
Layout by_lanes(const base::Shape& shape) {
  Layout layout;
  layout.kind = Layout::Kind::blocked;
  layout.order = {0, 1, 2, 3};
  layout.blocks = {{1, winograd_lanes()}};
  return layout_for(layout, shape);
}

enum class Pass : std::uint8_t { forward, data_gradient, weight_gradient };

/// The extents of a call, or why it is left to others.
Result<Winograd> read_extents(const OpCall& call, const base::Shape& data,
                              const base::Shape& output, Pass pass) {
  const std::int64_t lanes = winograd_lanes();
  if (lanes == 0) return base::error(Errc::unimplemented, "vectors of less than 8 numbers");
  if (!call.device.host_memory() || call.inputs[0].dtype != base::DType::f32) {
    return base::error(Errc::unimplemented, "only f32 on a CPU");
  }
  if (!call.winograd) return base::error(Errc::unimplemented, "Winograd's form is switched off");
  for (const WriteMode mode : call.modes) {
    if (mode != WriteMode::write) return base::error(Errc::unimplemented, "only writes");
  }
  const Convolution v = read_convolution(call.params, data, output);
  for (const Window& window : v.window) {
    if (window.kernel != 3 || window.stride != 1 || window.dilate != 1 || window.pad > 2) {
      return base::error(Errc::unimplemented, "only windows of 3x3 and stride 1");
    }
  }
  if (v.groups != 1 || v.in % lanes != 0 || v.out % lanes != 0) {
    return base::error(Errc::unimplemented,
                       "{} channels, {} filters and {} groups: not whole "
                       "vectors of {}",
                       v.in, v.out, v.groups, lanes);
  }
  Winograd w{v.batch,     v.in,        v.out,           v.input[0],     v.input[1],
             v.output[0], v.output[1], v.window[0].pad, v.window[1].pad};
  if (pass == Pass::data_gradient) {
    w = {v.batch,    v.out,      v.in,      v.output[0], v.output[1],
         v.input[0], v.input[1], 2 - w.top, 2 - w.left};
  }
  for (const std::int64_t extent :
       {w.images, w.channels, w.filters, w.height, w.width, w.out_height, w.out_width}) {
    if (extent == 0) return base::error(Errc::unimplemented, "empty tensor");
  }
  return w;
}

/// The same for a call of any of the three operators.
template <Pass kPass>
Result<Winograd> read_call(const OpCall& call) {
  switch (kPass) {
    case Pass::forward:
      return read_extents(call, call.inputs[0].shape, call.outputs[0].shape, kPass);
    case Pass::data_gradient:
      return read_extents(call, call.outputs[0].shape, call.inputs[0].shape, kPass);
    case Pass::weight_gradient:
      return read_extents(call, call.inputs[1].shape, call.inputs[0].shape, kPass);
  }
  TROUPE_CHECK(false, "no such pass");
}

/// The rule of a pass: products and transforms, or the traffic of tensors. Transformed weights are
/// read once, in order and early, while products are computed; writing them is the reorder's.
double seconds_of(const Winograd& w, Pass pass, double bytes) {
  constexpr double kTransform = 1e-8;  // of a vector of a tile, all threads
  constexpr double kProducts = 36.0;
  const RuleProcessor processor = rule_processor();
  const auto lanes = static_cast<double>(winograd_lanes());
  const auto channels = static_cast<double>(w.channels), filters = static_cast<double>(w.filters);
  const auto tiles = static_cast<double>(w.tiles());
  double transforms = channels + filters;
  double weight_bytes = kProducts * channels * filters * sizeof(float);
  if (pass == Pass::weight_gradient) {
    transforms = channels * std::ceil(filters / kWinogradBlock) +
                 filters * std::ceil(channels / kWinogradBlock);
    weight_bytes = 0.0;
  }
  const double products =
      std::max(2 * kProducts * channels * filters * tiles / processor.flops_per_second,
               weight_bytes / processor.bytes_per_second);
  return std::max(products + kTransform * tiles * transforms / lanes,
                  bytes / processor.bytes_per_second);
}

/// The rule for calls that prepare() takes; for others it says nothing.
template <Pass kPass>
double seconds(const OpCall& call) {
  const Result<Winograd> w = read_call<kPass>(call);
  return w.ok() ? seconds_of(*w, kPass, bytes_moved(call)) : roofline_seconds(call);
}

/// The layouts a kernel states, once they are checked against a call's.
struct Layouts {
  std::vector<Layout> inputs, outputs;

  Status check(const OpCall& call) const {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      TROUPE_TRY(check_layout(call.inputs[i], inputs[i]));
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      TROUPE_TRY(check_layout(call.outputs[i], outputs[i]));
    }
    return {};
  }
};

class WinogradKernel : public Kernel {
 public:
  explicit WinogradKernel(Layouts layouts) : layouts_(std::move(layouts)) {}
  std::string name() const override { return "simd:winograd"; }
  std::vector<Layout> input_layouts() const override { return layouts_.inputs; }
  std::vector<Layout> output_layouts() const override { return layouts_.outputs; }

 private:
  Layouts layouts_;
};

/// Input 0 and transformed weights, to output 0.
class ConvolutionKernel final : public WinogradKernel {
 public:
  ConvolutionKernel(const Winograd& extents, int team, bool biased, Epilogue epilogue,
                    Layouts layouts)
      : WinogradKernel(std::move(layouts)),
        convolution_(extents, team),
        biased_(biased),
        epilogue_(epilogue) {}

  std::size_t scratch_bytes() const override { return convolution_.scratch_bytes(); }
  Status run(const KernelContext& context) const override {
    const float* bias = biased_ ? context.inputs[2].as<float>() : nullptr;
    const float* addend = epilogue_.sum ? context.inputs.back().as<float>() : nullptr;
    convolution_.run(context, context.inputs[0].as<float>(), context.inputs[1].as<float>(),
                     {bias, addend, epilogue_.relu}, context.outputs[0].as<float>());
    return {};
  }

 private:
  WinogradConvolution convolution_;
  bool biased_;
  Epilogue epilogue_;
};

class GradientKernel final : public WinogradKernel {
 public:
  GradientKernel(const Winograd& extents, int team, Layouts layouts)
      : WinogradKernel(std::move(layouts)), gradient_(extents, team) {}

  std::size_t scratch_bytes() const override { return gradient_.scratch_bytes(); }
  Status run(const KernelContext& context) const override {
    float* bias = context.outputs.size() > 1 ? context.outputs[1].as<float>() : nullptr;
    gradient_.run(context, context.inputs[1].as<float>(), context.inputs[0].as<float>(),
                  context.outputs[0].as<float>(), bias);
    return {};
  }

 private:
  WinogradGradient gradient_;
};

Result<std::unique_ptr<Kernel>> forward(const OpCall& call) {
  const base::Shape &data = call.inputs[0].shape, &output = call.outputs[0].shape;
  TROUPE_TRY_ASSIGN(const Winograd w, read_call<Pass::forward>(call));
  Layouts layouts{{by_lanes(data), winograd_layout(w.channels, w.filters, false)},
                  {by_lanes(output)}};
  const bool biased = has_bias(call.params);
  const Epilogue epilogue = read_epilogue(call.params);
  if (biased) layouts.inputs.push_back(Layout::dense());
  if (epilogue.sum) layouts.inputs.push_back(by_lanes(output));
  TROUPE_TRY(layouts.check(call));
  return std::unique_ptr<Kernel>(
      std::make_unique<ConvolutionKernel>(w, call.team, biased, epilogue, std::move(layouts)));
}

Result<std::unique_ptr<Kernel>> backward_data(const OpCall& call) {
  const base::Shape &data = call.outputs[0].shape, &output = call.inputs[0].shape;
  TROUPE_TRY_ASSIGN(const Winograd w, read_call<Pass::data_gradient>(call));
  Layouts layouts{{by_lanes(output), winograd_layout(w.channels, w.filters, true)},
                  {by_lanes(data)}};
  TROUPE_TRY(layouts.check(call));
  layouts.inputs.push_back(call.inputs[2].layout);  // of which only the shape counts
  return std::unique_ptr<Kernel>(
      std::make_unique<ConvolutionKernel>(w, call.team, false, Epilogue(), std::move(layouts)));
}

Result<std::unique_ptr<Kernel>> backward_weights(const OpCall& call) {
  const base::Shape &data = call.inputs[1].shape, &output = call.inputs[0].shape;
  TROUPE_TRY_ASSIGN(const Winograd w, read_call<Pass::weight_gradient>(call));
  Layouts layouts{{by_lanes(output), by_lanes(data)},
                  std::vector<Layout>(call.outputs.size(), Layout::dense())};
  TROUPE_TRY(layouts.check(call));
  return std::unique_ptr<Kernel>(
      std::make_unique<GradientKernel>(w, call.team, std::move(layouts)));
}

/// Rows beyond this many numbers are multiplied with more than a cache holds.
constexpr std::int64_t kPatchNumbers = 2048;

/// Padding that is placed in scratch, beside what there is to read and write.
constexpr double kPaddedMost = 16.0;

/// Elements of an image with its padding, which are more than can be counted in whole numbers where
/// a pad is absurd.
double padded_elements(const Convolution& v) {
  double elements = static_cast<double>(v.batch) * static_cast<double>(v.in);
  for (std::size_t axis = 0; axis < v.input.size(); ++axis) {
    elements *= static_cast<double>(v.input[axis]) + 2.0 * static_cast<double>(v.window[axis].pad);
  }
  return elements;
}

/// The extents of a call on dense tensors of one group, or why it is left to others.
Result<Convolution> read_patches(const OpCall& call, const base::Shape& data,
                                 const base::Shape& output) {
  if (!call.device.host_memory() || call.inputs[0].dtype != base::DType::f32) {
    return base::error(Errc::unimplemented, "only f32 on a CPU");
  }
  const Convolution v = read_convolution(call.params, data, output);
  if (v.groups != 1) return base::error(Errc::unimplemented, "{} groups", v.groups);
  if (data.elements() == 0 || output.elements() == 0) {
    return base::error(Errc::unimplemented, "empty tensor");
  }
  if (v.in * v.taps() > kPatchNumbers) {
    return base::error(Errc::unimplemented, "windows of more than {} numbers", kPatchNumbers);
  }
  if (padded_elements(v) > kPaddedMost * static_cast<double>(data.elements() + output.elements())) {
    return base::error(Errc::unimplemented, "much more padding than data");
  }
  for (const auto* list : {&call.inputs, &call.outputs}) {
    for (const TensorDesc& tensor : *list) TROUPE_TRY(check_layout(tensor, Layout::dense()));
  }
  return v;
}

class PatchKernel final : public Kernel {
 public:
  explicit PatchKernel(const PatchConvolution& convolution, bool biased, Epilogue epilogue)
      : convolution_(convolution), biased_(biased), epilogue_(epilogue) {}

  std::string name() const override { return "simd:patches"; }
  std::size_t scratch_bytes() const override { return convolution_.scratch_bytes(); }
  Status run(const KernelContext& context) const override {
    const base::TensorView& output = context.outputs[0];
    convolution_.run(context, context.inputs[0].as<float>(), context.inputs[1].as<float>(),
                     biased_ ? context.inputs[2].as<float>() : nullptr, output.as<float>());
    if (epilogue_.relu) relu_in_place(context, output);
    return {};
  }

 private:
  PatchConvolution convolution_;
  bool biased_;
  Epilogue epilogue_;
};

class PatchScatterKernel final : public Kernel {
 public:
  explicit PatchScatterKernel(const PatchScatter& scatter) : scatter_(scatter) {}

  std::string name() const override { return "simd:patches"; }
  std::size_t scratch_bytes() const override { return scatter_.scratch_bytes(); }
  Status run(const KernelContext& context) const override {
    scatter_.run(context, context.inputs[0].as<float>(), context.inputs[1].as<float>(),
                 context.outputs[0].as<float>());
    return {};
  }

 private:
  PatchScatter scatter_;
};

class PatchGradientKernel final : public Kernel {
 public:
  PatchGradientKernel(const PatchGradient& gradient, std::vector<WriteMode> modes)
      : gradient_(gradient), modes_(std::move(modes)) {}

  std::string name() const override { return "simd:patches"; }
  std::size_t scratch_bytes() const override { return gradient_.scratch_bytes(); }
  Status run(const KernelContext& context) const override {
    PatchGradient::Outputs outputs;
    outputs.weight = context.outputs[0].as<float>();
    outputs.adds_weight = adds(0);
    if (context.outputs.size() > 1) outputs.bias = context.outputs[1].as<float>();
    outputs.adds_bias = adds(1);
    gradient_.run(context, context.inputs[0].as<float>(), context.inputs[1].as<float>(), outputs);
    return {};
  }

 private:
  bool adds(std::size_t output) const {
    return output < modes_.size() && modes_[output] == WriteMode::add;
  }
  PatchGradient gradient_;
  std::vector<WriteMode> modes_;
};

Result<std::unique_ptr<Kernel>> patches_forward(const OpCall& call) {
  TROUPE_TRY_ASSIGN(const Convolution v,
                    read_patches(call, call.inputs[0].shape, call.outputs[0].shape));
  const Epilogue epilogue = read_epilogue(call.params);
  if (epilogue.sum) return base::error(Errc::unimplemented, "no addend");
  for (const WriteMode mode : call.modes) {
    if (mode != WriteMode::write) return base::error(Errc::unimplemented, "only writes");
  }
  const bool biased = has_bias(call.params);
  return std::unique_ptr<Kernel>(
      std::make_unique<PatchKernel>(PatchConvolution(v, biased, call.team), biased, epilogue));
}

Result<std::unique_ptr<Kernel>> patches_backward(const OpCall& call) {
  TROUPE_TRY_ASSIGN(const Convolution v,
                    read_patches(call, call.outputs[0].shape, call.inputs[0].shape));
  for (const WriteMode mode : call.modes) {
    if (mode != WriteMode::write) return base::error(Errc::unimplemented, "only writes");
  }
  return std::unique_ptr<Kernel>(std::make_unique<PatchScatterKernel>(PatchScatter(v, call.team)));
}

Result<std::unique_ptr<Kernel>> patches_gradient(const OpCall& call) {
  TROUPE_TRY_ASSIGN(const Convolution v,
                    read_patches(call, call.inputs[1].shape, call.inputs[0].shape));
  return std::unique_ptr<Kernel>(std::make_unique<PatchGradientKernel>(
      PatchGradient(v, call.outputs.size() > 1, call.team), call.modes));
}

/// The rule: vectors of `filled` numbers are padded, gathering costs what it copies, and nothing is
/// computed while memory is waited for.
double patch_seconds(const OpCall& call, std::int64_t filled, std::int64_t reused) {
  constexpr double kGathering = 8.0;  // multiply-adds of a vector that its copy takes the time of
  const auto lanes = static_cast<double>(vector_lanes());
  const double vectors = std::ceil(static_cast<double>(filled) / lanes);
  const double fill = static_cast<double>(filled) / (vectors * lanes);
  const double speed = fill / (1.0 + kGathering / static_cast<double>(reused));
  return flops_of(call) / (rule_processor().flops_per_second * speed) +
         bytes_moved(call) / rule_processor().bytes_per_second;
}

double patches_forward_seconds(const OpCall& call) {
  const std::int64_t filters = call.outputs[0].shape[1];
  // Short sums are stored for as long as they are computed.
  constexpr std::int64_t kStoring = 24;
  const std::int64_t numbers = call.inputs[1].shape.elements(1, 4);
  const double share = 1.0 + static_cast<double>(kStoring) / static_cast<double>(numbers);
  return share * patch_seconds(call, filters, filters);
}

double patches_backward_seconds(const OpCall& call) {
  const std::int64_t numbers = call.inputs[1].shape.elements(1, 4);
  return patch_seconds(call, numbers, call.inputs[0].shape[1]);
}

double patches_gradient_seconds(const OpCall& call) {
  const std::int64_t numbers = call.outputs[0].shape.elements(1, 4);
  return patch_seconds(call, numbers, call.inputs[0].shape[1]);
}

}  // namespace

std::span<const BackendKernel> kernels_convolution_simd() {
  static const std::vector<BackendKernel> kernels = {
      {"convolution", {"simd:winograd", forward, seconds<Pass::forward>}},
      {"convolution_backward_data", {"simd:winograd", backward_data, seconds<Pass::data_gradient>}},
      {"convolution_backward_weights",
       {"simd:winograd", backward_weights, seconds<Pass::weight_gradient>}},
      {"convolution", {"simd:patches", patches_forward, patches_forward_seconds}},
      {"convolution_backward_data", {"simd:patches", patches_backward, patches_backward_seconds}},
      {"convolution_backward_weights",
       {"simd:patches", patches_gradient, patches_gradient_seconds}},
  };
  return kernels;
}

}  // namespace troupe::ops
