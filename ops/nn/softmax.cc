// SPDX-License-Identifier: Apache-2.0
// softmax and log_softmax along one axis, and their gradients from the outputs.
// Pure functions of views; any thread.
#include <cmath>

#include "ops/nn/class_axis.h"

namespace troupe::ops {
namespace {

using base::Shape;
using base::Status;

std::vector<ParamDef> params() {
  return {{.name = "axis",
           .type = ParamType::integer,
           .initial = std::int64_t{-1},
           .doc = "The axis that sums to one."}};
}

Status infer(const Params& p, std::vector<Shape>& in, std::vector<Shape>& out) {
  TROUPE_TRY(infer_same_shape(p, in, out));
  return in[0].rank_known() ? resolve_axis(p.integer("axis"), in[0]).status() : Status();
}

ClassAxis axis_of(const OpCall& call) {
  const Shape& shape = call.outputs[0].shape;
  return class_axis(shape, resolve_axis(call.params.integer("axis"), shape).value());
}

template <typename T>
Status run_softmax(const OpCall& call, const KernelContext& c, T) {
  softmax_rows(c, axis_of(call), c.inputs[0].as<T>(), c.outputs[0].as<T>());
  return {};
}

template <typename T>
Status run_log_softmax(const OpCall& call, const KernelContext& c, T) {
  const ClassAxis v = axis_of(call);
  const T* in = c.inputs[0].as<T>();
  T* out = c.outputs[0].as<T>();
  c.parallel(v.rows(), [&](std::int64_t row) {
    const std::int64_t base = v.row_offset(row);
    const SoftmaxRow measured = measure_softmax(in + base, v.classes, v.inner);
    const double shift = measured.peak + std::log(measured.sum);
    for (std::int64_t k = 0; k < v.classes; ++k) {
      const std::int64_t at = base + k * v.inner;
      out[at] = static_cast<T>(static_cast<double>(in[at]) - shift);
    }
  });
  return {};
}

/// d_in = y * (g - sum(g * y)), or g - exp(y) * sum(g) for the logarithm.
template <typename T>
Status run_backward(const OpCall& call, const KernelContext& c, T) {
  const bool logarithm = call.op->name == "log_softmax_backward";
  const ClassAxis v = axis_of(call);
  const T* gradient = c.inputs[0].as<T>();
  const T* output = c.inputs[1].as<T>();
  T* result = c.outputs[0].as<T>();
  c.parallel(v.rows(), [&](std::int64_t row) {
    const std::int64_t base = v.row_offset(row);
    double sum = 0.0;
    for (std::int64_t k = 0; k < v.classes; ++k) {
      const std::int64_t at = base + k * v.inner;
      const double weight = logarithm ? 1.0 : static_cast<double>(output[at]);
      sum += static_cast<double>(gradient[at]) * weight;
    }
    for (std::int64_t k = 0; k < v.classes; ++k) {
      const std::int64_t at = base + k * v.inner;
      const auto g = static_cast<double>(gradient[at]);
      const auto y = static_cast<double>(output[at]);
      result[at] = static_cast<T>(logarithm ? g - std::exp(y) * sum : y * (g - sum));
    }
  });
  return {};
}

std::vector<Sample> samples(std::size_t inputs, bool differentiable) {
  std::vector<Sample> result = {
      {.title = "last axis", .inputs = {{5, 10}}},
      {.title = "axis 1 of three", .attributes = {{"axis", "1"}}, .inputs = {{2, 7, 3}}},
      {.title = "many classes and positions",
       .attributes = {{"axis", "1"}},
       .inputs = {{2, 131, 71}}},
      {.title = "thousands of classes", .inputs = {{3, 20'011}}},
      {.title = "thousands of classes, two positions",
       .attributes = {{"axis", "0"}},
       .inputs = {{20'011, 2}}},
      {.title = "batch 32, 1000 classes", .inputs = {{32, 1000}}, .benchmark = true},
      {.title = "21 classes of each pixel",
       .attributes = {{"axis", "1"}},
       .inputs = {{4, 21, 64, 64}},
       .benchmark = true},
  };
  for (Sample& sample : result) {
    sample.inputs.resize(inputs, sample.inputs[0]);
    sample.gradient = differentiable && sample.inputs[0].elements() < 100;
  }
  return result;
}

OpDef define_forward(std::string name, std::string doc, KernelDef kernel) {
  OpDef op;
  op.name = name;
  op.doc = std::move(doc);
  op.params = params();
  op.ignored = {{"temperature", {"None", "1", "1.0"}},
                {"dtype", {"None"}},
                {"use_length", {"None", "False", "false", "0"}}};
  op.inputs = names({"data"});
  op.outputs = names({"output"});
  op.infer_shape = infer;
  op.gradient = [name](GradientBuilder& b) -> base::Result<std::vector<std::optional<Value>>> {
    return std::vector<std::optional<Value>>{b.add1(
        name + "_backward", {*b.output_gradient(0), b.output(0)}, b.params().to_attributes())};
  };
  op.in_place = {{0, 0}};
  op.accumulates = {0};
  op.keeps_samples = samples_beside("axis");
  op.kernels = {std::move(kernel)};
  op.samples = samples(1, true);
  return op;
}

OpDef define_backward(std::string name, std::string doc) {
  OpDef op;
  op.name = std::move(name);
  op.doc = std::move(doc);
  op.params = params();
  op.inputs = names({"output_gradient", "output"});
  op.outputs = names({"data_gradient"});
  op.infer_shape = infer;
  op.in_place = {{0, 0}, {1, 0}};
  op.accumulates = {0};
  op.kernels = {floating_kernel([](auto&&... x) { return run_backward(x...); })};
  op.samples = samples(2, false);
  return op;
}

}  // namespace

std::span<const OpDef> ops_softmax() {
  static const std::vector<OpDef> ops = {
      define_forward("softmax", "`exp(x) / sum(exp(x))` along `axis`.",
                     floating_kernel([](auto&&... x) { return run_softmax(x...); })),
      define_backward("softmax_backward", "Gradient of softmax: `y * (g - sum(g * y))`."),
      define_forward("log_softmax", "`x - log(sum(exp(x)))` along `axis`.",
                     floating_kernel([](auto&&... x) { return run_log_softmax(x...); })),
      define_backward("log_softmax_backward", "Gradient of log_softmax: `g - exp(y) * sum(g)`."),
  };
  return ops;
}

}  // namespace troupe::ops
