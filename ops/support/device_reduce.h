// SPDX-License-Identifier: Apache-2.0
// Reductions on GPUs in an order that follows from the length of a row alone: a row's elements are
// dealt out to lanes in turn, each lane joins its own one after the other, then the second half of
// the lanes is joined to the first until one is left. Long rows are cut into parts, whose totals
// are reduced in the same way. The host joins in the same order, so bits agree.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ops/support/device_blocks.h"

namespace troupe::ops {

/// How `rows` rows of `length` elements each are reduced.
struct DeviceReduction {
  std::int64_t rows = 0, length = 0;
  std::int64_t parts = 1, part_length = 0;  ///< that a row is cut into
  int lanes = 1;                            ///< threads that take a part; a power of two
  bool aside = false;                       ///< rows, not elements of one, are neighbours in memory

  /// Rows that a block takes together, and pieces of work.
  TROUPE_HOST_DEVICE std::int64_t together() const { return kBlockThreads / lanes; }
  std::int64_t units() const { return (rows + together() - 1) / together() * parts; }
};

/// `aside`: element i of one row and of the next are neighbours in memory.
DeviceReduction device_reduction(std::int64_t rows, std::int64_t length, bool aside = false);

// A reducer R of rows is a plain struct with
//   Accumulator                   a type of plain numbers
//   none()                        what joins without effect
//   load(row, i)                  element i of a row as an Accumulator
//   join(a, b)                    a total of both; a's elements come first or lie between b's
//   store(row, total)             called once for each row
// all of them TROUPE_HOST_DEVICE and const.

/// A part of rows for one block. `partial`: where totals of parts go, [row, part].
template <typename R>
struct ReduceParts {
  using Accumulator = typename R::Accumulator;
  static constexpr std::size_t kSharedBytes = kBlockThreads * sizeof(Accumulator);

  DeviceReduction plan;
  R reducer;
  Accumulator* partial;

  TROUPE_HOST_DEVICE Accumulator lane_total(std::int64_t row, std::int64_t part, int lane) const {
    const std::int64_t begin = part * plan.part_length;
    const std::int64_t end =
        begin + plan.part_length < plan.length ? begin + plan.part_length : plan.length;
    Accumulator total = reducer.none();
    std::int64_t i = begin + lane;
    // Several loads are under way at a time; they are joined in their order.
    constexpr int kAtOnce = 8;
    for (; i + (kAtOnce - 1) * plan.lanes < end; i += kAtOnce * plan.lanes) {
      Accumulator loaded[kAtOnce];
      TROUPE_UNROLL
      for (int k = 0; k < kAtOnce; ++k) loaded[k] = reducer.load(row, i + k * plan.lanes);
      TROUPE_UNROLL
      for (int k = 0; k < kAtOnce; ++k) total = reducer.join(total, loaded[k]);
    }
    for (; i < end; i += plan.lanes) total = reducer.join(total, reducer.load(row, i));
    return total;
  }

  TROUPE_HOST_DEVICE void finish(std::int64_t row, std::int64_t part, Accumulator total) const {
    if (plan.parts == 1) {
      reducer.store(row, total);
    } else {
      partial[row * plan.parts + part] = total;
    }
  }

  void on_host(std::int64_t unit) const {
    const std::int64_t first = unit / plan.parts * plan.together(), part = unit % plan.parts;
    Accumulator totals[kBlockThreads];
    for (std::int64_t row = first; row < std::min(first + plan.together(), plan.rows); ++row) {
      for (int lane = 0; lane < plan.lanes; ++lane) totals[lane] = lane_total(row, part, lane);
      for (int half = plan.lanes / 2; half > 0; half /= 2) {
        for (int lane = 0; lane < half; ++lane) {
          totals[lane] = reducer.join(totals[lane], totals[lane + half]);
        }
      }
      finish(row, part, totals[0]);
    }
  }

#if defined(__CUDACC__)
  __device__ void on_device(std::int64_t unit, unsigned char* shared) const {
    auto* const totals = reinterpret_cast<Accumulator*>(shared);
    const int thread = static_cast<int>(threadIdx.x), together = kBlockThreads / plan.lanes;
    // Neighbouring threads read what is neighbouring in memory.
    const int lane = plan.aside ? thread / together : thread % plan.lanes;
    const int place = plan.aside ? thread % together : thread / plan.lanes;
    const std::int64_t row = unit / plan.parts * together + place, part = unit % plan.parts;
    Accumulator* const own = totals + lane * together + place;
    *own = row < plan.rows ? lane_total(row, part, lane) : reducer.none();
    for (int half = plan.lanes / 2; half > 0; half /= 2) {
      __syncthreads();
      if (lane < half) *own = reducer.join(*own, own[half * together]);
    }
    if (lane == 0 && row < plan.rows) finish(row, part, *own);
  }
#endif
};

/// Reduces the totals of parts.
template <typename R>
struct ReduceTotals {
  using Accumulator = typename R::Accumulator;
  R reducer;
  const Accumulator* partial;
  std::int64_t parts;

  TROUPE_HOST_DEVICE Accumulator none() const { return reducer.none(); }
  TROUPE_HOST_DEVICE Accumulator load(std::int64_t row, std::int64_t i) const {
    return partial[row * parts + i];
  }
  TROUPE_HOST_DEVICE Accumulator join(Accumulator a, Accumulator b) const {
    return reducer.join(a, b);
  }
  TROUPE_HOST_DEVICE void store(std::int64_t row, Accumulator total) const {
    reducer.store(row, total);
  }
};

/// Memory for the totals of parts.
template <typename Accumulator>
Accumulator* take_partial(const DeviceReduction& plan, ScratchCut& scratch) {
  return plan.parts == 1 ? nullptr : scratch.take<Accumulator>(plan.rows * plan.parts);
}

/// Reduces all rows of `plan`; `partial` is from take_partial().
template <typename R>
base::Status device_reduce(const KernelContext& context, const DeviceReduction& plan,
                           const R& reducer, typename R::Accumulator* partial) {
  TROUPE_TRY(for_each_unit(context, plan.units(), ReduceParts<R>{plan, reducer, partial}));
  if (plan.parts == 1) return {};
  const DeviceReduction totals = device_reduction(plan.rows, plan.parts);
  TROUPE_CHECK(totals.parts == 1, "totals of parts are few");
  return for_each_unit(context, totals.units(),
                       ReduceParts<ReduceTotals<R>>{totals, {reducer, partial, plan.parts}, {}});
}

/// What reducers that add have in common.
template <typename W>
struct DeviceSum {
  using Accumulator = W;
  TROUPE_HOST_DEVICE W none() const { return W{0}; }
  TROUPE_HOST_DEVICE W join(W a, W b) const { return a + b; }
};

/// Two sums at once.
template <typename W>
struct TwoSums {
  W first, second;
};
/// For reducers that add two numbers.
template <typename W>
struct DeviceTwoSums {
  using Accumulator = TwoSums<W>;
  TROUPE_HOST_DEVICE TwoSums<W> none() const { return {W{0}, W{0}}; }
  TROUPE_HOST_DEVICE TwoSums<W> join(TwoSums<W> a, TwoSums<W> b) const {
    return {a.first + b.first, a.second + b.second};
  }
};

}  // namespace troupe::ops
