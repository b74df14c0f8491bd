// SPDX-License-Identifier: Apache-2.0
// convolution and the two operators of its gradient: definition, reference kernels, samples.
// Pure functions of views; any thread.
#include "ops/nn/convolution.h"

#include <fmt/core.h>

#include "ops/nn/linear.h"

namespace troupe::ops {
namespace {

using base::Shape;
using base::Status;

std::vector<ParamDef> params() {
  return {
      {.name = "kernel",
       .type = ParamType::shape,
       .doc = "(height, width) of the window.",
       .low = 1},
      spatial("stride", "Steps between windows; () = (1, 1).", 1),
      spatial("dilate", "Steps between taps of a window; () = (1, 1).", 1),
      spatial("pad", "Zeros on both sides of each axis; () = (0, 0).", 0),
      {.name = "num_filter", .type = ParamType::integer, .doc = "Output channels.", .low = 1},
      {.name = "num_group",
       .type = ParamType::integer,
       .initial = std::int64_t{1},
       .doc = "Groups; channels of one group see only inputs of the same group.",
       .low = 1},
      no_bias_param(),
      layout_param(),
  };
}

/// Shapes of (data, weight, bias) and output as far as they determine each other.
Status infer(const Params& p, std::vector<Shape>& in, std::vector<Shape>& out) {
  constexpr std::int64_t kAny = base::kUnknownDim;
  TROUPE_TRY_ASSIGN(const auto window, read_windows(p, true));
  const std::int64_t filters = p.integer("num_filter");
  const std::int64_t groups = p.integer("num_group");
  if (filters % groups != 0) {
    return base::error(base::Errc::invalid_argument,
                       "num_filter {} is not a multiple of num_group {}", filters, groups);
  }
  TROUPE_TRY(refine("data", in[0], Shape{kAny, kAny, kAny, kAny}));
  TROUPE_TRY(refine("weight", in[1], Shape{filters, kAny, window[0].kernel, window[1].kernel}));
  TROUPE_TRY(refine("output", out[0], Shape{in[0][0], filters, kAny, kAny}));
  if (in.size() > 2) TROUPE_TRY(refine("bias", in[2], Shape{filters}));
  if (in[1][1] >= 0) {
    std::int64_t channels = 0;
    if (__builtin_mul_overflow(in[1][1], groups, &channels)) {
      return base::error(base::Errc::invalid_argument, "weight of shape {} in {} groups",
                         in[1].to_string(), groups);
    }
    TROUPE_TRY(refine("data", in[0], Shape{kAny, channels, kAny, kAny}));
  }
  if (in[0][1] >= 0 && in[0][1] % groups != 0) {
    return base::error(base::Errc::invalid_argument,
                       "{} channels are not a multiple of num_group {}", in[0][1], groups);
  }
  if (in[0][1] >= 0)
    TROUPE_TRY(refine("weight", in[1], Shape{kAny, in[0][1] / groups, kAny, kAny}));
  in[0].set(0, out[0][0]);
  TROUPE_TRY(check_window(window[0], in[0][2]));
  TROUPE_TRY(check_window(window[1], in[0][3]));
  return refine("output", out[0],
                Shape{kAny, kAny, window[0].outputs(in[0][2]), window[1].outputs(in[0][3])});
}

/// Calls f(output offset, input offset, windows) for every row of windows whose tap (ky, kx) lies
/// inside the input; the inputs of neighbouring windows are window[1].stride apart.
template <typename F>
void for_rows(const Convolution& v, std::int64_t ky, std::int64_t kx, F&& f) {
  const auto [top, bottom] = v.window[0].inside(ky, v.input[0], v.output[0]);
  const auto [left, right] = v.window[1].inside(kx, v.input[1], v.output[1]);
  if (left >= right) return;
  for (std::int64_t y = top; y < bottom; ++y) {
    const std::int64_t from =
        v.window[0].position(y, ky) * v.input[1] + v.window[1].position(left, kx);
    f(y * v.output[1] + left, from, right - left);
  }
}

/// Calls f(channel within its group, ky, kx) for all taps of `channels` channels.
template <typename F>
void for_taps(const Convolution& v, std::int64_t channels, F&& f) {
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    for (std::int64_t ky = 0; ky < v.window[0].kernel; ++ky) {
      for (std::int64_t kx = 0; kx < v.window[1].kernel; ++kx) f(channel, ky, kx);
    }
  }
}

template <typename T>
Status run_forward(const OpCall& call, const KernelContext& c, T) {
  const Convolution v = read_convolution(call.params, call.inputs[0].shape, call.outputs[0].shape);
  const T* data = c.inputs[0].as<T>();
  const T* weight = c.inputs[1].as<T>();
  const T* bias = has_bias(call.params) ? c.inputs[2].as<T>() : nullptr;
  T* output = c.outputs[0].as<T>();
  const Epilogue epilogue = read_epilogue(call.params);
  // It may lie where the output is written.
  const T* addend = epilogue.sum ? c.inputs.back().as<T>() : nullptr;
  const std::int64_t filters = v.groups * v.out;
  const std::int64_t step = v.window[1].stride;
  c.parallel(v.batch * filters, [&](std::int64_t index) {
    const std::int64_t sample = index / filters;
    const std::int64_t filter = index % filters;
    const T* image = data + (sample * v.groups + filter / v.out) * v.in * v.input_plane();
    const T* taps = weight + filter * v.in * v.taps();
    T* plane = output + index * v.output_plane();
    const T shift = bias == nullptr ? T{0} : bias[filter];
    std::fill_n(plane, addend == nullptr ? v.output_plane() : 0, shift);
    for (std::int64_t i = 0; addend != nullptr && i < v.output_plane(); ++i) {
      plane[i] = addend[index * v.output_plane() + i] + shift;
    }
    for_taps(v, v.in, [&](std::int64_t channel, std::int64_t ky, std::int64_t kx) {
      const T factor = taps[channel * v.taps() + ky * v.window[1].kernel + kx];
      const T* source = image + channel * v.input_plane();
      for_rows(v, ky, kx, [&](std::int64_t to, std::int64_t from, std::int64_t count) {
        for (std::int64_t i = 0; i < count; ++i) plane[to + i] += factor * source[from + i * step];
      });
    });
    const Epilogue end{false, epilogue.relu};
    for (std::int64_t i = 0; end.relu && i < v.output_plane(); ++i)
      plane[i] = end(plane[i], addend, i);
  });
  return {};
}

template <typename T>
Status run_backward_data(const OpCall& call, const KernelContext& c, T) {
  const Convolution v = read_convolution(call.params, call.inputs[2].shape, call.inputs[0].shape);
  const T* gradient = c.inputs[0].as<T>();
  const T* weight = c.inputs[1].as<T>();
  T* output = c.outputs[0].as<T>();
  const std::int64_t channels = v.groups * v.in;
  const std::int64_t step = v.window[1].stride;
  c.parallel(v.batch * channels, [&](std::int64_t index) {
    const std::int64_t sample = index / channels;
    const std::int64_t group = index % channels / v.in;
    const T* image = gradient + (sample * v.groups + group) * v.out * v.output_plane();
    const T* taps = weight + (group * v.out * v.in + index % v.in) * v.taps();
    T* plane = output + index * v.input_plane();
    std::fill_n(plane, v.input_plane(), T{0});
    for_taps(v, v.out, [&](std::int64_t filter, std::int64_t ky, std::int64_t kx) {
      const T factor = taps[filter * v.in * v.taps() + ky * v.window[1].kernel + kx];
      const T* source = image + filter * v.output_plane();
      for_rows(v, ky, kx, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
        for (std::int64_t i = 0; i < count; ++i) plane[to + i * step] += factor * source[from + i];
      });
    });
  });
  return {};
}

/// Sum over one sample's windows of gradient * data at one tap.
template <typename T>
double tap_gradient(const Convolution& v, const T* gradient, const T* data, std::int64_t ky,
                    std::int64_t kx) {
  double sum = 0.0;
  const std::int64_t step = v.window[1].stride;
  for_rows(v, ky, kx, [&](std::int64_t at, std::int64_t from, std::int64_t count) {
    if (step == 1) {
      sum += dot(gradient + at, data + from, count);
      return;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      sum += static_cast<double>(gradient[at + i]) * static_cast<double>(data[from + i * step]);
    }
  });
  return sum;
}

template <typename T>
Status run_backward_weights(const OpCall& call, const KernelContext& c, T) {
  const Convolution v = read_convolution(call.params, call.inputs[1].shape, call.inputs[0].shape);
  const T* gradient = c.inputs[0].as<T>();
  const T* data = c.inputs[1].as<T>();
  T* weight = c.outputs[0].as<T>();
  T* bias = has_bias(call.params) ? c.outputs[1].as<T>() : nullptr;
  const std::int64_t filters = v.groups * v.out;
  c.parallel(filters, [&](std::int64_t filter) {
    auto image = [&](std::int64_t sample) {
      return gradient + (sample * filters + filter) * v.output_plane();
    };
    for_taps(v, v.in, [&](std::int64_t channel, std::int64_t ky, std::int64_t kx) {
      double sum = 0.0;
      for (std::int64_t n = 0; n < v.batch; ++n) {
        const std::int64_t plane = (n * v.groups + filter / v.out) * v.in + channel;
        sum += tap_gradient(v, image(n), data + plane * v.input_plane(), ky, kx);
      }
      const std::int64_t tap = ky * v.window[1].kernel + kx;
      weight[(filter * v.in + channel) * v.taps() + tap] = static_cast<T>(sum);
    });
    if (bias == nullptr) return;
    double sum = 0.0;
    for (std::int64_t n = 0; n < v.batch; ++n) {
      for (std::int64_t i = 0; i < v.output_plane(); ++i) sum += static_cast<double>(image(n)[i]);
    }
    bias[filter] = static_cast<T>(sum);
  });
  return {};
}

/// All three operators multiply each output element with one window of each input channel.
double flops(const OpCall& call) {
  const bool is_forward = call.op->name == "convolution";
  const Shape& output = is_forward ? call.outputs[0].shape : call.inputs[0].shape;
  const std::size_t weight_gradient = call.op->name == "convolution_backward_weights" ? 1 : 0;
  const Shape& weight = weight_gradient == 1 ? call.outputs[0].shape : call.inputs[1].shape;
  return 2.0 * static_cast<double>(output.elements()) *
         static_cast<double>(weight.elements(1, weight.rank()));
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
      {"3x3, pad 1",
       {{"kernel", "(3, 3)"}, {"pad", "(1, 1)"}, {"num_filter", "5"}},
       {2, 3, 6, 7},
       {5, 3, 3, 3},
       {2, 5, 6, 7}},
      {"stride and odd extents",
       {{"kernel", "(3, 2)"}, {"stride", "(2, 3)"}, {"pad", "(1, 0)"}, {"num_filter", "4"}},
       {2, 3, 7, 8},
       {4, 3, 3, 2},
       {2, 4, 4, 3}},
      {"dilated, no bias, batch 1",
       {{"kernel", "(3, 3)"},
        {"dilate", "(2, 2)"},
        {"pad", "(2, 1)"},
        {"num_filter", "3"},
        {"no_bias", "True"}},
       {1, 2, 7, 6},
       {3, 2, 3, 3},
       {1, 3, 7, 4}},
      {"two groups",
       {{"kernel", "(3, 3)"}, {"pad", "(1, 1)"}, {"num_filter", "6"}, {"num_group", "2"}},
       {2, 4, 5, 5},
       {6, 2, 3, 3},
       {2, 6, 5, 5}},
      {"two groups of 16 channels",
       {{"kernel", "(3, 3)"}, {"num_filter", "32"}, {"num_group", "2"}},
       {1, 32, 5, 4},
       {32, 16, 3, 3},
       {1, 32, 3, 2}},
      {"depthwise",
       {{"kernel", "(3, 3)"}, {"num_filter", "5"}, {"num_group", "5"}, {"no_bias", "True"}},
       {2, 5, 5, 6},
       {5, 1, 3, 3},
       {2, 5, 3, 4}},
      {"1x1, stride 2",
       {{"kernel", "(1, 1)"}, {"stride", "(2, 2)"}, {"num_filter", "17"}},
       {2, 18, 5, 5},
       {17, 18, 1, 1},
       {2, 17, 3, 3}},
      {"3x3, whole vectors of channels",
       {{"kernel", "(3, 3)"}, {"pad", "(1, 1)"}, {"num_filter", "32"}},
       {2, 16, 6, 7},
       {32, 16, 3, 3},
       {2, 32, 6, 7}},
      {"lenet conv1, batch 32",
       {{"kernel", "(5, 5)"}, {"num_filter", "20"}},
       {32, 1, 28, 28},
       {20, 1, 5, 5},
       {32, 20, 24, 24},
       true},
      {"lenet conv2, batch 32",
       {{"kernel", "(5, 5)"}, {"num_filter", "50"}},
       {32, 20, 12, 12},
       {50, 20, 5, 5},
       {32, 50, 8, 8},
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
  return {
      .name = "convolution", .params = params(), .infer = infer, .flops = flops, .epilogue = true};
}

OpDef define_forward() {
  OpDef op = linear_definition(linear());
  op.aliases = {"Convolution", "Convolution_v1"};
  op.ignored = library_choices();
  op.doc =
      "Two-dimensional convolution (cross-correlation, as everywhere in this field): `output[n, f, "
      "y, x] = bias[f] + sum over c, i, j of data[n, c, y * stride - pad + i * dilate, ...] * "
      "weight[f, c, i, j]`. data (N, C, H, W), weight (num_filter, C / num_group, kernel...), bias "
      "(num_filter).";
  op.kernels = {floating_kernel([](auto&&... x) { return run_forward(x...); })};
  op.samples = samples([](const Case& c) {
    std::vector<Shape> inputs = {c.data, c.weight};
    if (!c.attributes.contains("no_bias")) inputs.push_back(Shape{c.weight[0]});
    return inputs;
  });
  for (const bool whole_vectors : {false, true}) {
    const std::int64_t channels = whole_vectors ? 32 : 3;
    for (const auto& [sum, type] :
         {std::pair{"True", "none"}, {"False", "relu"}, {"True", "relu"}}) {
      Sample sample{.title = fmt::format("{} channels, sum {}, {}", channels, sum, type),
                    .attributes = {{"kernel", "(3, 3)"},
                                   {"num_filter", std::to_string(channels)},
                                   {"with_sum", sum},
                                   {"act_type", type}},
                    .inputs = {{2, channels, 7, 6}, {channels, channels, 3, 3}, {channels}}};
      if (sample.attributes["with_sum"] == "True") sample.inputs.push_back({2, channels, 5, 4});
      op.samples.push_back(std::move(sample));
    }
  }
  return op;
}

OpDef define_backward_data() {
  OpDef op = linear_backward_data_definition(linear());
  op.doc = "Gradient of convolution with respect to data.";
  op.kernels = {floating_kernel([](auto&&... x) { return run_backward_data(x...); })};
  op.samples = samples([](const Case& c) {
    return std::vector<Shape>{c.output, c.weight, c.data};
  });
  return op;
}

OpDef define_backward_weights() {
  OpDef op = linear_backward_weights_definition(linear());
  op.doc = "Gradients of convolution with respect to weight and bias.";
  op.kernels = {floating_kernel([](auto&&... x) { return run_backward_weights(x...); })};
  op.samples = samples([](const Case& c) { return std::vector<Shape>{c.output, c.data}; });
  return op;
}

}  // namespace

std::span<const OpDef> ops_convolution() {
  static const std::vector<OpDef> ops = {define_forward(), define_backward_data(),
                                         define_backward_weights()};
  return ops;
}

}  // namespace troupe::ops
