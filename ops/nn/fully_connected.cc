// SPDX-License-Identifier: Apache-2.0
// fully_connected and the two operators of its gradient: definition, reference kernels, samples.
// Pure functions of views; any thread.
#include "ops/nn/fully_connected.h"

#include "ops/nn/linear.h"
#include "ops/support/wide_gradients.h"

namespace troupe::ops {
namespace {

using base::Shape;
using base::Status;

std::vector<ParamDef> params() {
  return {
      {.name = "num_hidden", .type = ParamType::integer, .doc = "Outputs per row.", .low = 1},
      no_bias_param(),
      {.name = "flatten",
       .type = ParamType::boolean,
       .initial = true,
       .doc = "True: all axes behind the first are one; False: only the last axis is reduced."},
  };
}

/// Shapes of (data, weight, bias) and output, in both directions as far as they determine each
/// other.
Status infer(const Params& p, std::vector<Shape>& in, std::vector<Shape>& out) {
  const std::int64_t hidden = p.integer("num_hidden");
  TROUPE_TRY(refine("weight", in[1], Shape{hidden, base::kUnknownDim}));
  if (in.size() > 2) TROUPE_TRY(refine("bias", in[2], Shape{hidden}));
  if (!in[0].rank_known()) return {};
  const int rank = in[0].rank();
  if (rank < 1 || (rank < 2 && p.boolean("flatten"))) {
    return base::error(base::Errc::invalid_argument, "data of shape {} has no axis to reduce",
                       in[0].to_string());
  }
  Shape result{in[0][0], hidden};
  Shape tail{hidden, in[0][rank - 1]};
  if (p.boolean("flatten")) {
    Shape rest;
    for (int axis = 1; axis < rank; ++axis) rest.push_back(in[0][axis]);
    tail.set(1, rest.complete() ? rest.elements() : base::kUnknownDim);
  } else {
    result = in[0];
    result.set(rank - 1, hidden);
  }
  TROUPE_TRY(refine("weight", in[1], tail));
  TROUPE_TRY(refine("output", out[0], result));
  if (rank == 2 || !p.boolean("flatten")) in[0].set(rank - 1, in[1][1]);
  in[0].set(0, rank == 1 ? in[0][0] : out[0][0]);
  return {};
}

template <typename T>
Status run_forward(const OpCall& call, const KernelContext& c, T) {
  const FullyConnected e = read_fully_connected(call.params, call.inputs[0].shape);
  const T* data = c.inputs[0].as<T>();
  const T* weight = c.inputs[1].as<T>();
  const T* bias = has_bias(call.params) ? c.inputs[2].as<T>() : nullptr;
  T* output = c.outputs[0].as<T>();
  c.parallel(e.rows, [&](std::int64_t row) {
    for (std::int64_t h = 0; h < e.hidden; ++h) {
      const double sum = dot(data + row * e.inner, weight + h * e.inner, e.inner);
      const double shift = bias == nullptr ? 0.0 : static_cast<double>(bias[h]);
      output[row * e.hidden + h] = static_cast<T>(sum + shift);
    }
  });
  return {};
}

template <typename T>
Status run_backward_data(const OpCall& call, const KernelContext& c, T) {
  const FullyConnected e = read_fully_connected(call.params, call.inputs[2].shape);
  const T* gradient = c.inputs[0].as<T>();
  const T* weight = c.inputs[1].as<T>();
  T* output = c.outputs[0].as<T>();
  c.parallel(e.rows, [&](std::int64_t row) {
    T* place = output + row * e.inner;
    std::fill_n(place, e.inner, T{0});
    for (std::int64_t h = 0; h < e.hidden; ++h) {
      add_scaled(place, gradient[row * e.hidden + h], weight + h * e.inner, e.inner);
    }
  });
  return {};
}

template <typename T>
Status run_backward_weights(const OpCall& call, const KernelContext& c, T) {
  const FullyConnected e = read_fully_connected(call.params, call.inputs[1].shape);
  const T* gradient = c.inputs[0].as<T>();
  const T* data = c.inputs[1].as<T>();
  T* weight = c.outputs[0].as<T>();
  T* bias = has_bias(call.params) ? c.outputs[1].as<T>() : nullptr;
  c.parallel(e.hidden, [&](std::int64_t h) {
    T* place = weight + h * e.inner;
    std::fill_n(place, e.inner, T{0});
    double sum = 0.0;
    for (std::int64_t row = 0; row < e.rows; ++row) {
      const T g = gradient[row * e.hidden + h];
      add_scaled(place, g, data + row * e.inner, e.inner);
      sum += static_cast<double>(g);
    }
    if (bias != nullptr) bias[h] = static_cast<T>(sum);
  });
  return {};
}

double flops(const OpCall& call) {
  // Each of the three is one product of the same three extents.
  double rows_times_inner = 1.0;
  const bool backward_weights_call = call.op->name == "fully_connected_backward_weights";
  const bool backward_data_call = call.op->name == "fully_connected_backward_data";
  const std::size_t data = backward_weights_call ? 1 : backward_data_call ? 2 : 0;
  rows_times_inner = static_cast<double>(call.inputs[data].shape.elements());
  return 2.0 * rows_times_inner * static_cast<double>(call.params.integer("num_hidden"));
}

LinearOperator linear() {
  return {.name = "fully_connected", .params = params(), .infer = infer, .flops = flops};
}

OpDef define_forward() {
  OpDef op = linear_definition(linear());
  op.aliases = {"FullyConnected"};
  op.doc =
      "`output = data * weight^T + bias`. data (N, ...) is read as (N, K), weight is (num_hidden, "
      "K), bias (num_hidden). With `flatten = False` only data's last axis is K and the others "
      "stay.";
  // Of one axis that is reduced axis 0 has no samples.
  op.keeps_samples = [](const OpCall& call, const std::vector<bool>& samples) {
    return call.inputs[0].shape.rank() > 1 && samples_in_data(call, samples);
  };
  op.kernels = {floating_kernel([](auto&&... x) { return run_forward(x...); })};
  op.samples = {
      {.title = "two axes", .attributes = {{"num_hidden", "7"}}, .inputs = {{5, 9}, {7, 9}, {7}}},
      {.title = "flattened, no bias",
       .attributes = {{"num_hidden", "10"}, {"no_bias", "True"}},
       .inputs = {{3, 2, 3, 5}, {10, 30}}},
      {.title = "last axis only",
       .attributes = {{"num_hidden", "4"}, {"flatten", "False"}},
       .inputs = {{2, 3, 6}, {4, 6}, {4}}},
      {.title = "one row",
       .attributes = {{"num_hidden", "33"}},
       .inputs = {{1, 17}, {33, 17}, {33}}},
      {.title = "few rows of many terms",
       .attributes = {{"num_hidden", "97"}},
       .inputs = {{5, 1131}, {97, 1131}, {97}}},
      {.title = "lenet fc1, batch 32",
       .attributes = {{"num_hidden", "500"}},
       .inputs = {{32, 50, 4, 4}, {500, 800}, {500}},
       .gradient = false,
       .benchmark = true},
  };
  return op;
}

OpDef define_backward_data() {
  OpDef op = linear_backward_data_definition(linear());
  op.doc =
      "Gradient of fully_connected with respect to data: `output_gradient * weight`, in "
      "data's shape.";
  op.kernels = {floating_kernel([](auto&&... x) { return run_backward_data(x...); })};
  op.samples = {
      {.title = "flattened",
       .attributes = {{"num_hidden", "7"}},
       .inputs = {{5, 7}, {7, 18}, {5, 2, 9}}},
      {.title = "last axis only",
       .attributes = {{"num_hidden", "4"}, {"flatten", "False"}},
       .inputs = {{2, 3, 4}, {4, 6}, {2, 3, 6}}},
      {.title = "lenet fc1, batch 32",
       .attributes = {{"num_hidden", "500"}},
       .inputs = {{32, 500}, {500, 800}, {32, 50, 4, 4}},
       .benchmark = true},
  };
  return op;
}

OpDef define_backward_weights() {
  OpDef op = linear_backward_weights_definition(linear());
  op.params.push_back(wide_gradients_param());
  op.infer_dtype = infer_wide_gradients;
  op.doc =
      "Gradients of fully_connected with respect to weight (`output_gradient^T * data`) and "
      "bias (sum of output_gradient over rows).";
  op.kernels = {floating_kernel([](auto&&... x) { return run_backward_weights(x...); })};
  op.samples = {
      {.title = "flattened", .attributes = {{"num_hidden", "7"}}, .inputs = {{5, 7}, {5, 2, 9}}},
      {.title = "no bias",
       .attributes = {{"num_hidden", "4"}, {"no_bias", "True"}},
       .inputs = {{3, 4}, {3, 6}}},
      {.title = "last axis only",
       .attributes = {{"num_hidden", "4"}, {"flatten", "False"}},
       .inputs = {{2, 3, 4}, {2, 3, 6}}},
      {.title = "of 16 bits in float32",
       .attributes = {{"num_hidden", "16"}, {"wide_gradients", "True"}},
       .inputs = {{5, 16}, {5, 24}}},
      {.title = "lenet fc1, batch 32",
       .attributes = {{"num_hidden", "500"}},
       .inputs = {{32, 500}, {32, 50, 4, 4}},
       .benchmark = true},
  };
  return op;
}

}  // namespace

std::span<const OpDef> ops_fully_connected() {
  static const std::vector<OpDef> ops = {define_forward(), define_backward_data(),
                                         define_backward_weights()};
  return ops;
}

}  // namespace troupe::ops
