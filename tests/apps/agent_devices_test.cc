// SPDX-License-Identifier: Apache-2.0
// What an agent offers of a machine's GPUs, on machines that this one need not be.
#include "apps/agent_devices.h"

#include "tests/support/catch.h"

namespace troupe::apps {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

gpu::Inventory two() {
  gpu::Inventory inventory;
  inventory.devices = {{.name = "NVIDIA H100", .memory_bytes = 80 * kGiB},
                       {.name = "NVIDIA\nT4", .memory_bytes = 15 * kGiB}};
  return inventory;
}

auto slots_of(const std::string& devices, const gpu::Inventory& inventory) {
  return gpu_slots_of(cluster::parse_device_list(devices).value(), inventory);
}

TEST_CASE("GPU slots have their GPU's name and memory, in the order asked for", "[devices]") {
  const schemas::GpuOffer first{0, "NVIDIA H100", "", 80 * kGiB};
  const schemas::GpuOffer second{1, "NVIDIA?T4", "", 15 * kGiB};
  using Offers = std::vector<schemas::GpuOffer>;
  CHECK(slots_of("cpu:2", two()).value().empty());
  CHECK(slots_of("gpu:all", two()).value() == Offers{first, second});
  CHECK(slots_of("gpu:1,0,0", two()).value() == Offers{second, first, first});
  CHECK(distinct_gpus({first, second, first}) == 2);
  CHECK(gpus_text({first, second, first}) ==
        "GPU 0: NVIDIA H100, 80.0 GiB; GPU 1: NVIDIA?T4, 15.0 GiB");
}

TEST_CASE("a GPU that is not there is refused beside those that are", "[devices]") {
  const base::Status missing = slots_of("gpu:0,2", two()).status();
  CHECK(missing.code() == base::Errc::resource_exhausted);
  CHECK(missing.text() ==
        "this machine has no GPU 2; it has GPU 0: NVIDIA H100, 80.0 GiB; GPU 1: NVIDIA?T4, "
        "15.0 GiB");
  const gpu::Inventory none{.problem = "no NVIDIA driver is installed"};
  CHECK(slots_of("cpu:1", none).ok());
  for (const char* devices : {"gpu:all", "gpu:0", "cpu:1,gpu:0"}) {
    const base::Status status = slots_of(devices, none).status();
    CHECK(status.code() == base::Errc::resource_exhausted);
    CHECK(status.text() == "this machine has no GPU to compute on: no NVIDIA driver is installed");
  }
}

TEST_CASE("a GPU that cannot be used is offered to nobody, and named where it is asked for",
          "[devices]") {
  gpu::Inventory old_one = two();
  old_one.devices[0].problem = "its compute capability is 7.5";
  const schemas::GpuOffer second{1, "NVIDIA?T4", "", 15 * kGiB};
  CHECK(slots_of("gpu:all", old_one).value() == std::vector{second});
  CHECK(slots_of("gpu:1,1", old_one).value() == std::vector{second, second});
  CHECK(slots_of("gpu:1,0", old_one).status().text() ==
        "GPU 0 of this machine (NVIDIA H100): its compute capability is 7.5");
  CHECK(slots_of("gpu:2", old_one).status().text() ==
        "this machine has no GPU 2; it has GPU 1: NVIDIA?T4, 15.0 GiB");
}

}  // namespace
}  // namespace troupe::apps
