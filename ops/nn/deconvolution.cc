// SPDX-License-Identifier: Apache-2.0
// deconvolution (transposed convolution) and the two operators of its gradient. They exist beside
// convolution's because what those need (its filters, and the padding where target_shape is given)
// follows from the shape of data. Pure functions of views; any thread.
#include "ops/nn/deconvolution.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "ops/nn/linear.h"
#include "ops/nn/window.h"
#include "ops/roofline.h"
#include "ops/support/axis_copy.h"

namespace troupe::ops {

std::span<const OpDef> ops_convolution();

namespace {

using base::Errc;
using base::Layout;
using base::Result;
using base::Shape;
using base::Status;

constexpr std::int64_t kAny = base::kUnknownDim;

std::vector<ParamDef> params() {
  ParamDef no_bias = no_bias_param();
  no_bias.initial = true;
  return {
      {.name = "kernel",
       .type = ParamType::shape,
       .doc = "(height, width) of the window.",
       .low = 1},
      spatial("stride", "Steps between windows of the output; () = (1, 1).", 1),
      spatial("dilate", "Steps between taps of a window; () = (1, 1).", 1),
      spatial("pad", "Positions cut off on both sides of each axis of the output; () = (0, 0).", 0),
      spatial("adj", "Positions added behind each axis of the output, less than stride.", 0),
      spatial(
          "target_shape",
          "(height, width) of the output; pad and adj follow from it; () or (0, 0): they count.",
          0),
      {.name = "num_filter", .type = ParamType::integer, .doc = "Output channels.", .low = 1},
      {.name = "num_group",
       .type = ParamType::integer,
       .initial = std::int64_t{1},
       .doc = "Groups; channels of one group see only inputs of the same group.",
       .low = 1},
      std::move(no_bias),
      layout_param(),
  };
}

/// One axis: the window that a convolution slides over the output, and what is added behind.
struct Axis {
  Window window;
  std::int64_t adjust = 0;
  std::int64_t target = 0;  ///< 0: none is given

  /// Positions that the windows of `inputs` cover before `window.pad` is cut off.
  Result<std::int64_t> cover(std::int64_t inputs) const {
    std::int64_t covered = 0;
    if (inputs < 1 || __builtin_mul_overflow(inputs - 1, window.stride, &covered) ||
        __builtin_add_overflow(covered, window.span(), &covered)) {
      return base::error(Errc::invalid_argument, "windows of {} positions cannot be laid out",
                         inputs);
    }
    return covered;
  }
  /// Takes the padding from the target.
  Status aim(std::int64_t inputs) {
    TROUPE_TRY_ASSIGN(const std::int64_t covered, cover(inputs));
    if (covered < target) {
      return base::error(Errc::invalid_argument, "target_shape asks for {} positions of {}", target,
                         covered);
    }
    window.pad = (covered - target + 1) / 2;
    adjust = (covered - target) % 2;
    if (window.pad <= std::numeric_limits<std::int32_t>::max()) return {};
    return base::error(Errc::invalid_argument, "target_shape asks for {} positions of {}", target,
                       covered);
  }
  Result<std::int64_t> outputs(std::int64_t inputs) const {
    TROUPE_TRY_ASSIGN(const std::int64_t covered, cover(inputs));
    const std::int64_t left = covered - 2 * window.pad;
    std::int64_t outputs = 0;
    if (!__builtin_add_overflow(left, adjust, &outputs) && outputs > 0) return outputs;
    return base::error(Errc::invalid_argument, "padding {} leaves nothing of {} positions",
                       window.pad, covered);
  }
  /// kUnknownDim where none or several numbers of inputs give this many outputs.
  std::int64_t inputs(std::int64_t outputs) const {
    const std::int64_t room = outputs - adjust + 2 * window.pad - window.span();
    return outputs < 0 || room < 0 || room % window.stride != 0 ? kAny : room / window.stride + 1;
  }
};

/// Axes 2 and 3, as far as data's extents are known.
Result<std::array<Axis, 2>> read_axes(const Params& p, const Shape& data) {
  TROUPE_TRY_ASSIGN(const auto windows, read_windows(p, true));
  const Shape &adjust = p.shape("adj"), &target = p.shape("target_shape");
  for (const auto& [name, values] : {std::pair("adj", &adjust), {"target_shape", &target}}) {
    if (values->rank() == 0 || values->rank() == 2) continue;
    return base::error(Errc::invalid_argument, "{} is {}; it needs two extents (height, width)",
                       name, values->to_string());
  }
  const bool aimed = target.rank() == 2 && (target[0] > 0 || target[1] > 0);
  if (aimed && (target[0] == 0 || target[1] == 0)) {
    return base::error(Errc::invalid_argument, "target_shape is {}; both extents are needed",
                       target.to_string());
  }
  std::array<Axis, 2> axes;
  for (int i = 0; i < 2; ++i) {
    Axis& axis = axes[static_cast<std::size_t>(i)];
    axis.window = windows[static_cast<std::size_t>(i)];
    if (aimed) {
      axis.target = target[i];
      if (data[i + 2] >= 0) TROUPE_TRY(axis.aim(data[i + 2]));
    } else if (adjust.rank() == 2) {
      axis.adjust = adjust[i];
    }
    if (axis.adjust >= axis.window.stride) {
      return base::error(Errc::invalid_argument, "adj {} must be smaller than stride {}",
                         axis.adjust, axis.window.stride);
    }
  }
  return axes;
}

/// Shapes of (data, weight[, bias]) and output as far as they determine each other.
Status infer(const Params& p, std::vector<Shape>& in, std::vector<Shape>& out) {
  const std::int64_t filters = p.integer("num_filter"), groups = p.integer("num_group");
  TROUPE_TRY(refine("data", in[0], Shape{kAny, kAny, kAny, kAny}));
  TROUPE_TRY_ASSIGN(const auto axes, read_axes(p, in[0]));
  if (filters % groups != 0) {
    return base::error(Errc::invalid_argument, "num_filter {} is not a multiple of num_group {}",
                       filters, groups);
  }
  TROUPE_TRY(
      refine("weight", in[1],
             Shape{in[0][1], filters / groups, axes[0].window.kernel, axes[1].window.kernel}));
  TROUPE_TRY(refine("data", in[0], Shape{kAny, in[1][0], kAny, kAny}));
  if (in[0][1] >= 0 && in[0][1] % groups != 0) {
    return base::error(Errc::invalid_argument, "{} channels are not a multiple of num_group {}",
                       in[0][1], groups);
  }
  if (in.size() > 2) TROUPE_TRY(refine("bias", in[2], Shape{filters}));
  Shape result{in[0][0], filters, kAny, kAny};
  for (int i = 0; i < 2; ++i) {
    const Axis& axis = axes[static_cast<std::size_t>(i)];
    if (axis.target > 0) {
      result.set(i + 2, axis.target);
    } else if (in[0][i + 2] >= 0) {
      TROUPE_TRY_ASSIGN(const std::int64_t extent, axis.outputs(in[0][i + 2]));
      result.set(i + 2, extent);
    }
  }
  TROUPE_TRY(refine("output", out[0], result));
  Shape source{out[0][0], kAny, kAny, kAny};
  for (int i = 0; i < 2; ++i) {
    const Axis& axis = axes[static_cast<std::size_t>(i)];
    if (axis.target == 0) source.set(i + 2, axis.inputs(out[0][i + 2]));
  }
  return refine("data", in[0], source);
}

Status infer_backward_weights(const Params& p, std::vector<Shape>& in, std::vector<Shape>& out) {
  std::vector<Shape> inputs = {in[0], out[0]};
  std::vector<Shape> outputs = {in[1]};
  TROUPE_TRY(infer(p, inputs, outputs));
  in = {inputs[0], outputs[0]};
  out[0] = inputs[1];
  return {};
}

/// deconvolution's operators and those of convolution that compute the same.
enum class Pass : std::uint8_t { forward, data_gradient, weight_gradient };
struct Twins {
  std::string_view deconvolution, convolution;
  Pass pass;
};
constexpr std::array<Twins, 3> kTwins = {
    {{"deconvolution", "convolution_backward_data", Pass::forward},
     {"deconvolution_backward_data", "convolution", Pass::data_gradient},
     {"deconvolution_backward_weights", "convolution_backward_weights", Pass::weight_gradient}}};

const OpDef& convolution_operator(std::string_view name) {
  const std::span<const OpDef> all = ops_convolution();
  const auto it =
      std::find_if(all.begin(), all.end(), [&](const auto& op) { return op.name == name; });
  TROUPE_CHECK(it != all.end(), "convolution has no operator " + std::string(name));
  return *it;
}

const Shape& data_shape(const OpCall& call, Pass pass) {
  return pass == Pass::data_gradient ? call.outputs[0].shape : call.inputs[0].shape;
}

/// The call of convolution's operator that computes what `call` does but for the bias.
Result<OpCall> twin_call(const OpCall& call, const Twins& twins) {
  const Shape& data = data_shape(call, twins.pass);
  TROUPE_TRY_ASSIGN(const auto axes, read_axes(call.params, data));
  const Shape pad{axes[0].window.pad, axes[1].window.pad};
  OpCall twin = call;
  twin.op = &convolution_operator(twins.convolution);
  Attributes attributes = call.params.to_attributes();
  for (const char* name : {"adj", "target_shape"}) attributes.erase(name);
  attributes["pad"] = to_attribute(pad);
  attributes["no_bias"] = "True";
  // Kernels read the shapes; of nothing, a convolution cannot have filters.
  attributes["num_filter"] = std::to_string(std::max<std::int64_t>(1, data[1]));
  TROUPE_TRY_ASSIGN(twin.params, Params::parse(twin.op->params, attributes));
  if (twins.pass != Pass::weight_gradient) twin.inputs.resize(2);
  if (twins.pass == Pass::forward) {
    twin.inputs.push_back({call.outputs[0].dtype, call.outputs[0].shape, {}, false});
  }
  return twin;
}

/// A kernel of convolution's, which has `inner_inputs`, on the first two inputs of a call. What it
/// may get as its third has no values for it.
class TwinKernel final : public Kernel {
 public:
  TwinKernel(std::unique_ptr<Kernel> inner, std::size_t inner_inputs, std::vector<Layout> inputs)
      : inner_(std::move(inner)), inner_inputs_(inner_inputs), inputs_(std::move(inputs)) {}

  /// Adds input 2 to the channels of the output.
  void add_bias(const AxisView& channels, std::int64_t count) {
    channels_ = channels;
    count_ = count;
  }

  std::string name() const override { return inner_->name(); }
  bool keeps_sample_bits() const override { return inner_->keeps_sample_bits(); }
  std::size_t scratch_bytes() const override { return inner_->scratch_bytes(); }
  std::vector<Layout> input_layouts() const override { return inputs_; }
  std::vector<Layout> output_layouts() const override { return inner_->output_layouts(); }

  Status run(const KernelContext& context) const override {
    KernelContext inner = context;
    inner.inputs = context.inputs.first(std::min(inner_inputs_, context.inputs.size()));
    TROUPE_TRY(inner_->run(inner));
    if (count_ == 0) return {};
    return with_real(context.outputs[0].dtype, [&](auto zero) {
      using T = decltype(zero);
      const T* bias = context.inputs[2].as<T>();
      T* output = context.outputs[0].as<T>();
      const AxisView& v = channels_;
      const std::int64_t chunk =
          std::max<std::int64_t>(1, kChunkElements / std::max<std::int64_t>(1, v.inner));
      parallel_ranges(
          context, v.outer * v.extent,
          [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t at = begin; at < end; ++at) {
              const std::int64_t first = at % v.extent * v.block;
              const std::int64_t count = std::min(v.block, count_ - first);
              for (std::int64_t i = at * v.inner; i < (at + 1) * v.inner; i += v.block) {
                for (std::int64_t k = 0; k < count; ++k) {
                  T& to = output[i + k];
                  to = T(static_cast<Wide<T>>(to) + static_cast<Wide<T>>(bias[first + k]));
                }
              }
            }
          },
          chunk);
      return Status();
    });
  }

 private:
  std::unique_ptr<Kernel> inner_;
  std::size_t inner_inputs_;
  std::vector<Layout> inputs_;
  AxisView channels_;
  std::int64_t count_ = 0;  ///< channels that get a bias
};

/// The output's channels, whose blocks, if they are cut, must be innermost.
Result<AxisView> channels_of(TensorDesc output, const std::vector<Layout>& layouts) {
  output.layout = layouts.empty() ? Layout::dense() : layouts[0];
  const Layout::Blocks& blocks = output.layout.blocks;
  const bool others = blocks.size() > 1 || (blocks.size() == 1 && blocks[0].axis != 1);
  if (output.layout.kind == Layout::Kind::opaque || others) {
    return base::error(Errc::unimplemented, "a bias in layout {}", output.layout.to_string());
  }
  return axis_view(output, 1);
}

Result<std::unique_ptr<Kernel>> prepare_twin(const OpCall& call, const Twins& twins,
                                             const PrepareFunction& prepare) {
  TROUPE_TRY_ASSIGN(const OpCall twin, twin_call(call, twins));
  TROUPE_TRY_ASSIGN(std::unique_ptr<Kernel> inner, prepare(twin));
  std::vector<Layout> inputs = inner->input_layouts();
  inputs.resize(2);  // none: all are dense
  // A bias is dense, and of data only the shape counts.
  if (call.inputs.size() > 2) {
    const bool bias = twins.pass == Pass::forward;
    inputs.push_back(bias ? Layout::dense() : call.inputs[2].layout);
  }
  auto kernel =
      std::make_unique<TwinKernel>(std::move(inner), twin.inputs.size(), std::move(inputs));
  if (twins.pass == Pass::forward && has_bias(call.params)) {
    TROUPE_TRY_ASSIGN(const AxisView channels,
                      channels_of(call.outputs[0], kernel->output_layouts()));
    kernel->add_bias(channels, call.outputs[0].shape[1]);
  }
  return std::unique_ptr<Kernel>(std::move(kernel));
}

KernelDef twin_kernel(const KernelDef& convolution, const Twins& twins) {
  const auto prepare = [twins, inner = convolution.make](const OpCall& call) {
    return prepare_twin(call, twins, inner);
  };
  const auto seconds = [twins, inner = convolution.seconds](const OpCall& call) {
    const Result<OpCall> twin = twin_call(call, twins);
    return twin.ok() && inner ? inner(*twin) : roofline_seconds(call);
  };
  KernelDef twin = convolution;
  twin.make = prepare;
  twin.seconds = seconds;
  return twin;
}

/// The reference kernel of one of deconvolution's operators.
KernelDef reference_of(std::string_view name) {
  const auto twins = std::find_if(kTwins.begin(), kTwins.end(),
                                  [&](const Twins& each) { return each.deconvolution == name; });
  return twin_kernel(convolution_operator(twins->convolution).kernels.back(), *twins);
}

/// All three operators multiply each element of data with one window of each output channel.
double flops(const OpCall& call) {
  const bool weights = call.op->name == "deconvolution_backward_weights";
  const Pass pass =
      call.op->name == "deconvolution_backward_data" ? Pass::data_gradient : Pass::forward;
  const Shape& weight = weights ? call.outputs[0].shape : call.inputs[1].shape;
  return 2.0 * static_cast<double>(data_shape(call, pass).elements()) *
         static_cast<double>(weight.elements(1, weight.rank()));
}

Result<std::vector<std::optional<Value>>> gradient(GradientBuilder& b) {
  std::vector<std::optional<Value>> result(static_cast<std::size_t>(b.input_count()));
  const Value head = *b.output_gradient(0);
  const Attributes all = b.params().to_attributes();
  if (b.wanted(0)) {
    result[0] = b.add1("deconvolution_backward_data", {head, b.input(1), b.input(0)}, all);
  }
  if (b.wanted(1)) {
    result[1] = b.add1("deconvolution_backward_weights", {b.input(0), head}, all);
  }
  if (has_bias(b.params()) && b.wanted(2)) {
    result[2] = b.add1("sum", {head}, {{"axis", "1"}, {"exclude", "True"}});
  }
  return result;
}

/// A sample's shapes, from which each of the three operators takes its own.
struct Case {
  std::string title;
  Attributes attributes;
  Shape data, weight, output;
  bool benchmark = false;
};

std::vector<Case> cases() {
  return {
      {"4x4, stride 2, pad 1",
       {{"kernel", "(4, 4)"}, {"stride", "(2, 2)"}, {"pad", "(1, 1)"}, {"num_filter", "3"}},
       {2, 5, 3, 4},
       {5, 3, 4, 4},
       {2, 3, 6, 8}},
      {"bias, dilated, one position more",
       {{"kernel", "(3, 2)"},
        {"stride", "(2, 3)"},
        {"dilate", "(2, 1)"},
        {"adj", "(1, 2)"},
        {"num_filter", "4"},
        {"no_bias", "False"}},
       {2, 3, 3, 2},
       {3, 4, 3, 2},
       {2, 4, 10, 7}},
      {"two groups to a target",
       {{"kernel", "(4, 4)"},
        {"stride", "(2, 2)"},
        {"target_shape", "(9, 8)"},
        {"num_filter", "6"},
        {"num_group", "2"},
        {"no_bias", "False"}},
       {1, 4, 4, 5},
       {4, 3, 4, 4},
       {1, 6, 9, 8}},
      {"depthwise, upsampling by 2",
       {{"kernel", "(4, 4)"},
        {"stride", "(2, 2)"},
        {"pad", "(1, 1)"},
        {"num_filter", "5"},
        {"num_group", "5"}},
       {2, 5, 4, 3},
       {5, 1, 4, 4},
       {2, 5, 8, 6}},
      {"3x3, whole vectors of channels",
       {{"kernel", "(3, 3)"}, {"pad", "(1, 1)"}, {"num_filter", "16"}, {"no_bias", "False"}},
       {2, 32, 6, 7},
       {32, 16, 3, 3},
       {2, 16, 6, 7}},
      {"4x4 to 28x28, batch 32",
       {{"kernel", "(4, 4)"}, {"stride", "(2, 2)"}, {"pad", "(1, 1)"}, {"num_filter", "32"}},
       {32, 64, 14, 14},
       {64, 32, 4, 4},
       {32, 32, 28, 28},
       true},
  };
}

std::vector<Sample> samples(const std::function<std::vector<Shape>(const Case&)>& inputs) {
  std::vector<Sample> result;
  for (const Case& c : cases()) {
    result.push_back({.title = c.title,
                      .attributes = c.attributes,
                      .inputs = inputs(c),
                      .gradient = !c.benchmark,
                      .benchmark = c.benchmark});
  }
  return result;
}

LinearOperator linear() {
  return {.name = "deconvolution", .params = params(), .infer = infer, .flops = flops};
}

OpDef define_forward() {
  OpDef op = linear_definition(linear());
  op.aliases = {"Deconvolution"};
  op.ignored = library_choices();
  op.doc =
      "Transposed convolution: each element of data (N, C, H, W) puts a window, the weights times "
      "itself, into the output, `stride` steps from its neighbour's; `pad` positions are cut off "
      "at both ends of each axis and `adj` are added at the last. `output = stride * (input - 1) + "
      "dilate * (kernel - 1) + 1 - 2 * pad + adj`. weight (C, num_filter / num_group, kernel...), "
      "bias (num_filter).";
  op.gradient = gradient;
  op.kernels = {reference_of("deconvolution")};
  op.samples = samples([](const Case& c) {
    std::vector<Shape> inputs = {c.data, c.weight};
    if (c.attributes.contains("no_bias")) inputs.push_back(Shape{c.output[1]});
    return inputs;
  });
  return op;
}

OpDef define_backward_data() {
  OpDef op = linear_backward_data_definition(linear());
  op.doc =
      "Gradient of deconvolution with respect to data: a convolution of the output's gradient.";
  op.kernels = {reference_of("deconvolution_backward_data")};
  op.samples = samples([](const Case& c) {
    return std::vector<Shape>{c.output, c.weight, c.data};
  });
  return op;
}

OpDef define_backward_weights() {
  OpDef op = linear_backward_weights_definition(linear());
  op.doc = "Gradient of deconvolution with respect to weight.";
  op.inputs = names({"data", "output_gradient"});
  op.outputs = names({"weight_gradient"});
  op.infer_shape = infer_backward_weights;
  op.accumulates = {0};
  op.kernels = {reference_of("deconvolution_backward_weights")};
  op.samples = samples([](const Case& c) { return std::vector<Shape>{c.data, c.output}; });
  return op;
}

}  // namespace

std::vector<BackendKernel> deconvolution_kernels(std::span<const BackendKernel> convolution) {
  std::vector<BackendKernel> kernels;
  for (const BackendKernel& each : convolution) {
    for (const Twins& twins : kTwins) {
      if (each.op != twins.convolution) continue;
      kernels.push_back({std::string(twins.deconvolution), twin_kernel(each.kernel, twins)});
    }
  }
  return kernels;
}

Convolution twin_convolution(const OpCall& call) {
  const auto twins = std::find_if(kTwins.begin(), kTwins.end(), [&](const Twins& each) {
    return each.deconvolution == call.op->name;
  });
  TROUPE_CHECK(twins != kTwins.end(), "an operator of deconvolution's");
  const OpCall twin = twin_call(call, *twins).value();
  const Shape& data = data_shape(call, twins->pass);
  const Shape& output = twins->pass == Pass::forward         ? call.outputs[0].shape
                        : twins->pass == Pass::data_gradient ? call.inputs[0].shape
                                                             : call.inputs[1].shape;
  return read_convolution(twin.params, output, data);
}

std::span<const OpDef> ops_deconvolution() {
  static const std::vector<OpDef> ops = {define_forward(), define_backward_data(),
                                         define_backward_weights()};
  return ops;
}

}  // namespace troupe::ops
