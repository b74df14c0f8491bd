// SPDX-License-Identifier: Apache-2.0
// Environment variables: Troupe's own, and those of OpenMP that no child may see.
#include "base/environment.h"

#include <algorithm>
#include <cstdlib>

#include "tests/support/catch.h"

namespace troupe::base {
namespace {

TEST_CASE("variables of OpenMP and of NVIDIA's arithmetic are found and left out, others stay",
          "[environment]") {
  setenv("NVIDIA_TF32_OVERRIDE", "0", 1);
  setenv("OMP_NUM_THREADS", "3", 1);
  setenv("GOMP_CPU_AFFINITY", "0", 1);
  setenv("OMP_WAIT_POLICY", "passive", 1);
  setenv("COMP_X", "1", 1);
  const auto found = steering_variables();
  CHECK(std::count(found.begin(), found.end(), "OMP_NUM_THREADS=3") == 1);
  CHECK(std::count(found.begin(), found.end(), "NVIDIA_TF32_OVERRIDE=0") == 1);
  CHECK(std::count(found.begin(), found.end(), "GOMP_CPU_AFFINITY=0") == 1);
  CHECK(std::count(found.begin(), found.end(), "OMP_WAIT_POLICY=passive") == 0);
  const auto kept = environment_without_steering();
  CHECK(std::count(kept.begin(), kept.end(), "COMP_X=1") == 1);
  CHECK(std::count(kept.begin(), kept.end(), "OMP_WAIT_POLICY=passive") == 1);
  CHECK(std::none_of(kept.begin(), kept.end(),
                     [](const auto& entry) { return entry.starts_with("OMP_NUM"); }));
  unsetenv("NVIDIA_TF32_OVERRIDE");
  unsetenv("OMP_NUM_THREADS");
  unsetenv("GOMP_CPU_AFFINITY");
  unsetenv("OMP_WAIT_POLICY");
  unsetenv("COMP_X");
}

TEST_CASE("GPUs are numbered by their places unless somebody says otherwise", "[environment]") {
  unsetenv("CUDA_DEVICE_ORDER");
  order_gpus_by_bus();
  CHECK(std::string(getenv("CUDA_DEVICE_ORDER")) == "PCI_BUS_ID");
  setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST", 1);
  order_gpus_by_bus();
  CHECK(std::string(getenv("CUDA_DEVICE_ORDER")) == "FASTEST_FIRST");
  unsetenv("CUDA_DEVICE_ORDER");

  unsetenv("CUDA_VISIBLE_DEVICES");
  CHECK_FALSE(visible_gpus());
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  CHECK(visible_gpus() == "");
  unsetenv("CUDA_VISIBLE_DEVICES");
  setenv("NVIDIA_VISIBLE_DEVICES", "all", 1);
  CHECK_FALSE(visible_gpus());
  setenv("NVIDIA_VISIBLE_DEVICES", "MIG-a", 1);
  CHECK(visible_gpus() == "MIG-a");
  unsetenv("NVIDIA_VISIBLE_DEVICES");
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
