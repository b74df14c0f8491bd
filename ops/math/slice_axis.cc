// SPDX-License-Identifier: Apache-2.0
// slice_axis: a range of one axis, and its gradient, which is zero outside the range.
#include "ops/math/slice_axis.h"

namespace troupe::ops {
namespace {

using base::Errc;
using base::Result;
using base::Shape;
using base::Status;

std::vector<ParamDef> slice_params() {
  return {{"axis", ParamType::integer, 0, "The axis; negative ones count from the end."},
          {"begin", ParamType::integer, 0, "First index; negative ones count from the end."},
          {"end", ParamType::integer, kSliceToTheEnd,
           "Index behind the last; negative ones count from the end; None: to the end."}};
}

/// Shape of the slice, as far as `data` is known.
Result<Shape> slice_shape(const Params& params, const Shape& data) {
  if (!data.rank_known()) return Shape::unknown();
  TROUPE_TRY_ASSIGN(const int axis, checked_axis(params.integer("axis"), data));
  Shape out = data;
  if (data[axis] < 0) return out;
  TROUPE_TRY_ASSIGN(const SliceRange range, checked_slice(params, data));
  out.set(axis, range.end - range.begin);
  return out;
}

Status run(const OpCall& call, const KernelContext& context) {
  return with_moved(context.outputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const SliceRange range = checked_slice(call.params, call.inputs[0].shape).value();
    copy_axis(context, context.inputs[0].raw<T>(), axis_view(call.inputs[0], range.axis),
              context.outputs[0].raw<T>(), axis_view(call.outputs[0], range.axis),
              {range.begin, 0, range.end - range.begin});
    return Status();
  });
}

Status run_backward(const OpCall& call, const KernelContext& context) {
  return with_moved(context.outputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const SliceRange range = checked_slice(call.params, call.outputs[0].shape).value();
    const AxisView whole = axis_view(call.outputs[0], range.axis);
    T* out = context.outputs[0].raw<T>();
    parallel_ranges(context, whole.outer * whole.extent * whole.inner,
                    [=](auto begin, auto end) { std::fill(out + begin, out + end, T{}); });
    copy_axis(context, context.inputs[0].raw<T>(), axis_view(call.inputs[0], range.axis), out,
              whole, {0, range.begin, range.end - range.begin});
    return Status();
  });
}

/// The range of `data` is whole blocks; its last one may be padded.
Status check_blocks(const Params& params, const TensorDesc& data) {
  TROUPE_TRY_ASSIGN(const SliceRange range, checked_slice(params, data.shape));
  const std::int64_t block = axis_view(data, range.axis).block;
  const bool whole_end = range.end % block == 0 || range.end == data.shape[range.axis];
  if (range.begin % block == 0 && whole_end) return {};
  return base::error(Errc::unimplemented, "range [{}, {}) cuts a block of {}", range.begin,
                     range.end, block);
}

std::vector<View> slice_views(const OpCall& call) {
  const TensorDesc& data = call.inputs[0];
  const SliceRange range = checked_slice(call.params, data.shape).value();
  const std::int64_t offset =
      offset_along(axis_view(data, range.axis), range.begin, base::dtype_size(data.dtype));
  if (offset < 0) return {};
  return {{0, 0, offset, 0}};
}

std::vector<Sample> slice_samples() {
  return {{.title = "rows", .attributes = {{"begin", "1"}, {"end", "3"}}, .inputs = {{4, 3}}},
          {.title = "from the end",
           .attributes = {{"axis", "-1"}, {"begin", "-3"}, {"end", "-1"}},
           .inputs = {{2, 5}}},
          {.title = "to the end",
           .attributes = {{"axis", "1"}, {"begin", "1"}, {"end", "None"}},
           .inputs = {{2, 3, 2}}},
          {.title = "channels of one sample",
           .attributes = {{"axis", "-3"}, {"begin", "8"}, {"end", "16"}},
           .inputs = {{1, 20, 2, 3}}}};
}

OpDef slice_axis_definition() {
  OpDef op;
  op.name = "slice_axis";
  op.mixed = MixedPrecision::as_inputs;
  op.doc = "The elements of `data` whose index along `axis` is in `[begin, end)`.";
  op.params = slice_params();
  op.inputs = names({"data"});
  op.outputs = names({"out"});
  op.infer_shape = [](const Params& params, std::vector<Shape>& inputs,
                      std::vector<Shape>& outputs) {
    TROUPE_TRY_ASSIGN(const Shape out, slice_shape(params, inputs[0]));
    TROUPE_TRY_ASSIGN(outputs[0], base::merge_shapes(outputs[0], out));
    return Status();
  };
  op.gradient = [](GradientBuilder& b) -> Result<std::vector<std::optional<Value>>> {
    return {{b.add1("slice_axis_backward", {*b.output_gradient(0), b.input(0)},
                    b.params().to_attributes())}};
  };
  op.accumulates = {0};
  op.keeps_samples = samples_beside("axis");
  op.views = slice_views;
  const auto accepts = [](const OpCall& call) { return check_blocks(call.params, call.inputs[0]); };
  op.kernels = {blocked_copy_kernel(accepts, run), moving_kernel(reference_kernel(run))};
  op.samples = slice_samples();
  return op;
}

OpDef slice_axis_backward_definition() {
  OpDef op;
  op.name = "slice_axis_backward";
  op.doc = "Gradient of slice_axis: the output's gradient in its place, zero elsewhere.";
  op.params = slice_params();
  op.inputs = names({"out_gradient", "data"});
  op.outputs = names({"data_gradient"});
  op.infer_shape = [](const Params& params, std::vector<Shape>& inputs,
                      std::vector<Shape>& outputs) {
    TROUPE_TRY_ASSIGN(outputs[0], base::merge_shapes(outputs[0], inputs[1]));
    inputs[1] = outputs[0];
    TROUPE_TRY_ASSIGN(const Shape out, slice_shape(params, inputs[1]));
    TROUPE_TRY_ASSIGN(inputs[0], base::merge_shapes(inputs[0], out));
    return Status();
  };
  op.shape_only_inputs = {1};
  op.accumulates = {0};
  const auto accepts = [](const OpCall& call) {
    return check_blocks(call.params, call.outputs[0]);
  };
  op.kernels = {blocked_copy_kernel(accepts, run_backward),
                moving_kernel(reference_kernel(run_backward))};
  op.samples = slice_samples();
  const std::vector<Shape> slices = {{2, 3}, {2, 2}, {2, 2, 2}, {1, 8, 2, 3}};
  for (std::size_t i = 0; i < slices.size(); ++i) {
    op.samples[i].inputs.insert(op.samples[i].inputs.begin(), slices[i]);
  }
  return op;
}

}  // namespace

std::span<const OpDef> ops_slice_axis() {
  static const std::vector<OpDef> operators = {slice_axis_definition(),
                                               slice_axis_backward_definition()};
  return operators;
}

}  // namespace troupe::ops
