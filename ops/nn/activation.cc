// SPDX-License-Identifier: Apache-2.0
// activation (relu, sigmoid, tanh, softrelu, softsign) and its gradient, which needs the output
// only, so the input's memory is free for the output. Pure functions of views; any thread.
#include <fmt/core.h>

#include <array>
#include <cctype>
#include <cmath>

#include "ops/nn/support.h"
#include "ops/support/chunks.h"
#include "ops/support/variadic.h"

namespace troupe::ops {
namespace {

using base::Status;

std::vector<ParamDef> params() {
  return {{.name = "act_type",
           .type = ParamType::text,
           .doc = "The function.",
           .choices = {"relu", "sigmoid", "tanh", "softrelu", "softsign"}}};
}

/// Calls use(f, g): the function f(x), and the gradient g(dy, y) from its own value y. NaN stays
/// NaN; where relu is zero, even an infinite gradient ends.
template <typename T, typename Use>
void with_function(const std::string& type, Use&& use) {
  const T one{1};
  if (type == "relu") {
    use([](T x) { return x <= T{0} ? T{0} : x; }, [](T dy, T y) { return y <= T{0} ? T{0} : dy; });
  } else if (type == "sigmoid") {
    use([=](T x) { return one / (one + std::exp(-x)); },
        [=](T dy, T y) { return dy * (y * (one - y)); });
  } else if (type == "tanh") {
    use([](T x) { return std::tanh(x); }, [=](T dy, T y) { return dy * (one - y * y); });
  } else if (type == "softrelu") {
    // log(1 + exp(x)) without overflow for large x.
    use([](T x) { return std::max(x, T{0}) + std::log1p(std::exp(-std::abs(x))); },
        [](T dy, T y) { return dy * -std::expm1(-y); });
  } else {
    use([=](T x) { return x / (one + std::abs(x)); },
        [=](T dy, T y) { return dy * ((one - std::abs(y)) * (one - std::abs(y))); });
  }
}

bool maps_zero_to_zero(const Params& p) {
  const std::string& type = p.text("act_type");
  return type == "relu" || type == "tanh" || type == "softsign";
}

/// "Relu", the struct of pointwise_functions.h.
std::string function_name(const Params& p) {
  std::string name = p.text("act_type");
  name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return name;
}

std::optional<PointwiseTerm> value_term(const Params& p) {
  return PointwiseTerm{function_name(p) + "::value($0)"};
}

std::optional<PointwiseTerm> gradient_term(const Params& p) {
  const std::int64_t count = p.integer("num_gradients");
  return PointwiseTerm{
      fmt::format("{}::gradient({}, ${})", function_name(p), sum_term(count), count)};
}

template <typename T>
Status run_forward(const OpCall& call, const KernelContext& c, T) {
  const T* in = c.inputs[0].as<T>();
  T* out = c.outputs[0].as<T>();
  with_function<T>(call.params.text("act_type"), [&](auto f, auto) {
    parallel_ranges(c, c.outputs[0].elements(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) out[i] = f(in[i]);
    });
  });
  return {};
}

template <typename T>
Status run_backward(const OpCall& call, const KernelContext& c, T) {
  const std::size_t gradients = c.inputs.size() - 1;
  const T* output = c.inputs[gradients].as<T>();
  T* result = c.outputs[0].as<T>();
  std::array<const T*, kSummedMost> parts = {};
  for (std::size_t i = 0; i < gradients; ++i) parts[i] = c.inputs[i].as<T>();
  const auto sum_at = [&parts, gradients](std::int64_t at) {
    T sum = parts[0][at];
    for (std::size_t i = 1; i < gradients; ++i) sum += parts[i][at];
    return sum;
  };
  with_function<T>(call.params.text("act_type"), [&](auto, auto g) {
    parallel_ranges(c, c.outputs[0].elements(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) result[i] = g(sum_at(i), output[i]);
    });
  });
  return {};
}

base::Result<std::vector<std::optional<Value>>> gradient(GradientBuilder& b) {
  return std::vector<std::optional<Value>>{b.add1(
      "activation_backward", {*b.output_gradient(0), b.output(0)}, b.params().to_attributes())};
}

std::vector<Sample> samples(std::size_t inputs, bool differentiable) {
  std::vector<Sample> result;
  const std::vector<ParamDef> definitions = params();
  for (const std::string& type : definitions[0].choices) {
    result.push_back({.title = type,
                      .attributes = {{"act_type", type}},
                      .inputs = std::vector<base::Shape>(inputs, base::Shape{2, 17, 3, 5}),
                      .gradient = differentiable});
  }
  result.push_back({.title = "relu of lenet conv1, batch 32",
                    .attributes = {{"act_type", "relu"}},
                    .inputs = std::vector<base::Shape>(inputs, base::Shape{32, 20, 24, 24}),
                    .gradient = false,
                    .benchmark = true});
  return result;
}

OpDef define_forward() {
  OpDef op;
  op.name = "activation";
  op.mixed = MixedPrecision::as_inputs;
  op.aliases = {"Activation"};
  op.doc =
      "Element-wise: relu max(x, 0); sigmoid 1 / (1 + exp(-x)); tanh; softrelu (softplus) log(1 + "
      "exp(x)); "
      "softsign x / (1 + |x|).";
  op.params = params();
  op.inputs = names({"data"});
  op.outputs = names({"output"});
  op.gradient = gradient;
  op.in_place = {{0, 0}};
  op.accumulates = {0};
  op.elementwise = true;
  op.maps_zero_to_zero = maps_zero_to_zero;
  op.pointwise = value_term;
  op.kernels = {floating_kernel([](auto&&... x) { return run_forward(x...); })};
  op.samples = samples(1, true);
  return op;
}

/// The gradients that are added, then the output.
std::vector<std::string> backward_inputs(const Params& p) {
  std::vector<std::string> list = {"output_gradient"};
  for (std::int64_t i = 1; i < p.integer("num_gradients"); ++i) {
    list.push_back("output_gradient" + std::to_string(i));
  }
  list.emplace_back("output");
  return list;
}

OpDef define_backward() {
  OpDef op;
  op.name = "activation_backward";
  op.doc =
      "Gradient of activation from its output: `(output_gradient + output_gradient1 + ...) * "
      "f'(x)`, added in this order.";
  op.params = params();
  op.params.push_back({"num_gradients", ParamType::integer, std::int64_t{1},
                       "Tensors whose sum is the output's gradient.", 1, kSummedMost});
  op.inputs = backward_inputs;
  op.outputs = names({"data_gradient"});
  op.in_place = {{0, 0}, {1, 0}};
  op.accumulates = {0};
  op.elementwise = true;
  op.maps_zero_to_zero = always;
  op.pointwise = gradient_term;
  op.kernels = {floating_kernel([](auto&&... x) { return run_backward(x...); })};
  op.flops = [](const OpCall& call) {
    return static_cast<double>(call.inputs.size() - 1) *
           static_cast<double>(call.outputs[0].shape.elements());
  };
  op.samples = samples(2, false);
  for (const char* count : {"2", "3", "8"}) {
    const std::size_t inputs = std::stoul(count) + 1;
    op.samples.push_back({.title = std::string("relu, ") + count + " gradients",
                          .attributes = {{"act_type", "relu"}, {"num_gradients", count}},
                          .inputs = std::vector<base::Shape>(inputs, base::Shape{2, 17, 3, 5}),
                          .gradient = false});
  }
  return op;
}

}  // namespace

std::span<const OpDef> ops_activation() {
  static const std::vector<OpDef> ops = {define_forward(), define_backward()};
  return ops;
}

}  // namespace troupe::ops
