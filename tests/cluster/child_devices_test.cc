// SPDX-License-Identifier: Apache-2.0
// GPUs of children by name.
#include "cluster/child_devices.h"

#include "tests/support/catch.h"

namespace troupe::cluster {
namespace {

using Indices = std::vector<std::uint32_t>;

TEST_CASE("a child sees the GPUs of its ranks, numbered as it will see them", "[child_devices]") {
  const std::vector<schemas::GpuOffer> offers = {
      {0, "H100", "GPU-a", 1}, {0, "H100", "GPU-a", 1}, {2, "H100", "GPU-c", 1}, {5, "T4", "", 1}};
  const auto check = [&](const Indices& asked, const std::string& visible, const Indices& own) {
    const ChildDevices made = child_devices(offers, asked);
    CHECK(made.environment == "CUDA_VISIBLE_DEVICES=" + visible);
    CHECK(made.gpus == own);
  };
  check({}, "", {});
  check({2}, "GPU-c", {0});
  check({0, 2}, "GPU-a,GPU-c", {0, 1});
  check({2, 0}, "GPU-c,GPU-a", {0, 1});
  check({0, 0, 2, 0, 2}, "GPU-a,GPU-c", {0, 0, 1, 0, 1});
  check({5, 0}, "5,GPU-a", {0, 1});
}

}  // namespace
}  // namespace troupe::cluster
