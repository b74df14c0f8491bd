// SPDX-License-Identifier: Apache-2.0
// NVML through a library that only has its functions (fake_nvml/); where there is a GPU, through
// the driver's own, too.
#include "gpu/nvml.h"

#include "tests/gpu/fake_nvml.h"
#include "tests/support/catch.h"

namespace troupe::gpu {
namespace {

using test::FakeNvml;

constexpr const char* kBusId = "00000000:1B:00.0";
const std::string kWell = R"(count 1
0 name NVIDIA H100 80GB HBM3
0 uuid GPU-1
0 pci 0 27 0
0 memory 85899345920 4294967296
0 utilization 40 15
0 power 312500
0 temperature 61
0 clock 1980
0 uncorrected 0
0 corrected 12
0 rows 0
0 cpus 0 63 64 130
0 mig 0
)";

Nvml open_fake() {
  return Nvml::open({FakeNvml::file()}).value();
}

TEST_CASE("NVML that is not there, lacks a function or has no driver says so", "[nvml]") {
  const auto missing = Nvml::open({"libnowhere-ml.so.1"});
  CHECK(missing.status().code() == base::Errc::failed_precondition);
  CHECK_THAT(missing.status().text(), Catch::Contains("libnowhere-ml.so.1"));

  const auto other = Nvml::open({"libm.so.6"});
  CHECK(other.status().code() == base::Errc::failed_precondition);
  CHECK(other.status().text() == "libm.so.6 has no function nvmlInit_v2");

  const FakeNvml fake;
  fake.says("init 9");
  const auto refused = Nvml::open({FakeNvml::file()});
  CHECK(refused.status().code() == base::Errc::failed_precondition);
  CHECK(refused.status().text() == FakeNvml::file() + ": nvmlInit_v2: Driver Not Loaded");
  CHECK(fake.sessions() == 0);
}

TEST_CASE("a session lasts as long as its owner and their copies", "[nvml]") {
  const FakeNvml fake;
  fake.says("");
  {
    const Nvml nvml = open_fake();
    const Nvml same = nvml;  // NOLINT: the copy is the question
    CHECK(fake.sessions() == 1);
  }
  CHECK(fake.sessions() == 0);
}

TEST_CASE("devices are listed with what they tell", "[nvml]") {
  const FakeNvml fake;
  fake.says(kWell + "1 name old\n");
  const auto devices = open_fake().devices().value();
  REQUIRE(devices.size() == 1);
  const ManagedDevice& device = devices[0];
  CHECK(device.index == 0);
  CHECK(device.name == "NVIDIA H100 80GB HBM3");
  CHECK(device.uuid == "GPU-1");
  CHECK(device.pci_bus_id == kBusId);
  CHECK(device.memory_bytes == 85'899'345'920);
  CHECK(device.mig == false);
  CHECK(device.slices.empty());
  CHECK(device.near_cpus == std::vector<std::uint32_t>{0, 63, 64, 130});
}

TEST_CASE("what a device does not support is absent, and one that is lost is not listed",
          "[nvml]") {
  const FakeNvml fake;
  fake.says("count 3\n0 uuid GPU-1\n1 lost\n2 uuid GPU-3\n");
  const auto devices = open_fake().devices().value();
  REQUIRE(devices.size() == 2);
  CHECK(devices[0].pci_bus_id.empty());
  CHECK_FALSE(devices[0].memory_bytes);
  CHECK_FALSE(devices[0].mig);
  CHECK(devices[0].near_cpus.empty());
  CHECK(devices[1].index == 2);
  CHECK(devices[1].uuid == "GPU-3");

  fake.says("fails 999");
  const auto none = open_fake().devices();
  CHECK(none.status().code() == base::Errc::failed_precondition);
  CHECK(none.status().text() == FakeNvml::file() + ": nvmlDeviceGetCount_v2: Unknown Error");
}

TEST_CASE("slices of a device are listed, free places are not", "[nvml]") {
  const FakeNvml fake;
  fake.says(
      "count 1\n0 uuid GPU-1\n0 mig 1\n0 slices 7\n0 slice 0 100\n0 slice 3 103\n"
      "100 name H100 MIG 1g.10gb\n100 uuid MIG-0\n103 name H100 MIG 2g.20gb\n103 uuid MIG-3\n");
  const auto devices = open_fake().devices().value();
  REQUIRE(devices.size() == 1);
  CHECK(devices[0].mig == true);
  REQUIRE(devices[0].slices.size() == 2);
  CHECK(devices[0].slices[0].name == "H100 MIG 1g.10gb");
  CHECK(devices[0].slices[1].uuid == "MIG-3");
}

TEST_CASE("a device of CUDA is found by its UUID, else by its place of the bus", "[nvml]") {
  std::vector<ManagedDevice> devices(3);
  devices[0].uuid = "GPU-1";
  devices[0].pci_bus_id = "00000000:01:00.0";
  devices[1].uuid = "GPU-2";
  devices[1].pci_bus_id = "00000000:02:00.0";
  CHECK(find_device(devices, {.uuid = "GPU-2", .pci_bus_id = "00000000:01:00.0"}) == &devices[1]);
  CHECK(find_device(devices, {.uuid = "MIG-1", .pci_bus_id = "00000000:01:00.0"}) == &devices[0]);
  CHECK(find_device(devices, {.uuid = "GPU-9", .pci_bus_id = "00000000:09:00.0"}) == nullptr);
  CHECK(find_device(devices, {}) == nullptr);
}

TEST_CASE("a sample has the device's numbers in base units", "[nvml]") {
  const FakeNvml fake;
  fake.says(kWell);
  const DeviceSample sample = open_fake().sample({.pci_bus_id = kBusId});
  const DeviceSample wanted{.utilization = 0.4,
                            .memory_utilization = 0.15,
                            .memory_used_bytes = 4'294'967'296,
                            .memory_total_bytes = 85'899'345'920,
                            .power_watts = 312.5,
                            .temperature_celsius = 61,
                            .sm_clock_hertz = 1.98e9,
                            .uncorrectable_errors = 0,
                            .correctable_errors = 12,
                            .rows_not_replaced = false,
                            .rows_await_reset = false};
  CHECK(sample == wanted);
  fake.says(kWell + "0 uncorrected 3\n0 rows 1 1\n");
  const DeviceSample worse = open_fake().sample({.pci_bus_id = kBusId});
  CHECK(worse.uncorrectable_errors == 3);
  CHECK(worse.rows_not_replaced == true);
  CHECK(worse.rows_await_reset == true);
}

/// By the names of the reasons; "?" where the device does not tell them.
std::string throttled(const DeviceSample& sample) {
  if (!sample.throttled) return "?";
  std::string names;
  for (std::size_t i = 0; i < kThrottleReasons.size(); ++i) {
    if (sample.throttled->test(i)) names += std::string(kThrottleReasons[i]) + " ";
  }
  return names;
}

TEST_CASE("a sample has what lowers clocks, and for how long", "[nvml]") {
  const FakeNvml fake;
  const auto sample_of = [&](const std::string& more) {
    fake.says(kWell + more);
    return open_fake().sample({.pci_bus_id = kBusId});
  };
  CHECK(throttled(sample_of("")) == "?");
  CHECK(throttled(sample_of("0 reasons 0")).empty());
  // Idle, clocks of the application, clocks of the display, and what nobody knows yet.
  CHECK(throttled(sample_of("0 reasons 18446744073709551363")).empty());  // all but 0xfc
  const std::vector<std::pair<std::string, std::string>> reasons = {
      {"4", "sw_power_cap "},
      {"8", "hw_slowdown "},
      {"16", "sync_boost "},
      {"32", "sw_thermal_slowdown "},
      {"64", "hw_thermal_slowdown "},
      {"128", "hw_power_brake_slowdown "},
      {"73", "hw_slowdown hw_thermal_slowdown "}};
  for (const auto& [mask, names] : reasons) {
    CHECK(throttled(sample_of("0 reasons " + mask)) == names);
  }
  const DeviceSample held = sample_of("0 power_held 90000000000\n0 heat_held 1500000000");
  CHECK(held.power_violation_seconds == 90);
  CHECK(held.thermal_violation_seconds == 1.5);
}

TEST_CASE("errors about clocks are none of the device", "[nvml]") {
  const FakeNvml fake;
  fake.says(kWell + "0 fails reasons 999\n0 fails power_held 999\n0 heat_held 0\n");
  const DeviceSample sample = open_fake().sample({.pci_bus_id = kBusId});
  CHECK(sample.answer == DeviceAnswer::whole);
  CHECK_FALSE(sample.throttled);
  CHECK_FALSE(sample.power_violation_seconds);
  CHECK(sample.thermal_violation_seconds == 0);
}

TEST_CASE("an older library tells what it has, under its names", "[nvml]") {
  const FakeNvml fake(FakeNvml::older_file());
  fake.says(kWell + "0 reasons 4\n0 power_held 90000000000\n");
  const Nvml nvml = Nvml::open({FakeNvml::older_file()}).value();
  const DeviceSample sample = nvml.sample({.pci_bus_id = kBusId});
  CHECK(sample.answer == DeviceAnswer::whole);
  CHECK(sample.power_watts == 312.5);
  CHECK(throttled(sample) == "sw_power_cap ");
  CHECK_FALSE(sample.power_violation_seconds);
}

TEST_CASE("of a slice memory is its own, and one that nobody has chosen is said", "[nvml]") {
  const FakeNvml fake;
  fake.says(kWell + "0 mig 1\n7 uuid MIG-7\n7 memory 1000 300\n");
  const DeviceSample slice = open_fake().sample({.uuid = "MIG-7", .pci_bus_id = kBusId});
  CHECK(slice.answer == DeviceAnswer::whole);
  CHECK(slice.memory_total_bytes == 1000);
  CHECK(slice.memory_used_bytes == 300);
  CHECK(slice.temperature_celsius == 61);
  const DeviceSample cut = open_fake().sample({.uuid = "GPU-1", .pci_bus_id = kBusId});
  CHECK(cut.answer == DeviceAnswer::sliced);
  CHECK_THAT(check_health("GPU 0", nullptr, cut).text(),
             Catch::Contains("GPU 0 is cut into slices (MIG): CUDA_VISIBLE_DEVICES must name one"));
}

TEST_CASE("a value that a device does not support, or keeps to itself, is absent", "[nvml]") {
  const FakeNvml fake;
  fake.says("count 1\n0 pci 0 27 0\n0 power 100000\n0 fails temperature 4\n");
  const DeviceSample sample = open_fake().sample({.pci_bus_id = kBusId});
  CHECK(sample == DeviceSample{.power_watts = 100});
}

TEST_CASE("a device in trouble says which, with function and error", "[nvml]") {
  const FakeNvml fake;
  const auto sample_of = [&](const std::string& more) {
    fake.says(kWell + more);
    return open_fake().sample({.pci_bus_id = kBusId});
  };
  const DeviceSample lost = sample_of("0 lost\n");
  CHECK(lost.answer == DeviceAnswer::lost);
  CHECK(lost.problem == "nvmlDeviceGetMigMode of 00000000:1B:00.0: GPU is lost");
  CHECK_FALSE(lost.power_watts);

  CHECK(sample_of("0 fails power 16\n").answer == DeviceAnswer::needs_reset);

  const DeviceSample none = sample_of("0 fails memory 999\n");
  CHECK(none.answer == DeviceAnswer::none);
  CHECK(none.problem == "nvmlDeviceGetMemoryInfo of 00000000:1B:00.0: Unknown Error");
  CHECK(none.uncorrectable_errors == 0);  // told before
  CHECK_FALSE(none.power_watts);          // not asked any more

  const DeviceSample gone = open_fake().sample({.pci_bus_id = "00000000:99:00.0"});
  CHECK(gone.answer == DeviceAnswer::hidden);
  CHECK(gone.problem == "nvmlDeviceGetHandleByPciBusId_v2 of 00000000:99:00.0: Unknown Error");
}

TEST_CASE("the driver's own NVML knows the devices that CUDA does", "[nvml][device]") {
  if (!inventory().problem.empty()) {
    WARN("skipped: " << inventory().problem);
    return;
  }
  const auto nvml = Nvml::open();
  REQUIRE(nvml.status().text().empty());
  const auto devices = nvml->devices().value();
  for (const DeviceFacts& facts : inventory().devices) {
    if (!facts.problem.empty()) continue;
    INFO(facts.name << ' ' << facts.uuid << ' ' << facts.pci_bus_id);
    const ManagedDevice* const device = find_device(devices, facts);
    REQUIRE(device != nullptr);
    CHECK(device->pci_bus_id == facts.pci_bus_id);
    CHECK(device->memory_bytes.value_or(0) >= facts.memory_bytes);
    const DeviceSample sample = nvml->sample(facts);
    INFO(sample.problem);
    CHECK(sample.answer == DeviceAnswer::whole);
    CHECK(sample.temperature_celsius.value_or(50) < 110);
    CHECK(sample.power_watts.value_or(100) < 2'000);
    CHECK(check_health(facts.uuid, nullptr, sample).ok());
  }
}

}  // namespace
}  // namespace troupe::gpu
