// SPDX-License-Identifier: Apache-2.0
// Matrix products on GPUs, of any operands that can be read by row and column: tiles in shared
// memory, each thread some outputs of a tile. Each output's products are added one after the other,
// in one or more parts of fixed length, and the parts' sums are reduced. The host does the same.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "ops/roofline.h"
#include "ops/support/device_reduce.h"

namespace troupe::ops {

/// `batches` products (rows, inner) * (inner, columns).
struct DeviceProduct {
  std::int64_t batches = 1, rows = 0, columns = 0, inner = 0;
  std::int64_t parts = 1, part_length = 0;  ///< that sums are cut into
  bool x_inner_aside = true;    ///< neighbours in x's memory: elements of a row, not of a column
  bool y_columns_aside = true;  ///< neighbours in y's memory: elements of a row, not of a column

  std::int64_t outputs() const { return batches * rows * columns; }
};

/// Cuts long sums of few outputs into parts, so that a GPU has enough to do. Without it, an
/// output's bits depend on `inner` alone.
DeviceProduct cut_sums(DeviceProduct product);

// A multiplier M is a plain struct with
//   Number                          what is computed in
//   Row, Column, Term               what x and y have to know of each: found once for many products
//   row(batch, row), column(batch, column), term(i)
//   x(Row, Term), y(Term, Column)   the factors of term i of an output's sum
//   store(batch, row, column, sum)  called once for each output
// all of them TROUPE_HOST_DEVICE and const. Rows and columns behind the last are asked for, too,
// but never their factors.

/// How the threads of a block share a tile: each has kRowsEach * kColumnsEach outputs, of rows that
/// are kThreadRows apart and columns that are kThreadColumns apart.
template <int kRowThreads, int kRows, int kColumns>
struct ProductTile {
  static constexpr int kThreadRows = kRowThreads, kThreadColumns = kBlockThreads / kRowThreads;
  static constexpr int kRowsEach = kRows, kColumnsEach = kColumns;
  static constexpr int kTileRows = kThreadRows * kRows, kTileColumns = kThreadColumns * kColumns;
  static constexpr int kDepth = 16;  ///< products of a sum from one filling of the tile
};
using SquareTile = ProductTile<16, 4, 4>;
using FlatTile = ProductTile<1, 4, 1>;
using TallTile = ProductTile<kBlockThreads, 1, 4>;

/// f(tile) with the tile for a product.
template <typename F>
auto with_tile(const DeviceProduct& p, F f) {
  constexpr std::int64_t kFew = 8;
  if (p.rows <= kFew) return f(FlatTile());
  if (p.columns <= kFew) return f(TallTile());
  return f(SquareTile());
}

/// One tile of one part for a block. `partial`: where the sums of parts go, [part, output].
template <typename M, typename Tile>
struct ProductPart {
  using W = typename M::Number;
  static constexpr std::size_t kSharedBytes =
      sizeof(W) * Tile::kDepth * (Tile::kTileRows + Tile::kTileColumns);
  static constexpr int kEach = Tile::kRowsEach * Tile::kColumnsEach;

  DeviceProduct p;
  M multiplier;
  W* partial;

  struct Place {
    std::int64_t batch, part, row, column;
  };

  TROUPE_HOST_DEVICE std::int64_t row_tiles() const {
    return (p.rows + Tile::kTileRows - 1) / Tile::kTileRows;
  }
  TROUPE_HOST_DEVICE std::int64_t column_tiles() const {
    return (p.columns + Tile::kTileColumns - 1) / Tile::kTileColumns;
  }
  std::int64_t units() const { return p.batches * p.parts * row_tiles() * column_tiles(); }

  TROUPE_HOST_DEVICE Place place(std::int64_t unit) const {
    const std::int64_t column = unit % column_tiles() * Tile::kTileColumns;
    unit /= column_tiles();
    const std::int64_t row = unit % row_tiles() * Tile::kTileRows;
    unit /= row_tiles();
    return {unit / p.parts, unit % p.parts, row, column};
  }
  TROUPE_HOST_DEVICE std::int64_t begin(const Place& at) const { return at.part * p.part_length; }
  TROUPE_HOST_DEVICE std::int64_t end(const Place& at) const {
    return at.part + 1 == p.parts ? p.inner : begin(at) + p.part_length;
  }

  /// Elements of x, and of y, that a thread writes into a filling, at most. Element e of them has
  /// the number thread + e * kBlockThreads in the tile.
  static constexpr int kXEach = (Tile::kDepth * Tile::kTileRows - 1) / kBlockThreads + 1;
  static constexpr int kYEach = (Tile::kDepth * Tile::kTileColumns - 1) / kBlockThreads + 1;
  static_assert(kBlockThreads % Tile::kDepth == 0);

  TROUPE_HOST_DEVICE int x_row(int number) const {
    return p.x_inner_aside ? number / Tile::kDepth : number % Tile::kTileRows;
  }
  TROUPE_HOST_DEVICE int y_column(int number) const {
    return p.y_columns_aside ? number % Tile::kTileColumns : number / Tile::kDepth;
  }

  /// The rows and columns of what a thread reads, the same in each filling of a tile; of many,
  /// which registers have no room for, none.
  static constexpr int kKept = 4;
  static constexpr int kRowsKept = kXEach <= kKept ? kXEach : 0;
  static constexpr int kColumnsKept = kYEach <= kKept ? kYEach : 0;
  struct Operands {
    typename M::Row rows[kRowsKept > 0 ? kRowsKept : 1];
    typename M::Column columns[kColumnsKept > 0 ? kColumnsKept : 1];
  };
  TROUPE_HOST_DEVICE Operands operands(const Place& at, int thread) const {
    Operands own;
    TROUPE_UNROLL
    for (int e = 0; e < kRowsKept; ++e) own.rows[e] = row_of(at, thread + e * kBlockThreads);
    TROUPE_UNROLL
    for (int e = 0; e < kColumnsKept; ++e) {
      own.columns[e] = column_of(at, thread + e * kBlockThreads);
    }
    return own;
  }
  TROUPE_HOST_DEVICE typename M::Row row_of(const Place& at, int number) const {
    return multiplier.row(at.batch, at.row + x_row(number));
  }
  TROUPE_HOST_DEVICE typename M::Column column_of(const Place& at, int number) const {
    return multiplier.column(at.batch, at.column + y_column(number));
  }

  /// The row, or column, of a thread's e-th element.
  TROUPE_HOST_DEVICE typename M::Row kept_row(const Place& at, const Operands& own, int e,
                                              int number) const {
    if constexpr (kRowsKept > 0) {
      return own.rows[e];
    } else {
      return row_of(at, number);
    }
  }
  TROUPE_HOST_DEVICE typename M::Column kept_column(const Place& at, const Operands& own, int e,
                                                    int number) const {
    if constexpr (kColumnsKept > 0) {
      return own.columns[e];
    } else {
      return column_of(at, number);
    }
  }

  /// One thread's share of filling the tile with numbers from `first` on; zeros where there are
  /// none.
  TROUPE_HOST_DEVICE void fill(const Place& at, const Operands& own, std::int64_t first, int thread,
                               W* tile) const {
    const std::int64_t stop = end(at);
    // Where terms are neighbours in memory, all elements of a thread are of one.
    typename M::Term aside{};
    if (p.x_inner_aside || !p.y_columns_aside) {
      aside = multiplier.term(first + thread % Tile::kDepth);
    }
    TROUPE_UNROLL
    for (int e = 0; e < kXEach; ++e) {
      const int number = thread + e * kBlockThreads;
      if (number >= Tile::kDepth * Tile::kTileRows) break;
      const int depth = p.x_inner_aside ? thread % Tile::kDepth : number / Tile::kTileRows;
      const int row = x_row(number);
      W factor{0};
      if (first + depth < stop && at.row + row < p.rows) {
        factor = multiplier.x(kept_row(at, own, e, number),
                              p.x_inner_aside ? aside : multiplier.term(first + depth));
      }
      tile[depth * Tile::kTileRows + row] = factor;
    }
    tile += Tile::kDepth * Tile::kTileRows;
    TROUPE_UNROLL
    for (int e = 0; e < kYEach; ++e) {
      const int number = thread + e * kBlockThreads;
      if (number >= Tile::kDepth * Tile::kTileColumns) break;
      const int depth = p.y_columns_aside ? number / Tile::kTileColumns : thread % Tile::kDepth;
      const int column = y_column(number);
      W factor{0};
      if (first + depth < stop && at.column + column < p.columns) {
        factor = multiplier.y(p.y_columns_aside ? multiplier.term(first + depth) : aside,
                              kept_column(at, own, e, number));
      }
      tile[depth * Tile::kTileColumns + column] = factor;
    }
  }

  /// Adds `depth` products to each of a thread's sums.
  TROUPE_HOST_DEVICE void add_products(int thread, int depth, const W* tile, W* sums) const {
    using std::fma;
    const W* x = tile + thread / Tile::kThreadColumns;
    const W* y = tile + Tile::kDepth * Tile::kTileRows + thread % Tile::kThreadColumns;
    for (int i = 0; i < depth; ++i, x += Tile::kTileRows, y += Tile::kTileColumns) {
      TROUPE_UNROLL
      for (int e = 0; e < kEach; ++e) {
        const int row = e / Tile::kColumnsEach * Tile::kThreadRows;
        const int column = e % Tile::kColumnsEach * Tile::kThreadColumns;
        sums[e] = fma(x[row], y[column], sums[e]);
      }
    }
  }
  TROUPE_HOST_DEVICE void add_filling(const Place& at, std::int64_t first, int thread,
                                      const W* tile, W* sums) const {
    if (at.row + thread / Tile::kThreadColumns >= p.rows) return;
    if (at.column + thread % Tile::kThreadColumns >= p.columns) return;
    const std::int64_t left = end(at) - first;
    if (left >= Tile::kDepth) {
      add_products(thread, Tile::kDepth, tile, sums);  // a constant: it can be unrolled
    } else {
      add_products(thread, static_cast<int>(left), tile, sums);
    }
  }

  TROUPE_HOST_DEVICE void finish(const Place& at, int thread, const W* sums) const {
    TROUPE_UNROLL
    for (int e = 0; e < kEach; ++e) {
      const std::int64_t row =
          at.row + thread / Tile::kThreadColumns + e / Tile::kColumnsEach * Tile::kThreadRows;
      const std::int64_t column =
          at.column + thread % Tile::kThreadColumns + e % Tile::kColumnsEach * Tile::kThreadColumns;
      if (row >= p.rows || column >= p.columns) continue;
      if (p.parts == 1) {
        multiplier.store(at.batch, row, column, sums[e]);
      } else {
        const std::int64_t output = (at.batch * p.rows + row) * p.columns + column;
        partial[at.part * (p.batches * p.rows * p.columns) + output] = sums[e];
      }
    }
  }

  void on_host(std::int64_t unit) const {
    const Place at = place(unit);
    W tile[kSharedBytes / sizeof(W)];
    W sums[kBlockThreads * kEach] = {};
    Operands own[kBlockThreads];
    for (int thread = 0; thread < kBlockThreads; ++thread) own[thread] = operands(at, thread);
    for (std::int64_t first = begin(at); first < end(at); first += Tile::kDepth) {
      for (int thread = 0; thread < kBlockThreads; ++thread) {
        fill(at, own[thread], first, thread, tile);
      }
      for (int thread = 0; thread < kBlockThreads; ++thread) {
        add_filling(at, first, thread, tile, sums + thread * kEach);
      }
    }
    for (int thread = 0; thread < kBlockThreads; ++thread) {
      finish(at, thread, sums + thread * kEach);
    }
  }

#if defined(__CUDACC__)
  __device__ void on_device(std::int64_t unit, unsigned char* shared) const {
    const Place at = place(unit);
    const int thread = static_cast<int>(threadIdx.x);
    auto* const tile = reinterpret_cast<W*>(shared);
    W sums[kEach] = {};
    const Operands own = operands(at, thread);
    for (std::int64_t first = begin(at); first < end(at); first += Tile::kDepth) {
      fill(at, own, first, thread, tile);
      __syncthreads();
      add_filling(at, first, thread, tile, sums);
      __syncthreads();
    }
    finish(at, thread, sums);
  }
#endif
};

/// Adds up the sums of parts.
template <typename M>
struct ProductTotals : DeviceSum<typename M::Number> {
  using W = typename M::Number;
  M multiplier;
  const W* partial;
  std::int64_t outputs, rows, columns;

  TROUPE_HOST_DEVICE W load(std::int64_t output, std::int64_t part) const {
    return partial[part * outputs + output];
  }
  TROUPE_HOST_DEVICE void store(std::int64_t output, W sum) const {
    const std::int64_t row = output / columns;
    multiplier.store(row / rows, row % rows, output % columns, sum);
  }
};

/// Memory for the sums of parts.
template <typename W>
W* take_partial(const DeviceProduct& p, ScratchCut& scratch) {
  return p.parts == 1 ? nullptr : scratch.take<W>(p.parts * p.outputs());
}

/// All products of `p`; `partial` is from take_partial().
template <typename M>
base::Status device_product(const KernelContext& context, const DeviceProduct& p,
                            const M& multiplier, typename M::Number* partial) {
  TROUPE_TRY(with_tile(p, [&]<typename Tile>(Tile) {
    const ProductPart<M, Tile> part{p, multiplier, partial};
    return for_each_unit(context, part.units(), part);
  }));
  if (p.parts == 1) return {};
  const DeviceReduction totals = device_reduction(p.outputs(), p.parts, true);
  TROUPE_CHECK(totals.parts == 1, "parts of a sum are few");
  return device_reduce(context, totals,
                       ProductTotals<M>{{}, multiplier, partial, p.outputs(), p.rows, p.columns},
                       nullptr);
}

/// out[row, column] = bias[column] + sum over i of x[row * x_row + i * x_inner] *
/// y[i * y_inner + column * y_column]; no bias where it is null.
template <typename T, typename Out = T>
struct StridedMultiplier {
  using Number = Wide<T>;
  const T* x_data;
  const T* y_data;
  const T* bias;
  std::int64_t x_row, x_inner, y_inner, y_column, columns;
  DeviceOutput<Out> out;

  /// Offsets.
  struct Row {
    std::int64_t x;
  };
  struct Column {
    std::int64_t y;
  };
  struct Term {
    std::int64_t x, y;
  };
  TROUPE_HOST_DEVICE Row row(std::int64_t, std::int64_t row) const { return {row * x_row}; }
  TROUPE_HOST_DEVICE Column column(std::int64_t, std::int64_t column) const {
    return {column * y_column};
  }
  TROUPE_HOST_DEVICE Term term(std::int64_t i) const { return {i * x_inner, i * y_inner}; }
  TROUPE_HOST_DEVICE Number x(Row row, Term term) const {
    return static_cast<Number>(x_data[row.x + term.x]);
  }
  TROUPE_HOST_DEVICE Number y(Term term, Column column) const {
    return static_cast<Number>(y_data[term.y + column.y]);
  }
  TROUPE_HOST_DEVICE void store(std::int64_t, std::int64_t row, std::int64_t column,
                                Number sum) const {
    if (bias != nullptr) sum += static_cast<Number>(bias[column]);
    out.store(row * columns + column, sum);
  }
};

/// A product, and where the sums of its parts go.
template <typename T>
struct ProductPlan {
  DeviceProduct product;
  Wide<T>* partial;
};
template <typename T>
ProductPlan<T> plan_product(const DeviceProduct& product, ScratchCut& scratch) {
  return {product, take_partial<Wide<T>>(product, scratch)};
}

/// cut_device_kernel() for a product: libraries' are many times as fast.
template <typename F, typename Cut>
KernelDef product_device_kernel(FixLayouts fix, F f, Cut cut) {
  KernelDef kernel = cut_device_kernel(std::move(fix), f, cut);
  kernel.seconds = [](const OpCall& call) {
    constexpr Speed kPlainTiles{0.1, 0.5};
    return roofline_seconds(call, kPlainTiles);
  };
  return kernel;
}
/// For dense tensors only.
template <typename F, typename Cut>
KernelDef product_device_kernel(F f, Cut cut) {
  return product_device_kernel(fix_together({}), f, cut);
}

}  // namespace troupe::ops
