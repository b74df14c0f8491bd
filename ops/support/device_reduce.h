// SPDX-License-Identifier: Apache-2.0
// Reductions on GPUs in an order that follows from the plan, never from addresses or the number of
// threads: a row's elements are dealt out to lanes in turn, each lane joins its own one after the
// other (or several at a time), then the second half of the lanes is joined to the first until one
// is left. Long rows are cut into parts, whose totals are reduced in the same way. The host joins
// in the same order, so bits agree. Where rows are neighbours in memory, a thread may take several
// of them, of which it reads a pack at a time; where elements of a row are, they may be dealt out
// by runs, of which a lane reads each at a time.
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
  int each = 1;                             ///< neighbouring rows that a thread takes
  int run = 1;                              ///< neighbouring elements of a row that are dealt out
                                            ///< together; where each is 1
  bool packs = false;  ///< they are read by load_pack() or load_run(); where each or run > 1

  /// The same; `aligned`: packs may lie wherever the rows are read.
  DeviceReduction by_packs(bool aligned) const {
    DeviceReduction result = *this;
    result.packs = aligned && (each > 1 || run > 1);
    return result;
  }

  /// Rows that a block takes together, and pieces of work.
  TROUPE_HOST_DEVICE std::int64_t together() const { return kBlockThreads / lanes * each; }
  std::int64_t units() const { return (rows + together() - 1) / together() * parts; }
};

/// `aside`: element i of one row and of the next are neighbours in memory. Then a thread takes
/// `each` rows, 1 or the reducer's kEach.
DeviceReduction device_reduction(std::int64_t rows, std::int64_t length, bool aside = false,
                                 int each = 1);
/// Each run of `run` elements of a row, 1 or the reducer's kRun, are neighbours in memory; rows
/// have whole runs.
DeviceReduction reduction_by_runs(std::int64_t rows, std::int64_t length, int run);

// A reducer R of rows is a plain struct with
//   Accumulator                   a type of plain numbers
//   none()                        what joins without effect
//   load(row, i)                  element i of a row as an Accumulator
//   join(a, b)                    a total of both; a's elements come first or lie between b's
//   store(row, total)             called once for each row
// all of them TROUPE_HOST_DEVICE and const. A reducer whose rows are neighbours may also have
//   kEach                         rows that a thread takes
//   rows(row)                     what a thread keeps of the kEach rows from `row` on
//   load_pack(kept, row, i, out)  element i of each of these rows
// one whose rows' elements are neighbours
//   kRun                          elements of a run
//   load_run(row, i, out)         element i of a row and its neighbours in memory: a run of the
//                                 row, or, instead of load_pack(), of rows that are neighbours
// either of them
//   kReads                        arrays that these read, where they are not one
// and one whose elements are better joined several at a time
//   join_several(a, b)            of a total and an array of elements as load() gives them, never
//                                 of totals: so ReduceTotals has none

/// Rows that a thread of R takes where they are neighbours.
template <typename R>
constexpr int rows_each() {
  if constexpr (requires { R::kEach; }) {
    return R::kEach;
  } else {
    return 1;
  }
}

/// Elements of a run of R's rows.
template <typename R>
constexpr int rows_run() {
  if constexpr (requires { R::kRun; }) {
    return R::kRun;
  } else {
    return 1;
  }
}

/// Arrays that R's load_pack() and load_run() read.
template <typename R>
constexpr int rows_reads() {
  if constexpr (requires { R::kReads; }) {
    return R::kReads;
  } else {
    return 1;
  }
}

/// A part of rows for one block, kEach rows a thread, by runs of kRun elements. One of the two
/// is 1. `partial`: where totals of parts go, [row, part].
template <typename R, int kEach, int kRun = 1>
struct ReduceParts {
  using Accumulator = typename R::Accumulator;
  static constexpr std::size_t kSharedBytes = kBlockThreads * kEach * sizeof(Accumulator);
  /// Elements, or packs of rows' elements, that are under way at a time; they are joined in their
  /// order. Of packs, which take more registers, fewer: a multiprocessor that has room for one
  /// block alone waits while it adds.
  static constexpr int kAtOnce = kEach > 1 ? 4 / rows_reads<R>() : 8;

  DeviceReduction plan;
  R reducer;
  Accumulator* partial;

  template <int N>
  TROUPE_HOST_DEVICE Accumulator join_several(Accumulator total,
                                              const Accumulator (&loaded)[N]) const {
    if constexpr (requires { reducer.join_several(total, loaded); }) {
      return reducer.join_several(total, loaded);
    } else {
      TROUPE_UNROLL
      for (int k = 0; k < N; ++k) total = reducer.join(total, loaded[k]);
      return total;
    }
  }

  /// Elements of a run, by one load or, where packs do not lie so, one by one.
  TROUPE_HOST_DEVICE void load_run(std::int64_t row, std::int64_t i,
                                   Accumulator (&loaded)[kRun]) const {
    if (plan.packs) {
      reducer.load_run(row, i, loaded);
    } else {
      TROUPE_UNROLL
      for (int k = 0; k < kRun; ++k) loaded[k] = reducer.load(row, i + k);
    }
  }
  /// The total of a lane's runs of a part.
  TROUPE_HOST_DEVICE Accumulator run_total(std::int64_t row, std::int64_t part, int lane) const {
    constexpr int kRunsAtOnce = kRun < 16 / rows_reads<R>() ? 16 / rows_reads<R>() / kRun : 1;
    const std::int64_t begin = part * plan.part_length, step = std::int64_t{plan.lanes} * kRun;
    const std::int64_t end =
        begin + plan.part_length < plan.length ? begin + plan.part_length : plan.length;
    Accumulator total = reducer.none();
    std::int64_t i = begin + std::int64_t{lane} * kRun;
    for (; i + (kRunsAtOnce - 1) * step < end; i += kRunsAtOnce * step) {
      Accumulator some[kRunsAtOnce][kRun];
      TROUPE_UNROLL
      for (int k = 0; k < kRunsAtOnce; ++k) load_run(row, i + k * step, some[k]);
      TROUPE_UNROLL
      for (int k = 0; k < kRunsAtOnce; ++k) total = join_several(total, some[k]);
    }
    for (; i < end; i += step) {
      Accumulator one[kRun];
      load_run(row, i, one);
      total = join_several(total, one);
    }
    return total;
  }

  /// Joins a lane's elements of a part, of N rows at once: load(i, out) gives element i of each.
  template <int N, typename Load>
  TROUPE_HOST_DEVICE void join_lane(std::int64_t part, int lane, const Load& load,
                                    Accumulator (&totals)[N]) const {
    const std::int64_t begin = part * plan.part_length;
    const std::int64_t end =
        begin + plan.part_length < plan.length ? begin + plan.part_length : plan.length;
    TROUPE_UNROLL
    for (int e = 0; e < N; ++e) totals[e] = reducer.none();
    std::int64_t i = begin + lane;
    for (; i + (kAtOnce - 1) * plan.lanes < end; i += kAtOnce * plan.lanes) {
      Accumulator some[kAtOnce][N];
      TROUPE_UNROLL
      for (int k = 0; k < kAtOnce; ++k) load(i + k * plan.lanes, some[k]);
      TROUPE_UNROLL
      for (int e = 0; e < N; ++e) {
        Accumulator loaded[kAtOnce];
        TROUPE_UNROLL
        for (int k = 0; k < kAtOnce; ++k) loaded[k] = some[k][e];
        totals[e] = join_several(totals[e], loaded);
      }
    }
    for (; i < end; i += plan.lanes) {
      Accumulator one[N];
      load(i, one);
      TROUPE_UNROLL
      for (int e = 0; e < N; ++e) totals[e] = reducer.join(totals[e], one[e]);
    }
  }

  /// A lane's totals of the rows [row, row + kEach), some of which may lie behind the last one:
  /// that of row + e goes to own[e * kBlockThreads].
  TROUPE_HOST_DEVICE void lane_totals(std::int64_t row, std::int64_t part, int lane,
                                      Accumulator* own) const {
    if constexpr (kRun > 1) {
      *own = row < plan.rows ? run_total(row, part, lane) : reducer.none();
    }
    if constexpr (kEach > 1) {
      if (plan.packs && row < plan.rows) {  // then all rows of the pack exist
        Accumulator totals[kEach];
        if constexpr (requires { reducer.rows(row); }) {
          const auto kept = reducer.rows(row);
          const auto load = [&](std::int64_t i, Accumulator* out) {
            reducer.load_pack(kept, row, i, out);
          };
          join_lane(part, lane, load, totals);
        } else {
          const auto load = [&](std::int64_t i, Accumulator* out) {
            reducer.load_run(row, i, out);
          };
          join_lane(part, lane, load, totals);
        }
        TROUPE_UNROLL
        for (int e = 0; e < kEach; ++e) own[e * kBlockThreads] = totals[e];
        return;
      }
    }
    if constexpr (kRun == 1) {
      for (int e = 0; e < kEach; ++e, own += kBlockThreads) {
        Accumulator total[1] = {reducer.none()};
        const auto load = [&](std::int64_t i, Accumulator* out) {
          *out = reducer.load(row + e, i);
        };
        if (row + e < plan.rows) join_lane(part, lane, load, total);
        *own = total[0];
      }
    }
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
    Accumulator totals[kEach * kBlockThreads];
    for (std::int64_t row = first; row < std::min(first + plan.together(), plan.rows);
         row += kEach) {
      for (int lane = 0; lane < plan.lanes; ++lane) lane_totals(row, part, lane, totals + lane);
      for (int half = plan.lanes / 2; half > 0; half /= 2) {
        for (int lane = 0; lane < half; ++lane) join_half(totals + lane, half);
      }
      finish_rows(row, part, totals);
    }
  }

  /// Joins the totals `distance` places behind `own` to it.
  TROUPE_HOST_DEVICE void join_half(Accumulator* own, int distance) const {
    for (int e = 0; e < kEach; ++e, own += kBlockThreads) *own = reducer.join(*own, own[distance]);
  }
  TROUPE_HOST_DEVICE void finish_rows(std::int64_t row, std::int64_t part,
                                      const Accumulator* own) const {
    for (int e = 0; e < kEach && row + e < plan.rows; ++e) {
      finish(row + e, part, own[e * kBlockThreads]);
    }
  }

#if defined(__CUDACC__)
  __device__ void on_device(std::int64_t unit, unsigned char* shared) const {
    const int thread = static_cast<int>(threadIdx.x), places = kBlockThreads / plan.lanes;
    // Neighbouring threads read what is neighbouring in memory.
    const int lane = plan.aside ? thread / places : thread % plan.lanes;
    const int place = plan.aside ? thread % places : thread / plan.lanes;
    const std::int64_t part = unit % plan.parts;
    const std::int64_t row = unit / plan.parts * plan.together() + place * kEach;
    Accumulator* const own = reinterpret_cast<Accumulator*>(shared) + lane * places + place;
    lane_totals(row, part, lane, own);
    for (int half = plan.lanes / 2; half > 0; half /= 2) {
      __syncthreads();
      if (lane < half) join_half(own, half * places);
    }
    if (lane == 0) finish_rows(row, part, own);
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
  constexpr int kEach = rows_each<R>(), kRun = rows_run<R>();
  TROUPE_CHECK(plan.each == 1 || plan.each == kEach, "rows of a thread: the reducer's");
  TROUPE_CHECK(plan.run == 1 || plan.run == kRun, "elements of a run: the reducer's");
  if (plan.each > 1) {
    TROUPE_TRY(for_each_unit(context, plan.units(), ReduceParts<R, kEach>{plan, reducer, partial}));
  } else if (plan.run > 1) {
    const ReduceParts<R, 1, kRun> parts{plan, reducer, partial};
    TROUPE_TRY(for_each_unit(context, plan.units(), parts));
  } else {
    TROUPE_TRY(for_each_unit(context, plan.units(), ReduceParts<R, 1>{plan, reducer, partial}));
  }
  if (plan.parts == 1) return {};
  const DeviceReduction totals = device_reduction(plan.rows, plan.parts);
  TROUPE_CHECK(totals.parts == 1, "totals of parts are few");
  return for_each_unit(context, totals.units(),
                       ReduceParts<ReduceTotals<R>, 1>{totals, {reducer, partial, plan.parts}, {}});
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
