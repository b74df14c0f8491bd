// SPDX-License-Identifier: Apache-2.0
// batch_norm, its prediction form and its gradient: definition, reference kernels, samples.
// The statistics of the batch are hidden outputs: the gradient reads them, and the owner of the
// running statistics moves those towards them. Pure functions of views; any thread.
#include "ops/nn/batch_norm.h"

#include <cmath>

#include "ops/nn/linear.h"

namespace troupe::ops {
namespace {

using base::DType;
using base::Shape;
using base::Status;

/// What all three operators take.
std::vector<ParamDef> common_params() {
  return {
      {.name = "eps",
       .type = ParamType::real,
       .initial = 1e-3,
       .doc = "Added to the variance.",
       .low = 0.0,
       .high = 1e38},  // which f32 holds
      {.name = "fix_gamma",
       .type = ParamType::boolean,
       .initial = true,
       .doc = "True: gamma counts as one and its gradient is zero."},
      {.name = "axis",
       .type = ParamType::integer,
       .initial = std::int64_t{1},
       .doc = "Channel axis."},
  };
}

/// What training takes beside.
std::vector<ParamDef> training_params() {
  return {{.name = "momentum",
           .type = ParamType::real,
           .initial = 0.9,
           .doc = "m in running statistic = m * running statistic + (1 - m) * batch's.",
           .low = 0.0,
           .high = 1.0},
          {.name = "use_global_stats",
           .type = ParamType::boolean,
           .initial = false,
           .doc = "True: normalise with the running statistics in training too."}};
}

std::vector<ParamDef> join(std::initializer_list<std::vector<ParamDef>> lists) {
  std::vector<ParamDef> result;
  for (const auto& list : lists) result.insert(result.end(), list.begin(), list.end());
  return result;
}

/// Shapes of data and of the vectors over its channels.
Status infer(const Params& p, Shape& data, std::vector<Shape*> vectors) {
  Shape vector{base::kUnknownDim};
  if (data.rank_known()) {
    TROUPE_TRY_ASSIGN(const int axis, resolve_axis(p.integer("axis"), data));
    vector.set(0, data[axis]);
  }
  for (Shape* each : vectors) {
    TROUPE_TRY(refine("a vector over channels", *each, vector));
    vector = *each;
  }
  if (data.rank_known()) data.set(resolve_axis(p.integer("axis"), data).value(), vector[0]);
  for (Shape* each : vectors) *each = vector;
  return {};
}

/// Inputs of both forward operators but the addend: data and four vectors.
constexpr std::size_t kVectors = 5;

Status infer_forward(const Params& p, std::vector<Shape>& in, std::vector<Shape>& out) {
  TROUPE_TRY(refine("data", in[0], out[0]));
  std::vector<Shape*> vectors;
  for (std::size_t i = 1; i < kVectors; ++i) vectors.push_back(&in[i]);
  for (std::size_t i = 1; i < out.size(); ++i) vectors.push_back(&out[i]);
  TROUPE_TRY(infer(p, in[0], vectors));
  out[0] = in[0];
  return in.size() > kVectors ? agree_with_addend(in[kVectors], out[0]) : Status();
}

/// Data of one dtype, and vectors over channels of the same or, beside data of 16 bits, of f32.
Status infer_types(const std::vector<std::optional<DType>*>& data,
                   const std::vector<std::optional<DType>*>& vectors) {
  const auto common = [](const auto& group, std::optional<DType>& found) -> Status {
    for (const std::optional<DType>* each : group) {
      if (!each->has_value()) continue;
      if (found && *found != **each) {
        return base::error(base::Errc::invalid_argument, "dtypes {} and {} are mixed",
                           base::dtype_name(*found), base::dtype_name(**each));
      }
      found = *each;
    }
    return {};
  };
  std::optional<DType> of_data, of_vectors;
  TROUPE_TRY(common(data, of_data));
  TROUPE_TRY(common(vectors, of_vectors));
  if (!of_data) of_data = of_vectors;
  if (!of_data) return {};
  if (!of_vectors) of_vectors = of_data;
  if (!base::is_floating(*of_data)) {
    return base::error(base::Errc::invalid_argument, "needs a floating dtype, got {}",
                       base::dtype_name(*of_data));
  }
  if (*of_data != *of_vectors && !(base::is_16_bit(*of_data) && *of_vectors == DType::f32)) {
    return base::error(base::Errc::invalid_argument, "dtypes {} and {} are mixed",
                       base::dtype_name(*of_data), base::dtype_name(*of_vectors));
  }
  for (std::optional<DType>* each : data) *each = of_data;
  for (std::optional<DType>* each : vectors) *each = of_vectors;
  return {};
}

/// Of a call whose first `tensors` inputs, addend and first output are data.
InferDType types_of(std::size_t tensors, bool forward) {
  return [tensors, forward](const Params&, std::vector<std::optional<DType>>& in,
                            std::vector<std::optional<DType>>& out) {
    std::vector<std::optional<DType>*> data = {&out[0]}, vectors;
    for (std::size_t i = 0; i < in.size(); ++i) {
      (i < tensors || (forward && i >= kVectors) ? data : vectors).push_back(&in[i]);
    }
    for (std::size_t o = 1; o < out.size(); ++o) vectors.push_back(&out[o]);
    return infer_types(data, vectors);
  };
}

Status infer_backward(const Params& p, std::vector<Shape>& in, std::vector<Shape>& out) {
  TROUPE_TRY(refine("output_gradient", in[0], in[1]));
  TROUPE_TRY(refine("data_gradient", out[0], in[0]));
  std::vector<Shape*> vectors = {&out[1], &out[2]};
  for (std::size_t i = 2; i < in.size(); ++i) vectors.push_back(&in[i]);
  TROUPE_TRY(infer(p, out[0], vectors));
  in[0] = in[1] = out[0];
  return {};
}

/// Calls f(offset) for each element of a channel, in order.
template <typename F>
void for_channel(const BatchNorm& v, std::int64_t channel, F&& f) {
  for (std::int64_t o = 0; o < v.outer; ++o) {
    const std::int64_t base = (o * v.channels + channel) * v.inner;
    for (std::int64_t i = 0; i < v.inner; ++i) f(base + i);
  }
}

struct Statistics {
  double mean = 0.0, variance = 0.0;

  /// As they are stored, which is how the gradient reads them. What no T holds is no statistic: of
  /// an infinite variance, normalised data would be beta, as if all were well.
  template <typename T>
  Statistics stored() const {
    const T kept = static_cast<T>(variance);
    return {static_cast<double>(static_cast<T>(mean)),
            std::isinf(kept) ? std::nan("") : static_cast<double>(kept)};
  }
};

/// What normalises one channel.
struct Normal {
  double mean = 0.0, scale = 1.0, shift = 0.0;

  template <typename T>
  double operator()(T x) const {
    return (static_cast<double>(x) - mean) * scale + shift;
  }
};

/// Mean and biased variance of one channel, in two passes.
template <typename T>
Statistics measure(const BatchNorm& v, const T* data, std::int64_t channel) {
  if (v.count() == 0) return {};
  const auto count = static_cast<double>(v.count());
  double sum = 0.0;
  for_channel(v, channel, [&](std::int64_t at) { sum += static_cast<double>(data[at]); });
  const double mean = sum / count;
  double squares = 0.0;
  for_channel(v, channel, [&](std::int64_t at) {
    const double distance = static_cast<double>(data[at]) - mean;
    squares += distance * distance;
  });
  return {mean, squares / count};
}

template <typename T>
Status run_forward(const OpCall& call, const KernelContext& c, T) {
  const BatchNorm v = read_batch_norm(call, call.inputs[0].shape);
  const T* data = c.inputs[0].as<T>();
  const T* addend = v.epilogue.sum ? c.inputs[kVectors].as<T>() : nullptr;
  T* output = c.outputs[0].as<T>();
  c.parallel(v.channels, [&](std::int64_t channel) {
    Statistics s;
    if (v.global) {
      s.mean = static_cast<double>(c.inputs[3].as<T>()[channel]);
      s.variance = static_cast<double>(c.inputs[4].as<T>()[channel]);
    } else {
      s = measure(v, data, channel).template stored<T>();
    }
    const double gamma = v.fix_gamma ? 1.0 : static_cast<double>(c.inputs[1].as<T>()[channel]);
    const double beta = static_cast<double>(c.inputs[2].as<T>()[channel]);
    const Normal normal{s.mean, gamma / std::sqrt(s.variance + v.eps), beta};
    for_channel(v, channel, [&](std::int64_t at) {
      output[at] = v.epilogue(static_cast<T>(normal(data[at])), addend, at);
    });
    if (c.outputs.size() < 3) return;
    c.outputs[1].as<T>()[channel] = static_cast<T>(s.mean);
    c.outputs[2].as<T>()[channel] = static_cast<T>(s.variance);
  });
  return {};
}

template <typename T>
Status run_backward(const OpCall& call, const KernelContext& c, T) {
  const BatchNorm v = read_batch_norm(call, call.inputs[1].shape);
  const T* output_gradient = c.inputs[0].as<T>();
  const T* data = c.inputs[1].as<T>();
  T* result = c.outputs[0].as<T>();
  c.parallel(v.channels, [&](std::int64_t channel) {
    const double gamma = v.fix_gamma ? 1.0 : static_cast<double>(c.inputs[2].as<T>()[channel]);
    const double mean = static_cast<double>(c.inputs[3].as<T>()[channel]);
    const double deviation = std::sqrt(static_cast<double>(c.inputs[4].as<T>()[channel]) + v.eps);
    const Normal normal{mean, 1.0 / deviation, 0.0};
    // The forward pass's output, and so relu, follows from data.
    const double beta = v.epilogue.relu ? static_cast<double>(c.inputs[5].as<T>()[channel]) : 0.0;
    const Normal output{mean, gamma / deviation, beta};
    auto gradient = [&](std::int64_t at) {
      const bool ended = v.epilogue.relu && static_cast<T>(output(data[at])) <= T{0};
      return ended ? 0.0 : static_cast<double>(output_gradient[at]);
    };
    double sum = 0.0;
    double weighted = 0.0;
    for_channel(v, channel, [&](std::int64_t at) {
      const double g = gradient(at);
      sum += g;
      weighted += g * normal(data[at]);
    });
    const double share = 1.0 / static_cast<double>(std::max<std::int64_t>(v.count(), 1));
    for_channel(v, channel, [&](std::int64_t at) {
      const double g = gradient(at);
      // Given statistics do not depend on data (not even on NaN); the batch's do.
      const double centred = v.global ? g : g - share * (sum + normal(data[at]) * weighted);
      result[at] = static_cast<T>(gamma / deviation * centred);
    });
    c.outputs[1].as<T>()[channel] = v.fix_gamma ? T{0} : static_cast<T>(weighted);
    c.outputs[2].as<T>()[channel] = static_cast<T>(sum);
  });
  return {};
}

base::Result<std::vector<std::optional<Value>>> gradient_through(GradientBuilder& b, Value mean,
                                                                 Value variance,
                                                                 Attributes attributes) {
  std::vector<std::optional<Value>> result(static_cast<std::size_t>(b.input_count()));
  Value head = *b.output_gradient(0);
  const Epilogue epilogue = read_epilogue(b.params());
  if (epilogue.sum) {  // then the addend wants what comes through relu, too
    head = before_epilogue(b);
    result[kVectors] = head;
    attributes["act_type"] = "none";
  }
  std::vector<Value> inputs = {head, b.input(0), b.input(1), mean, variance};
  if (epilogue.relu && !epilogue.sum) inputs.push_back(b.input(2));
  const auto values = b.add("batch_norm_backward", std::move(inputs), attributes);
  std::copy(values.begin(), values.end(), result.begin());
  return result;
}

base::Result<std::vector<std::optional<Value>>> gradient(GradientBuilder& b) {
  return gradient_through(b, b.output(1), b.output(2), without_sum(b.params()));
}

base::Result<std::vector<std::optional<Value>>> gradient_of_inference(GradientBuilder& b) {
  Attributes attributes = without_sum(b.params());
  attributes["use_global_stats"] = "True";
  return gradient_through(b, b.input(3), b.input(4), attributes);
}

std::vector<Value> inputs_of(GradientBuilder& b) {
  std::vector<Value> inputs;
  for (int i = 0; i < b.input_count(); ++i) inputs.push_back(b.input(i));
  return inputs;
}

base::Result<std::vector<Value>> predict_form(GradientBuilder& b) {
  Attributes attributes = b.params().to_attributes();
  for (const ParamDef& param : training_params()) attributes.erase(param.name);
  const Value output = b.add1("batch_norm_inference", inputs_of(b), attributes);
  return std::vector<Value>{output, b.input(3), b.input(4)};
}

/// The statistics that come in are the running ones then.
base::Result<std::vector<Value>> predict_form_of_backward(GradientBuilder& b) {
  Attributes attributes = b.params().to_attributes();
  attributes["use_global_stats"] = "True";
  return b.add("batch_norm_backward", inputs_of(b), attributes);
}

struct Case {
  std::string title;
  Attributes attributes;
  Shape data;
  std::int64_t channels = 0;
  bool benchmark = false;
};

std::vector<Case> cases() {
  return {
      {"17 channels", {{"fix_gamma", "False"}}, {3, 17, 4, 5}, 17},
      {"fixed gamma", {{"eps", "0.01"}}, {2, 3, 3, 3}, 3},
      {"two axes", {{"fix_gamma", "False"}}, {9, 5}, 5},
      {"last axis", {{"fix_gamma", "False"}, {"axis", "-1"}}, {2, 3, 4, 6}, 6},
      {"relu", {{"fix_gamma", "False"}, {"act_type", "relu"}}, {2, 16, 3, 5}, 16},
      {"sum", {{"with_sum", "True"}}, {3, 4, 2, 2}, 4},
      {"sum, 24 channels", {{"with_sum", "True"}}, {2, 24, 3, 3}, 24},
      {"sum and relu",
       {{"fix_gamma", "False"}, {"with_sum", "True"}, {"act_type", "relu"}},
       {2, 18, 3, 3},
       18},
      {"batch 32, 64 channels", {{"fix_gamma", "False"}}, {32, 64, 14, 14}, 64, true},
      {"relu, batch 32, 64 channels",
       {{"fix_gamma", "False"}, {"act_type", "relu"}},
       {32, 64, 14, 14},
       64,
       true},
  };
}

/// Samples of an operator whose inputs are `tensors` times data and `vectors` times a vector; an
/// addend behind them, or beta where the gradient ends in relu.
std::vector<Sample> samples(const std::vector<Case>& list, std::size_t tensors, std::size_t vectors,
                            bool differentiable) {
  std::vector<Sample> result;
  for (const Case& each : list) {
    Sample sample{.title = each.title,
                  .attributes = each.attributes,
                  .inputs = std::vector<Shape>(tensors, each.data),
                  .low = 0.5,
                  .high = 1.5,
                  .gradient = differentiable && !each.benchmark,
                  .benchmark = each.benchmark};
    sample.inputs.insert(sample.inputs.end(), vectors, Shape{each.channels});
    const bool gradient = tensors > 1;
    if (gradient && each.attributes.contains("act_type")) {
      sample.inputs.push_back(Shape{each.channels});
    }
    if (each.attributes.contains("with_sum")) {
      if (gradient) continue;
      sample.inputs.push_back(each.data);
    }
    result.push_back(std::move(sample));
  }
  return result;
}

std::vector<Case> cases_with_global() {
  std::vector<Case> list = cases();
  list.push_back({"global statistics",
                  {{"fix_gamma", "False"}, {"use_global_stats", "True"}},
                  {2, 18, 3, 3},
                  18});
  return list;
}

OpDef define_forward() {
  OpDef op;
  op.name = "batch_norm";
  op.aliases = {"BatchNorm", "BatchNorm_v1", "CuDNNBatchNorm"};
  op.ignored = library_choices();
  op.ignored.push_back({"output_mean_var", {"False", "false", "0"}});
  op.ignored.push_back({"min_calib_range", {"None"}});
  op.ignored.push_back({"max_calib_range", {"None"}});
  op.doc =
      "`output = (data - mean) / sqrt(var + eps) * gamma + beta` with mean and biased variance of "
      "the batch per channel (Ioffe and Szegedy, 2015). moving_mean and moving_var are auxiliary "
      "states: training does not read them (but with `use_global_stats` it normalises with them), "
      "prediction uses them. Beside data of 16 bits the vectors may be f32.";
  op.params = join({common_params(), training_params(), epilogue_params()});
  op.inputs = [](const Params& p) {
    return with_optional({"data", "gamma", "beta", "moving_mean", "moving_var"}, "addend",
                         read_epilogue(p).sum);
  };
  op.epilogue = true;
  op.outputs = names({"output", "mean", "var"});
  op.visible_outputs = 1;
  op.infer_shape = infer_forward;
  op.infer_dtype = types_of(1, true);
  op.mixed = MixedPrecision::as_inputs;
  op.gradient = gradient;
  const AuxiliaryState mean{.input = 3,
                            .output = 1,
                            .initial = 0.0,
                            .momentum = "momentum",
                            .frozen = "use_global_stats"};
  AuxiliaryState var = mean;
  var.input = 4;
  var.output = 2;
  var.initial = 1.0;
  op.auxiliary = {mean, var};
  op.in_place = {{0, 0}, {kVectors, 0}};
  op.predict_form = predict_form;
  op.recomputation = {.op = "batch_norm_inference", .kept = {{3, 1}, {4, 2}}};
  op.kernels = {floating_kernel([](auto&&... x) { return run_forward(x...); })};
  op.samples = samples(cases_with_global(), 1, 4, true);
  return op;
}

OpDef define_inference() {
  OpDef op;
  op.name = "batch_norm_inference";
  op.doc =
      "batch_norm with given statistics: `output = (data - mean) / sqrt(var + eps) * gamma + "
      "beta`.";
  op.params = join({common_params(), epilogue_params()});
  op.inputs = [](const Params& p) {
    return with_optional({"data", "gamma", "beta", "mean", "var"}, "addend", read_epilogue(p).sum);
  };
  op.epilogue = true;
  op.outputs = names({"output"});
  op.infer_shape = infer_forward;
  op.infer_dtype = types_of(1, true);
  op.mixed = MixedPrecision::as_inputs;
  op.gradient = gradient_of_inference;
  op.keeps_samples = [](const OpCall& call, const std::vector<bool>& samples) {
    return samples_in_data(call, samples) &&
           resolve_axis(call.params.integer("axis"), call.inputs[0].shape).value() != 0;
  };
  op.in_place = {{0, 0}, {kVectors, 0}};
  op.kernels = {floating_kernel([](auto&&... x) { return run_forward(x...); })};
  // Mean and variance are statistics here, not arguments: their gradient is not defined.
  op.samples = samples(cases(), 1, 4, true);
  return op;
}

OpDef define_backward() {
  OpDef op;
  op.name = "batch_norm_backward";
  op.doc =
      "Gradients of batch_norm with respect to data, gamma (zero with `fix_gamma`) and beta. With "
      "`act_type = relu`, output_gradient is that of relu's output, which follows from data.";
  op.params = join({common_params(), training_params(), {epilogue_activation_param()}});
  op.inputs = [](const Params& p) {
    return with_optional({"output_gradient", "data", "gamma", "mean", "var"}, "beta",
                         ends_in_relu(p));
  };
  op.outputs = names({"data_gradient", "gamma_gradient", "beta_gradient"});
  op.infer_shape = infer_backward;
  op.infer_dtype = types_of(2, false);
  op.predict_form = predict_form_of_backward;
  op.in_place = {{0, 0}};
  op.accumulates = {0, 1, 2};
  op.kernels = {floating_kernel([](auto&&... x) { return run_backward(x...); })};
  op.samples = samples(cases_with_global(), 2, 3, false);
  return op;
}

std::vector<std::string> fold_inputs(const Params& p) {
  std::vector<std::string> list = with_optional({"weight"}, "bias", !p.boolean("no_bias"));
  list.insert(list.end(), {"gamma", "beta", "mean", "var"});
  return list;
}

Status infer_fold(const Params&, std::vector<Shape>& in, std::vector<Shape>& out) {
  TROUPE_TRY(refine("weight", in[0], out[0]));
  if (in[0].rank_known() && in[0].rank() == 0) {
    return base::error(base::Errc::invalid_argument, "weight has no axis of filters");
  }
  Shape vector{in[0].rank_known() ? in[0][0] : base::kUnknownDim};
  std::vector<Shape*> vectors = {&out[1]};
  for (std::size_t i = 1; i < in.size(); ++i) vectors.push_back(&in[i]);
  for (Shape* each : vectors) {
    TROUPE_TRY(refine("a vector over filters", vector, *each));
  }
  for (Shape* each : vectors) *each = vector;
  if (in[0].rank_known()) in[0].set(0, vector[0]);
  out[0] = in[0];
  return {};
}

template <typename T>
Status run_fold(const OpCall& call, const KernelContext& c, T) {
  const Shape& shape = call.inputs[0].shape;
  const std::int64_t taps = shape.elements(1, shape.rank());
  const double eps = call.params.real("eps");
  const T* bias = call.params.boolean("no_bias") ? nullptr : c.inputs[1].as<T>();
  const bool fixed = call.params.boolean("fix_gamma");
  /// Number `filter` of gamma, beta, mean or var.
  const auto number = [&](std::size_t vector, std::int64_t filter) {
    return static_cast<double>(c.inputs[c.inputs.size() - 4 + vector].as<T>()[filter]);
  };
  c.parallel(shape[0], [&](std::int64_t filter) {
    const double gamma = fixed ? 1.0 : number(0, filter);
    const double scale = gamma / std::sqrt(number(3, filter) + eps);
    const T* from = c.inputs[0].as<T>() + filter * taps;
    T* to = c.outputs[0].as<T>() + filter * taps;
    for (std::int64_t i = 0; i < taps; ++i) {
      to[i] = static_cast<T>(static_cast<double>(from[i]) * scale);
    }
    const double shift = bias == nullptr ? 0.0 : static_cast<double>(bias[filter]);
    c.outputs[1].as<T>()[filter] =
        static_cast<T>((shift - number(2, filter)) * scale + number(1, filter));
  });
  return {};
}

OpDef define_fold() {
  OpDef op;
  op.name = "batch_norm_fold";
  op.doc =
      "Weights and bias of a linear operator that does what it and batch_norm_inference behind it "
      "do: `scale = gamma / sqrt(var + eps)`, `weight * scale` by filters (axis 0) and `(bias - "
      "mean) * scale + beta`.";
  op.params = common_params();
  op.params.pop_back();  // the axis: filters
  op.params.push_back(no_bias_param());
  op.inputs = fold_inputs;
  op.outputs = names({"folded_weight", "folded_bias"});
  op.infer_shape = infer_fold;
  op.prepares_weights = true;
  op.kernels = {floating_kernel([](auto&&... x) { return run_fold(x...); })};
  for (const bool biased : {false, true}) {
    Sample sample{.title = biased ? "bias" : "no bias, fixed gamma",
                  .attributes = {{"no_bias", biased ? "False" : "True"},
                                 {"fix_gamma", biased ? "False" : "True"}},
                  .inputs = {{4, 3, 2, 2}},
                  .low = 0.5,
                  .high = 1.5,
                  .gradient = false};
    sample.inputs.insert(sample.inputs.end(), biased ? 5 : 4, Shape{4});
    op.samples.push_back(std::move(sample));
  }
  return op;
}

}  // namespace

std::span<const OpDef> ops_batch_norm() {
  static const std::vector<OpDef> ops = {define_forward(), define_inference(), define_backward(),
                                         define_fold()};
  return ops;
}

}  // namespace troupe::ops
