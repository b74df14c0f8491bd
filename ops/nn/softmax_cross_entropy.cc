// SPDX-License-Identifier: Apache-2.0
// softmax_cross_entropy: the loss itself, summed over samples, from unnormalised scores.
// Pure functions of views; any thread.
#include <cmath>

#include "ops/nn/class_axis.h"

namespace troupe::ops {
namespace {

using base::DType;
using base::Shape;
using base::Status;

Status infer_data(Shape& data, Shape& label) {
  TROUPE_TRY(refine("data", data, Shape{base::kUnknownDim, base::kUnknownDim}));
  TROUPE_TRY(refine("label", label, Shape{data[0]}));
  data.set(0, label[0]);
  return {};
}

Status infer(const Params&, std::vector<Shape>& in, std::vector<Shape>& out) {
  TROUPE_TRY(infer_data(in[0], in[1]));
  return refine("loss", out[0], Shape{1});
}

Status infer_backward(const Params&, std::vector<Shape>& in, std::vector<Shape>& out) {
  TROUPE_TRY(refine("output_gradient", in[0], Shape{1}));
  TROUPE_TRY(refine("data", in[1], out[0]));
  TROUPE_TRY(infer_data(in[1], in[2]));
  out[0] = in[1];
  return {};
}

Status infer_backward_types(const Params&, std::vector<std::optional<DType>>& in,
                            std::vector<std::optional<DType>>& out) {
  TROUPE_TRY(check_label_dtype(in[2]));
  return unify_floating({&in[0], &in[1], &out[0]});
}

template <typename T>
Status run_forward(const OpCall& call, const KernelContext& c, T) {
  const ClassAxis v = class_axis(call.inputs[0].shape, 1);
  const Labels labels(c.inputs[1], call.params);
  TROUPE_TRY(labels.check(v.classes));
  const T* data = c.inputs[0].as<T>();
  double loss = 0.0;
  for (std::int64_t row = 0; row < v.rows(); ++row) {
    const std::optional<std::int64_t> label = labels.at(row);
    if (!label) continue;
    const T* scores = data + v.row_offset(row);
    const SoftmaxRow measured = measure_softmax(scores, v.classes, 1);
    loss += measured.peak + std::log(measured.sum) - static_cast<double>(scores[*label]);
  }
  c.outputs[0].as<T>()[0] = static_cast<T>(loss);
  return {};
}

template <typename T>
Status run_backward(const OpCall& call, const KernelContext& c, T) {
  const ClassAxis v = class_axis(call.inputs[1].shape, 1);
  const Labels labels(c.inputs[2], call.params);
  TROUPE_TRY(labels.check(v.classes));
  const auto head = static_cast<double>(c.inputs[0].as<T>()[0]);
  const T* data = c.inputs[1].as<T>();
  T* result = c.outputs[0].as<T>();
  c.parallel(v.rows(), [&](std::int64_t row) {
    const std::int64_t base = v.row_offset(row);
    const std::optional<std::int64_t> label = labels.at(row);
    const SoftmaxRow measured = measure_softmax(data + base, v.classes, 1);
    for (std::int64_t k = 0; k < v.classes; ++k) {
      const double p = std::exp(static_cast<double>(data[base + k]) - measured.peak) / measured.sum;
      const double target = label == k ? 1.0 : 0.0;
      result[base + k] = label ? static_cast<T>(head * (p - target)) : T{0};
    }
  });
  return {};
}

base::Result<std::vector<std::optional<Value>>> gradient(GradientBuilder& b) {
  return std::vector<std::optional<Value>>{
      b.add1("softmax_cross_entropy_backward", {*b.output_gradient(0), b.input(0), b.input(1)},
             b.params().to_attributes()),
      std::nullopt};
}

OpDef define_forward() {
  OpDef op;
  op.name = "softmax_cross_entropy";
  op.doc =
      "`sum over samples of -log(softmax(data)[label])`, shape (1). data (N, classes) holds "
      "unnormalised scores, label (N) class numbers. MXNet's operator has no parameters and reads "
      "over these.";
  op.params = ignore_params();
  op.inputs = names({"data", "label"});
  op.outputs = names({"loss"});
  op.infer_shape = infer;
  op.infer_dtype = infer_labelled_dtypes;
  op.gradient = gradient;
  op.is_loss = true;
  op.kernels = {floating_kernel([](auto&&... x) { return run_forward(x...); })};
  op.samples = {
      {.title = "ten classes", .inputs = {{6, 10}, {6}}, .integers = {{1, {0, 10}}}},
      {.title = "ignored label",
       .attributes = {{"use_ignore", "True"}, {"ignore_label", "1"}},
       .inputs = {{8, 3}, {8}},
       .integers = {{1, {0, 3}}}},
  };
  return op;
}

OpDef define_backward() {
  OpDef op;
  op.name = "softmax_cross_entropy_backward";
  op.doc =
      "Gradient of softmax_cross_entropy: `output_gradient * (softmax(data) - onehot(label))`.";
  op.params = ignore_params();
  op.inputs = names({"output_gradient", "data", "label"});
  op.outputs = names({"data_gradient"});
  op.infer_shape = infer_backward;
  op.infer_dtype = infer_backward_types;
  op.in_place = {{1, 0}};
  op.accumulates = {0};
  op.kernels = {floating_kernel([](auto&&... x) { return run_backward(x...); })};
  op.samples = {{.title = "ten classes",
                 .inputs = {{1}, {6, 10}, {6}},
                 .integers = {{2, {0, 10}}},
                 .gradient = false}};
  return op;
}

}  // namespace

std::span<const OpDef> ops_softmax_cross_entropy() {
  static const std::vector<OpDef> ops = {define_forward(), define_backward()};
  return ops;
}

}  // namespace troupe::ops
