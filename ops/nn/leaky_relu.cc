// SPDX-License-Identifier: Apache-2.0
// leaky_relu: activations that let something of negative numbers through (leaky, prelu, elu, selu,
// gelu), and their gradient. Where the output alone says enough, that is what the gradient reads,
// so the input's memory is free for the output. Pure functions of views; any thread.
#include "ops/nn/leaky_relu.h"
#include "ops/support/pointwise_functions.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "ops/nn/support.h"
#include "ops/support/chunks.h"

namespace troupe::ops {
namespace {

using base::Shape;
using base::Status;

std::vector<ParamDef> params() {
  return {{.name = "act_type",
           .type = ParamType::text,
           .initial = std::string("leaky"),
           .doc = "The function.",
           .choices = {"leaky", "prelu", "elu", "selu", "gelu"}},
          {.name = "slope",
           .type = ParamType::real,
           .initial = 0.25,
           .doc = "Of leaky and elu: what negative numbers are multiplied with."}};
}

bool is_prelu(const Params& p) {
  return p.text("act_type") == "prelu";
}

/// What f32 holds only as infinity would make NaN of the zeros in padding.
bool finite_slope(const Params& p) {
  return std::abs(p.real("slope")) <= std::numeric_limits<float>::max();
}

/// Calls use(f, g): the function f(x), and the gradient g(dy, v) from v, the output where
/// gradient_reads_output(), else x.
template <typename T, typename Use>
void with_function(const Params& p, Use&& use) {
  const std::string& type = p.text("act_type");
  const T zero{0}, one{1}, slope = static_cast<T>(p.real("slope"));
  if (type == "leaky") {
    use([=](T x) { return x > zero ? x : slope * x; },
        [=](T dy, T v) { return v > zero ? dy : slope * dy; });
  } else if (type == "elu" && gradient_reads_output(p)) {
    use([=](T x) { return x > zero ? x : slope * std::expm1(x); },
        [=](T dy, T y) { return y > zero ? dy : dy * (y + slope); });
  } else if (type == "elu") {
    use([=](T x) { return x > zero ? x : slope * std::expm1(x); },
        [=](T dy, T x) { return x > zero ? dy : dy * (slope * std::exp(x)); });
  } else if (type == "selu") {
    const T scale = static_cast<T>(pointwise::kSeluScale),
            depth = static_cast<T>(pointwise::kSeluDepth);
    use([=](T x) { return x > zero ? scale * x : depth * std::expm1(x); },
        [=](T dy, T y) { return y > zero ? dy * scale : dy * (y + depth); });
  } else {
    const T half{0.5}, root = static_cast<T>(0.70710678118654752440);  // 1 / sqrt(2)
    const T peak = static_cast<T>(0.39894228040143267794);             // 1 / sqrt(2 pi)
    use([=](T x) { return half * x * (one + std::erf(x * root)); },
        [=](T dy, T x) {
          return dy * (half * (one + std::erf(x * root)) + x * peak * std::exp(-half * x * x));
        });
  }
}

/// The term that gives `operands` to the function; none for prelu, whose slopes are a tensor.
std::optional<PointwiseTerm> leaky_term(const Params& p, const char* operands) {
  const std::string& type = p.text("act_type");
  if (is_prelu(p)) return std::nullopt;
  std::string function = "Gelu<W>{}";
  if (type == "leaky") function = "Leaky<W>{#0}";
  if (type == "elu") function = gradient_reads_output(p) ? "Elu<W>{#0, true}" : "Elu<W>{#0, false}";
  if (type == "selu") function = "Selu<W>{}";
  return PointwiseTerm{function + operands, {p.real("slope")}};
}

/// data (N, C, ...) as (outer, channels, inner). One slope serves all channels, or each has one.
struct Channels {
  std::int64_t outer = 1, count = 1, inner = 1, slopes = 1;
};
Channels read_channels(const Shape& data, const Shape& gamma) {
  return {data[0], data[1], data.elements(2, data.rank()), gamma[0]};
}

template <typename T>
void run_prelu(const OpCall& call, const KernelContext& c) {
  const Channels v = read_channels(call.inputs[0].shape, call.inputs[1].shape);
  const T* data = c.inputs[0].as<T>();
  const T* gamma = c.inputs[1].as<T>();
  T* output = c.outputs[0].as<T>();
  c.parallel(v.outer * v.count, [&](std::int64_t plane) {
    const T slope = gamma[plane % v.count % v.slopes];
    for (std::int64_t i = plane * v.inner; i < (plane + 1) * v.inner; ++i) {
      output[i] = data[i] > T{0} ? data[i] : slope * data[i];
    }
  });
}

/// The gradient of one channel, and what its slope gets.
template <typename T>
double run_prelu_channel(const KernelContext& c, const Channels& v, std::int64_t channel) {
  const T* gradient = c.inputs[0].as<T>();
  const T* data = c.inputs[1].as<T>();
  const T slope = c.inputs[2].as<T>()[channel % v.slopes];
  T* result = c.outputs[0].as<T>();
  double sum = 0.0;
  for (std::int64_t n = 0; n < v.outer; ++n) {
    const std::int64_t begin = (n * v.count + channel) * v.inner;
    for (std::int64_t i = begin; i < begin + v.inner; ++i) {
      const T dy = gradient[i], x = data[i];
      if (!(x > T{0})) sum += static_cast<double>(dy) * static_cast<double>(x);
      result[i] = x > T{0} ? dy : slope * dy;
    }
  }
  return sum;
}

template <typename T>
void run_prelu_backward(const OpCall& call, const KernelContext& c) {
  const Channels v = read_channels(call.inputs[1].shape, call.inputs[2].shape);
  T* gamma_gradient = c.outputs[1].as<T>();
  if (v.slopes == v.count) {
    c.parallel(v.count, [&](std::int64_t channel) {
      gamma_gradient[channel] = static_cast<T>(run_prelu_channel<T>(c, v, channel));
    });
    return;
  }
  auto* sums = reinterpret_cast<double*>(c.scratch.data());
  c.parallel(v.count, [&](std::int64_t i) { sums[i] = run_prelu_channel<T>(c, v, i); });
  gamma_gradient[0] = static_cast<T>(std::accumulate(sums, sums + v.count, 0.0));
}

/// Of the backward pass of prelu with one slope: a sum per channel.
std::size_t backward_scratch_bytes(const OpCall& call) {
  if (!is_prelu(call.params)) return 0;
  return sizeof(double) * static_cast<std::size_t>(call.inputs[1].shape[1]);
}

template <typename T>
Status run_forward(const OpCall& call, const KernelContext& c, T) {
  if (is_prelu(call.params)) {
    run_prelu<T>(call, c);
    return {};
  }
  const T* in = c.inputs[0].as<T>();
  T* out = c.outputs[0].as<T>();
  with_function<T>(call.params, [&](auto f, auto) {
    parallel_ranges(c, c.outputs[0].elements(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) out[i] = f(in[i]);
    });
  });
  return {};
}

template <typename T>
Status run_backward(const OpCall& call, const KernelContext& c, T) {
  if (is_prelu(call.params)) {
    run_prelu_backward<T>(call, c);
    return {};
  }
  const T* gradient = c.inputs[0].as<T>();
  const T* value = c.inputs[1].as<T>();
  T* result = c.outputs[0].as<T>();
  with_function<T>(call.params, [&](auto, auto g) {
    parallel_ranges(c, c.outputs[0].elements(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) result[i] = g(gradient[i], value[i]);
    });
  });
  return {};
}

/// gamma holds one slope, or one per channel, which is what it is unless someone says otherwise.
Status infer_gamma(const Shape& data, Shape& gamma) {
  constexpr std::int64_t kAny = base::kUnknownDim;
  if (data.rank_known() && data.rank() < 2) {
    return base::error(base::Errc::invalid_argument,
                       "prelu needs data of at least two axes (N, C, ...), got shape {}",
                       data.to_string());
  }
  TROUPE_TRY(refine("gamma", gamma, Shape{kAny}));
  if (gamma[0] == 1 || !data.rank_known()) return {};
  return refine("gamma", gamma, Shape{data[1]});
}

Status infer(const Params& p, std::vector<Shape>& in, std::vector<Shape>& out) {
  TROUPE_TRY(refine("data", in[0], out[0]));
  out[0] = in[0];
  return is_prelu(p) ? infer_gamma(in[0], in[1]) : Status();
}

Status infer_backward(const Params& p, std::vector<Shape>& in, std::vector<Shape>& out) {
  for (Shape* shape : {&in[0], &out[0], &in[1], &in[0], &out[0]}) {
    TROUPE_TRY(refine("data", in[1], *shape));
    *shape = in[1];
  }
  if (!is_prelu(p)) return {};
  TROUPE_TRY(refine("gamma", in[2], out[1]));
  TROUPE_TRY(infer_gamma(in[1], in[2]));
  out[1] = in[2];
  return {};
}

base::Result<std::vector<std::optional<Value>>> gradient(GradientBuilder& b) {
  std::vector<Value> inputs = {*b.output_gradient(0),
                               gradient_reads_output(b.params()) ? b.output(0) : b.input(0)};
  if (is_prelu(b.params())) inputs.push_back(b.input(1));
  const auto values = b.add("leaky_relu_backward", inputs, b.params().to_attributes());
  return std::vector<std::optional<Value>>(values.begin(), values.end());
}

/// Samples on `tensors` inputs of data's shape, before prelu's slopes.
std::vector<Sample> samples(std::size_t tensors, bool differentiable) {
  std::vector<Sample> list;
  const auto add = [&](const char* title, Attributes attributes, const Shape& shape) -> Sample& {
    list.push_back({.title = title,
                    .attributes = std::move(attributes),
                    .inputs = std::vector<Shape>(tensors, shape),
                    .low = -3,
                    .high = 3,
                    .gradient = differentiable});
    return list.back();
  };
  const Shape image = {2, 17, 3, 5}, batch = {32, 20, 24, 24};
  for (const char* type : {"leaky", "elu", "selu", "gelu"}) {
    add(type, {{"act_type", type}}, image);
  }
  add("leaky, a slope below 0", {{"slope", "-0.5"}}, {4, 7});
  add("elu, a slope below 0", {{"act_type", "elu"}, {"slope", "-0.5"}}, {4, 7});
  add("prelu", {{"act_type", "prelu"}}, image).inputs.push_back({17});
  add("prelu, one slope", {{"act_type", "prelu"}}, {3, 4}).inputs.push_back({1});
  for (const char* type : {"leaky", "elu", "gelu"}) {
    Sample& sample = add(type, {{"act_type", type}}, batch);
    sample.title += ", batch 32";
    sample.gradient = false;
    sample.benchmark = true;
  }
  return list;
}

OpDef define_forward() {
  OpDef op;
  op.name = "leaky_relu";
  op.mixed = MixedPrecision::as_inputs;
  op.aliases = {"LeakyReLU"};
  op.doc =
      "`x` where x > 0; elsewhere leaky `slope * x`; prelu the same with a learnt slope, the input "
      "`gamma` (C) or (1) for data (N, C, ...); elu `slope * (e^x - 1)`; selu, a multiple of elu "
      "that keeps mean and variance; gelu `x * Phi(x)` everywhere, Phi the normal distribution "
      "(NaN at negative infinity, as in MXNet). MXNet's rrelu, which draws its slopes, is refused.";
  op.params = params();
  op.ignored = {{"lower_bound"}, {"upper_bound"}};
  op.inputs = [](const Params& p) { return with_optional({"data"}, "gamma", is_prelu(p)); };
  op.initial = {{1, 0.25}};  // a slope of 1 would be the identity
  op.outputs = names({"output"});
  op.infer_shape = infer;
  op.gradient = gradient;
  op.in_place = {{0, 0}};
  op.accumulates = {0};
  op.elementwise = true;
  op.maps_zero_to_zero = finite_slope;
  op.pointwise = [](const Params& p) { return leaky_term(p, "($0)"); };
  op.kernels = {floating_kernel([](auto&&... x) { return run_forward(x...); })};
  op.samples = samples(1, true);
  return op;
}

OpDef define_backward() {
  OpDef op;
  op.name = "leaky_relu_backward";
  op.doc =
      "Gradient of leaky_relu. `value` is the output, which says enough, for selu and, with a "
      "slope "
      "not below 0, leaky and elu; else data.";
  op.params = params();
  op.inputs = [](const Params& p) {
    return with_optional({"output_gradient", "value"}, "gamma", is_prelu(p));
  };
  op.outputs = [](const Params& p) {
    return with_optional({"data_gradient"}, "gamma_gradient", is_prelu(p));
  };
  op.infer_shape = infer_backward;
  op.in_place = {{0, 0}, {1, 0}};
  op.accumulates = {0, 1};
  op.maps_zero_to_zero = finite_slope;
  op.elementwise = true;
  op.pointwise = [](const Params& p) { return leaky_term(p, "($0, $1)"); };
  op.kernels = {
      floating_kernel([](auto&&... x) { return run_backward(x...); }, backward_scratch_bytes)};
  op.samples = samples(2, false);
  return op;
}

}  // namespace

std::span<const OpDef> ops_leaky_relu() {
  static const std::vector<OpDef> ops = {define_forward(), define_backward()};
  return ops;
}

}  // namespace troupe::ops
