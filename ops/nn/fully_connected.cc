// SPDX-License-Identifier: Apache-2.0
// fully_connected and the two operators of its gradient: definition, reference kernels, samples.
// Pure functions of views; any thread.
#include "ops/nn/support.h"

namespace troupe::ops {
namespace {

using base::Shape;
using base::Status;

std::vector<ParamDef> params() {
  return {
      {.name = "num_hidden", .type = ParamType::integer, .doc = "Outputs per row.", .low = 1},
      {.name = "no_bias",
       .type = ParamType::boolean,
       .initial = false,
       .doc = "True: there is no input `bias`."},
      {.name = "flatten",
       .type = ParamType::boolean,
       .initial = true,
       .doc = "True: all axes behind the first are one; False: only the last axis is reduced."},
  };
}

bool has_bias(const Params& p) {
  return !p.boolean("no_bias");
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

Status infer_backward_data(const Params& p, std::vector<Shape>& in, std::vector<Shape>& out) {
  TROUPE_TRY(refine("data", in[2], out[0]));
  std::vector<Shape> inputs = {in[2], in[1]};
  std::vector<Shape> outputs = {in[0]};
  TROUPE_TRY(infer(p, inputs, outputs));
  in = {outputs[0], inputs[1], inputs[0]};
  out[0] = inputs[0];
  return {};
}

Status infer_backward_weights(const Params& p, std::vector<Shape>& in, std::vector<Shape>& out) {
  std::vector<Shape> inputs = {in[1], out[0]};
  if (out.size() > 1) inputs.push_back(out[1]);
  std::vector<Shape> outputs = {in[0]};
  TROUPE_TRY(infer(p, inputs, outputs));
  in = {outputs[0], inputs[0]};
  std::copy(inputs.begin() + 1, inputs.end(), out.begin());
  return {};
}

/// The call as matrices: (rows, inner) x (hidden, inner)^T.
struct Extents {
  std::int64_t rows = 0, hidden = 0, inner = 0;
};

Extents extents(const Params& p, const Shape& data) {
  const int split = p.boolean("flatten") ? 1 : data.rank() - 1;
  return {data.elements(0, split), p.integer("num_hidden"), data.elements(split, data.rank())};
}

template <typename T>
Status run_forward(const OpCall& call, const KernelContext& c, T) {
  const Extents e = extents(call.params, call.inputs[0].shape);
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
  const Extents e = extents(call.params, call.inputs[2].shape);
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
  const Extents e = extents(call.params, call.inputs[1].shape);
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

base::Result<std::vector<std::optional<Value>>> gradient(GradientBuilder& b) {
  std::vector<std::optional<Value>> result(static_cast<std::size_t>(b.input_count()));
  const Value head = *b.output_gradient(0);
  const Attributes attributes = b.params().to_attributes();
  if (b.wanted(0)) {
    result[0] = b.add1("fully_connected_backward_data", {head, b.input(1), b.input(0)}, attributes);
  }
  const bool biased = has_bias(b.params());
  if (b.wanted(1) || (biased && b.wanted(2))) {
    const auto values = b.add("fully_connected_backward_weights", {head, b.input(0)}, attributes);
    std::copy(values.begin(), values.end(), result.begin() + 1);
  }
  return result;
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

OpDef define_forward() {
  OpDef op;
  op.name = "fully_connected";
  op.aliases = {"FullyConnected"};
  op.doc =
      "`output = data * weight^T + bias`. data (N, ...) is read as (N, K), weight is (num_hidden, "
      "K), bias (num_hidden). With `flatten = False` only data's last axis is K and the others "
      "stay.";
  op.params = params();
  op.inputs = [](const Params& p) {
    return with_optional({"data", "weight"}, "bias", has_bias(p));
  };
  op.outputs = names({"output"});
  op.infer_shape = infer;
  op.gradient = gradient;
  op.accumulates = {0};
  op.flops = flops;
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
      {.title = "lenet fc1, batch 32",
       .attributes = {{"num_hidden", "500"}},
       .inputs = {{32, 50, 4, 4}, {500, 800}, {500}},
       .gradient = false,
       .benchmark = true},
  };
  return op;
}

OpDef define_backward_data() {
  OpDef op;
  op.name = "fully_connected_backward_data";
  op.doc =
      "Gradient of fully_connected with respect to data: `output_gradient * weight`, in "
      "data's shape.";
  op.params = params();
  op.inputs = names({"output_gradient", "weight", "data"});
  op.outputs = names({"data_gradient"});
  op.shape_only_inputs = {2};
  op.infer_shape = infer_backward_data;
  op.accumulates = {0};
  op.flops = flops;
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
  OpDef op;
  op.name = "fully_connected_backward_weights";
  op.doc =
      "Gradients of fully_connected with respect to weight (`output_gradient^T * data`) and "
      "bias (sum of output_gradient over rows).";
  op.params = params();
  op.inputs = names({"output_gradient", "data"});
  op.outputs = [](const Params& p) {
    return with_optional({"weight_gradient"}, "bias_gradient", has_bias(p));
  };
  op.infer_shape = infer_backward_weights;
  op.accumulates = {0, 1};
  op.flops = flops;
  op.kernels = {floating_kernel([](auto&&... x) { return run_backward_weights(x...); })};
  op.samples = {
      {.title = "flattened", .attributes = {{"num_hidden", "7"}}, .inputs = {{5, 7}, {5, 2, 9}}},
      {.title = "no bias",
       .attributes = {{"num_hidden", "4"}, {"no_bias", "True"}},
       .inputs = {{3, 4}, {3, 6}}},
      {.title = "last axis only",
       .attributes = {{"num_hidden", "4"}, {"flatten", "False"}},
       .inputs = {{2, 3, 4}, {2, 3, 6}}},
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
