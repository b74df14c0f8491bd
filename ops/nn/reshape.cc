// SPDX-License-Identifier: Apache-2.0
// reshape, flatten, expand_dims and reshape_like: the same elements under another shape, free of
// cost where the executor gives input and output one buffer. Pure functions of views; any thread.
#include <algorithm>

#include "ops/nn/support.h"
#include "ops/support/copy_kernel.h"

namespace troupe::ops {
namespace {

using base::Shape;
using base::Status;

/// One pass of MXNet's codes over the input: 0 copies an axis, -1 takes what is left (at most
/// once), -2 copies all further axes, -3 joins two axes, -4 splits one into the next two numbers.
class CodeReader {
 public:
  CodeReader(const Shape& data, std::span<const std::int64_t> codes) : data_(data), codes_(codes) {}

  base::Result<Shape> read() {
    for (at_ = 0; at_ < codes_.size(); ++at_) TROUPE_TRY(step(codes_[at_]));
    if (rest_ < 0) return result_;
    result_.set(rest_, 1);
    const std::int64_t known = result_.elements();
    if (known == 0) return read_rest_of_none();
    if (data_.elements() % known != 0) return bad("no extent fits for -1");
    result_.set(rest_, data_.elements() / known);
    return result_;
  }

 private:
  /// Without elements: what -1 would be for any other number in place of 0.
  base::Result<Shape> read_rest_of_none() {
    std::int64_t data = 1;
    for (const std::int64_t extent : data_.dims()) data *= std::max<std::int64_t>(extent, 1);
    if (data_.elements() != 0 || data % known_ != 0) return bad("no extent fits for -1");
    result_.set(rest_, data / known_);
    return result_;
  }
  Status bad(std::string_view why) const {
    return base::error(base::Errc::invalid_argument, "data of shape {} cannot become {}: {}",
                       data_.to_string(), to_attribute(Shape(codes_)), why);
  }
  Status push(std::int64_t extent) {
    if (result_.rank() == base::kRankMax) return bad("too many axes");
    const std::int64_t factor = std::max<std::int64_t>(extent, 1);
    if (__builtin_mul_overflow(known_, factor, &known_)) return bad("too many elements");
    result_.push_back(extent);
    return {};
  }
  Status take(std::int64_t& extent) {
    if (from_ >= data_.rank()) return bad("data has too few axes");
    extent = data_[from_++];
    return {};
  }
  Status mark_rest() {
    if (rest_ >= 0) return bad("more than one -1");
    rest_ = result_.rank();
    return push(1);
  }

  Status step(std::int64_t code) {
    std::int64_t extent = 0;
    std::int64_t second = 0;
    switch (code) {
      case 0:
        TROUPE_TRY(take(extent));
        return push(extent);
      case -1:
        if (from_ < data_.rank()) ++from_;
        return mark_rest();
      case -2:
        while (from_ < data_.rank()) TROUPE_TRY(push(data_[from_++]));
        return {};
      case -3:
        TROUPE_TRY(take(extent));
        TROUPE_TRY(take(second));
        return push(extent * second);
      case -4:
        TROUPE_TRY(take(extent));
        return split(extent);
      default:
        if (code < 0) return bad("codes below -4 mean nothing");
        if (from_ < data_.rank()) ++from_;
        return push(code);
    }
  }

  Status split(std::int64_t extent) {
    if (at_ + 2 >= codes_.size()) return bad("-4 needs two numbers behind it");
    std::int64_t first = codes_[++at_];
    std::int64_t second = codes_[++at_];
    if (first == -1 && second > 0) first = extent / second;
    if (second == -1 && first > 0) second = extent / first;
    std::int64_t product = 0;
    if (first < 0 || second < 0 || __builtin_mul_overflow(first, second, &product) ||
        product != extent) {
      return bad("the two numbers behind -4 do not multiply to it");
    }
    TROUPE_TRY(push(first));
    return push(second);
  }

  const Shape& data_;
  std::span<const std::int64_t> codes_;
  std::size_t at_ = 0;
  std::int64_t known_ = 1;  ///< product of the extents pushed, zeros left out
  int from_ = 0;
  int rest_ = -1;
  Shape result_;
};

Shape reversed(const Shape& shape) {
  std::vector<std::int64_t> dims(shape.dims().rbegin(), shape.dims().rend());
  return Shape(std::span<const std::int64_t>(dims));
}

base::Result<Shape> target_shape(const Params& p, const Shape& data) {
  const bool backwards = p.boolean("reverse");
  const Shape codes = backwards ? reversed(p.shape("shape")) : p.shape("shape");
  const Shape from = backwards ? reversed(data) : data;
  TROUPE_TRY_ASSIGN(const Shape result, CodeReader(from, codes.dims()).read());
  if (result.elements() != data.elements()) {
    return base::error(base::Errc::invalid_argument,
                       "data of shape {} has {} elements, shape {} has {}", data.to_string(),
                       data.elements(), result.to_string(), result.elements());
  }
  return backwards ? reversed(result) : result;
}

Status infer_reshape(const Params& p, std::vector<Shape>& in, std::vector<Shape>& out) {
  if (!in[0].complete()) return {};
  TROUPE_TRY_ASSIGN(const Shape result, target_shape(p, in[0]));
  return refine("output", out[0], result);
}

Status infer_flatten(const Params&, std::vector<Shape>& in, std::vector<Shape>& out) {
  Shape result{base::kUnknownDim, base::kUnknownDim};
  if (in[0].rank_known()) {
    if (in[0].rank() < 1) {
      return base::error(base::Errc::invalid_argument, "a scalar has no first axis to keep");
    }
    Shape rest;
    for (int axis = 1; axis < in[0].rank(); ++axis) rest.push_back(in[0][axis]);
    result = Shape{in[0][0], rest.complete() ? rest.elements() : base::kUnknownDim};
  }
  TROUPE_TRY(refine("output", out[0], result));
  if (in[0].rank_known()) in[0].set(0, out[0][0]);
  return {};
}

/// `shape` with an axis of extent 1 at `axis`, and without it.
Shape with_axis(const Shape& shape, int axis) {
  Shape result;
  for (int i = 0; i < axis; ++i) result.push_back(shape[i]);
  result.push_back(1);
  for (int i = axis; i < shape.rank(); ++i) result.push_back(shape[i]);
  return result;
}
Shape without_axis(const Shape& shape, int axis) {
  Shape result;
  for (int i = 0; i < shape.rank(); ++i) {
    if (i != axis) result.push_back(shape[i]);
  }
  return result;
}

Status infer_expand_dims(const Params& p, std::vector<Shape>& in, std::vector<Shape>& out) {
  if (!in[0].rank_known() && !out[0].rank_known()) return {};
  const int rank = in[0].rank_known() ? in[0].rank() : out[0].rank() - 1;
  if (rank < 0) {
    return base::error(base::Errc::invalid_argument, "an output without axes has none to spare");
  }
  if (rank == base::kRankMax) {
    return base::error(base::Errc::invalid_argument,
                       "shape {} has as many axes as a shape can have", in[0].to_string());
  }
  const std::int64_t given = p.integer("axis");
  const std::int64_t axis = given < 0 ? given + rank + 1 : given;
  if (axis < 0 || axis > rank) {
    return base::error(base::Errc::invalid_argument, "axis {} is out of range [{}, {}]", given,
                       -rank - 1, rank);
  }
  const int place = static_cast<int>(axis);
  if (!in[0].rank_known()) in[0] = without_axis(out[0], place);
  TROUPE_TRY(refine("output", out[0], with_axis(in[0], place)));
  return refine("data", in[0], without_axis(out[0], place));
}

Status infer_like(const Params&, std::vector<Shape>& in, std::vector<Shape>& out) {
  TROUPE_TRY(refine("shape_like", in[1], out[0]));
  out[0] = in[1];
  if (in[0].complete() && in[1].complete() && in[0].elements() != in[1].elements()) {
    return base::error(base::Errc::invalid_argument, "data of shape {} cannot become {}",
                       in[0].to_string(), in[1].to_string());
  }
  return {};
}

base::Result<std::vector<std::optional<Value>>> gradient(GradientBuilder& b) {
  std::vector<std::optional<Value>> result(static_cast<std::size_t>(b.input_count()));
  result[0] = b.add1("reshape_like", {*b.output_gradient(0), b.input(0)});
  return result;
}

/// What the three have in common.
OpDef renaming(std::string name, std::vector<std::string> aliases, std::string doc) {
  OpDef op;
  op.name = std::move(name);
  op.mixed = MixedPrecision::as_inputs;
  op.aliases = std::move(aliases);
  op.doc = std::move(doc);
  op.inputs = names({"data"});
  op.outputs = names({"output"});
  op.infer_dtype = infer_copied_dtype;
  op.gradient = gradient;
  op.in_place = {{0, 0}};
  op.views = [](const OpCall&) { return std::vector<View>{{}}; };
  // Rows of as many elements, whatever the shapes are: what is only looked at may have any.
  op.keeps_samples = [](const OpCall&, const std::vector<bool>& samples) { return samples[0]; };
  op.kernels = {copy_kernel()};
  op.flops = [](const OpCall&) { return 0.0; };
  return op;
}

OpDef define_reshape() {
  OpDef op = renaming("reshape", {"Reshape"},
                      "The same elements in row-major order under `shape`. Codes as in MXNet: 0 "
                      "copies the input's axis, -1 takes what is left, -2 copies all further axes, "
                      "-3 joins two axes, -4 splits one into the two numbers behind it.");
  op.params = {
      {.name = "shape", .type = ParamType::shape, .doc = "Extents or codes.", .low = -4},
      {.name = "reverse",
       .type = ParamType::boolean,
       .initial = false,
       .doc = "True: codes are matched from the last axis."},
  };
  op.ignored = {{"keep_highest", {"False", "false", "0"}}, {"target_shape", {"()", "[]", "None"}}};
  op.infer_shape = infer_reshape;
  op.samples = {
      {.title = "0 and -1", .attributes = {{"shape", "(0, -1)"}}, .inputs = {{3, 4, 5}}},
      {.title = "-4, -2", .attributes = {{"shape", "(-4, 2, -1, -2)"}}, .inputs = {{6, 3, 2}}},
      {.title = "-3", .attributes = {{"shape", "(-3, 0)"}}, .inputs = {{2, 3, 4}}},
      {.title = "reversed",
       .attributes = {{"shape", "(-1, 0)"}, {"reverse", "True"}},
       .inputs = {{10, 5, 4}}},
  };
  return op;
}

OpDef define_flatten() {
  OpDef op = renaming("flatten", {"Flatten"}, "data (N, ...) as (N, elements per sample).");
  op.infer_shape = infer_flatten;
  op.samples = {{.title = "four axes", .inputs = {{2, 3, 4, 5}}},
                {.title = "one axis", .inputs = {{4}}}};
  return op;
}

OpDef define_expand_dims() {
  OpDef op = renaming("expand_dims", {}, "data with an axis of extent 1 more, at place `axis`.");
  op.params = {{.name = "axis",
                .type = ParamType::integer,
                .doc = "Its place in the output; negative ones count from the output's end."}};
  op.infer_shape = infer_expand_dims;
  op.samples = {
      {.title = "inside", .attributes = {{"axis", "1"}}, .inputs = {{2, 3}}},
      {.title = "at the end", .attributes = {{"axis", "-1"}}, .inputs = {{2, 3, 4}}},
  };
  return op;
}

OpDef define_like() {
  OpDef op = renaming("reshape_like", {}, "data under the shape of `shape_like`.");
  op.inputs = names({"data", "shape_like"});
  op.ignored = {{"lhs_begin", {"None"}},
                {"lhs_end", {"None"}},
                {"rhs_begin", {"None"}},
                {"rhs_end", {"None"}}};
  op.shape_only_inputs = {1};
  op.infer_shape = infer_like;
  op.samples = {{.title = "two axes to three", .inputs = {{4, 15}, {4, 3, 5}}}};
  return op;
}

}  // namespace

std::span<const OpDef> ops_reshape() {
  static const std::vector<OpDef> ops = {define_reshape(), define_flatten(), define_expand_dims(),
                                         define_like()};
  return ops;
}

}  // namespace troupe::ops
