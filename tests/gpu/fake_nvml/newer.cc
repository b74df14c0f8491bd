// SPDX-License-Identifier: Apache-2.0
// What newer libraries have: reasons of clocks by their new name, violations, events. Events go to
// the sets in which their device is registered when they come, and nowhere else.
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "tests/gpu/fake_nvml/answers.h"

namespace {

using namespace troupe::gpu::test;  // NOLINT: the library's own

struct Event {
  Handle device;
  unsigned long long kind, data;
  std::uint32_t gpu_instance, compute_instance;
};
struct EventSet {
  std::set<Handle> devices;
  std::deque<Event> events;
};
std::map<EventSet*, std::unique_ptr<EventSet>> sets;

}  // namespace

extern "C" {

struct FakeViolation {
  unsigned long long now, held;
};

/// The device is the one of the event; `as` is the number of the handle that the event names it by.
void fake_nvml_reports(int device, int as, int xid, std::uint32_t gpu_instance,
                       std::uint32_t compute_instance) {
  const auto number = [](int of) { return handle_of(static_cast<std::uint64_t>(of)); };
  for (const auto& [set, owned] : sets) {
    if (!set->devices.contains(number(device))) continue;
    set->events.push_back(
        {number(as), 8, static_cast<unsigned long long>(xid), gpu_instance, compute_instance});
  }
}
int fake_nvml_event_sets() {
  return static_cast<int>(sets.size());
}

int nvmlDeviceGetCurrentClocksEventReasons(Handle device, unsigned long long* reasons) {
  return read(device, "reasons", reasons);
}
int nvmlDeviceGetViolationStatus(Handle device, int policy, FakeViolation* violation) {
  return policy <= 1 ? read(device, policy == 0 ? "power_held" : "heat_held", &violation->held) : 2;
}
int nvmlDeviceGetGpuInstanceId(Handle slice, std::uint32_t* id) {
  return read(slice, "gpu_instance", id);
}
int nvmlDeviceGetComputeInstanceId(Handle slice, std::uint32_t* id) {
  return read(slice, "compute_instance", id);
}
int nvmlEventSetCreate(EventSet** set) {
  auto made = std::make_unique<EventSet>();
  *set = made.get();
  sets[*set] = std::move(made);
  return kSuccess;
}
int nvmlEventSetFree(EventSet* set) {
  sets.erase(set);
  return kSuccess;
}
int nvmlDeviceRegisterEvents(Handle device, unsigned long long kinds, EventSet* set) {
  std::istringstream answer;
  const int code = ask(device, "events", answer);
  if (code == kSuccess && kinds == 8) set->devices.insert(device);
  return code;
}
int nvmlEventSetWait_v2(EventSet* set, Event* event, std::uint32_t /*milliseconds*/) {
  if (const int code = global("wait", kSuccess); code != kSuccess) return code;
  if (set->events.empty()) return kTimeout;
  *event = set->events.front();
  set->events.pop_front();
  return kSuccess;
}

}  // extern "C"
