// SPDX-License-Identifier: Apache-2.0
// softmax_output: class probabilities whose gradient is that of the cross-entropy with a label,
// summed (never averaged) over samples. Pure functions of views; any thread.
#include "ops/nn/softmax_output.h"

#include <array>

namespace troupe::ops {
namespace {

using base::Shape;
using base::Status;

std::vector<ParamDef> params() {
  std::vector<ParamDef> result = {
      {.name = "grad_scale",
       .type = ParamType::real,
       .initial = 1.0,
       .doc = "Factor of the gradient."},
      {.name = "multi_output",
       .type = ParamType::boolean,
       .initial = false,
       .doc = "True: classes along axis 1, one label per further position; the gradient is divided "
              "by the number of these positions."},
      {.name = "preserve_shape",
       .type = ParamType::boolean,
       .initial = false,
       .doc = "True: classes along the last axis; False: all axes behind the first are classes."},
      {.name = "normalization",
       .type = ParamType::text,
       .initial = std::string("null"),
       .doc = "Only null: losses are sums over samples; the updater divides by their count. "
              "MXNet's batch and valid are not built.",
       .choices = {"null"}},
      {.name = "out_grad",
       .type = ParamType::text,
       .initial = std::string("False"),
       .doc = "Only False: the gradient of the output is taken as ones.",
       .choices = {"False"}},
      {.name = "smooth_alpha",
       .type = ParamType::real,
       .initial = 0.0,
       .doc = "Label smoothing: this much of the label is dealt evenly to the other classes.",
       .low = 0.0,
       .high = 1.0},
  };
  const auto ignore = ignore_params();
  result.insert(result.end(), ignore.begin(), ignore.end());
  return result;
}

/// The shape of the labels of classes along axis 1. Of MXNet's three forms, (N, 1, d2, ...) and
/// (N, d2, ...) only fit a label that has their rank; (N, d2 * ...) is what an unknown label gets.
Shape position_labels(const Shape& data, const Shape& label) {
  if (label.rank_known() && label.rank() == data.rank()) {
    Shape kept = data;
    kept.set(1, 1);
    return kept;
  }
  if (label.rank_known() && label.rank() == data.rank() - 1) return without_axis(data, 1);
  const auto behind = data.dims().subspan(2);
  const bool known = std::all_of(behind.begin(), behind.end(), [](auto d) { return d >= 0; });
  return {data[0], known ? label_positions(data) : base::kUnknownDim};
}

Status infer(const Params& p, Shape& data, Shape& label) {
  if (!data.rank_known()) return {};
  if (data.rank() < 2) {
    return base::error(base::Errc::invalid_argument, "data of shape {} has no axis of classes",
                       data.to_string());
  }
  Shape expected{data[0]};
  if (p.boolean("multi_output")) {
    expected = position_labels(data, label);
  } else if (p.boolean("preserve_shape")) {
    expected = without_axis(data, data.rank() - 1);
  }
  TROUPE_TRY(refine("label", label, expected));
  data.set(0, label[0]);
  return {};
}

Status infer_forward(const Params& p, std::vector<Shape>& in, std::vector<Shape>& out) {
  TROUPE_TRY(refine("data", in[0], out[0]));
  TROUPE_TRY(infer(p, in[0], in[1]));
  out[0] = in[0];
  return {};
}

template <typename T>
Status run_forward(const OpCall& call, const KernelContext& c, T) {
  softmax_rows(c, softmax_output_axis(call.params, call.inputs[0].shape), c.inputs[0].as<T>(),
               c.outputs[0].as<T>());
  return {};
}

template <typename T>
Status run_backward(const OpCall& call, const KernelContext& c, T) {
  const Shape& shape = call.inputs[0].shape;
  const ClassAxis v = softmax_output_axis(call.params, shape);
  const Labels labels(c.inputs[1], call.params);
  TROUPE_TRY(labels.check(v.classes));
  const T* output = c.inputs[0].as<T>();
  T* result = c.outputs[0].as<T>();
  const double positions =
      call.params.boolean("multi_output") ? static_cast<double>(label_positions(shape)) : 1.0;
  const auto scale = static_cast<T>(call.params.real("grad_scale") / positions);
  const double alpha = call.params.real("smooth_alpha");
  const auto own = static_cast<T>(1.0 - alpha);
  const auto other =
      static_cast<T>(v.classes > 1 ? alpha / static_cast<double>(v.classes - 1) : 0.0);
  // Of a row's class k; label -1: the row is left out.
  const auto element = [=](std::int64_t at, std::int64_t label, std::int64_t k) {
    const T target = label == k ? own : other;
    return label >= 0 ? scale * (output[at] - target) : T{0};
  };
  if (v.inner == 1) {
    c.parallel(v.outer, [&](std::int64_t row) {
      const std::int64_t label = labels.at(row).value_or(-1), base = row * v.classes;
      for (std::int64_t k = 0; k < v.classes; ++k) result[base + k] = element(base + k, label, k);
    });
    return {};
  }
  // Rows beside each other, so that memory is read and written in its order.
  constexpr std::int64_t kRows = 256;
  const std::int64_t parts = (v.inner + kRows - 1) / kRows;
  c.parallel(v.outer * parts, [&](std::int64_t part) {
    const std::int64_t outer = part / parts, first = part % parts * kRows;
    const std::int64_t count = std::min(kRows, v.inner - first);
    std::array<std::int64_t, kRows> label{};
    for (std::int64_t i = 0; i < count; ++i) {
      label[static_cast<std::size_t>(i)] = labels.at(outer * v.inner + first + i).value_or(-1);
    }
    for (std::int64_t k = 0; k < v.classes; ++k) {
      const std::int64_t base = (outer * v.classes + k) * v.inner + first;
      for (std::int64_t i = 0; i < count; ++i) {
        result[base + i] = element(base + i, label[static_cast<std::size_t>(i)], k);
      }
    }
  });
  return {};
}

base::Result<std::vector<std::optional<Value>>> gradient(GradientBuilder& b) {
  return std::vector<std::optional<Value>>{
      b.add1("softmax_output_backward", {b.output(0), b.input(1)}, b.params().to_attributes()),
      std::nullopt};
}

/// softmax without a label.
base::Result<std::vector<Value>> predict_form(GradientBuilder& b) {
  const Params& p = b.params();
  if (p.boolean("multi_output") || p.boolean("preserve_shape")) {
    return b.add("softmax", {b.input(0)}, {{"axis", p.boolean("multi_output") ? "1" : "-1"}});
  }
  const Value flat = b.add1("flatten", {b.input(0)});
  return b.add("reshape_like", {b.add1("softmax", {flat}), b.input(0)}, {});
}

std::vector<Sample> samples() {
  std::vector<Sample> result = {
      {.title = "ten classes", .inputs = {{6, 10}, {6}}},
      {.title = "ignored label and scale",
       .attributes = {{"use_ignore", "True"}, {"ignore_label", "2"}, {"grad_scale", "0.5"}},
       .inputs = {{7, 4}, {7}}},
      {.title = "smoothed, last axis",
       .attributes = {{"preserve_shape", "True"}, {"smooth_alpha", "0.1"}},
       .inputs = {{2, 3, 5}, {2, 3}}},
      {.title = "one label per position",
       .attributes = {{"multi_output", "True"}},
       .inputs = {{2, 4, 3, 2}, {2, 3, 2}}},
      {.title = "positions of a sample in one axis",
       .attributes = {{"multi_output", "True"}, {"smooth_alpha", "0.1"}},
       .inputs = {{2, 4, 3, 2}, {2, 6}}},
      {.title = "flattened classes", .inputs = {{3, 2, 2}, {3}}},
      {.title = "many positions",
       .attributes = {{"multi_output", "True"}, {"use_ignore", "True"}, {"ignore_label", "2"}},
       .inputs = {{2, 5, 21, 19}, {2, 21, 19}}},
      {.title = "batch 32, 1000 classes", .inputs = {{32, 1000}, {32}}, .benchmark = true},
  };
  for (Sample& sample : result) {
    sample.integers[1] = {0, 4};
    // Its gradient is by definition not that of its output.
    sample.gradient = false;
  }
  return result;
}

OpDef define_forward() {
  OpDef op;
  op.name = "softmax_output";
  op.aliases = {"SoftmaxOutput", "Softmax"};
  op.doc =
      "Forward: softmax of data. Backward: `grad_scale * (output - onehot(label))`, the gradient "
      "of the cross-entropy summed over samples, whatever the output's gradient. Labels are class "
      "numbers in f32, f64, i64, i32 or u8.\n\n"
      "With `multi_output` data is (N, classes, d2, ...), labels are (N, d2 * ...), (N, d2, ...) "
      "or "
      "(N, 1, d2, ...), and the gradient is that of the mean over a sample's positions.\n\n"
      "Where it differs from MXNet 1.9.1: a label that is no class is an error (MXNet reads it as "
      "some class); labels that are probabilities are not taken; `smooth_alpha` works with "
      "`multi_output` too (MXNet ignores it there); without `multi_output` and `preserve_shape` "
      "labels are (N) for data of any rank (MXNet wants the shape of data without its last axis).";
  op.params = params();
  op.inputs = names({"data", "label"});
  op.outputs = names({"output"});
  op.infer_shape = infer_forward;
  op.infer_dtype = infer_labelled_dtypes;
  op.gradient = gradient;
  op.shape_only_inputs = {1};
  op.in_place = {{0, 0}};
  op.is_loss = true;
  op.predict_form = predict_form;
  op.kernels = {floating_kernel([](auto&&... x) { return run_forward(x...); })};
  op.samples = samples();
  return op;
}

OpDef define_backward() {
  OpDef op;
  op.name = "softmax_output_backward";
  op.doc =
      "Gradient of softmax_output with respect to data, from output and label. A label that "
      "is no class is an error that names it; on a GPU, its row is NaN.";
  op.params = params();
  op.inputs = names({"output", "label"});
  op.outputs = names({"data_gradient"});
  op.infer_shape = infer_forward;
  op.infer_dtype = infer_labelled_dtypes;
  op.in_place = {{0, 0}};
  op.accumulates = {0};
  op.kernels = {floating_kernel([](auto&&... x) { return run_backward(x...); })};
  op.samples = samples();
  return op;
}

}  // namespace

std::span<const OpDef> ops_softmax_output() {
  static const std::vector<OpDef> ops = {define_forward(), define_backward()};
  return ops;
}

}  // namespace troupe::ops
