// SPDX-License-Identifier: Apache-2.0
// Reductions of own kernels for GPUs on the host: every element once, in the order that is written.
#include "ops/support/device_reduce.h"

#include <algorithm>
#include <vector>

#include "tests/ops/tensors.h"
#include "tests/support/catch.h"

namespace troupe::ops {
namespace {

/// Sums rows of numbers; element i of a row is at row * length + i, or aside.
struct SumRows : DeviceSum<float> {
  const float* data;
  std::int64_t row_step, step;
  float* sums;
  float load(std::int64_t row, std::int64_t i) const { return data[row * row_step + i * step]; }
  void store(std::int64_t row, float sum) const { sums[row] = sum; }
};

/// The same, four rows that are neighbours in memory by one thread.
struct SumFourRows : SumRows {
  static constexpr int kEach = 4;
  struct Kept {};
  Kept rows(std::int64_t) const { return {}; }
  void load_pack(const Kept&, std::int64_t row, std::int64_t i, float* loaded) const {
    for (int k = 0; k < kEach; ++k) loaded[k] = load(row + k, i);
  }
};

/// The same by runs of four elements; what is read as a pack is counted.
struct SumRuns : SumRows {
  static constexpr int kRun = 4;
  std::int64_t* packs;
  void load_run(std::int64_t row, std::int64_t i, float* loaded) const {
    ++*packs;
    for (int k = 0; k < kRun; ++k) loaded[k] = load(row, i + k);
  }
};

struct Rows {
  std::int64_t rows, length;
  bool aside = false;
};

SumRows sum_rows(const Rows& shape, const std::vector<float>& data, std::vector<float>& sums) {
  return {
      {}, data.data(), shape.aside ? 1 : shape.length, shape.aside ? shape.rows : 1, sums.data()};
}

std::vector<float> numbers(std::int64_t count) {
  const auto tensor = testing::random_tensor(base::DType::f32, base::Shape{count}, "rows", -1, 1);
  std::vector<float> list;
  for (std::int64_t i = 0; i < count; ++i) list.push_back(float(tensor.at(i)));
  return list;
}

template <typename R>
void reduce(const DeviceReduction& plan, const R& rows, int team) {
  ScratchCut count;
  take_partial<float>(plan, count);
  const testing::Tensor memory(base::DType::u8, base::Shape{std::int64_t(count.bytes())});
  ScratchCut scratch(memory.memory.data());
  KernelContext context{};
  context.team = team;
  base::Status status;
  base::lead_team(team, [&] {
    status = device_reduce(context, plan, rows, take_partial<float>(plan, scratch));
  });
  CHECK(status.ok());
  CHECK(memory.guard_intact());
}

std::vector<float> reduced(const Rows& shape, const std::vector<float>& data, int team) {
  std::vector<float> sums(std::size_t(shape.rows), -1.0F);
  reduce(device_reduction(shape.rows, shape.length, shape.aside), sum_rows(shape, data, sums),
         team);
  return sums;
}

/// The same with a thread for four rows.
std::vector<float> reduced_by_fours(const Rows& shape, const std::vector<float>& data, bool packs) {
  std::vector<float> sums(std::size_t(shape.rows), -1.0F);
  DeviceReduction plan = device_reduction(shape.rows, shape.length, shape.aside, 4);
  plan.packs = packs;
  reduce(plan, SumFourRows{sum_rows(shape, data, sums)}, 2);
  return sums;
}

/// The same, as the header says it, for one row.
float reduced_by_hand(const DeviceReduction& plan, const std::vector<float>& row) {
  std::vector<float> parts;
  for (std::int64_t part = 0; part < plan.parts; ++part) {
    std::vector<float> lanes(std::size_t(plan.lanes), 0.0F);
    const std::int64_t begin = part * plan.part_length;
    for (std::int64_t i = begin; i < std::min(begin + plan.part_length, plan.length); ++i) {
      lanes[std::size_t((i - begin) / plan.run % plan.lanes)] += row[std::size_t(i)];
    }
    for (; lanes.size() > 1; lanes.resize(lanes.size() / 2)) {
      const std::size_t half = lanes.size() / 2;
      for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    }
    parts.push_back(lanes.front());
  }
  if (parts.size() == 1) return parts.front();
  return reduced_by_hand(device_reduction(1, std::int64_t(parts.size())), parts);
}

TEST_CASE("rows are reduced in the order that their length gives", "[device_reduce]") {
  for (const Rows& shape : {Rows{3, 0},
                            {300, 1},
                            {5, 32},
                            {5, 33},
                            {9, 1000},
                            {2, 1025},
                            {1, 16384},
                            {2, 50000},
                            {1, 1200000},
                            {40, 33, true},
                            {3, 513, true},
                            {35, 4000, true}}) {
    INFO(shape.rows << " rows of " << shape.length << (shape.aside ? ", aside" : ""));
    const DeviceReduction plan = device_reduction(shape.rows, shape.length, shape.aside);
    const std::vector<float> data = numbers(shape.rows * shape.length);
    const std::vector<float> sums = reduced(shape, data, 1);
    CHECK(reduced(shape, data, 3) == sums);
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      std::vector<float> own;
      for (std::int64_t i = 0; i < shape.length; ++i) {
        own.push_back(
            data[std::size_t(shape.aside ? i * shape.rows + row : row * shape.length + i)]);
      }
      CHECK(sums[std::size_t(row)] == reduced_by_hand(plan, own));
    }
  }
}

TEST_CASE("a thread that takes several rows adds each of them in its own order",
          "[device_reduce]") {
  for (const Rows& shape : {Rows{4, 1, true},
                            {8, 32, true},
                            {3, 40, true},
                            {33, 40, true},
                            {64, 700, true},
                            {36, 2049, true},
                            {5, 300000, true},
                            {6, 1000, false}}) {
    INFO(shape.rows << " rows of " << shape.length << (shape.aside ? ", aside" : ""));
    const DeviceReduction plan = device_reduction(shape.rows, shape.length, shape.aside, 4);
    CHECK(plan.each == (shape.aside ? 4 : 1));
    const std::vector<float> data = numbers(shape.rows * shape.length);
    const std::vector<float> sums = reduced_by_fours(shape, data, false);
    if (shape.rows % 4 == 0) CHECK(reduced_by_fours(shape, data, true) == sums);
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      std::vector<float> own;
      for (std::int64_t i = 0; i < shape.length; ++i) {
        own.push_back(
            data[std::size_t(shape.aside ? i * shape.rows + row : row * shape.length + i)]);
      }
      CHECK(sums[std::size_t(row)] == reduced_by_hand(plan, own));
    }
  }
}

TEST_CASE("runs are dealt out to lanes, each of a lane's after the other, read as packs or not",
          "[device_reduce]") {
  for (const Rows& shape : {Rows{3, 0},
                            {300, 4},
                            {70, 16},
                            {33, 20},
                            {5, 128},
                            {7, 132},
                            {9, 4096},
                            {2, 4100},
                            {1, 50000},
                            {1, 1200000}}) {
    INFO(shape.rows << " rows of " << shape.length << " by runs");
    const DeviceReduction plan = reduction_by_runs(shape.rows, shape.length, 4);
    CHECK(plan.part_length % 4 == 0);
    CHECK(plan.part_length * plan.parts >= shape.length);
    CHECK(device_reduction(shape.rows, plan.parts).parts == 1);
    const std::vector<float> data = numbers(shape.rows * shape.length);
    std::vector<float> sums(std::size_t(shape.rows), -1.0F), read(sums);
    std::int64_t packs = 0, none = 0;
    reduce(plan.by_packs(false), SumRuns{sum_rows(shape, data, read), &none}, 1);
    reduce(plan.by_packs(true), SumRuns{sum_rows(shape, data, sums), &packs}, 1);
    CHECK(none == 0);
    CHECK(packs == shape.rows * shape.length / 4);
    CHECK(read == sums);
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      const auto begin = data.begin() + row * shape.length;
      CHECK(sums[std::size_t(row)] == reduced_by_hand(plan, {begin, begin + shape.length}));
    }
  }
}

TEST_CASE("threads of a block are as many as lanes need, parts no more than can be reduced at once",
          "[device_reduce]") {
  for (const std::int64_t length : {1, 32, 33, 1024, 1025, 1 << 20, 1 << 30}) {
    for (const bool aside : {false, true}) {
      const DeviceReduction plan = device_reduction(70, length, aside);
      CHECK(plan.together() * plan.lanes == kBlockThreads);
      CHECK(plan.units() == (70 + plan.together() - 1) / plan.together() * plan.parts);
      CHECK(plan.part_length * plan.parts >= length);
      CHECK(device_reduction(70, plan.parts).parts == 1);
      CHECK(device_reduction(1, length, aside).parts == plan.parts);
    }
  }
}

}  // namespace
}  // namespace troupe::ops
