// SPDX-License-Identifier: Apache-2.0
// split: equal parts of a tensor along one axis. Its gradient puts them together again.
#include "ops/support/axis_copy.h"
#include "ops/support/variadic.h"

namespace troupe::ops {
namespace {

using base::Errc;
using base::kUnknownDim;
using base::Result;
using base::Shape;
using base::Status;

std::vector<ParamDef> split_params() {
  return {{"num_outputs", ParamType::integer, std::nullopt,
           "Number of parts; it divides the axis's extent.", 1, kVariadicInputsMax},
          {"axis", ParamType::integer, 1, "The axis; negative ones count from the end."},
          {"squeeze_axis", ParamType::boolean, false,
           "True: parts of extent 1, which come without the axis."}};
}

bool squeezes(const Params& params) {
  return params.boolean("squeeze_axis");
}

/// A shape of `rank` extents that nobody knows.
Shape open_shape(int rank) {
  Shape shape;
  for (int i = 0; i < rank; ++i) shape.push_back(kUnknownDim);
  return shape;
}

/// A part's shape as far as that of the whole says it.
Result<Shape> part_of(const Params& params, const Shape& whole, int axis) {
  const std::int64_t parts = params.integer("num_outputs");
  Shape part;
  for (int i = 0; i < whole.rank(); ++i) {
    if (i != axis) {
      part.push_back(whole[i]);
    } else if (!squeezes(params)) {
      part.push_back(whole[i] < 0 ? kUnknownDim : whole[i] / parts);
    }
  }
  if (whole[axis] < 0) return part;
  if (whole[axis] % parts != 0 || (squeezes(params) && whole[axis] != parts)) {
    return base::error(Errc::invalid_argument, "axis {} of shape {} does not make {} parts{}", axis,
                       whole.to_string(), parts, squeezes(params) ? " of extent 1" : "");
  }
  return part;
}

/// The whole's shape as far as that of a part says it.
Result<Shape> whole_of(const Params& params, const Shape& part, int axis) {
  const std::int64_t parts = params.integer("num_outputs");
  Shape whole = part;
  if (squeezes(params)) {
    whole = open_shape(part.rank() + 1);
    for (int i = 0; i < part.rank(); ++i) whole.set(i < axis ? i : i + 1, part[i]);
    whole.set(axis, parts);
  } else if (part[axis] >= 0) {
    std::int64_t extent = 0;
    if (__builtin_mul_overflow(part[axis], parts, &extent)) {
      return base::error(Errc::invalid_argument, "{} parts of shape {} are too large", parts,
                         part.to_string());
    }
    whole.set(axis, extent);
  }
  return whole;
}

Status infer_split(const Params& params, std::vector<Shape>& in, std::vector<Shape>& out) {
  Shape part = Shape::unknown();
  for (const Shape& each : out) {
    TROUPE_TRY_ASSIGN(part, base::merge_shapes(part, each));
  }
  Shape& whole = in[0];
  if (!whole.rank_known()) {
    if (!part.rank_known()) return {};
    const int rank = part.rank() + (squeezes(params) ? 1 : 0);
    if (rank > base::kRankMax) {
      return base::error(Errc::invalid_argument, "parts of shape {} have no axis to spare",
                         part.to_string());
    }
    whole = open_shape(rank);
  }
  TROUPE_TRY_ASSIGN(const int axis, checked_axis(params.integer("axis"), whole));
  TROUPE_TRY_ASSIGN(const Shape expected, part_of(params, whole, axis));
  TROUPE_TRY_ASSIGN(part, base::merge_shapes(part, expected));
  TROUPE_TRY_ASSIGN(const Shape joined, whole_of(params, part, axis));
  TROUPE_TRY_ASSIGN(whole, base::merge_shapes(whole, joined));
  std::fill(out.begin(), out.end(), part);
  return {};
}

/// The axis of a call, the whole seen along it, and places in one part.
struct Parts {
  AxisView whole;
  std::int64_t extent = 1;
};
Parts read_parts(const OpCall& call) {
  const TensorDesc& data = call.inputs[0];
  const int axis = checked_axis(call.params.integer("axis"), data.shape).value();
  return {axis_view(data, axis), data.shape[axis] / call.params.integer("num_outputs")};
}

Status run(const OpCall& call, const KernelContext& context) {
  const Parts parts = read_parts(call);
  AxisView part_view = parts.whole;
  part_view.extent = (parts.extent + part_view.block - 1) / part_view.block;
  return with_moved(call.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      const std::int64_t from = static_cast<std::int64_t>(i) * parts.extent;
      copy_axis(context, context.inputs[0].raw<T>(), parts.whole, context.outputs[i].raw<T>(),
                part_view, {from, 0, parts.extent});
    }
    return Status();
  });
}

/// Every part begins with a block.
Status check_blocks(const OpCall& call) {
  const Parts parts = read_parts(call);
  if (call.outputs.size() == 1 || parts.extent % parts.whole.block == 0) return {};
  return base::error(Errc::unimplemented, "parts of {} cut blocks of {}", parts.extent,
                     parts.whole.block);
}

std::vector<View> split_views(const OpCall& call) {
  const Parts parts = read_parts(call);
  std::vector<View> views;
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    const std::int64_t offset =
        offset_along(parts.whole, static_cast<std::int64_t>(i) * parts.extent,
                     base::dtype_size(call.inputs[0].dtype));
    if (offset >= 0) views.push_back({0, static_cast<int>(i), offset, 0});
  }
  return views;
}

Result<std::vector<std::optional<Value>>> gradient(GradientBuilder& b) {
  const Params& params = b.params();
  const Attributes all = params.to_attributes();
  const std::int64_t count = params.integer("num_outputs");
  std::vector<Value> parts;
  for (int i = 0; i < count; ++i) {
    const std::optional<Value> given = b.output_gradient(i);
    const Value part = given ? *given : b.add1("zeros_like", {b.output(i)});
    parts.push_back(squeezes(params) ? b.add1("expand_dims", {part}, {{"axis", all.at("axis")}})
                                     : part);
  }
  return {
      {b.add1("concat", parts, {{"num_args", std::to_string(count)}, {"dim", all.at("axis")}})}};
}

OpDef split_definition() {
  OpDef op;
  op.name = "split";
  op.mixed = MixedPrecision::as_inputs;
  op.aliases = {"SliceChannel"};
  op.doc = "`data` cut along `axis` into `num_outputs` equal parts.";
  op.params = split_params();
  op.inputs = names({"data"});
  op.outputs = [](const Params& params) {
    std::vector<std::string> list;
    for (std::int64_t i = 0; i < params.integer("num_outputs"); ++i) {
      list.push_back("output" + std::to_string(i));
    }
    return list;
  };
  op.infer_shape = infer_split;
  op.keeps_samples = samples_beside("axis");
  op.gradient = gradient;
  op.views = split_views;
  op.kernels = {blocked_copy_kernel(check_blocks, run), moving_kernel(reference_kernel(run))};
  op.samples = {
      {.title = "channels", .attributes = {{"num_outputs", "2"}}, .inputs = {{2, 6, 3, 2}}},
      {.title = "whole blocks of channels",
       .attributes = {{"num_outputs", "2"}},
       .inputs = {{2, 32, 3, 2}}},
      {.title = "channels of one sample",
       .attributes = {{"num_outputs", "3"}},
       .inputs = {{1, 24, 3, 2}}},
      {.title = "the first axis, squeezed",
       .attributes = {{"num_outputs", "3"}, {"axis", "0"}, {"squeeze_axis", "True"}},
       .inputs = {{3, 4, 5}}},
      {.title = "the last axis, squeezed",
       .attributes = {{"num_outputs", "3"}, {"axis", "-1"}, {"squeeze_axis", "True"}},
       .inputs = {{2, 4, 3}}},
      {.title = "one part",
       .attributes = {{"num_outputs", "1"}, {"axis", "0"}},
       .inputs = {{4, 3}}},
  };
  return op;
}

}  // namespace

std::span<const OpDef> ops_split() {
  static const std::vector<OpDef> operators = {split_definition()};
  return operators;
}

}  // namespace troupe::ops
