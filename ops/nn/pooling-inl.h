// SPDX-License-Identifier: Apache-2.0
// What pooling.simd.cc does with rows of windows: channels that are neighbours in memory are the
// lanes of vectors, and where windows overlap, the winner of each row of data in each window is
// found once; in dense tensors the columns are the lanes. Include it after <hwy/foreach_target.h>.
// Pure functions; any thread.
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "ops/nn/pooling.h"
#include "ops/support/lanes-inl.h"
#include "ops/support/memory-inl.h"

// As elements-inl.h: read once per instruction set.
#if HWY_ONCE
#pragma once
#endif

#ifndef TROUPE_OPS_POOLING_ONCE
#define TROUPE_OPS_POOLING_ONCE
namespace troupe::ops {
/// Most columns of a dense row that are looked at in one go.
inline constexpr std::int64_t kPoolColumns = 512;
/// Where channels are neighbours: most windows of a row that are looked at in one go, and most rows
/// of overlapping windows.
inline constexpr std::int64_t kPoolWindows = 32, kPoolRows = 8;

/// First and end of a range.
using Range = std::pair<std::int64_t, std::int64_t>;

/// What of a call does not depend on addresses: planes of (rows, columns, inner) numbers, where
/// `inner` channels are neighbours.
struct PoolPlanes {
  Pooling v;
  std::int64_t inner = 1;
  std::int64_t blocks = 1;         ///< planes of one image
  std::int64_t last_channels = 1;  ///< of an image's last plane; the rest of `inner` is padding
  bool add = false;

  /// Taps of window `at` of an axis that lie inside; none when all is padding.
  Range taps(std::size_t axis, std::int64_t at) const {
    const std::int64_t start = v.window[axis].position(at, 0);
    const std::int64_t first = std::max<std::int64_t>(0, -start);
    return {first, std::max(first, std::min(v.window[axis].kernel, v.input[axis] - start))};
  }
  /// Windows have rows in common, few enough that what was found in each of them is kept.
  bool overlaps() const {
    const Window& rows = v.window[0];
    return v.output[0] > 1 && rows.stride < rows.kernel && rows.kernel <= kPoolRows;
  }
};

/// A call on numbers of T.
template <typename T>
struct MaxPool : PoolPlanes {
  const T* data = nullptr;
  T* output = nullptr;
  std::uint8_t* narrow = nullptr;  ///< indices of this width, or
  std::int32_t* wide = nullptr;    ///< of this one, or none

  bool has_indices() const { return narrow != nullptr || wide != nullptr; }
  void put(std::int64_t at, float value, std::int32_t tap) const {
    output[at] = T(add ? static_cast<float>(output[at]) + value : value);
    put_index(at, tap);
  }
  void put_index(std::int64_t at, std::int32_t tap) const {
    if (narrow != nullptr) narrow[at] = static_cast<std::uint8_t>(tap);
    if (wide != nullptr) wide[at] = tap;
  }
};
}  // namespace troupe::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace troupe::ops {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// The winner among the taps that were met, per lane: the greatest value, the first of equals, but
/// the last NaN. They are met in the order of their numbers. Without kIndices `tap` means nothing.
template <bool kIndices, typename D>
struct Winner {
  hn::Vec<D> value;
  hn::Vec<Ints<D>> tap;

  HWY_INLINE void meet(hn::Vec<D> other, hn::Vec<Ints<D>> from) {
    const auto wins = hn::Or(hn::Gt(other, value), hn::IsNaN(other));
    value = hn::IfThenElse(wins, other, value);
    if constexpr (kIndices) {
      tap = hn::IfThenElse(hn::RebindMask(Ints<D>(), wins), from, tap);
    }
  }
  /// Neighbouring channels of a window.
  template <typename T>
  HWY_INLINE void put(D d, const MaxPool<T>& p, std::int64_t target) const {
    const auto result = p.add ? hn::Add(load(d, p.output + target), value) : value;
    store(d, result, p.output + target);
    if constexpr (kIndices) {
      if (p.narrow != nullptr) {
        const hn::Rebind<std::uint8_t, D> bytes;
        hn::StoreU(hn::DemoteTo(bytes, tap), bytes, p.narrow + target);
      }
      if (p.wide != nullptr) hn::StoreU(tap, Ints<D>(), p.wide + target);
    }
  }
};

/// run(d, c) for vectors of neighbouring channels, of which c is the first.
template <typename Run>
HWY_INLINE void for_channels(std::int64_t inner, Run&& run) {
  std::int64_t c = 0;
  with_tags([&](auto d) HWY_ATTR {
    const auto step = static_cast<std::int64_t>(hn::Lanes(d));
    for (; c + step <= inner; c += step) run(d, c);
  });
}

/// As many channels as D has lanes, of the window whose first tap is at offset `corner`.
template <bool kIndices, typename D, typename T>
HWY_INLINE void pool_lanes(D d, const MaxPool<T>& p, std::int64_t corner, const Range& rows,
                           const Range& columns, std::int64_t target) {
  const std::int64_t width = p.v.window[1].kernel;
  const auto at = [&](std::int64_t y, std::int64_t x) HWY_ATTR {
    return load(d, p.data + corner + (y * p.v.input[1] + x) * p.inner);
  };
  Winner<kIndices, D> winner{at(rows.first, columns.first),
                             ints(d, rows.first * width + columns.first)};
  std::int64_t begin = columns.first + 1;
  for (std::int64_t y = rows.first; y < rows.second; ++y, begin = columns.first) {
    for (std::int64_t x = begin; x < columns.second; ++x) {
      winner.meet(at(y, x), ints(d, y * width + x));
    }
  }
  winner.put(d, p, target);
}

/// The winners of each row of data in the windows of a strip, of as many channels as D has lanes.
/// Windows that have rows in common take them from here.
template <bool kIndices, typename D, typename T>
class RowWinners {
 public:
  RowWinners(D d, const MaxPool<T>& p, const Range& windows) : d_(d), p_(p), windows_(windows) {
    const Window& window = p.v.window[1];
    const auto whole = [&](std::int64_t w) {
      return window.position(w, 0) >= 0 && window.position(w, window.kernel) <= p.v.input[1];
    };
    while (windows_.second > windows_.first && p.v.is_empty(1, windows_.second - 1)) {
      --windows_.second;
    }
    inside_ = windows_;
    while (inside_.first < inside_.second && !whole(inside_.first)) ++inside_.first;
    while (inside_.first < inside_.second && !whole(inside_.second - 1)) --inside_.second;
  }

  /// Looks at row `y` of data, which begins at `row`.
  HWY_INLINE void find(std::int64_t y, const T* row) {
    Line& line = lines_[y % kPoolRows];
    for (std::int64_t w = windows_.first; w < inside_.first; ++w) find_one(line, w, row);
    switch (p_.v.window[1].kernel) {
      case 2:
        find_inside<2>(line, row);
        break;
      case 3:
        find_inside<3>(line, row);
        break;
      default:
        find_inside<0>(line, row);
    }
    for (std::int64_t w = inside_.second; w < windows_.second; ++w) find_one(line, w, row);
  }

  /// Writes the windows of a row but those of padding alone. Their first tap is in row `top` of
  /// data; `target`: the first column of the output's row.
  HWY_INLINE void put(std::int64_t top, const Range& rows, std::int64_t target) const {
    const std::int64_t width = p_.v.window[1].kernel;
    for (std::int64_t w = windows_.first; w < windows_.second; ++w) {
      const std::int64_t at = (w - windows_.first) * lanes_;
      const auto of_row = [&](std::int64_t y) HWY_ATTR {
        const Line& line = lines_[(top + y) % kPoolRows];
        Winner<kIndices, D> winner{hn::Load(d_, line.value + at), hn::Zero(Ints<D>())};
        if constexpr (kIndices) {
          winner.tap = hn::Add(hn::Load(Ints<D>(), line.tap + at), ints(d_, y * width));
        }
        return winner;
      };
      auto winner = of_row(rows.first);
      for (std::int64_t y = rows.first + 1; y < rows.second; ++y) {
        const auto other = of_row(y);
        winner.meet(other.value, other.tap);
      }
      winner.put(d_, p_, target + w * p_.inner);
    }
  }

 private:
  static constexpr std::int64_t kNumbers = kPoolWindows * hn::MaxLanes(D());
  /// Of one row: the greatest value, and its column in the window.
  struct Line {
    HWY_ALIGN float value[kNumbers];
    HWY_ALIGN std::int32_t tap[kIndices ? kNumbers : 1];
  };

  HWY_INLINE void keep(Line& line, std::int64_t w, const Winner<kIndices, D>& winner) {
    const std::int64_t at = (w - windows_.first) * lanes_;
    hn::Store(winner.value, d_, line.value + at);
    if constexpr (kIndices) hn::Store(winner.tap, Ints<D>(), line.tap + at);
  }

  /// The taps of a window, from column `taps.first` of it on; `from`: its place.
  HWY_INLINE Winner<kIndices, D> look(const T* from, std::int64_t first, std::int64_t count) const {
    Winner<kIndices, D> winner{load(d_, from), ints(d_, first)};
    for (std::int64_t x = 1; x < count; ++x) {
      winner.meet(load(d_, from + x * p_.inner), ints(d_, first + x));
    }
    return winner;
  }

  /// A window that reaches over the border.
  HWY_INLINE void find_one(Line& line, std::int64_t w, const T* row) {
    const Range taps = p_.taps(1, w);
    const T* const from = row + p_.v.window[1].position(w, taps.first) * p_.inner;
    keep(line, w, look(from, taps.first, taps.second - taps.first));
  }

  /// Windows inside, kWidth columns wide; 0: as wide as they are.
  template <std::int64_t kWidth>
  HWY_INLINE void find_inside(Line& line, const T* row) {
    const Window& window = p_.v.window[1];
    const std::int64_t width = kWidth > 0 ? kWidth : window.kernel;
    const T* from = row + window.position(inside_.first, 0) * p_.inner;
    for (std::int64_t w = inside_.first; w < inside_.second; ++w) {
      keep(line, w, look(from, 0, width));
      from += window.stride * p_.inner;
    }
  }

  const D d_;
  const MaxPool<T>& p_;
  Range windows_;  // that have columns of data
  Range inside_;   // of these, those that do not reach over the border
  const std::int64_t lanes_ = static_cast<std::int64_t>(hn::Lanes(d_));
  Line lines_[kPoolRows];
};

/// Rows [range.first, range.second) of a plane's windows, which have rows of data in common.
template <bool kIndices, typename T>
void pool_overlapping(const MaxPool<T>& p, std::int64_t plane, const Range& range) {
  const std::int64_t row = p.v.input[1] * p.inner, window_row = p.v.output[1] * p.inner;
  for (std::int64_t w = 0; w < p.v.output[1]; w += kPoolWindows) {
    const Range windows{w, std::min(w + kPoolWindows, p.v.output[1])};
    for_channels(p.inner, [&](auto d, std::int64_t c) HWY_ATTR {
      RowWinners<kIndices, decltype(d), T> winners(d, p, windows);
      std::int64_t next = 0;
      for (std::int64_t y = range.first; y < range.second; ++y) {
        if (p.v.is_empty(0, y)) break;
        const Range rows = p.taps(0, y);
        const std::int64_t top = p.v.window[0].position(y, 0);
        next = std::max(next, top + rows.first);
        for (; next < top + rows.second; ++next) {
          winners.find(next, p.data + (plane * p.v.input[0] + next) * row + c);
        }
        winners.put(top, rows, (plane * p.v.output[0] + y) * window_row + c);
      }
    });
  }
}

/// One row of windows of a plane whose channels are neighbours.
template <bool kIndices, typename T>
void pool_row(const MaxPool<T>& p, std::int64_t plane, std::int64_t y) {
  const Range rows = p.taps(0, y);
  const std::int64_t top = plane * p.v.input[0] + p.v.window[0].position(y, 0);
  if (p.v.is_empty(0, y)) return;
  for (std::int64_t x = 0; x < p.v.output[1] && !p.v.is_empty(1, x); ++x) {
    const Range columns = p.taps(1, x);
    const std::int64_t corner = (top * p.v.input[1] + p.v.window[1].position(x, 0)) * p.inner;
    const std::int64_t target = ((plane * p.v.output[0] + y) * p.v.output[1] + x) * p.inner;
    for_channels(p.inner, [&](auto d, std::int64_t c) HWY_ATTR {
      pool_lanes<kIndices>(d, p, corner + c, rows, columns, target + c);
    });
  }
}

/// Rows of windows [range.first, range.second) of a plane whose channels are neighbours.
template <bool kIndices, typename T>
void pool_channels(const MaxPool<T>& p, std::int64_t plane, const Range& range) {
  if (p.overlaps()) {
    pool_overlapping<kIndices>(p, plane, range);
  } else {
    for (std::int64_t y = range.first; y < range.second; ++y) pool_row<kIndices>(p, plane, y);
  }
  const bool last = plane % p.blocks == p.blocks - 1;
  const std::int64_t channels = last ? p.last_channels : p.inner;
  if (channels == p.inner && !p.v.empty_window()) return;
  for (std::int64_t y = range.first; y < range.second; ++y) {
    for (std::int64_t x = 0; x < p.v.output[1]; ++x) {
      const std::int64_t target = ((plane * p.v.output[0] + y) * p.v.output[1] + x) * p.inner;
      if (p.v.is_empty(0, y) || p.v.is_empty(1, x)) {
        for (std::int64_t c = 0; c < channels; ++c) {
          p.put(target + c, std::numeric_limits<float>::lowest(), 0);
        }
      }
      // Padding stays zero, which the first tap inside a window at the border is not.
      for (std::int64_t c = channels; c < p.inner; ++c) {
        p.output[target + c] = T{};
        p.put_index(target + c, 0);
      }
    }
  }
}

/// Numbers of neighbouring columns or windows, with room for vectors that reach over the end.
template <typename T>
struct Line {
  HWY_ALIGN T at[kPoolColumns + HWY_MAX_BYTES];
};

/// The maxima over the rows of windows, per column, and the row of each.
struct Columns {
  Line<float> value;
  Line<std::int32_t> row;
};

/// Fills columns [begin, end) from tap rows [rows.first, rows.second); `place` is column `begin`
/// of the first of them.
template <typename T>
HWY_INLINE void pool_rows(const T* place, std::int64_t row_step, const Range& rows,
                          const Range& range, Columns& columns) {
  std::int64_t i = range.first;
  with_tags([&](auto d) HWY_ATTR {
    using D = decltype(d);
    const auto step = static_cast<std::int64_t>(hn::Lanes(d));
    for (; i + step <= range.second; i += step) {
      const T* column = place + (i - range.first);
      Winner<true, D> winner{load(d, column), ints(d, rows.first)};
      for (std::int64_t y = rows.first + 1; y < rows.second; ++y) {
        winner.meet(load(d, column + (y - rows.first) * row_step), ints(d, y));
      }
      hn::StoreU(winner.value, d, columns.value.at + i);
      hn::StoreU(winner.tap, Ints<D>(), columns.row.at + i);
    }
  });
}

/// The winner among the columns of a window that were met, from left to right: as Winner, where the
/// number of a tap is first its row's, then its column's.
template <typename D>
struct ColumnWinner {
  hn::Vec<D> value;
  hn::Vec<Ints<D>> row, column;

  HWY_INLINE void meet(hn::Vec<D> other, hn::Vec<Ints<D>> other_row,
                       hn::Vec<Ints<D>> other_column) {
    const auto above = hn::RebindMask(D(), hn::Lt(other_row, row));
    const auto nan = hn::IsNaN(other);
    const auto earlier_nan = hn::And(above, hn::IsNaN(value));
    const auto tie = hn::And(above, hn::Eq(other, value));
    const auto wins = hn::Or(hn::Or(hn::Gt(other, value), tie), hn::AndNot(earlier_nan, nan));
    const auto wins_tap = hn::RebindMask(Ints<D>(), wins);
    value = hn::IfThenElse(wins, other, value);
    row = hn::IfThenElse(wins_tap, other_row, row);
    column = hn::IfThenElse(wins_tap, other_column, column);
  }
};

/// Results of neighbouring windows.
struct Maxima {
  Line<float> value;
  Line<std::int32_t> tap;
};

/// `count` windows of `width` columns, window w from column w * stride on; kPairs: a stride of 2.
template <bool kPairs, typename D>
HWY_INLINE void pool_columns(D d, const Columns& columns, const Window& window, std::int64_t count,
                             Maxima& maxima) {
  const Ints<D> di;
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t w = 0; w < count; w += step) {
    const float* value = columns.value.at + w * window.stride;
    const std::int32_t* row = columns.row.at + w * window.stride;
    ColumnWinner<D> winner;
    if constexpr (kPairs) {
      hn::Vec<D> odd;
      hn::Vec<Ints<D>> odd_row;
      winner.column = hn::Zero(di);
      hn::LoadInterleaved2(d, value, winner.value, odd);
      hn::LoadInterleaved2(di, row, winner.row, odd_row);
      for (std::int64_t x = 1; x < window.kernel; x += 2) {
        winner.meet(odd, odd_row, ints(d, x));
        if (x + 1 == window.kernel) break;
        hn::Vec<D> even;
        hn::Vec<Ints<D>> even_row;
        hn::LoadInterleaved2(d, value + x + 1, even, odd);
        hn::LoadInterleaved2(di, row + x + 1, even_row, odd_row);
        winner.meet(even, even_row, ints(d, x + 1));
      }
    } else {
      winner = {hn::LoadU(d, value), hn::LoadU(di, row), hn::Zero(di)};
      for (std::int64_t x = 1; x < window.kernel; ++x) {
        winner.meet(hn::LoadU(d, value + x), hn::LoadU(di, row + x), ints(d, x));
      }
    }
    hn::StoreU(winner.value, d, maxima.value.at + w);
    const auto tap = hn::Add(hn::Mul(winner.row, ints(d, window.kernel)), winner.column);
    hn::StoreU(tap, di, maxima.tap.at + w);
  }
}

/// Windows [windows.first, windows.second) of a row of a dense plane, which span at most
/// kPoolColumns columns.
template <typename T>
void pool_dense(const MaxPool<T>& p, std::int64_t plane, std::int64_t y, const Range& windows) {
  const Range rows = p.taps(0, y);
  const Window& window = p.v.window[1];
  const std::int64_t count = windows.second - windows.first;
  const std::int64_t left = window.position(windows.first, 0);
  const std::int64_t span = (count - 1) * window.stride + window.kernel;
  const std::int64_t first = std::clamp<std::int64_t>(-left, 0, span);
  const Range inside{first, std::clamp<std::int64_t>(p.v.input[1] - left, first, span)};
  Columns columns;
  Maxima maxima;
  if (rows.first < rows.second) {
    const std::int64_t top = plane * p.v.input[0] + p.v.window[0].position(y, rows.first);
    const T* place = p.data + top * p.v.input[1] + left + inside.first;
    pool_rows(place, p.v.input[1], rows, inside, columns);
    // Padding loses against everything, -infinity included: it comes behind all rows.
    for (const Range& outside : {Range{0, inside.first}, Range{inside.second, span}}) {
      for (std::int64_t i = outside.first; i < outside.second; ++i) {
        columns.value.at[i] = -std::numeric_limits<float>::infinity();
        columns.row.at[i] = std::numeric_limits<std::int32_t>::max();
      }
    }
    if (window.stride == 1) {
      pool_columns<false>(hn::ScalableTag<float>(), columns, window, count, maxima);
    } else if (window.stride == 2) {
      pool_columns<true>(hn::ScalableTag<float>(), columns, window, count, maxima);
    } else {
      pool_columns<false>(hn::CappedTag<float, 1>(), columns, window, count, maxima);
    }
  }
  const std::int64_t target = (plane * p.v.output[0] + y) * p.v.output[1] + windows.first;
  for (std::int64_t x = 0; x < count; ++x) {
    const bool empty =
        rows.first == rows.second || window.position(windows.first + x, 0) >= p.v.input[1];
    p.put(target + x, empty ? std::numeric_limits<float>::lowest() : maxima.value.at[x],
          empty ? 0 : maxima.tap.at[x]);
  }
}

/// Rows of windows, counted over all planes.
template <typename T>
void pool_all(const MaxPool<T>& p, const Range& range) {
  const Window& window = p.v.window[1];
  const std::int64_t step = (kPoolColumns - window.kernel) / window.stride + 1;
  for (std::int64_t row = range.first; row < range.second;) {
    const std::int64_t plane = row / p.v.output[0];
    const std::int64_t first = row - plane * p.v.output[0];
    const std::int64_t count = std::min(p.v.output[0] - first, range.second - row);
    row += count;
    if (p.inner > 1) {
      const Range rows{first, first + count};
      p.has_indices() ? pool_channels<true>(p, plane, rows) : pool_channels<false>(p, plane, rows);
      continue;
    }
    for (std::int64_t y = first; y < first + count; ++y) {
      for (std::int64_t x = 0; x < p.v.output[1]; x += step) {
        pool_dense(p, plane, y, {x, std::min(x + step, p.v.output[1])});
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace troupe::ops
HWY_AFTER_NAMESPACE();
