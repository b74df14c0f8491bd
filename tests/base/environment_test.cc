// SPDX-License-Identifier: Apache-2.0
// Environment variables: Troupe's own, and those of OpenMP that no child may see.
#include "base/environment.h"

#include <algorithm>
#include <cstdlib>

#include "tests/support/catch.h"

namespace troupe::base {
namespace {

TEST_CASE("OpenMP's variables are found and left out, others stay", "[environment]") {
  setenv("OMP_NUM_THREADS", "3", 1);
  setenv("GOMP_CPU_AFFINITY", "0", 1);
  setenv("OMP_WAIT_POLICY", "passive", 1);
  setenv("COMP_X", "1", 1);
  const auto found = openmp_variables();
  CHECK(std::count(found.begin(), found.end(), "OMP_NUM_THREADS=3") == 1);
  CHECK(std::count(found.begin(), found.end(), "GOMP_CPU_AFFINITY=0") == 1);
  CHECK(std::count(found.begin(), found.end(), "OMP_WAIT_POLICY=passive") == 0);
  const auto kept = environment_without_openmp();
  CHECK(std::count(kept.begin(), kept.end(), "COMP_X=1") == 1);
  CHECK(std::count(kept.begin(), kept.end(), "OMP_WAIT_POLICY=passive") == 1);
  CHECK(std::none_of(kept.begin(), kept.end(),
                     [](const auto& entry) { return entry.starts_with("OMP_NUM"); }));
  unsetenv("OMP_NUM_THREADS");
  unsetenv("GOMP_CPU_AFFINITY");
  unsetenv("OMP_WAIT_POLICY");
  unsetenv("COMP_X");
}

TEST_CASE("colour is off on dumb terminals and by NO_COLOR", "[environment]") {
  setenv("NO_COLOR", "1", 1);
  CHECK(read_environment().no_color);
  unsetenv("NO_COLOR");
  setenv("TERM", "dumb", 1);
  CHECK(read_environment().no_color);
  CHECK(read_environment().dumb_terminal);
  setenv("TERM", "xterm", 1);
  CHECK_FALSE(read_environment().no_color);
}

}  // namespace
}  // namespace troupe::base
