// SPDX-License-Identifier: Apache-2.0
// Addresses that libraries for GPUs take.
#include "ops/support/wide_loads.h"

#include <array>

#include "tests/support/catch.h"

namespace troupe::ops {
namespace {

TEST_CASE("a slice that begins between multiples of 16 bytes is refused", "[wide_loads]") {
  alignas(16) std::array<char, 64> memory{};
  const std::array<const void*, 3> fit = {memory.data(), nullptr, memory.data() + 48};
  CHECK(check_wide_loads("cuDNN", fit).ok());
  for (const std::size_t past : {1, 2, 4, 8, 15}) {
    const std::array<const void*, 2> unfit = {memory.data(), memory.data() + 16 + past};
    const base::Status status = check_wide_loads("cuDNN", unfit);
    CHECK(status.code() == base::Errc::failed_precondition);
    CHECK_THAT(status.text(), Catch::Contains("cuDNN takes tensors") &&
                                  Catch::Contains(" " + std::to_string(past) + " behind"));
  }
}

}  // namespace
}  // namespace troupe::ops
