// SPDX-License-Identifier: Apache-2.0
// Which devices a build's code runs on.
#include "gpu/machine_code.h"

#include "tests/support/catch.h"

namespace troupe::gpu {
namespace {

TEST_CASE("machine code runs on its major version from its minor one on, PTX on all later devices",
          "[machine_code]") {
  CHECK(runs_on("90-real", 9, 0));
  CHECK_FALSE(runs_on("90-real", 8, 9));
  CHECK_FALSE(runs_on("90-real", 10, 0));
  CHECK(runs_on("86-real", 8, 9));
  CHECK_FALSE(runs_on("86-real", 8, 0));
  CHECK(runs_on("80-virtual", 12, 0));
  CHECK_FALSE(runs_on("80-virtual", 7, 5));
  CHECK(runs_on("80", 8, 6));
  CHECK(runs_on("80", 10, 0));
  CHECK(runs_on("90a", 9, 0));
  CHECK_FALSE(runs_on("90a-real", 9, 1));
  CHECK_FALSE(runs_on("90a", 10, 0));
}

TEST_CASE("one entry of the list is enough, what is not understood may fit", "[machine_code]") {
  for (const char* list : {"80-real 90-real 120-virtual", "80-real;90-real;120-virtual"}) {
    INFO(list);
    CHECK(runs_on(list, 8, 0));
    CHECK(runs_on(list, 9, 0));
    CHECK(runs_on(list, 12, 1));
    CHECK_FALSE(runs_on(list, 10, 0));
    CHECK_FALSE(runs_on(list, 7, 5));
  }
  CHECK_FALSE(runs_on("", 9, 0));
  CHECK_FALSE(runs_on(" ;; ", 9, 0));
  CHECK(runs_on("; 90", 9, 0));
  for (const char* other : {"native", "all", "all-major", "100f", "80-real native"}) {
    CHECK(runs_on(other, 9, 0));
  }
}

}  // namespace
}  // namespace troupe::gpu
