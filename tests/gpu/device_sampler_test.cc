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

DeviceSampler open_sampler() {
  return DeviceSampler::open(devices(), {FakeNvml::file()}).value();
}

TEST_CASE("samples are of the devices asked for, in their order", "[device_sampler]") {
  const FakeNvml fake;
  fake.says(kTwo + "0 power 1000\n1 power 2000\n");
  DeviceSampler sampler = open_sampler();
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
    DeviceSampler sampler = open_sampler();
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
    fake.says(kTwo + "1 fails power 999\n");
    CHECK(sampler.look()[0].answer == DeviceAnswer::none);
    CHECK(fake.sessions() == 0);
    fake.says(kTwo);
    CHECK(sampler.look()[1].answer == DeviceAnswer::whole);
    CHECK(fake.sessions() == 1);
  }
  CHECK(fake.sessions() == 0);
}

TEST_CASE("errors are heard of while all is well, and those that ended it", "[device_sampler]") {
  const FakeNvml fake;
  const std::string well = kTwo + "0 events\n1 events\n";
  using Xids = XidEvents::Xids;
  using Numbers = std::vector<std::uint32_t>;
  fake.says(well);
  {
    DeviceSampler sampler = open_sampler();
    CHECK(sampler.look()[0].xids == Xids(std::in_place));
    CHECK(fake.event_sets() == 1);
    fake.reports(1, 31);
    const auto healthy = sampler.look();
    CHECK(healthy[0].xids == Xids(Numbers{31}));
    CHECK(healthy[1].xids == Xids(std::in_place));
    fake.says(well + "0 lost\n");
    fake.reports(0, 79);
    const auto ill = sampler.look();
    CHECK(ill[1].answer == DeviceAnswer::lost);
    CHECK(ill[1].xids == Xids(Numbers{79}));
    CHECK(fake.event_sets() == 0);
    CHECK(fake.sessions() == 0);
    fake.reports(1, 13);  // nobody hears it
    const auto still_ill = sampler.look();
    CHECK(still_ill[0].xids == Xids(std::in_place));
    CHECK_FALSE(still_ill[1].xids);
    CHECK(fake.event_sets() == 0);
    fake.says(well);
    CHECK(sampler.look()[1].xids == Xids(std::in_place));
    fake.reports(0, 45);
    CHECK(sampler.look()[1].xids == Xids(Numbers{45}));
  }
  CHECK(fake.event_sets() == 0);
  CHECK(fake.sessions() == 0);
}

TEST_CASE("where events cannot be read any more, others are asked for", "[device_sampler]") {
  const FakeNvml fake;
  const std::string well = kTwo + "0 events\n1 events\n";
  using Xids = XidEvents::Xids;
  fake.says(well + "wait 999\n");
  DeviceSampler sampler = open_sampler();
  CHECK(sampler.look()[0].answer == DeviceAnswer::whole);
  CHECK(fake.event_sets() == 0);  // of no use
  CHECK(fake.sessions() == 1);
  fake.says(well);
  CHECK(sampler.look()[0].xids == Xids(std::in_place));
  fake.reports(1, 31);
  CHECK(sampler.look()[0].xids == Xids(std::vector<std::uint32_t>{31}));
}

TEST_CASE("a device that is not shown is lost where it was shown before", "[device_sampler]") {
  const FakeNvml fake;
  fake.says("count 1\n0 pci 0 1 0\n");
  DeviceSampler sampler = open_sampler();
  CHECK(sampler.look()[0].answer == DeviceAnswer::hidden);
  CHECK(fake.sessions() == 1);  // nothing is wrong with it
  fake.says("count 2\n0 pci 0 1 0\n1 pci 0 2 0\n");
  CHECK(sampler.look()[0].answer == DeviceAnswer::whole);
  fake.says("count 1\n0 pci 0 1 0\n");
  for (int i = 0; i < 3; ++i) CHECK(sampler.look()[0].answer == DeviceAnswer::lost);
}

TEST_CASE("a slice that is not shown any more is gone, not lost", "[device_sampler]") {
  const FakeNvml fake;
  fake.says("count 1\n0 pci 0 1 0\n0 mig 1\n7 uuid MIG-7\n7 memory 1000 300\n");
  auto sampler = DeviceSampler::open(
      {{0, {.name = "H100", .uuid = "MIG-7", .pci_bus_id = "00000000:01:00.0"}}},
      {FakeNvml::file()});
  REQUIRE(sampler.ok());
  CHECK(sampler->look()[0].answer == DeviceAnswer::whole);
  fake.says("count 1\n0 pci 0 1 0\n0 mig 1\n8 uuid MIG-8\n8 memory 1000 300\n");
  CHECK(sampler->look()[0].answer == DeviceAnswer::gone);
}

TEST_CASE("without NVML there is no sampler, and where it goes later no device answers",
          "[device_sampler]") {
  const FakeNvml fake;
  fake.says("init 9");
  const auto refused = DeviceSampler::open(devices(), {FakeNvml::file()});
  CHECK_THAT(refused.status().text(), Catch::Contains("Driver Not Loaded"));

  fake.says(kTwo + "0 lost\n");
  DeviceSampler sampler = open_sampler();
  sampler.look();
  fake.says("init 9");
  const auto samples = sampler.look();
  REQUIRE(samples.size() == 2);
  CHECK(samples[0].answer == DeviceAnswer::none);
  CHECK(samples[1].problem == refused.status().text());
  fake.says(kTwo);
  CHECK(sampler.look()[1].answer == DeviceAnswer::whole);
}

}  // namespace
}  // namespace troupe::gpu
