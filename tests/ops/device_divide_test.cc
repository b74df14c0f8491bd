// SPDX-License-Identifier: Apache-2.0
// Divisions by multiplication, beside the processor's own.
#include "ops/support/device_divide.h"

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/catch.h"

namespace troupe::ops {
namespace {

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

/// Numbers around all powers of two, and others of every size.
std::vector<std::int64_t> numbers_of_all_sizes() {
  std::vector<std::int64_t> list{0, kLargest};
  std::mt19937_64 draw(7);
  for (int bit = 0; bit < 63; ++bit) {
    const std::int64_t power = std::int64_t{1} << bit;
    for (const std::int64_t near : {power - 1, power, power + 1}) list.push_back(near);
    for (int k = 0; k < 4; ++k) {
      list.push_back(power | static_cast<std::int64_t>(draw() & std::uint64_t(power - 1)));
    }
  }
  return list;
}

TEST_CASE("an index divided by multiplication is divided right, whatever its size",
          "[device_divide]") {
  const std::vector<std::int64_t> numbers = numbers_of_all_sizes();
  std::int64_t wrong = 0;
  for (const std::int64_t divisor : numbers) {
    if (divisor == 0) continue;
    const Divider by(divisor);
    CHECK(by.divisor() == divisor);
    for (const std::int64_t n : numbers) {
      // The largest multiple of the divisor is where a factor that is too small shows first.
      const std::int64_t multiple = n / divisor * divisor;
      for (const std::int64_t each : {n, multiple, multiple > 0 ? multiple - 1 : 0}) {
        const Divider::Digits at = by.digits(each);
        if (at.quotient != each / divisor || at.remainder != each % divisor ||
            by.quotient(each) != at.quotient || by.remainder(each) != at.remainder) {
          ++wrong;
        }
      }
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("an extent of nothing divides as one does", "[device_divide]") {
  CHECK(Divider(0).quotient(5) == 5);
  CHECK(Divider().quotient(kLargest) == kLargest);
  CHECK(Divider(0).divisor() == 1);
}

}  // namespace
}  // namespace troupe::ops
