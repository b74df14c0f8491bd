// SPDX-License-Identifier: Apache-2.0
// Matrix products in tiles of registers: elements of x times vectors of neighbours in y's rows.
// Where y's columns are not neighbours (weights of fully_connected), the smaller operand is copied
// transposed; if that is x, the product's transpose is computed. Few rows of x are multiplied with
// y's rows as they lie (dot_rows.h). Pure functions; any thread.
#include "ops/support/product.h"

#include <hwy/cache_control.h>

#include <algorithm>

#include "ops/support/chunks.h"
#include "ops/support/dot_rows.h"
#include "ops/support/flat_kernel.h"
#include "ops/support/product_block.h"
#include "ops/support/streaming.h"

// A tile is an array of vectors, which scalable ones cannot form.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/support/product.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/support/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::ops {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Lanes = hn::ScalableTag<float>;
using Vector = hn::Vec<Lanes>;

// As many sums as the registers hold beside what is multiplied.
#if HWY_TARGET <= HWY_AVX3
constexpr int kTileRows = 8;
#else
constexpr int kTileRows = 4;
#endif
constexpr int kTileVectors = 3;

inline std::int64_t lanes() {
  return static_cast<std::int64_t>(hn::Lanes(Lanes()));
}

/// Sums of kRows x kVectors, the last vector whole where kWhole: masked loads cost time. Loops over
/// them must be unrolled, or they live in memory.
template <int kRows, int kVectors, bool kWhole>
struct Tile {
  using Sums = Vector[kRows][kVectors];
  static constexpr int kLast = kVectors - 1;  // the vector that may be partial

  static HWY_INLINE void compute(const ProductBlock& b, std::int64_t columns) {
    const Lanes d;
    const Tail tail(d, columns - kLast * lanes());
    Sums sums;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(d);
    }
    const float* left = b.left;
    const float* right = b.right;
    const std::int64_t inner = b.inner;
    const std::int64_t ahead = b.ahead;
    for (std::int64_t i = 0; i < inner; ++i, left += b.left_inner, right += b.right_inner) {
      Vector row[kVectors];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) row[v] = load(v, tail, right);
      if (ahead != 0) {
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) hwy::Prefetch(right + ahead + v * lanes());
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Vector factor = hn::Set(d, left[r * b.left_row]);
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(factor, row[v], sums[r][v]);
      }
    }
    if (b.transposed) {
      store_transposed(b, sums, columns);
    } else {
      store(b, sums, tail);
    }
  }

 private:
  static HWY_INLINE Vector load(int v, const Tail<Lanes>& tail, const float* row) {
    const float* place = row + v * lanes();
    return kWhole || v < kLast ? hn::LoadU(Lanes(), place) : tail.load(place);
  }

  static HWY_INLINE void store(const ProductBlock& b, const Sums& sums, const Tail<Lanes>& tail) {
    const Lanes d;
    const bool add = b.add;
    const bool stream = b.stream && kWhole;
    const std::int64_t stride = b.out_stride;
    float* out = b.out;
    Vector bias[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      bias[v] = b.bias == nullptr ? hn::Zero(d) : load(v, tail, b.bias);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r, out += stride) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        Vector sum = hn::Add(sums[r][v], bias[v]);
        if (add) sum = hn::Add(load(v, tail, out), sum);
        if (stream) {
          hn::Stream(sum, d, out + v * lanes());
        } else if (kWhole || v < kLast) {
          hn::StoreU(sum, d, out + v * lanes());
        } else {
          tail.store(sum, out + v * lanes());
        }
      }
    }
  }

  static HWY_INLINE void store_transposed(const ProductBlock& b, const Sums& sums,
                                          std::int64_t columns) {
    const Lanes d;
    HWY_ALIGN float values[kRows][kVectors * hn::MaxLanes(Lanes())];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Vector bias = hn::Set(d, b.bias == nullptr ? 0.0F : b.bias[r]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        hn::StoreU(hn::Add(sums[r][v], bias), d, values[r] + v * lanes());
      }
    }
    for (std::int64_t c = 0; c < columns; ++c) {
      float* out = b.out + c * b.out_stride;
      for (int r = 0; r < kRows; ++r) out[r] = b.add ? out[r] + values[r][c] : values[r][c];
    }
  }
};

/// A tile of at most kRows x kVectors.
template <int kRows, int kVectors>
void compute_tile(const ProductBlock& b, std::int64_t rows, std::int64_t columns) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return compute_tile<kRows - 1, kVectors>(b, rows, columns);
  }
  if constexpr (kVectors > 1) {
    if (columns <= (kVectors - 1) * lanes()) {
      return compute_tile<kRows, kVectors - 1>(b, rows, columns);
    }
  }
  if (columns == kVectors * lanes()) {
    Tile<kRows, kVectors, true>::compute(b, columns);
  } else {
    Tile<kRows, kVectors, false>::compute(b, columns);
  }
}

void multiply_block(const ProductBlock& block) {
  const std::int64_t width = kTileVectors * lanes();
  const std::int64_t out_row = block.transposed ? 1 : block.out_stride;
  const std::int64_t out_column = block.transposed ? block.out_stride : 1;
  for (std::int64_t c = 0; c < block.columns; c += width) {
    const std::int64_t columns = std::min(width, block.columns - c);
    ProductBlock tile = block;
    tile.right += c;
    for (std::int64_t r = 0; r < block.rows; r += kTileRows) {
      tile.left = block.left + r * block.left_row;
      tile.out = block.out + r * out_row + c * out_column;
      if (block.bias != nullptr) tile.bias = block.bias + (block.transposed ? r : c);
      compute_tile<kTileRows, kTileVectors>(tile, std::min<std::int64_t>(kTileRows, block.rows - r),
                                            columns);
    }
  }
  if (block.stream) hwy::FlushStream();
}

}  // namespace HWY_NAMESPACE
}  // namespace troupe::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::ops {
namespace {

HWY_EXPORT(multiply_block);

using base::Errc;
using base::Result;
using base::Status;

/// What one chunk computes: rows, columns, and the terms that are added in one go.
struct Blocks {
  std::int64_t rows, columns, inner;
  bool ahead = false;  ///< right is fetched a block ahead
};

/// A matrix of this size is gone from the caches before it is needed again.
constexpr std::int64_t kLargeElements = 1 << 22;

/// Memory is read and written in long pieces of few rows; what is needed again stays in the cache.
Blocks choose_blocks(const ProductBlock& whole) {
  constexpr std::int64_t kFewTerms = 64, kFewRows = 16, kLong = 960;
  // Most of the work is to write out.
  if (whole.inner <= kFewTerms && whole.rows * whole.columns >= kLargeElements) {
    return {8, kLong, kFewTerms};
  }
  // Right is read once, a few of its rows at a time: more than that no processor foresees.
  if (whole.rows <= kFewRows && whole.inner * whole.columns >= kLargeElements) {
    return {kFewRows, kLong, 8, true};
  }
  // A block of right is read for every tile.
  constexpr std::int64_t kRows = 128, kColumns = 96, kRight = 512 * kColumns;
  return {kRows, kColumns, kRight / std::min(whole.columns, kColumns)};
}

/// Terms of a row's sum that are added in f32 before f64 takes over.
constexpr std::int64_t kSumTerms = 256;
/// Rows whose sums one chunk takes.
constexpr std::int64_t kSumRows = 128;

/// True where out is large, written once, and its rows begin where vectors may be streamed to.
bool streams(const ProductBlock& whole, const Blocks& block) {
  constexpr std::int64_t kLine = 16;
  const std::int64_t bytes = whole.rows * whole.columns * std::int64_t(sizeof(float));
  return !whole.add && !whole.transposed && whole.inner <= block.inner &&
         worth_streaming(whole.out, bytes) && whole.out_stride % kLine == 0;
}

std::int64_t blocks(std::int64_t count, std::int64_t block) {
  return (count + block - 1) / block;
}

/// to[i * rows + r] = from[r * stride + i], in squares that fit the cache.
void transpose(const KernelContext& context, const float* from, std::int64_t stride, float* to,
               std::int64_t rows, std::int64_t inner) {
  constexpr std::int64_t kSquare = 16;
  context.parallel(blocks(inner, kSquare), [=](std::int64_t chunk) {
    const std::int64_t end = std::min((chunk + 1) * kSquare, inner);
    for (std::int64_t first = 0; first < rows; first += kSquare) {
      const std::int64_t last = std::min(first + kSquare, rows);
      for (std::int64_t i = chunk * kSquare; i < end; ++i) {
        for (std::int64_t r = first; r < last; ++r) to[i * rows + r] = from[r * stride + i];
      }
    }
  });
}

bool adds_to(const std::vector<WriteMode>& modes, std::size_t output) {
  return output < modes.size() && modes[output] == WriteMode::add;
}

class ProductKernel final : public Kernel {
 public:
  ProductKernel(Product product, std::vector<WriteMode> modes)
      : p_(product), modes_(std::move(modes)) {}

  /// Sums that are cut elsewhere have other bits, and so another name.
  std::string name() const override {
    ProductBlock whole{};
    set_extents(whole);
    const Blocks block = choose_blocks(whole);
    if (whole.inner <= block.inner) return "simd:product";
    return fmt::format("simd:product, {} terms at a time", block.inner);
  }
  std::size_t scratch_bytes() const override {
    const std::int64_t kept = copies_y() ? p_.columns : copies_x() ? p_.rows : 0;
    return static_cast<std::size_t>(kept * p_.inner) * sizeof(float);
  }

  Status run(const KernelContext& context) const override {
    ProductBlock whole = prepare_operands(context);
    const Blocks block = choose_blocks(whole);
    whole.stream = streams(whole, block);
    const std::int64_t across = blocks(whole.columns, block.columns);
    const std::int64_t down = blocks(whole.rows, block.rows);
    context.parallel(across * down, [&](std::int64_t chunk) {
      multiply(whole, block, chunk / across * block.rows, chunk % across * block.columns);
    });
    if (p_.row_sums_output >= 0) sum_rows(context);
    return {};
  }

 private:
  bool transposed() const { return p_.y_column != 1 && (p_.x_row == 1 || p_.rows < p_.columns); }
  bool copies_y() const { return p_.y_column != 1 && !transposed(); }
  bool copies_x() const { return transposed() && p_.x_row != 1; }
  /// The whole product, with neighbours on the right side.
  ProductBlock prepare_operands(const KernelContext& context) const {
    const auto* x = context.inputs[p_.x_input].as<float>();
    const auto* y = context.inputs[p_.y_input].as<float>();
    auto* copy = reinterpret_cast<float*>(context.scratch.data());
    if (copies_x()) transpose(context, x, p_.x_row, copy, p_.rows, p_.inner);
    if (copies_y()) transpose(context, y, p_.y_column, copy, p_.columns, p_.inner);
    ProductBlock whole{};
    set_extents(whole);
    whole.out = context.outputs[0].as<float>();
    whole.out_stride = p_.columns;
    whole.add = adds_to(modes_, 0);
    if (p_.bias_input >= 0) {
      whole.bias = context.inputs[static_cast<std::size_t>(p_.bias_input)].as<float>();
    }
    if (whole.transposed) {
      whole.left = y;
      whole.left_row = p_.y_column;
      whole.left_inner = p_.y_inner;
      whole.right = copies_x() ? copy : x;
      whole.right_inner = copies_x() ? p_.rows : p_.x_inner;
    } else {
      whole.left = x;
      whole.left_row = p_.x_row;
      whole.left_inner = p_.x_inner;
      whole.right = copies_y() ? copy : y;
      whole.right_inner = copies_y() ? p_.columns : p_.y_inner;
    }
    return whole;
  }

  void set_extents(ProductBlock& whole) const {
    whole.inner = p_.inner;
    whole.transposed = transposed();
    whole.rows = whole.transposed ? p_.columns : p_.rows;
    whole.columns = whole.transposed ? p_.rows : p_.columns;
  }

  static void multiply(ProductBlock block, const Blocks& size, std::int64_t row,
                       std::int64_t column) {
    const std::int64_t inner = block.inner;
    block.left += row * block.left_row;
    block.right += column;
    const std::int64_t out_row = block.transposed ? column : row;
    const std::int64_t out_column = block.transposed ? row : column;
    block.out += out_row * block.out_stride + out_column;
    if (block.bias != nullptr) block.bias += out_column;
    block.rows = std::min(size.rows, block.rows - row);
    block.columns = std::min(size.columns, block.columns - column);
    for (std::int64_t i = 0; i < inner; i += size.inner) {
      block.inner = std::min(size.inner, inner - i);
      const bool another = i + 2 * size.inner <= inner;
      block.ahead = size.ahead && another ? size.inner * block.right_inner : 0;
      multiply_product_block(block);
      block.left += size.inner * block.left_inner;
      block.right += size.inner * block.right_inner;
      block.bias = nullptr;
      block.add = true;
    }
  }

  void sum_rows(const KernelContext& context) const {
    const auto index = static_cast<std::size_t>(p_.row_sums_output);
    const auto* x = context.inputs[p_.x_input].as<float>();
    float* sums = context.outputs[index].as<float>();
    const bool add = adds_to(modes_, index);
    const auto sum_block = [&](std::int64_t begin, std::int64_t end) {
      double totals[kSumRows] = {};
      for (std::int64_t first = 0; first < p_.inner; first += kSumTerms) {
        float part[kSumRows] = {};
        const std::int64_t last = std::min(first + kSumTerms, p_.inner);
        for (std::int64_t i = first; i < last; ++i) {
          const float* place = x + i * p_.x_inner;
          for (std::int64_t r = begin; r < end; ++r) part[r - begin] += place[r * p_.x_row];
        }
        for (std::int64_t r = 0; r < end - begin; ++r) totals[r] += static_cast<double>(part[r]);
      }
      for (std::int64_t r = begin; r < end; ++r) {
        const auto total = static_cast<float>(totals[r - begin]);
        sums[r] = add ? sums[r] + total : total;
      }
    };
    parallel_ranges(context, p_.rows, sum_block, kSumRows);
  }

  Product p_;
  std::vector<WriteMode> modes_;
};

/// A product of few rows of x with y's rows as they lie: y is read once.
class DotKernel final : public Kernel {
 public:
  DotKernel(Product product, bool add) : p_(product), add_(add) {}

  /// Terms must be neighbours in both, and so many that adding up lanes pays.
  static bool takes(const Product& p) {
    constexpr std::int64_t kLeastTerms = 128;
    return p.rows <= kDotRows && p.x_inner == 1 && p.y_inner == 1 && p.y_column != 1 &&
           p.inner >= kLeastTerms && p.row_sums_output < 0;
  }

  std::string name() const override { return "simd:product, dots"; }
  std::size_t scratch_bytes() const override {
    return static_cast<std::size_t>(p_.rows * row()) * sizeof(float);
  }

  Status run(const KernelContext& context) const override {
    const auto* const x = context.inputs[p_.x_input].as<float>();
    auto* const copy = reinterpret_cast<float*>(context.scratch.data());
    context.parallel(p_.rows, [&](std::int64_t r) {
      std::copy_n(x + r * p_.x_row, p_.inner, copy + r * row());
    });
    DotRows dots;
    dots.x = copy;
    dots.y = context.inputs[p_.y_input].as<float>();
    if (p_.bias_input >= 0) {
      dots.bias = context.inputs[static_cast<std::size_t>(p_.bias_input)].as<float>();
    }
    dots.out = context.outputs[0].as<float>();
    dots.rows = p_.rows;
    dots.inner = p_.inner;
    dots.x_row = row();
    dots.y_row = p_.y_column;
    dots.out_stride = p_.columns;
    dots.add = add_;
    parallel_ranges(
        context, p_.columns,
        [&](std::int64_t begin, std::int64_t end) { dot_rows(dots, begin, end); }, kDotColumns);
    return {};
  }

 private:
  /// Rows of x are copied this far from each other: many lengths are multiples of a page, so that
  /// all rows would want the same places of the first cache.
  std::int64_t row() const {
    constexpr std::int64_t kLine = 16;
    return (p_.inner / kLine + 2) * kLine;
  }

  Product p_;
  bool add_;
};

}  // namespace

void multiply_product_block(const ProductBlock& block) {
  HWY_DYNAMIC_DISPATCH(multiply_block)(block);
}

KernelDef product_kernel(Product (*read)(const OpCall&)) {
  const auto make = [read](const OpCall& call) -> Result<std::unique_ptr<Kernel>> {
    if (call.inputs.front().dtype != base::DType::f32) {
      return base::error(Errc::unimplemented, "only f32");
    }
    TROUPE_TRY(common_layout(call).status());
    const Product product = read(call);
    if (product.rows * product.columns * product.inner == 0) {
      return base::error(Errc::unimplemented, "empty tensor");
    }
    if (DotKernel::takes(product)) {
      return std::unique_ptr<Kernel>(std::make_unique<DotKernel>(product, adds_to(call.modes, 0)));
    }
    return std::unique_ptr<Kernel>(std::make_unique<ProductKernel>(product, call.modes));
  };
  return {"simd:product", make};
}

}  // namespace troupe::ops
#endif  // HWY_ONCE
