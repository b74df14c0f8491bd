// SPDX-License-Identifier: Apache-2.0
// transpose: axes in another order. Its gradient is the transpose back.
#include "ops/math/transpose.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "ops/support/chunks.h"

namespace troupe::ops {
namespace {

using base::Errc;
using base::Result;
using base::Shape;
using base::Status;

Status infer(const Params& params, std::vector<Shape>& in, std::vector<Shape>& out) {
  int rank = params.shape("axes").rank();
  for (const Shape& known : {out[0], in[0]}) {
    if (known.rank_known()) rank = known.rank();
  }
  const bool unknown = !in[0].rank_known() && !out[0].rank_known();
  if (unknown && rank == 0) return {};
  TROUPE_TRY_ASSIGN(const AxisOrder order, read_axis_order(params, rank));
  Shape open;
  for (int i = 0; i < rank; ++i) open.push_back(base::kUnknownDim);
  TROUPE_TRY_ASSIGN(in[0], base::merge_shapes(in[0], open));
  Shape result = open;
  for (int i = 0; i < rank; ++i) result.set(i, in[0][order[static_cast<std::size_t>(i)]]);
  TROUPE_TRY_ASSIGN(out[0], base::merge_shapes(out[0], result));
  for (int i = 0; i < rank; ++i) in[0].set(order[static_cast<std::size_t>(i)], out[0][i]);
  return {};
}

/// One axis of the output: its extent, and the distance of neighbours in data and output.
struct Axis {
  std::int64_t extent = 1, from = 1, to = 1;
};

/// The copy as nested loops: planes of rows and columns. Columns are the output's last axis; rows
/// are neighbours in data, unless columns are.
struct Loops {
  std::array<Axis, base::kRankMax> outer{};  ///< outermost first
  int outer_count = 0;
  Axis rows, columns;

  std::int64_t planes() const {
    std::int64_t product = 1;
    for (int i = 0; i < outer_count; ++i) product *= outer[static_cast<std::size_t>(i)].extent;
    return product;
  }
};

Loops read_loops(const OpCall& call) {
  const Shape& data = call.inputs[0].shape;
  const AxisOrder order = read_axis_order(call.params, data.rank()).value();
  // The output's axes, innermost first; those that are neighbours in data too are one.
  std::array<Axis, base::kRankMax> axes{};
  std::size_t count = 0;
  std::int64_t to = 1;
  for (int i = data.rank() - 1; i >= 0; --i) {
    const int axis = order[static_cast<std::size_t>(i)];
    const std::int64_t extent = data[axis], from = data.elements(axis + 1, data.rank());
    if (extent == 1) continue;
    if (count > 0 && from == axes[count - 1].from * axes[count - 1].extent) {
      axes[count - 1].extent *= extent;
    } else {
      axes[count++] = {extent, from, to};
    }
    to *= extent;
  }
  Loops loops;
  if (count == 0) return loops;
  loops.columns = axes[0];
  std::size_t rows = 1;
  for (std::size_t i = 1; i < count; ++i) {
    if (axes[i].from == 1) rows = i;
  }
  if (count > 1) loops.rows = axes[rows];
  for (std::size_t i = count; i-- > 1;) {
    if (i != rows) loops.outer[static_cast<std::size_t>(loops.outer_count++)] = axes[i];
  }
  return loops;
}

/// Four rows, neighbours in data, of four columns. Numbers of 4 bytes.
template <typename T>
void copy_four_by_four(const T* from, std::int64_t column_from, T* to, std::int64_t row_to) {
  using Four = std::uint32_t __attribute__((vector_size(16)));
  std::array<Four, 4> column;
  for (std::size_t c = 0; c < 4; ++c) {
    std::memcpy(&column[c], from + static_cast<std::int64_t>(c) * column_from, sizeof(Four));
  }
  const Four low01 = __builtin_shufflevector(column[0], column[1], 0, 4, 1, 5);
  const Four high01 = __builtin_shufflevector(column[0], column[1], 2, 6, 3, 7);
  const Four low23 = __builtin_shufflevector(column[2], column[3], 0, 4, 1, 5);
  const Four high23 = __builtin_shufflevector(column[2], column[3], 2, 6, 3, 7);
  const std::array<Four, 4> row = {__builtin_shufflevector(low01, low23, 0, 1, 4, 5),
                                   __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
                                   __builtin_shufflevector(high01, high23, 0, 1, 4, 5),
                                   __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
  for (std::size_t r = 0; r < 4; ++r) {
    std::memcpy(to + static_cast<std::int64_t>(r) * row_to, &row[r], sizeof(Four));
  }
}

/// A tile of rows [row, end) and all columns of a plane.
template <typename T>
void copy_rows(const Loops& loops, const T* from, T* to, std::int64_t row, std::int64_t end) {
  constexpr std::int64_t kTile = 16;  // of f32 one cache line
  const Axis &rows = loops.rows, &columns = loops.columns;
  if (columns.from == 1) {
    for (; row < end; ++row)
      std::copy_n(from + row * rows.from, columns.extent, to + row * rows.to);
    return;
  }
  for (std::int64_t left = 0; left < columns.extent; left += kTile) {
    const std::int64_t right = std::min(left + kTile, columns.extent);
    std::int64_t fours = row, whole = left;  // rows and columns in blocks of four by four
    if constexpr (sizeof(T) == 4) {
      if (rows.from == 1) {
        fours = row + (end - row) / 4 * 4;
        whole = left + (right - left) / 4 * 4;
      }
      for (std::int64_t r = row; r < fours; r += 4) {
        for (std::int64_t c = left; c < whole; c += 4) {
          copy_four_by_four(from + r + c * columns.from, columns.from, to + r * rows.to + c,
                            rows.to);
        }
      }
    }
    for (std::int64_t r = row; r < end; ++r) {
      for (std::int64_t c = r < fours ? whole : left; c < right; ++c) {
        to[r * rows.to + c] = from[r * rows.from + c * columns.from];
      }
    }
  }
}

Status run(const OpCall& call, const KernelContext& context) {
  constexpr std::int64_t kRows = 16;
  if (call.outputs[0].shape.elements() == 0) return {};
  const Loops loops = read_loops(call);
  const std::int64_t tiles = (loops.rows.extent + kRows - 1) / kRows;
  const std::int64_t chunk =
      std::max<std::int64_t>(1, kChunkElements / (kRows * loops.columns.extent));
  return with_moved(call.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    parallel_ranges(
        context, loops.planes() * tiles,
        [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t at = begin; at < end; ++at) {
            const T* from = context.inputs[0].raw<T>();
            T* to = context.outputs[0].raw<T>();
            std::int64_t plane = at / tiles;
            for (int i = loops.outer_count; i-- > 0;) {
              const Axis& axis = loops.outer[static_cast<std::size_t>(i)];
              from += plane % axis.extent * axis.from;
              to += plane % axis.extent * axis.to;
              plane /= axis.extent;
            }
            const std::int64_t row = at % tiles * kRows;
            copy_rows(loops, from, to, row, std::min(row + kRows, loops.rows.extent));
          }
        },
        chunk);
    return Status();
  });
}

Result<std::vector<std::optional<Value>>> gradient(GradientBuilder& b) {
  const Shape& axes = b.params().shape("axes");
  TROUPE_TRY_ASSIGN(const AxisOrder order, read_axis_order(b.params(), axes.rank()));
  Shape back = axes;
  for (int i = 0; i < axes.rank(); ++i) back.set(order[static_cast<std::size_t>(i)], i);
  return {{b.add1("transpose", {*b.output_gradient(0)}, {{"axes", to_attribute(back)}})}};
}

OpDef transpose_definition() {
  OpDef op;
  op.name = "transpose";
  op.mixed = MixedPrecision::as_inputs;
  op.doc =
      "`data` with its axes in the order `axes`: the output's axis i is data's axis `axes[i]`.";
  op.params = {{"axes", ParamType::shape, Shape{},
                "Axes of data; negative ones count from the end; () turns their order round."}};
  op.inputs = names({"data"});
  op.outputs = names({"output"});
  op.infer_shape = infer;
  op.gradient = gradient;
  op.accumulates = {0};
  op.keeps_samples = [](const OpCall& call, const std::vector<bool>&) {
    const Shape& data = call.inputs[0].shape;
    return read_axis_order(call.params, data.rank()).value()[0] == 0;
  };
  op.kernels = {moving_kernel(reference_kernel(run))};
  op.samples = {
      {.title = "matrix", .inputs = {{5, 37}}},
      {.title = "matrix of whole tiles and more", .inputs = {{39, 22}}},
      {.title = "channels last",
       .attributes = {{"axes", "(0, 2, 3, 1)"}},
       .inputs = {{2, 3, 4, 5}}},
      {.title = "rows stay whole", .attributes = {{"axes", "(1, 0, 2)"}}, .inputs = {{3, 4, 5}}},
      {.title = "five axes",
       .attributes = {{"axes", "(4, 1, 3, 0, 2)"}},
       .inputs = {{2, 3, 1, 4, 5}}},
      {.title = "channels last, batch 32",
       .attributes = {{"axes", "(0, 2, 3, 1)"}},
       .inputs = {{32, 64, 28, 28}},
       .gradient = false,
       .benchmark = true},
  };
  return op;
}

}  // namespace

std::span<const OpDef> ops_transpose() {
  static const std::vector<OpDef> operators = {transpose_definition()};
  return operators;
}

}  // namespace troupe::ops
