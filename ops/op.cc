// SPDX-License-Identifier: Apache-2.0
// Defaults of operator definitions: inference with the operator's name in its errors, and the
// building of calls.
#include "ops/op.h"

#include <algorithm>
#include <utility>

namespace troupe::ops {

using base::DType;
using base::Errc;
using base::Result;
using base::Shape;
using base::Status;

Value GraphBuilder::add1(std::string_view op, std::vector<Value> inputs,
                         const Attributes& attributes) {
  const std::vector<Value> outputs = add(op, std::move(inputs), attributes);
  TROUPE_CHECK(outputs.size() == 1, "add1() of an operator with several outputs");
  return outputs.front();
}

int OpDef::visible_output_count(const Params& p) const {
  return visible_outputs > 0 ? visible_outputs : static_cast<int>(outputs(p).size());
}

const ParamDef* OpDef::find_param(std::string_view param) const {
  const auto it = std::find_if(params.begin(), params.end(),
                               [param](const ParamDef& p) { return p.name == param; });
  return it == params.end() ? nullptr : &*it;
}

std::function<std::optional<PointwiseTerm>(const Params&)> pointwise_term(std::string text) {
  return [text = std::move(text)](const Params&) { return PointwiseTerm{text}; };
}

std::function<std::vector<std::string>(const Params&)> names(std::vector<std::string> list) {
  return [list = std::move(list)](const Params&) { return list; };
}

Status infer_same_shape(const Params&, std::vector<Shape>& inputs, std::vector<Shape>& outputs) {
  Shape common = Shape::unknown();
  for (const auto* group : {&inputs, &outputs}) {
    for (const Shape& shape : *group) {
      TROUPE_TRY_ASSIGN(common, base::merge_shapes(common, shape));
    }
  }
  std::fill(inputs.begin(), inputs.end(), common);
  std::fill(outputs.begin(), outputs.end(), common);
  return {};
}

Status infer_same_dtype(const Params&, std::vector<std::optional<DType>>& inputs,
                        std::vector<std::optional<DType>>& outputs) {
  std::optional<DType> common;
  for (const auto* group : {&inputs, &outputs}) {
    for (const std::optional<DType>& dtype : *group) {
      if (!dtype) continue;
      if (common && *common != *dtype) {
        return base::error(Errc::invalid_argument, "dtypes {} and {} are mixed",
                           base::dtype_name(*common), base::dtype_name(*dtype));
      }
      common = dtype;
    }
  }
  if (!common) return {};
  if (!base::is_floating(*common)) {
    return base::error(Errc::invalid_argument, "dtype {} is not a floating type",
                       base::dtype_name(*common));
  }
  std::fill(inputs.begin(), inputs.end(), common);
  std::fill(outputs.begin(), outputs.end(), common);
  return {};
}

Status infer_shapes(const OpDef& op, const Params& params, std::vector<Shape>& inputs,
                    std::vector<Shape>& outputs) {
  const Status status = op.infer_shape ? op.infer_shape(params, inputs, outputs)
                                       : infer_same_shape(params, inputs, outputs);
  if (status.ok()) return status;
  return Status(status.code(), fmt::format("[{}] {}", op.name, status.text()));
}

Status infer_dtypes(const OpDef& op, const Params& params,
                    std::vector<std::optional<DType>>& inputs,
                    std::vector<std::optional<DType>>& outputs) {
  const Status status = op.infer_dtype ? op.infer_dtype(params, inputs, outputs)
                                       : infer_same_dtype(params, inputs, outputs);
  if (status.ok()) return status;
  return Status(status.code(), fmt::format("[{}] {}", op.name, status.text()));
}

Result<Params> parse_params(const OpDef& op, const Attributes& attributes) {
  auto params = Params::parse(op.params, attributes, op.ignored);
  if (params.ok()) return params;
  const Status& status = params.status();
  return Status(status.code(), fmt::format("[{}] {}", op.name, status.text()));
}

Attributes with_num_args(const OpDef& op, Attributes attributes, std::size_t inputs) {
  if (op.find_param("num_args") != nullptr && inputs > 0) {
    attributes.emplace("num_args", std::to_string(inputs));
  }
  return attributes;
}

/// base::check_shape() for one tensor of a call; an error names it and its dtype.
static Status check_tensor(const OpDef& op, const char* what, std::size_t index,
                           const TensorDesc& tensor) {
  return base::check_shape(tensor.shape).with_context([&] {
    return fmt::format("[{}] {} {} of dtype {}", op.name, what, index,
                       base::dtype_name(tensor.dtype));
  });
}

Result<OpCall> make_call(const OpDef& op, Params params, std::vector<TensorDesc> inputs) {
  const std::size_t expected = op.inputs(params).size();
  if (inputs.size() != expected) {
    return base::error(Errc::invalid_argument, "[{}] takes {} inputs, got {}", op.name, expected,
                       inputs.size());
  }
  std::vector<Shape> in_shapes;
  std::vector<std::optional<DType>> in_dtypes;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    TROUPE_TRY(check_tensor(op, "input", i, inputs[i]));
    if (!inputs[i].shape.complete()) {
      return base::error(Errc::invalid_argument, "[{}] the shape {} of input {} is incomplete",
                         op.name, inputs[i].shape.to_string(), i);
    }
    in_shapes.push_back(inputs[i].shape);
    in_dtypes.emplace_back(inputs[i].dtype);
  }
  const std::size_t count = op.outputs(params).size();
  std::vector<Shape> out_shapes(count, Shape::unknown());
  std::vector<std::optional<DType>> out_dtypes(count);
  TROUPE_TRY(infer_shapes(op, params, in_shapes, out_shapes));
  TROUPE_TRY(infer_dtypes(op, params, in_dtypes, out_dtypes));
  OpCall call;
  call.op = &op;
  call.params = std::move(params);
  call.inputs = std::move(inputs);
  for (std::size_t i = 0; i < count; ++i) {
    call.outputs.push_back({out_dtypes[i].value_or(DType::f32), out_shapes[i], {}, false});
    TROUPE_TRY(check_tensor(op, "output", i, call.outputs.back()));
    if (!out_shapes[i].complete()) {
      return base::error(Errc::invalid_argument, "[{}] the shape {} of output {} stays incomplete",
                         op.name, out_shapes[i].to_string(), i);
    }
  }
  return call;
}

bool samples_in_data(const OpCall& call, const std::vector<bool>& samples) {
  std::vector<bool> data(samples.size(), false);
  data.front() = true;
  if (call.op->epilogue && call.params.boolean("with_sum")) data.back() = true;
  return samples == data;
}

KeepsSamples samples_beside(std::string axis) {
  return [axis = std::move(axis)](const OpCall& call, const std::vector<bool>& samples) {
    const std::int64_t along = call.params.integer(axis);
    const bool all = std::find(samples.begin(), samples.end(), false) == samples.end();
    return all && along != 0 && along != -call.inputs.front().shape.rank();
  };
}

/// Elementwise: what carries no samples is broadcast over them.
static bool samples_at_their_places(const OpCall& call, const std::vector<bool>& samples) {
  const int rank = call.outputs.front().shape.rank();
  for (const TensorDesc& output : call.outputs) {
    if (output.shape != call.outputs.front().shape) return false;
  }
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Shape& shape = call.inputs[i].shape;
    if (samples[i] ? shape.rank() != rank : shape.rank() == rank && shape[0] != 1) return false;
  }
  return true;
}

bool keeps_samples(const OpCall& call, const std::vector<bool>& samples) {
  if (call.op->random || call.op->assign) return false;
  std::optional<std::int64_t> rows;
  const auto has_rows = [&rows](const Shape& shape) {
    if (shape.rank() == 0) return false;
    if (!rows) rows = shape[0];
    return shape[0] == *rows;
  };
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (samples[i] && !has_rows(call.inputs[i].shape)) return false;
  }
  if (!rows) return false;
  for (const TensorDesc& output : call.outputs) {
    if (!has_rows(output.shape)) return false;
  }
  if (call.op->keeps_samples) return call.op->keeps_samples(call, samples);
  return call.op->elementwise && samples_at_their_places(call, samples);
}

}  // namespace troupe::ops
