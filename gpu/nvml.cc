// SPDX-License-Identifier: Apache-2.0
// What NVML's numbers mean.
#include "gpu/nvml.h"

#include <string.h>

#include <algorithm>
#include <array>

#include "gpu/device_id.h"
#include "gpu/nvml_session.h"

namespace troupe::gpu {
namespace {

using base::Errc;
using base::Result;
using base::Status;

using Code = NvmlCode;
using Handle = NvmlHandle;
template <typename F>
using Function = NvmlFunction<F>;

// Arguments of functions.
constexpr int kSensorOfDie = 0;
constexpr int kClockOfSm = 1;
constexpr int kCorrected = 0;
constexpr int kUncorrected = 1;
constexpr int kSinceReset = 0;
constexpr int kPolicyOfPower = 0;
constexpr int kPolicyOfHeat = 1;

constexpr std::size_t kTextBytes = 96;  // the longest that names and UUIDs need
constexpr std::uint32_t kCpusMax = 4'096;
constexpr std::uint32_t kDevicesMax = 256;  // of a machine, and slices of a device
constexpr std::uint32_t kWordBits = 64;
constexpr unsigned kFirstThrottleBit = 2;  // below are idleness and clocks that people have set

/// Nothing is wrong where a device has no such value, or none for this process.
bool tells_nothing(int code) {
  return code == Code::kNotSupported || code == Code::kNoPermission ||
         code == Code::kFunctionNotFound || code == Code::kNoData;
}

DeviceAnswer answer_of(int code) {
  if (code == Code::kGpuIsLost) return DeviceAnswer::lost;
  if (code == Code::kNotFound || code == Code::kNoPermission) return DeviceAnswer::hidden;
  return code == Code::kResetRequired ? DeviceAnswer::needs_reset : DeviceAnswer::none;
}

}  // namespace

Result<Nvml> Nvml::open(const std::vector<std::string>& files) {
  TROUPE_TRY_ASSIGN(std::shared_ptr<const NvmlSession> session, NvmlSession::open(files));
  return Nvml(std::move(session));
}

// ---- devices ----

namespace {

/// One device's answers to questions whose answers it may not know.
class Asking {
 public:
  explicit Asking(Handle device) : device_(device) {}

  /// Whether the function has told something.
  template <typename F, typename... Args>
  bool tells(const Function<F>& function, Args... args) const {
    return function.ask(device_, args...) == Code::kSuccess;
  }
  std::string text(const Function<int(Handle, char*, std::uint32_t)>& function) const {
    std::array<char, kTextBytes> text{};
    if (!tells(function, text.data(), static_cast<std::uint32_t>(kTextBytes))) return "";
    return {text.data(), ::strnlen(text.data(), text.size())};
  }

 private:
  const Handle device_;
};

std::vector<std::uint32_t> near_cpus(const NvmlFunctions& nvml, const Asking& device) {
  std::array<unsigned long, kCpusMax / kWordBits> words{};
  std::vector<std::uint32_t> cpus;
  if (!device.tells(nvml.cpus, static_cast<std::uint32_t>(words.size()), words.data())) return cpus;
  for (std::uint32_t cpu = 0; cpu < kCpusMax; ++cpu) {
    if ((words[cpu / kWordBits] >> (cpu % kWordBits) & 1) != 0) cpus.push_back(cpu);
  }
  return cpus;
}

/// Places for slices are numbered; some are free.
std::vector<MigSlice> slices(const NvmlFunctions& nvml, const Asking& device) {
  std::vector<MigSlice> found;
  std::uint32_t most = 0;
  if (!device.tells(nvml.slices_max, &most)) return found;
  for (std::uint32_t i = 0; i < std::min(most, kDevicesMax); ++i) {
    Handle handle = nullptr;
    if (!device.tells(nvml.slice, i, &handle)) continue;
    const Asking slice(handle);
    found.push_back({slice.text(nvml.name), slice.text(nvml.uuid)});
  }
  return found;
}

ManagedDevice describe(const NvmlFunctions& nvml, std::uint32_t index, const Asking& device) {
  ManagedDevice made;
  made.index = index;
  made.name = device.text(nvml.name);
  made.uuid = device.text(nvml.uuid);
  if (NvmlPci pci{}; device.tells(nvml.pci, &pci)) {
    made.pci_bus_id = pci_bus_id(pci.domain, pci.bus, pci.device);
  }
  if (NvmlMemory memory{}; device.tells(nvml.memory, &memory)) made.memory_bytes = memory.total;
  std::uint32_t mig = 0, later = 0;
  if (device.tells(nvml.mig_mode, &mig, &later)) made.mig = mig != 0;
  if (made.mig.value_or(false)) made.slices = slices(nvml, device);
  made.near_cpus = near_cpus(nvml, device);
  return made;
}

}  // namespace

Result<std::vector<ManagedDevice>> Nvml::devices() const {
  const NvmlFunctions& nvml = session_->functions();
  std::uint32_t count = 0;
  if (const int code = nvml.count.ask(&count); code != Code::kSuccess) {
    return Status(Errc::failed_precondition, session_->problem(nvml.count.name, code));
  }
  std::vector<ManagedDevice> found;
  for (std::uint32_t i = 0; i < std::min(count, kDevicesMax); ++i) {
    Handle handle = nullptr;
    if (nvml.by_index.ask(i, &handle) != Code::kSuccess) continue;
    found.push_back(describe(nvml, i, Asking(handle)));
  }
  return found;
}

const ManagedDevice* find_device(std::span<const ManagedDevice> devices, const DeviceFacts& facts) {
  const auto first = [devices](const std::string ManagedDevice::*member, const std::string& value) {
    const auto found = std::find_if(devices.begin(), devices.end(), [&](const ManagedDevice& each) {
      return !value.empty() && each.*member == value;
    });
    return found == devices.end() ? nullptr : &*found;
  };
  const ManagedDevice* const same = first(&ManagedDevice::uuid, facts.uuid);
  return same != nullptr ? same : first(&ManagedDevice::pci_bus_id, facts.pci_bus_id);
}

// ---- samples ----

namespace {

/// Fills a sample. After the first error that means something nothing more is asked: a device in
/// trouble answers slowly.
class Sampling {
 public:
  Sampling(const NvmlSession& nvml, const std::string& bus_id) : nvml_(nvml), bus_id_(bus_id) {}

  template <typename F, typename... Args>
  bool ask(const Function<F>& function, Args... args) {
    if (sample.answer != DeviceAnswer::whole) return false;
    const int code = function.ask(args...);
    if (code == Code::kSuccess) return true;
    if (!tells_nothing(code)) fail(function.name, code);
    return false;
  }
  /// Of what says nothing of the device's health: no error of the function is one of the device.
  template <typename F, typename... Args>
  bool ask_beside(const Function<F>& function, Args... args) const {
    return sample.answer == DeviceAnswer::whole && function.ask(args...) == Code::kSuccess;
  }
  void fail(const char* function, int code) {
    sample.answer = answer_of(code);
    sample.problem = fmt::format("{} of {}: {}", function, bus_id_, nvml_.error_text(code));
  }

  DeviceSample sample;

 private:
  const NvmlSession& nvml_;
  const std::string& bus_id_;
};

void ask_errors(const NvmlFunctions& nvml, Handle device, Sampling& sampling) {
  DeviceSample& sample = sampling.sample;
  unsigned long long errors = 0;
  if (sampling.ask(nvml.errors, device, kUncorrected, kSinceReset, &errors)) {
    sample.uncorrectable_errors = errors;
  }
  if (sampling.ask(nvml.errors, device, kCorrected, kSinceReset, &errors)) {
    sample.correctable_errors = errors;
  }
  std::uint32_t corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  if (sampling.ask(nvml.rows, device, &corrected, &uncorrected, &pending, &failed)) {
    sample.rows_not_replaced = failed != 0;
    sample.rows_await_reset = pending != 0;
  }
}

/// Of the device, or of the slice of it that the process has.
void ask_memory(const NvmlFunctions& nvml, Handle device, const std::string& uuid,
                Sampling& sampling) {
  if (names_slice(uuid) && !sampling.ask(nvml.by_uuid, uuid.c_str(), &device)) return;
  NvmlMemory memory{};
  if (!sampling.ask(nvml.memory, device, &memory)) return;
  sampling.sample.memory_used_bytes = memory.used;
  sampling.sample.memory_total_bytes = memory.total;
}

void ask_state(const NvmlFunctions& nvml, Handle device, Sampling& sampling) {
  DeviceSample& sample = sampling.sample;
  if (NvmlUtilization busy{}; sampling.ask(nvml.utilization, device, &busy)) {
    sample.utilization = busy.gpu / 100.0;
    sample.memory_utilization = busy.memory / 100.0;
  }
  std::uint32_t number = 0;
  if (sampling.ask(nvml.power, device, &number)) sample.power_watts = number / 1e3;
  if (sampling.ask(nvml.temperature, device, kSensorOfDie, &number)) {
    sample.temperature_celsius = number;
  }
  if (sampling.ask(nvml.clock, device, kClockOfSm, &number)) sample.sm_clock_hertz = number * 1e6;
}

void ask_throttling(const NvmlFunctions& nvml, Handle device, Sampling& sampling) {
  DeviceSample& sample = sampling.sample;
  unsigned long long reasons = 0;
  if (sampling.ask_beside(nvml.clock_reasons, device, &reasons)) {
    sample.throttled = ThrottleReasons(reasons >> kFirstThrottleBit);
  }
  NvmlViolation violation{};
  if (sampling.ask_beside(nvml.violation, device, kPolicyOfPower, &violation)) {
    sample.power_violation_seconds = static_cast<double>(violation.held_ns) / 1e9;
  }
  if (sampling.ask_beside(nvml.violation, device, kPolicyOfHeat, &violation)) {
    sample.thermal_violation_seconds = static_cast<double>(violation.held_ns) / 1e9;
  }
}

}  // namespace

DeviceSample Nvml::sample(const DeviceFacts& facts) const {
  const NvmlFunctions& nvml = session_->functions();
  Sampling sampling(*session_, facts.pci_bus_id);
  Handle device = nullptr;
  if (const int code = nvml.by_bus_id.ask(facts.pci_bus_id.c_str(), &device);
      code != Code::kSuccess) {
    sampling.fail(nvml.by_bus_id.name, code);
    return sampling.sample;
  }
  std::uint32_t sliced = 0, later = 0;
  if (sampling.ask(nvml.mig_mode, device, &sliced, &later) && sliced != 0 &&
      !names_slice(facts.uuid)) {
    sampling.sample.answer = DeviceAnswer::sliced;
    return sampling.sample;
  }
  ask_errors(nvml, device, sampling);
  ask_memory(nvml, device, facts.uuid, sampling);
  ask_state(nvml, device, sampling);
  ask_throttling(nvml, device, sampling);
  return sampling.sample;
}

}  // namespace troupe::gpu
