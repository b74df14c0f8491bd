// SPDX-License-Identifier: Apache-2.0
// A thread that is bound to one processor has one, whatever the machine has.
#include "base/processors.h"

#include <sched.h>

#include <thread>

#include "tests/support/catch.h"

namespace troupe::base {
namespace {

TEST_CASE("the processors that a thread may use are counted", "[processors]") {
  cpu_set_t all;
  REQUIRE(sched_getaffinity(0, sizeof(all), &all) == 0);
  CHECK(usable_processors() == static_cast<std::size_t>(CPU_COUNT(&all)));
  std::size_t bound = 0;
  std::thread([&] {
    int first = 0;
    while (!CPU_ISSET(first, &all)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    if (sched_setaffinity(0, sizeof(one), &one) == 0) bound = usable_processors();
  }).join();
  CHECK(bound == 1);
}

}  // namespace
}  // namespace troupe::base
