// SPDX-License-Identifier: Apache-2.0
// lrn: local response normalization over neighbouring channels (AlexNet, GoogLeNet), and its
// gradient. Pure functions of views; any thread.
#include <algorithm>
#include <cmath>

#include "ops/nn/support.h"

namespace troupe::ops {
namespace {

using base::Shape;
using base::Status;

std::vector<ParamDef> params() {
  return {{.name = "nsize",
           .type = ParamType::integer,
           .doc = "Channels of a window; odd. Those beyond the first and last count as zeros.",
           .low = 1},
          {.name = "alpha", .initial = 1e-4, .doc = "Factor of the mean square of a window."},
          {.name = "beta", .initial = 0.75, .doc = "Exponent of the divisor."},
          {.name = "knorm", .initial = 2.0, .doc = "What is added to the mean square."}};
}

/// data (N, C, ...) as (samples, channels, places), and the numbers of a call.
template <typename T>
struct Lrn {
  std::int64_t samples, channels, places, half;
  T factor, beta, knorm;

  Lrn(const Params& p, const Shape& data)
      : samples(data[0]),
        channels(data[1]),
        places(data.elements(2, data.rank())),
        half(p.integer("nsize") / 2),
        factor(static_cast<T>(p.real("alpha") / static_cast<double>(p.integer("nsize")))),
        beta(static_cast<T>(p.real("beta"))),
        knorm(static_cast<T>(p.real("knorm"))) {}

  /// sums[i] = sum over the windows' channels of f(element) at place i of a plane.
  template <typename F>
  void sum_window(std::int64_t plane, T* sums, F&& f) const {
    const std::int64_t channel = plane % channels;
    const std::int64_t first = std::max<std::int64_t>(channel - half, 0) - channel;
    const std::int64_t last = std::min(channel + half, channels - 1) - channel;
    std::fill_n(sums, places, T{0});
    for (std::int64_t from = first; from <= last; ++from) {
      const std::int64_t begin = (plane + from) * places;
      for (std::int64_t i = 0; i < places; ++i) sums[i] += f(begin + i);
    }
  }
  /// The divisor's base of each place of a plane.
  void bases(const T* data, std::int64_t plane, T* result) const {
    sum_window(plane, result, [=](std::int64_t i) { return data[i] * data[i]; });
    for (std::int64_t i = 0; i < places; ++i) result[i] = knorm + factor * result[i];
  }
  /// base^-beta; the usual exponent by roots, which are much faster.
  T power(T base) const {
    constexpr T kUsual{0.75};
    if (beta != kUsual) return std::pow(base, -beta);
    const T root = std::sqrt(base);
    return T{1} / (root * std::sqrt(root));
  }
};

template <typename T>
Status run_forward(const OpCall& call, const KernelContext& c, T) {
  const Lrn<T> v(call.params, call.inputs[0].shape);
  const T* data = c.inputs[0].as<T>();
  c.parallel(v.samples * v.channels, [&](std::int64_t plane) {
    const T* in = data + plane * v.places;
    T* out = c.outputs[0].as<T>() + plane * v.places;
    v.bases(data, plane, out);
    for (std::int64_t i = 0; i < v.places; ++i) out[i] = in[i] * v.power(out[i]);
  });
  return {};
}

/// Powers go to the output first, and what the windows of the gradient add up to scratch.
template <typename T>
Status run_backward(const OpCall& call, const KernelContext& c, T) {
  const Lrn<T> v(call.params, call.inputs[1].shape);
  const T* gradient = c.inputs[0].as<T>();
  const T* data = c.inputs[1].as<T>();
  T* result = c.outputs[0].as<T>();
  T* shares = reinterpret_cast<T*>(c.scratch.data());
  T* sums = shares + v.samples * v.channels * v.places;
  c.parallel(v.samples * v.channels, [&](std::int64_t plane) {
    const std::int64_t begin = plane * v.places;
    v.bases(data, plane, shares + begin);
    for (std::int64_t i = begin; i < begin + v.places; ++i) {
      result[i] = v.power(shares[i]);
      shares[i] = gradient[i] * data[i] * result[i] / shares[i];
    }
  });
  const T factor = 2 * v.factor * v.beta;
  c.parallel(v.samples * v.channels, [&](std::int64_t plane) {
    const std::int64_t begin = plane * v.places;
    T* sum = sums + begin;
    v.sum_window(plane, sum, [=](std::int64_t i) { return shares[i]; });
    for (std::int64_t i = 0; i < v.places; ++i) {
      const std::int64_t at = begin + i;
      result[at] = gradient[at] * result[at] - factor * data[at] * sum[i];
    }
  });
  return {};
}

std::size_t scratch_bytes(const OpCall& call) {
  return 2 * static_cast<std::size_t>(call.inputs[1].shape.elements()) *
         base::dtype_size(call.inputs[1].dtype);
}

/// One shape for all, with channels.
Status infer(const Params& p, std::vector<Shape>& in, std::vector<Shape>& out) {
  const std::int64_t size = p.integer("nsize");
  if (size % 2 == 0) {
    return base::error(base::Errc::invalid_argument,
                       "nsize {} is even; a window has as many channels before as behind its own",
                       size);
  }
  TROUPE_TRY(infer_same_shape(p, in, out));
  if (!in[0].rank_known() || in[0].rank() >= 2) return {};
  return base::error(base::Errc::invalid_argument, "data of shape {} has no channels",
                     in[0].to_string());
}

base::Result<std::vector<std::optional<Value>>> gradient(GradientBuilder& b) {
  return std::vector<std::optional<Value>>{
      b.add1("lrn_backward", {*b.output_gradient(0), b.input(0)}, b.params().to_attributes())};
}

double flops(const OpCall& call) {
  constexpr double kPower = 10;
  const double window =
      static_cast<double>(std::min(call.params.integer("nsize"), call.outputs[0].shape[1]));
  const double passes = call.op->name == "lrn" ? 1 : 2;
  return static_cast<double>(call.outputs[0].shape.elements()) * passes * (2 * window + kPower);
}

std::vector<Sample> samples(std::size_t inputs, bool differentiable) {
  const auto sample = [&](const char* title, Attributes attributes, const Shape& shape) {
    return Sample{.title = title,
                  .attributes = std::move(attributes),
                  .inputs = std::vector<Shape>(inputs, shape),
                  .low = -2,
                  .high = 2,
                  .gradient = differentiable};
  };
  std::vector<Sample> list = {
      sample("five channels", {{"nsize", "5"}, {"alpha", "0.5"}, {"knorm", "1"}}, {2, 7, 3, 4}),
      sample("another exponent", {{"nsize", "3"}, {"alpha", "2"}, {"beta", "0.6"}}, {2, 4, 5}),
      sample("more than there are", {{"nsize", "9"}, {"alpha", "1"}}, {3, 3}),
      sample("whole vectors of channels", {{"nsize", "5"}, {"alpha", "1"}}, {2, 32, 3, 4}),
      sample("googlenet norm1, batch 8", {{"nsize", "5"}}, {8, 64, 56, 56})};
  list.back().gradient = false;
  list.back().benchmark = true;
  return list;
}

OpDef define_forward() {
  OpDef op;
  op.name = "lrn";
  op.aliases = {"LRN"};
  op.doc =
      "Local response normalization of data (N, C, ...): `output = data * (knorm + alpha / nsize * "
      "s)^-beta`, s the sum of the squares of `nsize` neighbouring channels at the same place.";
  op.params = params();
  op.inputs = names({"data"});
  op.outputs = names({"output"});
  op.infer_shape = infer;
  op.gradient = gradient;
  op.keeps_samples = samples_in_data;
  op.accumulates = {0};
  op.flops = flops;
  op.kernels = {floating_kernel([](auto&&... x) { return run_forward(x...); })};
  op.samples = samples(1, true);
  return op;
}

OpDef define_backward() {
  OpDef op;
  op.name = "lrn_backward";
  op.doc = "Gradient of lrn with respect to data.";
  op.params = params();
  op.inputs = names({"output_gradient", "data"});
  op.outputs = names({"data_gradient"});
  op.infer_shape = infer;
  op.accumulates = {0};
  op.flops = flops;
  op.kernels = {floating_kernel([](auto&&... x) { return run_backward(x...); }, scratch_bytes)};
  op.samples = samples(2, false);
  return op;
}

}  // namespace

std::span<const OpDef> ops_lrn() {
  static const std::vector<OpDef> ops = {define_forward(), define_backward()};
  return ops;
}

}  // namespace troupe::ops
