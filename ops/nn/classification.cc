// SPDX-License-Identifier: Apache-2.0
// Metrics of classification as pairs (sum, weight) in f64: their quotient is the metric, and pairs
// of parts of the data add up to the pair of the whole. Pure functions of views; any thread.
#include <cmath>

#include "ops/nn/class_axis.h"

namespace troupe::ops {
namespace {

using base::DType;
using base::Shape;
using base::Status;

/// A smaller probability counts as this one, as in MXNet's metric.
constexpr double kLeastProbability = 1e-12;

std::vector<ParamDef> params() {
  std::vector<ParamDef> result = {{.name = "axis",
                                   .type = ParamType::integer,
                                   .initial = std::int64_t{-1},
                                   .doc = "The axis of classes."}};
  const auto ignore = ignore_params();
  result.insert(result.end(), ignore.begin(), ignore.end());
  return result;
}

Status infer(const Params& p, std::vector<Shape>& in, std::vector<Shape>& out) {
  TROUPE_TRY(refine("sum", out[0], Shape{}));
  TROUPE_TRY(refine("weight", out[1], Shape{}));
  if (!in[0].rank_known()) return {};
  TROUPE_TRY_ASSIGN(const int axis, resolve_axis(p.integer("axis"), in[0]));
  return refine("label", in[1], without_axis(in[0], axis));
}

Status infer_types(const Params&, std::vector<std::optional<DType>>& in,
                   std::vector<std::optional<DType>>& out) {
  TROUPE_TRY(check_label_dtype(in[1]));
  TROUPE_TRY(fix_dtype("sum", out[0], DType::f64));
  TROUPE_TRY(fix_dtype("weight", out[1], DType::f64));
  return unify_floating({&in[0]});
}

/// Adds score(scores of the row, classes, step, label) over all rows that count.
template <typename T, typename F>
Status run_metric(const OpCall& call, const KernelContext& c, F&& score) {
  const Shape& shape = call.inputs[0].shape;
  const ClassAxis v = class_axis(shape, resolve_axis(call.params.integer("axis"), shape).value());
  const Labels labels(c.inputs[1], call.params);
  TROUPE_TRY(labels.check(v.classes));
  double sum = 0.0;
  double weight = 0.0;
  for (std::int64_t row = 0; row < v.rows(); ++row) {
    const std::optional<std::int64_t> label = labels.at(row);
    if (!label) continue;
    sum += score(c.inputs[0].as<T>() + v.row_offset(row), v, *label);
    weight += 1.0;
  }
  *c.outputs[0].as<double>() = sum;
  *c.outputs[1].as<double>() = weight;
  return {};
}

template <typename T>
Status run_cross_entropy(const OpCall& call, const KernelContext& c, T) {
  return run_metric<T>(call, c, [](const T* row, const ClassAxis& v, std::int64_t label) {
    return -std::log(std::max(static_cast<double>(row[label * v.inner]), kLeastProbability));
  });
}

template <typename T>
Status run_accuracy(const OpCall& call, const KernelContext& c, T) {
  return run_metric<T>(call, c, [](const T* row, const ClassAxis& v, std::int64_t label) {
    std::int64_t best = 0;
    for (std::int64_t k = 0; k < v.classes; ++k) {
      const T score = row[k * v.inner];
      if (score != score) return 0.0;  // NaN
      if (score > row[best * v.inner]) best = k;
    }
    return best == label ? 1.0 : 0.0;
  });
}

OpDef define(std::string name, std::string doc, std::string input, KernelDef kernel) {
  OpDef op;
  op.name = std::move(name);
  op.doc = std::move(doc);
  op.params = params();
  op.inputs = names({std::move(input), "label"});
  op.outputs = names({"sum", "weight"});
  op.infer_shape = infer;
  op.infer_dtype = infer_types;
  op.kernels = {std::move(kernel)};
  op.samples = {
      {.title = "ten classes",
       .inputs = {{6, 10}, {6}},
       .low = 0.05,
       .high = 1.0,
       .integers = {{1, {0, 10}}},
       .gradient = false},
      {.title = "classes along axis 1, ignored label",
       .attributes = {{"axis", "1"}, {"use_ignore", "True"}, {"ignore_label", "1"}},
       .inputs = {{3, 4, 2}, {3, 2}},
       .low = 0.05,
       .high = 1.0,
       .integers = {{1, {0, 4}}},
       .gradient = false},
  };
  return op;
}

}  // namespace

std::span<const OpDef> ops_classification() {
  static const std::vector<OpDef> ops = {
      define("cross_entropy_sum",
             "sum: `-log(probability[label])` added over the labels that count; weight: their "
             "number.",
             "probability", floating_kernel([](auto&&... x) { return run_cross_entropy(x...); })),
      define("accuracy_count",
             "sum: how many rows have their greatest score (the first of equals) at their label, "
             "and no NaN; weight: the number of rows that count.",
             "score", floating_kernel([](auto&&... x) { return run_accuracy(x...); })),
  };
  return ops;
}

}  // namespace troupe::ops
