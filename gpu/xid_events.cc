// SPDX-License-Identifier: Apache-2.0
// NVML's event sets.
#include "gpu/xid_events.h"

#include <algorithm>

#include "gpu/device_id.h"
#include "gpu/nvml_session.h"

namespace troupe::gpu {
namespace {

using Code = NvmlCode;

constexpr unsigned long long kXidError = 8;   // the kind of event
constexpr std::uint32_t kWhole = 0xFFFFFFFF;  // in place of a slice's numbers
// The shortest wait that is one: what 0 means is documented nowhere.
constexpr std::uint32_t kWaitMs = 1;

}  // namespace

/// A device that is listened to, or not.
struct XidEvents::Source {
  NvmlHandle device = nullptr;                                   ///< the whole one; null: not
  std::optional<std::pair<std::uint32_t, std::uint32_t>> slice;  ///< GPU and compute instance

  bool has(const NvmlEvent& event) const {
    if (device != event.device) return false;
    if (!slice || event.gpu_instance == kWhole) return true;
    return event.gpu_instance == slice->first &&
           (event.compute_instance == kWhole || event.compute_instance == slice->second);
  }
};

/// Between nvmlEventSetCreate and nvmlEventSetFree.
struct XidEvents::EventSet {
  EventSet(std::shared_ptr<const NvmlSession> of, NvmlEventSet made)
      : session(std::move(of)), set(made) {}
  ~EventSet() { session->functions().free_event_set.ask(set); }
  EventSet(const EventSet&) = delete;
  EventSet& operator=(const EventSet&) = delete;

  const std::shared_ptr<const NvmlSession> session;
  const NvmlEventSet set;
};

namespace {

/// A slice's numbers. Where they are not told none is its own: its whole device's errors remain.
std::pair<std::uint32_t, std::uint32_t> slice_of(const NvmlFunctions& nvml,
                                                 const std::string& uuid) {
  NvmlHandle slice = nullptr;
  std::uint32_t gpu = kWhole, compute = kWhole;
  if (nvml.by_uuid.ask(uuid.c_str(), &slice) != Code::kSuccess ||
      nvml.gpu_instance.ask(slice, &gpu) != Code::kSuccess ||
      nvml.compute_instance.ask(slice, &compute) != Code::kSuccess) {
    return {kWhole, kWhole};
  }
  return {gpu, compute};
}

/// The handle by which the device of an event was asked for: the event may have another one.
NvmlHandle known_handle(const NvmlFunctions& nvml, NvmlHandle device) {
  NvmlPci pci{};
  if (nvml.pci.ask(device, &pci) != Code::kSuccess) return device;
  const std::string bus_id = pci_bus_id(pci.domain, pci.bus, pci.device);
  NvmlHandle known = nullptr;
  return nvml.by_bus_id.ask(bus_id.c_str(), &known) == Code::kSuccess ? known : device;
}

}  // namespace

XidEvents::XidEvents(const Nvml& nvml, const std::vector<DeviceFacts>& devices)
    : sources_(devices.size()) {
  const NvmlFunctions& functions = nvml.session()->functions();
  NvmlEventSet made = nullptr;
  if (functions.event_set.ask(&made) != Code::kSuccess) return;
  auto set = std::make_unique<EventSet>(nvml.session(), made);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    NvmlHandle device = nullptr;
    if (functions.by_bus_id.ask(devices[i].pci_bus_id.c_str(), &device) != Code::kSuccess) continue;
    const int code = listens_to(device) ? Code::kSuccess
                                        : functions.register_events.ask(device, kXidError, made);
    if (code == Code::kUnknown) return;  // the set is not to be used any more: NVML's manual
    if (code != Code::kSuccess) continue;
    sources_[i].device = device;
    if (names_slice(devices[i].uuid)) sources_[i].slice = slice_of(functions, devices[i].uuid);
  }
  set_ = std::move(set);
}

XidEvents::~XidEvents() = default;

bool XidEvents::listens_to(NvmlHandle device) const {
  return std::any_of(sources_.begin(), sources_.end(),
                     [device](const Source& each) { return each.device == device; });
}

std::vector<XidEvents::Xids> XidEvents::take() {
  std::vector<Xids> taken(sources_.size());
  if (!set_) return taken;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i].device != nullptr) taken[i].emplace();
  }
  const NvmlFunctions& nvml = set_->session->functions();
  for (int read = 0; read < kReadMax; ++read) {
    NvmlEvent event{};
    const int code = nvml.wait_event.ask(set_->set, &event, kWaitMs);
    broken_ = code != Code::kSuccess && code != Code::kTimeout;
    if (code != Code::kSuccess) break;
    if (event.kind != kXidError) continue;
    if (!listens_to(event.device)) event.device = known_handle(nvml, event.device);
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      if (taken[i] && sources_[i].has(event)) {
        taken[i]->push_back(static_cast<std::uint32_t>(event.data));
      }
    }
  }
  return taken;
}

}  // namespace troupe::gpu
