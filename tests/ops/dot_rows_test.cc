// SPDX-License-Identifier: Apache-2.0
// Dot products of few rows beside f64, whose bits do not depend on how columns are dealt out.
#include "ops/support/dot_rows.h"

#include <vector>

#include "tests/ops/cases.h"
#include "tests/support/catch.h"

namespace troupe::ops {
namespace {

using namespace testing;  // NOLINT: the test's own vocabulary

TEST_CASE("few rows times many give what f64 gives, however columns are dealt out", "[product]") {
  for (const std::int64_t rows : {1, 3, 4, 5, 8}) {
    for (const std::int64_t inner : {1, 17, 128, 1023, 1025, 2500}) {
      const std::int64_t columns = 47;
      INFO(rows << " rows of " << inner << " terms");
      const Tensor x = random_tensor(DType::f32, {rows, inner}, "x", -1, 1);
      const Tensor y = random_tensor(DType::f32, {columns, inner}, "y", -1, 1);
      const Tensor bias = random_tensor(DType::f32, {columns}, "bias", -1, 1);
      DotRows dots;
      dots.x = x.view().as<float>();
      dots.y = y.view().as<float>();
      dots.rows = rows;
      dots.inner = dots.x_row = dots.y_row = inner;
      dots.out_stride = columns;
      for (const bool biased : {false, true}) {
        for (const bool add : {false, true}) {
          dots.bias = biased ? bias.view().as<float>() : nullptr;
          dots.add = add;
          Tensor whole = random_tensor(DType::f32, {rows, columns}, "before", -1, 1);
          Tensor expected(DType::f64, {rows, columns});
          for (std::int64_t r = 0; r < rows; ++r) {
            for (std::int64_t c = 0; c < columns; ++c) {
              double sum = add ? whole.at(r * columns + c) : 0.0;
              if (biased) sum += bias.at(c);
              for (std::int64_t i = 0; i < inner; ++i) {
                sum += x.at(r * inner + i) * y.at(c * inner + i);
              }
              expected.set(r * columns + c, sum);
            }
          }
          const Tensor parts = whole.clone();
          dots.out = whole.view().as<float>();
          dot_rows(dots, 0, columns);
          dots.out = parts.view().as<float>();
          for (const auto& [begin, end] : {std::pair{0, 1}, {1, 9}, {9, 47}}) {
            dot_rows(dots, begin, end);
          }
          CHECK(distance(whole, expected) <= 1e-5);
          CHECK(parts.same_bits(whole));
          CHECK(whole.guard_intact());
        }
      }
    }
  }
}

}  // namespace
}  // namespace troupe::ops
