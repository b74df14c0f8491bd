// SPDX-License-Identifier: Apache-2.0
// Axes, shapes and walks of reductions.
#include "ops/support/reduce.h"

namespace troupe::ops {
namespace {

using base::Errc;
using base::kRankMax;
using base::Result;
using base::Shape;
using base::Status;

}  // namespace

std::vector<ParamDef> reduce_params() {
  return {{"axis", ParamType::shape, Shape{},
           "Axes to reduce; negative ones count from the end; () means all."},
          {"keepdims", ParamType::boolean, false,
           "Keep reduced axes with extent 1. Without, all axes leave a 0-d tensor, where MXNet 1.x "
           "has the shape (1)."},
          {"exclude", ParamType::boolean, false, "Reduce the axes that are not named instead."}};
}

Result<std::array<bool, kRankMax>> reduced_axes(const Params& params, int rank) {
  const Shape& list = params.shape("axis");
  std::array<bool, kRankMax> reduced{};
  if (list.rank() == 0) {
    reduced.fill(true);
    return reduced;
  }
  for (std::int64_t axis : list.dims()) {
    const std::int64_t index = axis < 0 ? axis + rank : axis;
    if (index < 0 || index >= rank) {
      return base::error(Errc::invalid_argument, "axis {} is out of range for rank {}", axis, rank);
    }
    reduced[static_cast<std::size_t>(index)] = true;
  }
  if (params.boolean("exclude")) {
    for (bool& flag : reduced) flag = !flag;
  }
  return reduced;
}

Result<Shape> reduced_shape(const Params& params, const Shape& data, bool keepdims) {
  if (!data.rank_known()) return Shape::unknown();
  auto reduced = reduced_axes(params, data.rank());
  if (!reduced.ok()) {
    return base::error(Errc::invalid_argument, "{}: shape {}", reduced.status().text(),
                       data.to_string());
  }
  Shape out;
  for (int axis = 0; axis < data.rank(); ++axis) {
    if (!reduced.value()[static_cast<std::size_t>(axis)]) {
      out.push_back(data[axis]);
    } else if (keepdims) {
      out.push_back(1);
    }
  }
  return out;
}

Status infer_reduce(const Params& params, std::vector<Shape>& inputs, std::vector<Shape>& outputs) {
  TROUPE_TRY_ASSIGN(const Shape out, reduced_shape(params, inputs[0], params.boolean("keepdims")));
  TROUPE_TRY_ASSIGN(outputs[0], base::merge_shapes(outputs[0], out));
  return {};
}

Status infer_reduce_backward(const Params& params, std::vector<Shape>& inputs,
                             std::vector<Shape>& outputs) {
  TROUPE_TRY_ASSIGN(inputs[1], base::merge_shapes(inputs[1], outputs[0]));
  outputs[0] = inputs[1];
  TROUPE_TRY_ASSIGN(const Shape out, reduced_shape(params, inputs[1], params.boolean("keepdims")));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (i == 1) continue;
    TROUPE_TRY_ASSIGN(inputs[i], base::merge_shapes(inputs[i], out));
  }
  return {};
}

std::vector<Sample> reduce_samples() {
  const auto sample = [](const char* title, Shape data, Attributes attributes) {
    return Sample{.title = title, .attributes = std::move(attributes), .inputs = {data}};
  };
  std::vector<Sample> samples = {
      sample("all", {3, 5}, {}),
      sample("0-d", Shape{}, {}),
      sample("rows", {4, 37}, {{"axis", "1"}}),
      sample("columns", {7, 5}, {{"axis", "0"}}),
      sample("channels", {2, 3, 4, 5}, {{"axis", "(0, 2, 3)"}, {"keepdims", "True"}}),
      sample("from the end", {2, 3, 4}, {{"axis", "-2"}}),
      sample("middle", {3, 4, 5}, {{"axis", "1"}}),
      sample("all but one", {2, 3, 4}, {{"axis", "1"}, {"exclude", "True"}})};
  for (const bool narrow : {true, false}) {
    // Rows that are neighbours in runs, which leave some over; tiles and vectors that do, too.
    Sample runs = sample(narrow ? "runs of short rows" : "runs of wide rows",
                         narrow ? Shape{3, 2, 29, 5} : Shape{3, 2, 5, 167}, {{"axis", "(0, 2)"}});
    runs.gradient = false;
    samples.push_back(runs);
  }
  Sample blocks = sample("several blocks", {3, 20000}, {{"axis", "1"}});
  Sample column_blocks = sample("several blocks of columns", {20000, 3}, {{"axis", "0"}});
  blocks.gradient = column_blocks.gradient = false;
  blocks.benchmark = column_blocks.benchmark = true;
  samples.push_back(blocks);
  samples.push_back(column_blocks);
  return samples;
}

void ReduceWalk::Axes::join_front(std::int64_t axis_extent, std::int64_t axis_stride) {
  count *= axis_extent;
  if (rank > 0) {
    // Axes are kept innermost first; joined when the outer one continues the inner one.
    const auto last = static_cast<std::size_t>(rank - 1);
    if (stride[last] * extent[last] == axis_stride) {
      extent[last] *= axis_extent;
      return;
    }
  }
  const auto next = static_cast<std::size_t>(rank++);
  extent[next] = axis_extent;
  stride[next] = axis_stride;
}

std::int64_t ReduceWalk::Axes::offset(std::int64_t index) const {
  std::int64_t result = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(rank); ++i) {
    result += index % extent[i] * stride[i];
    index /= extent[i];
  }
  return result;
}

std::int64_t ReduceWalk::block_rows() const {
  const std::int64_t row = inner_reduced ? std::clamp<std::int64_t>(inner, 1, kReduceBlock) : 1;
  return kReduceBlock / row;
}

std::int64_t ReduceWalk::blocks() const {
  return std::max<std::int64_t>(1, (rows() + block_rows() - 1) / block_rows());
}

std::size_t ReduceWalk::scratch_bytes() const {
  return blocks() == 1 ? 0 : static_cast<std::size_t>(blocks() * outputs()) * sizeof(double);
}

ReduceWalk reduce_walk(const Shape& data, const std::array<bool, kRankMax>& reduced) {
  ReduceWalk walk;
  std::int64_t stride = 1;
  bool inner_open = true;
  bool inner_known = false;
  for (int axis = data.rank() - 1; axis >= 0; --axis) {
    const bool is_reduced = reduced[static_cast<std::size_t>(axis)];
    if (data[axis] == 1) continue;
    if (!inner_known) {
      walk.inner_reduced = is_reduced;
      inner_known = true;
    }
    if (inner_open && is_reduced == walk.inner_reduced) {
      walk.inner *= data[axis];
    } else {
      inner_open = false;
      (is_reduced ? walk.reduced : walk.kept).join_front(data[axis], stride);
    }
    stride *= data[axis];
  }
  return walk;
}

ReduceWalk reduce_walk_like(const Shape& data, const Shape& like) {
  std::array<bool, kRankMax> reduced{};
  const int shift = data.rank() - like.rank();
  for (int axis = 0; axis < data.rank(); ++axis) {
    reduced[static_cast<std::size_t>(axis)] = axis < shift || like[axis - shift] != data[axis];
  }
  return reduce_walk(data, reduced);
}

ReduceWalk walk_of_axes(const OpCall& call) {
  const Shape& data = call.inputs[0].shape;
  return reduce_walk(data, reduced_axes(call.params, data.rank()).value());
}

ReduceWalk walk_of_like(const OpCall& call) {
  return reduce_walk_like(call.inputs[0].shape, call.inputs[1].shape);
}

}  // namespace troupe::ops
