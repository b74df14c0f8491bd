// SPDX-License-Identifier: Apache-2.0
// concat: tensors side by side along one axis, and its gradient, which cuts them apart.
#include <numeric>

#include "ops/support/axis_copy.h"
#include "ops/support/variadic.h"

namespace troupe::ops {
namespace {

using base::kUnknownDim;
using base::Shape;
using base::Status;

/// Extents of the axis: the whole's is the sum of the parts'; one unknown follows from the rest.
Status infer_axis(int axis, std::span<Shape> parts, Shape& whole) {
  std::int64_t known = 0;
  Shape* open = nullptr;
  int open_count = 0;
  for (Shape& part : parts) {
    if (part[axis] < 0) {
      open = &part;
      ++open_count;
    } else {
      known += part[axis];
    }
  }
  if (open_count == 1 && whole[axis] >= known) {
    open->set(axis, whole[axis] - known);
  } else if (open_count == 0 && whole[axis] < 0) {
    whole.set(axis, known);
  } else if (whole[axis] >= 0 && (open_count == 0 ? whole[axis] != known : whole[axis] < known)) {
    return base::error(base::Errc::invalid_argument,
                       "parts have {} along axis {}, but the whole is {}", known, axis,
                       whole.to_string());
  }
  return {};
}

/// Joins what parts and whole know of each other.
Status infer_parts(const Params& params, std::span<Shape> parts, Shape& whole) {
  Shape common = whole;
  for (const Shape& part : parts) {
    if (!common.rank_known()) common = part;
  }
  if (!common.rank_known()) return {};
  TROUPE_TRY_ASSIGN(const int axis, checked_axis(params.integer("dim"), common));
  common.set(axis, kUnknownDim);
  for (Shape part : parts) {
    if (part.rank_known() && axis < part.rank()) part.set(axis, kUnknownDim);
    TROUPE_TRY_ASSIGN(common, base::merge_shapes(common, part));
  }
  TROUPE_TRY_ASSIGN(whole, base::merge_shapes(whole, common));
  for (Shape& part : parts) {
    TROUPE_TRY_ASSIGN(part, base::merge_shapes(part, common));
  }
  return infer_axis(axis, parts, whole);
}

std::vector<ParamDef> concat_params() {
  return {num_args_param(),
          {"dim", ParamType::integer, 1, "The axis; negative ones count from the end."}};
}

std::vector<Sample> concat_samples() {
  return {{.title = "columns", .attributes = {{"num_args", "2"}}, .inputs = {{3, 2}, {3, 4}}},
          {.title = "rows",
           .attributes = {{"num_args", "3"}, {"dim", "0"}},
           .inputs = {{1, 2}, {2, 2}, {3, 2}}},
          {.title = "channels",
           .attributes = {{"num_args", "2"}, {"dim", "-3"}},
           .inputs = {{2, 3, 2, 2}, {2, 1, 2, 2}}},
          {.title = "channels of one sample",
           .attributes = {{"num_args", "3"}},
           .inputs = {{1, 16, 2, 3}, {1, 8, 2, 3}, {1, 3, 2, 3}}}};
}

/// copy(number of a part, the whole, the part, from the part's places to the whole's).
template <typename Copy>
void for_each_part(const Params& params, const TensorDesc& whole, std::span<const TensorDesc> parts,
                   Copy copy) {
  const int axis = checked_axis(params.integer("dim"), whole.shape).value();
  const AxisView whole_view = axis_view(whole, axis);
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::int64_t extent = parts[i].shape[axis];
    copy(i, whole_view, axis_view(parts[i], axis), AxisRange{0, begin, extent});
    begin += extent;
  }
}

/// Every part begins with a block.
Status check_blocks(const Params& params, const TensorDesc& whole,
                    std::span<const TensorDesc> parts) {
  Status status;
  for_each_part(params, whole, parts,
                [&](auto i, const auto& whole_view, const auto&, const AxisRange& range) {
                  if (range.to % whole_view.block == 0) return;
                  status = base::error(base::Errc::unimplemented,
                                       "part {} begins at {}, inside a block of {}", i, range.to,
                                       whole_view.block);
                });
  return status;
}

Status run(const OpCall& call, const KernelContext& context) {
  return with_moved(context.outputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    T* whole = context.outputs[0].raw<T>();
    for_each_part(call.params, call.outputs[0], call.inputs,
                  [&](auto i, const auto& whole_view, const auto& part_view, const auto& range) {
                    copy_axis<T>(context, context.inputs[i].template raw<T>(), part_view, whole,
                                 whole_view, range);
                  });
    return Status();
  });
}

Status run_backward(const OpCall& call, const KernelContext& context) {
  return with_moved(context.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* whole = context.inputs[0].raw<T>();
    for_each_part(call.params, call.inputs[0], call.outputs,
                  [&](auto i, const auto& whole_view, const auto& part_view, const auto& range) {
                    copy_axis<T>(context, whole, whole_view, context.outputs[i].template raw<T>(),
                                 part_view, {range.to, range.from, range.count});
                  });
    return Status();
  });
}

/// view(number of a part, its offset in the whole) for each part, where they lie in one piece.
template <typename MakeView>
std::vector<View> part_views(const Params& params, const TensorDesc& whole,
                             std::span<const TensorDesc> parts, MakeView view) {
  std::vector<View> views;
  for_each_part(params, whole, parts,
                [&](auto i, const auto& whole_view, const auto&, const AxisRange& range) {
                  const std::size_t element = base::dtype_size(whole.dtype);
                  const std::int64_t offset = offset_along(whole_view, range.to, element);
                  if (offset >= 0) views.push_back(view(static_cast<int>(i), offset));
                });
  return views;
}

std::vector<View> concat_views(const OpCall& call) {
  return part_views(call.params, call.outputs[0], call.inputs, [](int part, std::int64_t offset) {
    return View{part, 0, 0, offset};
  });
}

std::vector<View> concat_backward_views(const OpCall& call) {
  return part_views(call.params, call.inputs[0], call.outputs, [](int part, std::int64_t offset) {
    return View{0, part, offset, 0};
  });
}

OpDef concat_definition() {
  OpDef op;
  op.name = "concat";
  op.mixed = MixedPrecision::as_inputs;
  op.aliases = {"Concat"};
  op.doc = "The inputs one after the other along axis `dim`; all other extents are equal.";
  op.params = concat_params();
  op.inputs = numbered_names("data");
  op.outputs = names({"out"});
  op.infer_shape = [](const Params& params, std::vector<Shape>& inputs,
                      std::vector<Shape>& outputs) {
    return infer_parts(params, inputs, outputs[0]);
  };
  op.gradient = [](GradientBuilder& b) -> base::Result<std::vector<std::optional<Value>>> {
    std::vector<Value> inputs = {*b.output_gradient(0)};
    for (int i = 0; i < b.input_count(); ++i) inputs.push_back(b.input(i));
    const auto values = b.add("concat_backward", inputs, b.params().to_attributes());
    return std::vector<std::optional<Value>>(values.begin(), values.end());
  };
  op.accumulates = {0};
  const auto accepts = [](const OpCall& call) {
    return check_blocks(call.params, call.outputs[0], call.inputs);
  };
  op.keeps_samples = samples_beside("dim");
  op.commutes_with_relu = [](const Params&, const Shape&, const Shape&) { return true; };
  op.views = concat_views;
  op.kernels = {blocked_copy_kernel(accepts, run), moving_kernel(reference_kernel(run))};
  op.samples = concat_samples();
  return op;
}

OpDef concat_backward_definition() {
  OpDef op;
  op.name = "concat_backward";
  op.doc = "Gradient of concat: the output's gradient cut into the inputs' shapes.";
  op.params = concat_params();
  op.inputs = [](const Params& params) {
    auto list = numbered_names("data")(params);
    list.insert(list.begin(), "out_gradient");
    return list;
  };
  op.outputs = [](const Params& params) {
    auto list = numbered_names("data")(params);
    for (std::string& name : list) name += "_gradient";
    return list;
  };
  op.infer_shape = [](const Params& params, std::vector<Shape>& inputs,
                      std::vector<Shape>& outputs) {
    const std::span<Shape> parts = std::span(inputs).subspan(1);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      TROUPE_TRY_ASSIGN(parts[i], base::merge_shapes(parts[i], outputs[i]));
    }
    TROUPE_TRY(infer_parts(params, parts, inputs[0]));
    outputs.assign(parts.begin(), parts.end());
    return Status();
  };
  op.shape_only_inputs.resize(kVariadicInputsMax);
  std::iota(op.shape_only_inputs.begin(), op.shape_only_inputs.end(), 1);
  const auto accepts = [](const OpCall& call) {
    return check_blocks(call.params, call.inputs[0], call.outputs);
  };
  op.views = concat_backward_views;
  op.kernels = {blocked_copy_kernel(accepts, run_backward),
                moving_kernel(reference_kernel(run_backward))};
  op.samples = concat_samples();
  op.samples[0].inputs.insert(op.samples[0].inputs.begin(), {3, 6});
  op.samples[1].inputs.insert(op.samples[1].inputs.begin(), {6, 2});
  op.samples[2].inputs.insert(op.samples[2].inputs.begin(), {2, 4, 2, 2});
  op.samples[3].inputs.insert(op.samples[3].inputs.begin(), {1, 27, 2, 3});
  return op;
}

}  // namespace

std::span<const OpDef> ops_concat() {
  static const std::vector<OpDef> operators = {concat_definition(), concat_backward_definition()};
  return operators;
}

}  // namespace troupe::ops
