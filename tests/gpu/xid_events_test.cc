// SPDX-License-Identifier: Apache-2.0
// What is heard of GPUs' errors, and of whose.
#include "gpu/xid_events.h"

#include "tests/gpu/fake_nvml.h"
#include "tests/support/catch.h"

namespace troupe::gpu {
namespace {

using test::FakeNvml;
using Xids = XidEvents::Xids;
using Numbers = std::vector<std::uint32_t>;

const std::string kTwo = "count 2\n0 pci 0 1 0\n0 events\n1 pci 0 2 0\n1 events\n";
const DeviceFacts kFirst{.uuid = "GPU-a", .pci_bus_id = "00000000:01:00.0"};
const DeviceFacts kSecond{.uuid = "GPU-b", .pci_bus_id = "00000000:02:00.0"};

Nvml open_fake() {
  return Nvml::open({FakeNvml::file()}).value();
}

TEST_CASE("errors are told once, of their devices, in their order", "[xid]") {
  const FakeNvml fake;
  fake.says(kTwo);
  {
    XidEvents events(open_fake(), {kSecond, kFirst});
    CHECK(fake.sessions() == 1);
    CHECK(events.take() == std::vector<Xids>{Numbers{}, Numbers{}});
    fake.reports(0, 79);
    fake.reports(1, 31);
    fake.reports(0, 45);
    CHECK(events.take() == std::vector<Xids>{Numbers{31}, Numbers{79, 45}});
    CHECK(events.take() == std::vector<Xids>{Numbers{}, Numbers{}});
  }
  CHECK(fake.event_sets() == 0);
  CHECK(fake.sessions() == 0);
  fake.reports(0, 79);
  XidEvents later(open_fake(), {kFirst});
  CHECK(later.take() == std::vector<Xids>{Numbers{}});  // nobody has listened
}

TEST_CASE("of very many errors some are left for the next time", "[xid]") {
  const FakeNvml fake;
  fake.says(kTwo);
  XidEvents events(open_fake(), {kFirst});
  for (int i = 0; i < XidEvents::kReadMax + 3; ++i) fake.reports(0, 13);
  CHECK(events.take()[0]->size() == XidEvents::kReadMax);
  CHECK(events.take()[0]->size() == 3);
}

TEST_CASE("a device is known by another handle of it, and strangers are left out", "[xid]") {
  const FakeNvml fake;
  fake.says(kTwo + "8 pci 0 1 0\n9 pci 0 9 0\n");
  XidEvents events(open_fake(), {kFirst, kSecond});
  fake.reports_as(0, 8, 48);
  fake.reports_as(0, 9, 62);
  fake.reports_as(0, 10, 64);  // tells no place
  CHECK(events.take() == std::vector<Xids>{Numbers{48}, Numbers{}});
}

TEST_CASE("of a slice errors are its own or the whole device's", "[xid]") {
  const FakeNvml fake;
  fake.says(kTwo +
            "7 uuid MIG-7\n7 gpu_instance 2\n7 compute_instance 1\n"
            "8 uuid MIG-8\n8 gpu_instance 3\n8 compute_instance 0\n9 uuid MIG-9\n");
  const auto slice = [](const char* uuid) {
    return DeviceFacts{.uuid = uuid, .pci_bus_id = kFirst.pci_bus_id};
  };
  XidEvents events(open_fake(), {slice("MIG-7"), slice("MIG-8"), slice("MIG-9")});
  fake.reports(0, 79);
  fake.reports(0, 94, 2);
  fake.reports(0, 13, 2, 1);
  fake.reports(0, 31, 2, 0);
  fake.reports(0, 43, 3, 0);
  fake.reports(0, 45, 4, 0);
  CHECK(events.take() == std::vector<Xids>{Numbers{79, 94, 13}, Numbers{79, 43}, Numbers{79}});
}

TEST_CASE("a device without events is not listened to, the others are", "[xid]") {
  const FakeNvml fake;
  fake.says("count 3\n0 pci 0 1 0\n1 pci 0 2 0\n1 events\n2 pci 0 3 0\n2 fails events 4\n");
  const DeviceFacts hidden{.pci_bus_id = "00000000:09:00.0"};
  const DeviceFacts forbidden{.pci_bus_id = "00000000:03:00.0"};
  XidEvents events(open_fake(), {kFirst, hidden, forbidden, kSecond});
  fake.reports(1, 13);
  CHECK(events.take() == std::vector<Xids>{std::nullopt, std::nullopt, std::nullopt, Numbers{13}});
}

TEST_CASE("a set of events in which something failed is given back", "[xid]") {
  const FakeNvml fake;
  fake.says(kTwo + "1 fails events 999\n");
  XidEvents events(open_fake(), {kFirst, kSecond});
  CHECK(fake.event_sets() == 0);
  CHECK(events.take() == std::vector<Xids>{std::nullopt, std::nullopt});
}

TEST_CASE("a library without events is listened to in vain", "[xid]") {
  const FakeNvml fake(FakeNvml::older_file());
  fake.says(kTwo);
  XidEvents events(Nvml::open({FakeNvml::older_file()}).value(), {kFirst});
  CHECK(events.take() == std::vector<Xids>{std::nullopt});
}

}  // namespace
}  // namespace troupe::gpu
