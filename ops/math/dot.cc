// SPDX-License-Identifier: Apache-2.0
// dot: the product of two tensors over one axis of each, and its two gradients. All three are one
// matrix product: the axes that are not summed over are joined.
#include "ops/math/dot.h"

#include "ops/support/chunks.h"

namespace troupe::ops {
namespace {

using base::Shape;
using base::Status;

/// Columns that are summed together.
constexpr std::int64_t kTile = 128;

/// Extents of the product: lhs is (m, k), rhs is (k, n), each possibly stored transposed.
struct Extents {
  std::int64_t m, k, n;
};
Extents extents_of(const Params& params, const Shape& lhs, const Shape& rhs) {
  const std::int64_t k = lhs[params.boolean("transpose_a") ? 0 : lhs.rank() - 1];
  const std::int64_t kept_begin = params.boolean("transpose_a") ? 1 : 0;
  const std::int64_t m =
      lhs.elements(static_cast<int>(kept_begin), static_cast<int>(kept_begin) + lhs.rank() - 1);
  const int rhs_begin = params.boolean("transpose_b") ? 0 : 1;
  return {m, k, rhs.elements(rhs_begin, rhs_begin + rhs.rank() - 1)};
}

/// Strides (first index, second index) of a matrix with `rows` and `columns` that is stored
/// row-major, or transposed.
struct Strides {
  std::int64_t row, column;
};
Strides stored(std::int64_t rows, std::int64_t columns, bool transposed) {
  return transposed ? Strides{1, rows} : Strides{columns, 1};
}

template <typename T>
void multiply_row(const Product& p, const T* x, const T* y, T* out) {
  std::array<double, kTile> totals;
  for (std::int64_t first = 0; first < p.columns; first += kTile) {
    const std::int64_t width = std::min(kTile, p.columns - first);
    totals.fill(0.0);
    for (std::int64_t i = 0; i < p.inner; ++i) {
      const double factor = static_cast<double>(x[i * p.x_inner]);
      const T* row = y + i * p.y_inner + first * p.y_column;
      for (std::int64_t c = 0; c < width; ++c) {
        totals[static_cast<std::size_t>(c)] += factor * static_cast<double>(row[c * p.y_column]);
      }
    }
    for (std::int64_t c = 0; c < width; ++c) {
      out[first + c] = static_cast<T>(totals[static_cast<std::size_t>(c)]);
    }
  }
}

Status run(const OpCall& call, const KernelContext& context) {
  return with_floating(context.outputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const Product p = product_of(call);
    const T* x = context.inputs[p.x_input].as<T>();
    const T* y = context.inputs[p.y_input].as<T>();
    T* out = context.outputs[0].as<T>();
    const std::int64_t cost = std::max<std::int64_t>(1, p.columns * p.inner);
    parallel_ranges(
        context, p.rows,
        [&](auto begin, auto end) {
          for (auto r = begin; r < end; ++r)
            multiply_row(p, x + r * p.x_row, y, out + r * p.columns);
        },
        std::max<std::int64_t>(1, kChunkElements / cost));
    return Status();
  });
}

/// Output shape from complete or partial operands; joins what both know of the common extent.
base::Result<Shape> infer_product(const Params& params, Shape& lhs, Shape& rhs) {
  if (!lhs.rank_known() || !rhs.rank_known()) return Shape::unknown();
  if (lhs.rank() == 0 || rhs.rank() == 0) {
    return base::error(base::Errc::invalid_argument, "shapes {} and {}: a 0-d operand",
                       lhs.to_string(), rhs.to_string());
  }
  const int lhs_axis = params.boolean("transpose_a") ? 0 : lhs.rank() - 1;
  const int rhs_axis = params.boolean("transpose_b") ? rhs.rank() - 1 : 0;
  if (lhs[lhs_axis] < 0) lhs.set(lhs_axis, rhs[rhs_axis]);
  if (rhs[rhs_axis] < 0) rhs.set(rhs_axis, lhs[lhs_axis]);
  const bool too_many = lhs.rank() + rhs.rank() - 2 > base::kRankMax;
  if (lhs[lhs_axis] != rhs[rhs_axis] || too_many) {
    return base::error(base::Errc::invalid_argument,
                       "shapes {} and {} do not multiply (transpose_a={}, transpose_b={})",
                       lhs.to_string(), rhs.to_string(), params.boolean("transpose_a"),
                       params.boolean("transpose_b"));
  }
  Shape out;
  for (int axis = 0; axis < lhs.rank(); ++axis) {
    if (axis != lhs_axis) out.push_back(lhs[axis]);
  }
  for (int axis = 0; axis < rhs.rank(); ++axis) {
    if (axis != rhs_axis) out.push_back(rhs[axis]);
  }
  return out;
}

OpDef product_definition() {
  OpDef op;
  op.mixed = MixedPrecision::narrow;
  op.params = {{"transpose_a", ParamType::boolean, false, "Sum over the first axis of lhs."},
               {"transpose_b", ParamType::boolean, false, "Sum over the last axis of rhs."}};
  op.accumulates = {0};
  op.flops = [](const OpCall& call) {
    const Product p = product_of(call);
    return 2.0 * static_cast<double>(p.rows) * static_cast<double>(p.columns) *
           static_cast<double>(p.inner);
  };
  op.multiplies_and_adds = true;
  op.kernels = {reference_kernel(run)};
  return op;
}

/// Samples over all transpositions; `order` arranges the shapes of lhs, rhs and out.
std::vector<Sample> product_samples(std::function<std::vector<Shape>(Shape, Shape, Shape)> order) {
  std::vector<Sample> samples = {
      {.title = "matrices", .inputs = order({3, 4}, {4, 5}, {3, 5})},
      {.title = "lhs transposed",
       .attributes = {{"transpose_a", "True"}},
       .inputs = order({4, 3}, {4, 5}, {3, 5})},
      {.title = "rhs transposed",
       .attributes = {{"transpose_b", "True"}},
       .inputs = order({3, 4}, {5, 4}, {3, 5})},
      {.title = "both transposed",
       .attributes = {{"transpose_a", "True"}, {"transpose_b", "True"}},
       .inputs = order({4, 3}, {5, 4}, {3, 5})},
      {.title = "vectors", .inputs = order({6}, {6}, {})},
      {.title = "higher ranks", .inputs = order({2, 3, 4}, {4, 2, 2}, {2, 3, 2, 2})},
      {.title = "large", .inputs = order({256, 256}, {256, 256}, {256, 256})}};
  samples.back().gradient = false;
  samples.back().benchmark = true;
  return samples;
}

OpDef dot_definition() {
  OpDef op = product_definition();
  op.name = "dot";
  op.doc =
      "The product of `lhs` and `rhs`, summed over the last axis of lhs (the first when "
      "`transpose_a`) and the first axis of rhs (the last when `transpose_b`); matrices, vectors "
      "and higher ranks.";
  op.ignored = {{"forward_stype", {"None", "default"}}};
  op.inputs = names({"lhs", "rhs"});
  op.outputs = names({"out"});
  op.infer_shape = [](const Params& params, std::vector<Shape>& inputs,
                      std::vector<Shape>& outputs) {
    TROUPE_TRY_ASSIGN(const Shape out, infer_product(params, inputs[0], inputs[1]));
    TROUPE_TRY_ASSIGN(outputs[0], base::merge_shapes(outputs[0], out));
    return Status();
  };
  op.gradient = [](GradientBuilder& b) -> base::Result<std::vector<std::optional<Value>>> {
    const Value dy = *b.output_gradient(0);
    const Attributes attributes = b.params().to_attributes();
    std::vector<std::optional<Value>> gradients(2);
    if (b.wanted(0)) {
      gradients[0] = b.add1("dot_backward_lhs", {dy, b.input(0), b.input(1)}, attributes);
    }
    if (b.wanted(1)) {
      gradients[1] = b.add1("dot_backward_rhs", {dy, b.input(0), b.input(1)}, attributes);
    }
    return gradients;
  };
  op.samples = product_samples([](Shape lhs, Shape rhs, Shape) {
    return std::vector<Shape>{lhs, rhs};
  });
  return op;
}

/// (out_gradient, lhs, rhs) -> the gradient of operand `side` (0 lhs, 1 rhs), of which only the
/// shape is used.
OpDef backward_definition(std::string name, int side) {
  OpDef op = product_definition();
  op.name = std::move(name);
  op.doc = side == 0 ? "Gradient of dot with respect to `lhs`; of `lhs` only the shape is used."
                     : "Gradient of dot with respect to `rhs`; of `rhs` only the shape is used.";
  op.inputs = names({"out_gradient", "lhs", "rhs"});
  op.outputs = names({side == 0 ? "lhs_gradient" : "rhs_gradient"});
  op.infer_shape = [side](const Params& params, std::vector<Shape>& inputs,
                          std::vector<Shape>& outputs) {
    Shape& like = inputs[static_cast<std::size_t>(1 + side)];
    TROUPE_TRY_ASSIGN(like, base::merge_shapes(like, outputs[0]));
    TROUPE_TRY_ASSIGN(const Shape out, infer_product(params, inputs[1], inputs[2]));
    TROUPE_TRY_ASSIGN(inputs[0], base::merge_shapes(inputs[0], out));
    outputs[0] = like;
    return Status();
  };
  op.shape_only_inputs = {1 + side};
  op.samples = product_samples([](Shape lhs, Shape rhs, Shape out) {
    return std::vector<Shape>{out, lhs, rhs};
  });
  return op;
}

}  // namespace

Product product_of(const OpCall& call) {
  const bool ta = call.params.boolean("transpose_a");
  const bool tb = call.params.boolean("transpose_b");
  const bool forward = call.op->name == "dot";
  const std::size_t lhs = forward ? 0 : 1;
  const Extents e = extents_of(call.params, call.inputs[lhs].shape, call.inputs[lhs + 1].shape);
  const Strides a = stored(e.m, e.k, ta);
  const Strides b = stored(e.k, e.n, tb);
  if (forward) return {e.m, e.n, e.k, 0, 1, a.row, a.column, b.row, b.column};
  const bool to_lhs = call.op->name == "dot_backward_lhs";
  // d lhs = dy * rhs^T and d rhs = lhs^T * dy; transposed operands take the transposed product.
  if (to_lhs && !ta) return {e.m, e.k, e.n, 0, 2, e.n, 1, b.column, b.row};
  if (to_lhs) return {e.k, e.m, e.n, 2, 0, b.row, b.column, 1, e.n};
  if (!tb) return {e.k, e.n, e.m, 1, 0, a.column, a.row, e.n, 1};
  return {e.n, e.k, e.m, 0, 1, 1, e.n, a.row, a.column};
}

std::span<const OpDef> ops_dot() {
  static const std::vector<OpDef> operators = {dot_definition(),
                                               backward_definition("dot_backward_lhs", 0),
                                               backward_definition("dot_backward_rhs", 1)};
  return operators;
}

}  // namespace troupe::ops
