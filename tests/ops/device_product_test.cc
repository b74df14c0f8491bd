// SPDX-License-Identifier: Apache-2.0
// Products of own kernels for GPUs on the host: all tiles and parts, against plain sums.
#include "ops/support/device_product.h"

#include <atomic>
#include <cmath>
#include <vector>

#include "tests/ops/tensors.h"
#include "tests/support/catch.h"

namespace troupe::ops {
namespace {

using testing::Tensor;

/// Operands of whole numbers, whose products have exact sums; outputs count how often they come.
struct Whole {
  using Number = float;
  std::int64_t rows, columns;
  float* out;
  std::int64_t* stores;
  std::atomic<std::int64_t>* outside;  ///< factors of rows or columns behind the last

  static float number(std::int64_t a, std::int64_t b, std::int64_t c) {
    return static_cast<float>((a * 31 + b * 17 + c * 7) % 5 - 2);
  }
  struct Row {
    std::int64_t batch, index;
  };
  struct Column {
    std::int64_t batch, index;
  };
  struct Term {
    std::int64_t i;
  };
  Row row(std::int64_t batch, std::int64_t index) const { return {batch, index}; }
  Column column(std::int64_t batch, std::int64_t index) const { return {batch, index}; }
  Term term(std::int64_t i) const { return {i}; }
  float x(const Row& row, const Term& term) const {
    *outside += row.index >= rows;
    return number(row.batch, row.index, term.i);
  }
  float y(const Term& term, const Column& column) const {
    *outside += column.index >= columns;
    return number(column.index, column.batch, term.i * term.i);
  }
  void store(std::int64_t batch, std::int64_t row, std::int64_t column, float sum) const {
    const std::int64_t at = (batch * rows + row) * columns + column;
    out[at] = sum;
    ++stores[at];
  }
};

void check_product(const DeviceProduct& p, int team) {
  INFO(p.batches << " of " << p.rows << " x " << p.inner << " x " << p.columns << " in "
                 << p.parts);
  ScratchCut count;
  take_partial<float>(p, count);
  const Tensor memory(base::DType::u8, base::Shape{std::int64_t(count.bytes())});
  ScratchCut scratch(memory.memory.data());
  std::vector<float> out(std::size_t(p.outputs()), NAN);
  std::vector<std::int64_t> stores(out.size(), 0);
  std::atomic<std::int64_t> outside = 0;
  const Whole whole{p.rows, p.columns, out.data(), stores.data(), &outside};
  KernelContext context{};
  context.team = team;
  base::Status status;
  base::lead_team(
      team, [&] { status = device_product(context, p, whole, take_partial<float>(p, scratch)); });
  CHECK(status.ok());
  CHECK(memory.guard_intact());
  std::int64_t wrong = 0;
  for (std::int64_t at = 0; at < p.outputs(); ++at) {
    float sum = 0;
    for (std::int64_t i = 0; i < p.inner; ++i) {
      const std::int64_t batch = at / p.columns / p.rows;
      sum += Whole::number(batch, at / p.columns % p.rows, i) *
             Whole::number(at % p.columns, batch, i * i);
    }
    wrong += out[std::size_t(at)] != sum || stores[std::size_t(at)] != 1;
  }
  CHECK(wrong == 0);
  CHECK(outside == 0);
}

TEST_CASE("every output of a product is there once, whatever its tiles and parts",
          "[device_product]") {
  for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{1, 1},
                                      {3, 300},
                                      {8, 5},
                                      {261, 3},
                                      {9, 9},
                                      {65, 130},
                                      {0, 4},
                                      {70, 0}}) {
    for (const std::int64_t inner : {0, 1, 16, 37, 2500}) {
      DeviceProduct p{.batches = 2, .rows = rows, .columns = columns, .inner = inner};
      check_product(p, 1);
      p.x_inner_aside = p.y_columns_aside = false;
      check_product(cut_sums(p), 3);
    }
  }
}

TEST_CASE("long sums of few outputs are cut, others are whole", "[device_product]") {
  const auto cut = [](std::int64_t rows, std::int64_t columns, std::int64_t inner) {
    return cut_sums({.rows = rows, .columns = columns, .inner = inner});
  };
  CHECK(cut(20, 25, 18432).parts == 144);
  CHECK(cut(50, 500, 4096).parts == 32);
  CHECK(cut(512, 512, 1 << 20).parts == 8);  // 64 tiles
  CHECK(cut(1, 1, 128).parts == 1);
  // Many tiles of a few outputs each.
  CHECK(cut_sums({.batches = 512, .rows = 1, .columns = 9, .inner = 100000}).parts > 40);
  CHECK(cut(4096, 4096, 100000).parts == 1);
  for (const std::int64_t inner : {1, 1024, 1025, 1 << 20, 1 << 30}) {
    const DeviceProduct p = cut(7, 11, inner);
    CHECK(p.part_length * p.parts >= inner);
    CHECK(p.part_length * (p.parts - 1) < inner);
    CHECK(device_reduction(p.outputs(), p.parts, true).parts == 1);
  }
}

}  // namespace
}  // namespace troupe::ops
