// SPDX-License-Identifier: Apache-2.0
// NVML's functions by name, and what its numbers mean. Its interface is declared here, as far as it
// is used: it is stable, and the build needs no header of NVIDIA's.
#include "gpu/nvml.h"

#include <string.h>

#include <algorithm>
#include <array>

#include "gpu/device_id.h"
#include "gpu/shared_library.h"

namespace troupe::gpu {
namespace {

using base::Errc;
using base::Result;
using base::Status;

// What functions return, of the many values those that mean something here.
constexpr int kSuccess = 0;
constexpr int kNotSupported = 3;
constexpr int kNoPermission = 4;
constexpr int kNotFound = 6;
constexpr int kFunctionNotFound = 13;
constexpr int kGpuIsLost = 15;
constexpr int kResetRequired = 16;
constexpr int kNoData = 21;

// Arguments of functions.
constexpr int kSensorOfDie = 0;
constexpr int kClockOfSm = 1;
constexpr int kCorrected = 0;
constexpr int kUncorrected = 1;
constexpr int kSinceReset = 0;

constexpr std::size_t kTextBytes = 96;  // the longest that names and UUIDs need
constexpr std::uint32_t kCpusMax = 4'096;
constexpr std::uint32_t kDevicesMax = 256;  // of a machine, and slices of a device
constexpr std::uint32_t kWordBits = 64;

using Handle = struct OpaqueDevice*;

struct PciInfo {
  char legacy_id[16];
  std::uint32_t domain, bus, device;
  std::uint32_t kind, subsystem;
  char id[32];
};
struct Memory {
  unsigned long long total, free, used;
};
struct Utilization {
  std::uint32_t gpu, memory;  // percent
};
static_assert(sizeof(PciInfo) == 68 && sizeof(Memory) == 24 && sizeof(Utilization) == 8);

/// A function of the library.
template <typename F>
struct Function {
  const char* name;
  F* call = nullptr;  ///< null: the library has none of this name

  Status find(const SharedLibrary& library) {
    TROUPE_TRY_ASSIGN(call, library.function<F>(name));
    return {};
  }
  template <typename... Args>
  int ask(Args... args) const {
    return call != nullptr ? call(args...) : kFunctionNotFound;
  }
};

using Text = char*;
using Count = std::uint32_t*;

struct Functions {
  Function<int()> init{"nvmlInit_v2"};
  Function<int()> shutdown{"nvmlShutdown"};
  Function<const char*(int)> error_text{"nvmlErrorString"};
  Function<int(Count)> count{"nvmlDeviceGetCount_v2"};
  Function<int(std::uint32_t, Handle*)> by_index{"nvmlDeviceGetHandleByIndex_v2"};
  Function<int(const char*, Handle*)> by_bus_id{"nvmlDeviceGetHandleByPciBusId_v2"};
  Function<int(const char*, Handle*)> by_uuid{"nvmlDeviceGetHandleByUUID"};
  Function<int(Handle, Text, std::uint32_t)> name{"nvmlDeviceGetName"};
  Function<int(Handle, Text, std::uint32_t)> uuid{"nvmlDeviceGetUUID"};
  Function<int(Handle, PciInfo*)> pci{"nvmlDeviceGetPciInfo_v3"};
  Function<int(Handle, std::uint32_t, unsigned long*)> cpus{"nvmlDeviceGetCpuAffinity"};
  Function<int(Handle, Count, Count)> mig_mode{"nvmlDeviceGetMigMode"};
  Function<int(Handle, Count)> slices_max{"nvmlDeviceGetMaxMigDeviceCount"};
  Function<int(Handle, std::uint32_t, Handle*)> slice{"nvmlDeviceGetMigDeviceHandleByIndex"};
  Function<int(Handle, Memory*)> memory{"nvmlDeviceGetMemoryInfo"};
  Function<int(Handle, Utilization*)> utilization{"nvmlDeviceGetUtilizationRates"};
  Function<int(Handle, Count)> power{"nvmlDeviceGetPowerUsage"};
  Function<int(Handle, int, Count)> temperature{"nvmlDeviceGetTemperature"};
  Function<int(Handle, int, Count)> clock{"nvmlDeviceGetClockInfo"};
  Function<int(Handle, int, int, unsigned long long*)> errors{"nvmlDeviceGetTotalEccErrors"};
  Function<int(Handle, Count, Count, Count, Count)> rows{"nvmlDeviceGetRemappedRows"};
};

/// The first function that is missing is the error.
template <typename... F>
Status find_all(const SharedLibrary& library, Function<F>&... functions) {
  Status found;
  ((found = found.ok() ? functions.find(library) : found), ...);
  return found;
}

/// Drivers before some, or after some, lack these.
template <typename... F>
void find_some(const SharedLibrary& library, Function<F>&... functions) {
  (static_cast<void>(functions.find(library)), ...);
}

Result<Functions> find_functions(const SharedLibrary& library) {
  Functions f;
  TROUPE_TRY(find_all(library, f.init, f.shutdown, f.error_text, f.count, f.by_index, f.by_bus_id));
  find_some(library, f.by_uuid, f.name, f.uuid, f.pci, f.cpus, f.mig_mode, f.slices_max, f.slice,
            f.memory, f.utilization, f.power, f.temperature, f.clock, f.errors, f.rows);
  return f;
}

/// Nothing is wrong where a device has no such value, or none for this process.
bool tells_nothing(int code) {
  return code == kNotSupported || code == kNoPermission || code == kFunctionNotFound ||
         code == kNoData;
}

std::string error_text(const Functions& nvml, int code) {
  const char* const text = nvml.error_text.call(code);
  return text != nullptr ? text : fmt::format("error {}", code);
}

DeviceAnswer answer_of(int code) {
  if (code == kGpuIsLost) return DeviceAnswer::lost;
  if (code == kNotFound || code == kNoPermission) return DeviceAnswer::hidden;
  return code == kResetRequired ? DeviceAnswer::needs_reset : DeviceAnswer::none;
}

}  // namespace

/// Between nvmlInit and nvmlShutdown.
class Nvml::Session {
 public:
  Session(const Functions& functions, std::string file)
      : functions_(functions), file_(std::move(file)) {}
  ~Session() { functions_.shutdown.call(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const Functions& functions() const { return functions_; }
  /// "libnvidia-ml.so.1: nvmlInit_v2: Driver Not Loaded".
  static std::string problem(const Functions& functions, const std::string& what,
                             const char* function, int code) {
    return fmt::format("{}: {}: {}", what, function, error_text(functions, code));
  }
  std::string problem(const char* function, int code) const {
    return problem(functions_, file_, function, code);
  }

 private:
  const Functions functions_;
  const std::string file_;
};

Result<Nvml> Nvml::open(const std::vector<std::string>& files) {
  TROUPE_TRY_ASSIGN(const SharedLibrary library, SharedLibrary::open_of_system(files));
  TROUPE_TRY_ASSIGN(const Functions functions, find_functions(library));
  if (const int code = functions.init.call(); code != kSuccess) {
    return Status(Errc::failed_precondition,
                  Session::problem(functions, library.file(), functions.init.name, code));
  }
  return Nvml(std::make_shared<const Session>(functions, library.file()));
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
    return function.ask(device_, args...) == kSuccess;
  }
  std::string text(const Function<int(Handle, Text, std::uint32_t)>& function) const {
    std::array<char, kTextBytes> text{};
    if (!tells(function, text.data(), static_cast<std::uint32_t>(kTextBytes))) return "";
    return {text.data(), ::strnlen(text.data(), text.size())};
  }

 private:
  const Handle device_;
};

std::vector<std::uint32_t> near_cpus(const Functions& nvml, const Asking& device) {
  std::array<unsigned long, kCpusMax / kWordBits> words{};
  std::vector<std::uint32_t> cpus;
  if (!device.tells(nvml.cpus, static_cast<std::uint32_t>(words.size()), words.data())) return cpus;
  for (std::uint32_t cpu = 0; cpu < kCpusMax; ++cpu) {
    if ((words[cpu / kWordBits] >> (cpu % kWordBits) & 1) != 0) cpus.push_back(cpu);
  }
  return cpus;
}

/// Places for slices are numbered; some are free.
std::vector<MigSlice> slices(const Functions& nvml, const Asking& device) {
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

ManagedDevice describe(const Functions& nvml, std::uint32_t index, const Asking& device) {
  ManagedDevice made;
  made.index = index;
  made.name = device.text(nvml.name);
  made.uuid = device.text(nvml.uuid);
  if (PciInfo pci{}; device.tells(nvml.pci, &pci)) {
    made.pci_bus_id = pci_bus_id(pci.domain, pci.bus, pci.device);
  }
  if (Memory memory{}; device.tells(nvml.memory, &memory)) made.memory_bytes = memory.total;
  std::uint32_t mig = 0, later = 0;
  if (device.tells(nvml.mig_mode, &mig, &later)) made.mig = mig != 0;
  if (made.mig.value_or(false)) made.slices = slices(nvml, device);
  made.near_cpus = near_cpus(nvml, device);
  return made;
}

}  // namespace

Result<std::vector<ManagedDevice>> Nvml::devices() const {
  const Functions& nvml = session_->functions();
  std::uint32_t count = 0;
  if (const int code = nvml.count.ask(&count); code != kSuccess) {
    return Status(Errc::failed_precondition, session_->problem(nvml.count.name, code));
  }
  std::vector<ManagedDevice> found;
  for (std::uint32_t i = 0; i < std::min(count, kDevicesMax); ++i) {
    Handle handle = nullptr;
    if (nvml.by_index.ask(i, &handle) != kSuccess) continue;
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
  Sampling(const Functions& nvml, const std::string& bus_id) : nvml_(nvml), bus_id_(bus_id) {}

  template <typename F, typename... Args>
  bool ask(const Function<F>& function, Args... args) {
    if (sample.answer != DeviceAnswer::whole) return false;
    const int code = function.ask(args...);
    if (code == kSuccess) return true;
    if (!tells_nothing(code)) fail(function.name, code);
    return false;
  }
  void fail(const char* function, int code) {
    sample.answer = answer_of(code);
    sample.problem = fmt::format("{} of {}: {}", function, bus_id_, error_text(nvml_, code));
  }

  DeviceSample sample;

 private:
  const Functions& nvml_;
  const std::string& bus_id_;
};

void ask_errors(const Functions& nvml, Handle device, Sampling& sampling) {
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
void ask_memory(const Functions& nvml, Handle device, const std::string& uuid, Sampling& sampling) {
  if (names_slice(uuid) && !sampling.ask(nvml.by_uuid, uuid.c_str(), &device)) return;
  Memory memory{};
  if (!sampling.ask(nvml.memory, device, &memory)) return;
  sampling.sample.memory_used_bytes = memory.used;
  sampling.sample.memory_total_bytes = memory.total;
}

void ask_state(const Functions& nvml, Handle device, Sampling& sampling) {
  DeviceSample& sample = sampling.sample;
  if (Utilization busy{}; sampling.ask(nvml.utilization, device, &busy)) {
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

}  // namespace

DeviceSample Nvml::sample(const DeviceFacts& facts) const {
  const Functions& nvml = session_->functions();
  Sampling sampling(nvml, facts.pci_bus_id);
  Handle device = nullptr;
  if (const int code = nvml.by_bus_id.ask(facts.pci_bus_id.c_str(), &device); code != kSuccess) {
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
  return sampling.sample;
}

}  // namespace troupe::gpu
