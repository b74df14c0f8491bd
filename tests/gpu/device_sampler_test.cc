// SPDX-License-Identifier: Apache-2.0
// Looks at several GPUs, of which some fall ill and come back.
#include "gpu/device_sampler.h"

#include "tests/gpu/fake_nvml.h"
#include "tests/support/catch.h"

namespace troupe::gpu {
namespace {

using test::FakeNvml;

const std::string kTwo = "count 2\n0 pci 0 1 0\n0 uncorrected 0\n1 pci 0 2 0\n1 uncorrected 0\n";

/// CUDA's order is the other one.
std::vector<WatchedDevice> devices() {
  return {{0, {.name = "b", .uuid = "GPU-b", .pci_bus_id = "00000000:02:00.0"}},
          {1, {.name = "a", .uuid = "GPU-a", .pci_bus_id = "00000000:01:00.0"}}};
}

TEST_CASE("samples are of the devices asked for, in their order", "[device_sampler]") {
  const FakeNvml fake;
  DeviceSampler sampler(devices(), {FakeNvml::file()});
  fake.says(kTwo + "0 power 1000\n1 power 2000\n");
  const auto samples = sampler.look();
  REQUIRE(samples.size() == 2);
  CHECK(samples[0].power_watts == 2);
  CHECK(samples[1].power_watts == 1);
}

TEST_CASE("while a device is in trouble nobody holds the driver between looks",
          "[device_sampler]") {
  const FakeNvml fake;
  fake.says(kTwo);
  {
    DeviceSampler sampler(devices(), {FakeNvml::file()});
    CHECK(fake.sessions() == 0);
    sampler.look();
    CHECK(fake.sessions() == 1);
    sampler.look();
    CHECK(fake.sessions() == 1);
    fake.says(kTwo + "0 lost\n");
    const auto samples = sampler.look();
    CHECK(samples[0].answer == DeviceAnswer::whole);
    CHECK(samples[1].answer == DeviceAnswer::lost);
    CHECK(fake.sessions() == 0);
    fake.says(kTwo + "1 uncorrected 2\n");
    CHECK(sampler.look()[0].uncorrectable_errors == 2);
    CHECK(fake.sessions() == 0);
    fake.says(kTwo);
    CHECK(sampler.look()[1].answer == DeviceAnswer::whole);
    CHECK(fake.sessions() == 1);
  }
  CHECK(fake.sessions() == 0);
}

TEST_CASE("without a driver no device answers, with the reason", "[device_sampler]") {
  const FakeNvml fake;
  DeviceSampler sampler(devices(), {FakeNvml::file()});
  fake.says("init 9");
  const auto samples = sampler.look();
  REQUIRE(samples.size() == 2);
  CHECK(samples[1].answer == DeviceAnswer::none);
  CHECK_THAT(samples[1].problem, Catch::Contains("Driver Not Loaded"));
  fake.says(kTwo);
  CHECK(sampler.look()[1].answer == DeviceAnswer::whole);
}

}  // namespace
}  // namespace troupe::gpu
