// SPDX-License-Identifier: Apache-2.0
// Reductions over axes in an order that follows from the shape alone: reduced elements are taken
// in blocks of kReduceBlock, inside a block in up to kReduceLanes fixed lanes (innermost axis
// reduced, or kept and short) or one after the other, always in f64; blocks are joined in order.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "ops/op.h"
#include "ops/support/chunks.h"
#include "ops/support/host_device.h"

namespace troupe::ops {

inline constexpr std::int64_t kReduceBlock = 16384;
/// Sums that are taken side by side, so that none waits for the one before.
inline constexpr std::int64_t kReduceLanes = 32;
/// Neighbouring outputs that are reduced together where the innermost axis is kept.
inline constexpr std::int64_t kReduceTile = 128;

/// The parameters axis, keepdims and exclude, as in MXNet.
std::vector<ParamDef> reduce_params();
/// Which axes of a tensor of rank `rank` the parameters name; invalid_argument when out of range.
base::Result<std::array<bool, base::kRankMax>> reduced_axes(const Params& params, int rank);
/// Output shape for `data`: reduced extents are 1 (keepdims) or left out.
base::Result<base::Shape> reduced_shape(const Params& params, const base::Shape& data,
                                        bool keepdims);
/// InferShape of an operator data -> out with reduce_params().
base::Status infer_reduce(const Params& params, std::vector<base::Shape>& inputs,
                          std::vector<base::Shape>& outputs);
/// InferShape of its gradient (out_gradient, data, ...) -> data_gradient.
base::Status infer_reduce_backward(const Params& params, std::vector<base::Shape>& inputs,
                                   std::vector<base::Shape>& outputs);
/// Samples over all kinds of axes.
std::vector<Sample> reduce_samples();

/// How a dense tensor is walked: axes joined where neighbours are both kept or both reduced.
struct ReduceWalk {
  struct Axes {
    int rank = 0;
    std::array<std::int64_t, base::kRankMax> extent{};
    std::array<std::int64_t, base::kRankMax> stride{};
    std::int64_t count = 1;
    void join_front(std::int64_t axis_extent, std::int64_t axis_stride);
    /// Offset of the index-th combination, row-major.
    std::int64_t offset(std::int64_t index) const;
  };
  Axes kept;     ///< without the inner run when it is kept
  Axes reduced;  ///< without the inner run when it is reduced
  bool inner_reduced = true;
  std::int64_t inner = 1;  ///< length of the contiguous innermost run

  std::int64_t outputs() const { return kept.count * (inner_reduced ? 1 : inner); }
  std::int64_t inputs_per_output() const { return reduced.count * (inner_reduced ? inner : 1); }
  /// Pieces of at most kReduceBlock elements that an inner reduced run is cut into.
  std::int64_t segments() const {
    return inner_reduced ? std::max<std::int64_t>(1, (inner + kReduceBlock - 1) / kReduceBlock) : 1;
  }
  /// Rows: combinations of the reduced axes, times segments.
  std::int64_t rows() const { return reduced.count * segments(); }
  std::int64_t block_rows() const;
  std::int64_t blocks() const;
  /// Bytes of partial results: f64 per output and block, none for one block.
  std::size_t scratch_bytes() const;
};
ReduceWalk reduce_walk(const base::Shape& data, const std::array<bool, base::kRankMax>& reduced);
/// The walk for summing `data` to the shape `like` that broadcasts to it.
ReduceWalk reduce_walk_like(const base::Shape& data, const base::Shape& like);

/// Addition.
struct SumReducer {
  static constexpr double kInitial = 0.0;
  static double join(double total, double x) { return total + x; }
};
/// Maximum; NaN wins.
struct MaxReducer {
  static constexpr double kInitial = -std::numeric_limits<double>::infinity();
  static double join(double total, double x) { return x > total || x != x ? x : total; }
};
/// Whether an element is the maximum: NaN where that is NaN.
template <typename T>
TROUPE_HOST_DEVICE bool is_maximum(T x, T maximum) {
  return x == maximum || (x != x && maximum != maximum);
}

/// Rows of `width` numbers, `stride` apart.
struct ReduceRows {
  std::int64_t count, width, stride;
};

/// Joins rows with their totals, one after the other: totals[j] with x[row * stride + j].
struct PlainJoin {
  template <typename Reducer, typename T>
  static void join(Reducer, const T* x, const ReduceRows& rows, double* totals) {
    for (std::int64_t row = 0; row < rows.count; ++row, x += rows.stride) {
      for (std::int64_t j = 0; j < rows.width; ++j) {
        totals[j] = Reducer::join(totals[j], static_cast<double>(x[j]));
      }
    }
  }
};

/// Totals of runs of neighbours that hold `width` numbers for as many outputs over and over: number
/// i of a run goes into lane i % count.
template <typename Reducer, typename Join>
class ReduceLanes {
 public:
  explicit ReduceLanes(std::int64_t width)
      : width_(width), strips_(std::bit_floor(std::uint64_t(kReduceLanes / width))) {
    lanes_.fill(Reducer::kInitial);
  }

  template <typename T>
  void join(const T* x, std::int64_t length) {
    const std::int64_t count = strips_ * width_;
    const std::int64_t whole = length / count;
    Join::join(Reducer(), x, {whole, count, count}, lanes_.data());
    Join::join(Reducer(), x + whole * count, {1, length - whole * count, 0}, lanes_.data());
  }

  /// The totals; the last call.
  void finish(double* totals) {
    for (std::int64_t half = strips_ / 2; half > 0; half /= 2) {
      for (std::int64_t lane = 0; lane < half * width_; ++lane) {
        double& total = lanes_[std::size_t(lane)];
        total = Reducer::join(total, lanes_[std::size_t(lane + half * width_)]);
      }
    }
    std::copy_n(lanes_.data(), width_, totals);
  }

 private:
  std::int64_t width_;
  std::int64_t strips_;
  std::array<double, kReduceLanes> lanes_;
};

/// Reduces rows [begin, end) of a reduced innermost run into one total.
template <typename Reducer, typename Join, typename T>
void reduce_rows(const ReduceWalk& walk, const T* data, std::int64_t begin, std::int64_t end,
                 double* total) {
  ReduceLanes<Reducer, Join> lanes(1);
  const std::int64_t segments = walk.segments();
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t from = row % segments * kReduceBlock;
    const std::int64_t length = std::min(walk.inner - from, kReduceBlock);
    lanes.join(data + walk.reduced.offset(row / segments) + from, length);
  }
  lanes.finish(total);
}

/// Reduces rows [begin, end) of `width` neighbouring columns into totals. Rows that differ in the
/// innermost reduced axis alone are neighbours where the columns are all of them.
template <typename Reducer, typename Join, typename T>
void reduce_columns(const ReduceWalk& walk, const T* data, std::int64_t begin, std::int64_t end,
                    std::span<double> totals) {
  const auto width = static_cast<std::int64_t>(totals.size());
  const bool narrow = walk.inner <= kReduceLanes;
  ReduceLanes<Reducer, Join> lanes(narrow ? width : 1);
  std::fill(totals.begin(), totals.end(), Reducer::kInitial);
  const std::int64_t neighbours = walk.reduced.rank == 0 ? 1 : walk.reduced.extent[0];
  for (std::int64_t row = begin; row < end;) {
    const std::int64_t count = std::min(end - row, neighbours - row % neighbours);
    const T* x = data + walk.reduced.offset(row);
    if (narrow) {
      lanes.join(x, count * width);
    } else {
      Join::join(Reducer(), x, {count, width, walk.inner}, totals.data());
    }
    row += count;
  }
  if (narrow) lanes.finish(totals.data());
}

/// Reduces `data` by `walk`; store(output, total) is called once per output. `scratch` has
/// walk.scratch_bytes() bytes. Join: PlainJoin, or what does the same.
template <typename Reducer, typename Join = PlainJoin, typename T, typename Store>
void reduce(const KernelContext& context, const ReduceWalk& walk, const T* data, Store&& store) {
  const std::int64_t tiles_per_run =
      walk.inner_reduced ? 1 : (walk.inner + kReduceTile - 1) / kReduceTile;
  const std::int64_t tiles = walk.kept.count * tiles_per_run;
  const std::int64_t blocks = walk.blocks();
  const std::int64_t outputs = walk.outputs();
  const std::int64_t rows = walk.block_rows();
  auto* partial = reinterpret_cast<double*>(context.scratch.data());
  const auto unit = [&](std::int64_t index) {
    const std::int64_t block = index % blocks;
    const std::int64_t tile = index / blocks;
    const std::int64_t run = tile / tiles_per_run;
    const std::int64_t column = tile % tiles_per_run * kReduceTile;
    const std::int64_t width = walk.inner_reduced ? 1 : std::min(walk.inner - column, kReduceTile);
    const std::int64_t first = (walk.inner_reduced ? run : run * walk.inner) + column;
    const std::int64_t begin = block * rows;
    const std::int64_t end = std::min(begin + rows, walk.rows());
    const T* base = data + walk.kept.offset(run) + column;
    std::array<double, kReduceTile> totals;
    if (walk.inner_reduced) {
      reduce_rows<Reducer, Join>(walk, base, begin, end, totals.data());
    } else {
      reduce_columns<Reducer, Join>(walk, base, begin, end, {totals.data(), std::size_t(width)});
    }
    for (std::int64_t j = 0; j < width; ++j) {
      if (blocks == 1) {
        store(first + j, totals[std::size_t(j)]);
      } else {
        partial[block * outputs + first + j] = totals[std::size_t(j)];
      }
    }
  };
  const std::int64_t cost = std::max<std::int64_t>(
      1, walk.inputs_per_output() / blocks * (walk.inner_reduced ? 1 : kReduceTile));
  const std::int64_t chunk = std::max<std::int64_t>(1, kChunkElements / cost);
  parallel_ranges(
      context, tiles * blocks,
      [&](auto begin, auto end) {
        for (auto index = begin; index < end; ++index) unit(index);
      },
      chunk);
  if (blocks == 1) return;
  parallel_ranges(context, outputs, [&](auto begin, auto end) {
    for (auto o = begin; o < end; ++o) {
      double total = partial[o];
      for (std::int64_t block = 1; block < blocks; ++block) {
        total = Reducer::join(total, partial[block * outputs + o]);
      }
      store(o, total);
    }
  });
}

/// How the walk of a call is found.
using ReduceWalkOf = ReduceWalk (*)(const OpCall& call);
/// By the parameters of the call.
ReduceWalk walk_of_axes(const OpCall& call);
/// By the shape of the second input, which broadcasts to the first's.
ReduceWalk walk_of_like(const OpCall& call);

/// Output 0 = finish(total, inputs per output) of input 0; `add`: added to what is there.
template <typename Reducer, typename Join, typename Finish>
base::Status run_reduce(const KernelContext& context, const ReduceWalk& walk, Finish finish,
                        bool add) {
  return with_floating(context.outputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const double count = static_cast<double>(walk.inputs_per_output());
    T* out = context.outputs[0].as<T>();
    reduce<Reducer, Join>(context, walk, context.inputs[0].as<T>(), [&](auto o, double total) {
      const T value = static_cast<T>(finish(total, count));
      out[o] = add ? out[o] + value : value;
    });
    return base::Status();
  });
}

/// Reference kernel data -> out with finish(total, inputs per output).
template <typename Reducer, typename Finish>
KernelDef reduce_kernel(ReduceWalkOf walk_of, Finish finish) {
  return reference_kernel(
      [finish, walk_of](const OpCall& call, const KernelContext& context) {
        return run_reduce<Reducer, PlainJoin>(context, walk_of(call), finish, false);
      },
      [walk_of](const OpCall& call) { return walk_of(call).scratch_bytes(); });
}

/// What becomes of totals: nothing, or means.
inline double finish_total(double total, double) {
  return total;
}
inline double finish_mean(double total, double count) {
  return total / count;
}

}  // namespace troupe::ops
