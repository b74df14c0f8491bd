// SPDX-License-Identifier: Apache-2.0
// What there is of GPUs, and the refusal of what there is not. Runs on every machine.
#include "gpu/inventory.h"

#include <algorithm>

#include "gpu/memory.h"
#include "gpu/stream.h"
#include "tests/support/catch.h"

namespace troupe::gpu {
namespace {

using base::Device;
using base::DeviceKind;
using base::Errc;

TEST_CASE("there are devices, or a reason why there are none", "[gpu]") {
  const Inventory& found = inventory();
  const bool usable = std::ranges::any_of(
      found.devices, [](const DeviceFacts& device) { return device.problem.empty(); });
  CHECK(usable == found.problem.empty());
  CHECK(&found == &inventory());
  for (const DeviceFacts& device : found.devices) {
    CHECK_FALSE(device.name.empty());
    if (!device.problem.empty()) continue;
    CHECK(device.memory_bytes > 0);
    CHECK(device.compute_major >= 3);
  }
  CHECK(libraries().empty() == found.toolkit.empty());
  for (const LibraryFacts& library : libraries()) {
    INFO(library.name);
    CHECK(library.version.empty() == !library.problem.empty());
  }
}

TEST_CASE("a device that is not there is refused by name, with the reason", "[gpu]") {
  const auto count = static_cast<std::int32_t>(inventory().devices.size());
  for (const std::int32_t index : {count, count + 1, -1}) {
    const Device device{DeviceKind::cuda, index};
    const base::Status refusal = check_device(device);
    CHECK(refusal.code() == Errc::failed_precondition);
    CHECK_THAT(refusal.text(), Catch::Contains(device.to_string()));
    if (count == 0) CHECK_THAT(refusal.text(), Catch::Contains(inventory().problem));
    CHECK(allocate(device, 64).status() == refusal);
    CHECK(make_stream(device, StreamPriority::normal).status() == refusal);
    CHECK(total_bytes(device) == 0);
    CHECK(free_bytes(device) == 0);
  }
}

TEST_CASE("a device that cannot be used is refused by name, with its own reason", "[gpu]") {
  Inventory found;
  found.devices = {{.name = "NVIDIA H100"}, {.problem = "it does not answer", .name = "Tesla T4"}};
  CHECK(problems_of(found) == std::vector<std::string>{"cuda:1 (Tesla T4): it does not answer"});
  CHECK(check_device({DeviceKind::cuda, 0}, found).ok());
  const base::Status refusal = check_device({DeviceKind::cuda, 1}, found);
  CHECK(refusal.code() == Errc::failed_precondition);
  CHECK(refusal.text() == "no device cuda:1, Tesla T4: it does not answer");
  CHECK(check_device({DeviceKind::cuda, 2}, found).text() ==
        "no device cuda:2: this machine shows 2 of them");
}

TEST_CASE("without a device there is no pinned memory", "[gpu]") {
  if (inventory().problem.empty()) return;
  const auto pinned = allocate_pinned(64);
  CHECK(pinned.status().code() == Errc::failed_precondition);
  CHECK_THAT(pinned.status().text(), Catch::Contains(inventory().problem));
}

}  // namespace
}  // namespace troupe::gpu
