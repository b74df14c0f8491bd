// SPDX-License-Identifier: Apache-2.0
// NVML's functions by name, as far as they are used, and a session with them. The interface is
// declared here: it is stable, and the build needs no header of NVIDIA's.
// Private to this folder.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "gpu/shared_library.h"

namespace troupe::gpu {

/// What functions return, of the many values those that mean something here.
struct NvmlCode {
  static constexpr int kSuccess = 0;
  static constexpr int kNotSupported = 3;
  static constexpr int kNoPermission = 4;
  static constexpr int kNotFound = 6;
  static constexpr int kTimeout = 10;
  static constexpr int kFunctionNotFound = 13;
  static constexpr int kGpuIsLost = 15;
  static constexpr int kResetRequired = 16;
  static constexpr int kNoData = 21;
  static constexpr int kUnknown = 999;
};

/// A device, or a slice of one.
using NvmlHandle = struct OpaqueNvmlDevice*;
/// Where events of some devices are collected.
using NvmlEventSet = struct OpaqueNvmlEventSet*;

/// A device's place on the bus.
struct NvmlPci {
  char legacy_id[16];
  std::uint32_t domain, bus, device;
  std::uint32_t kind, subsystem;
  char id[32];
};
/// Bytes of memory.
struct NvmlMemory {
  unsigned long long total, free, used;
};
/// Percent of the time.
struct NvmlUtilization {
  std::uint32_t gpu, memory;
};
/// How long a policy has held clocks down.
struct NvmlViolation {
  unsigned long long now_us, held_ns;
};
/// Something that has happened to a device.
struct NvmlEvent {
  NvmlHandle device;
  unsigned long long kind, data;
  std::uint32_t gpu_instance, compute_instance;  ///< all bits set: of the whole device
};
static_assert(sizeof(NvmlPci) == 68 && sizeof(NvmlMemory) == 24 && sizeof(NvmlUtilization) == 8);
static_assert(sizeof(NvmlViolation) == 16 && sizeof(NvmlEvent) == 32);

/// A function of the library.
template <typename F>
struct NvmlFunction {
  const char* name;
  F* call = nullptr;  ///< null: the library has none of this name

  base::Status find(const SharedLibrary& library) {
    TROUPE_TRY_ASSIGN(call, library.function<F>(name));
    return {};
  }
  template <typename... Args>
  int ask(Args... args) const {
    return call != nullptr ? call(args...) : NvmlCode::kFunctionNotFound;
  }
};

/// The functions. Nothing goes without the first six; of the others a driver may have none.
struct NvmlFunctions {
  template <typename F>
  using Function = NvmlFunction<F>;
  using Handle = NvmlHandle;
  using Text = char*;
  using Count = std::uint32_t*;
  using Wide = unsigned long long*;

  Function<int()> init{"nvmlInit_v2"};
  Function<int()> shutdown{"nvmlShutdown"};
  Function<const char*(int)> error_text{"nvmlErrorString"};
  Function<int(Count)> count{"nvmlDeviceGetCount_v2"};
  Function<int(std::uint32_t, Handle*)> by_index{"nvmlDeviceGetHandleByIndex_v2"};
  Function<int(const char*, Handle*)> by_bus_id{"nvmlDeviceGetHandleByPciBusId_v2"};
  Function<int(const char*, Handle*)> by_uuid{"nvmlDeviceGetHandleByUUID"};
  Function<int(Handle, Text, std::uint32_t)> name{"nvmlDeviceGetName"};
  Function<int(Handle, Text, std::uint32_t)> uuid{"nvmlDeviceGetUUID"};
  Function<int(Handle, NvmlPci*)> pci{"nvmlDeviceGetPciInfo_v3"};
  Function<int(Handle, std::uint32_t, unsigned long*)> cpus{"nvmlDeviceGetCpuAffinity"};
  Function<int(Handle, Count, Count)> mig_mode{"nvmlDeviceGetMigMode"};
  Function<int(Handle, Count)> slices_max{"nvmlDeviceGetMaxMigDeviceCount"};
  Function<int(Handle, std::uint32_t, Handle*)> slice{"nvmlDeviceGetMigDeviceHandleByIndex"};
  Function<int(Handle, Count)> gpu_instance{"nvmlDeviceGetGpuInstanceId"};
  Function<int(Handle, Count)> compute_instance{"nvmlDeviceGetComputeInstanceId"};
  Function<int(Handle, NvmlMemory*)> memory{"nvmlDeviceGetMemoryInfo"};
  Function<int(Handle, NvmlUtilization*)> utilization{"nvmlDeviceGetUtilizationRates"};
  Function<int(Handle, Count)> power{"nvmlDeviceGetPowerUsage"};
  Function<int(Handle, int, Count)> temperature{"nvmlDeviceGetTemperature"};
  Function<int(Handle, int, Count)> clock{"nvmlDeviceGetClockInfo"};
  Function<int(Handle, Wide)> clock_reasons{"nvmlDeviceGetCurrentClocksEventReasons"};
  Function<int(Handle, int, NvmlViolation*)> violation{"nvmlDeviceGetViolationStatus"};
  Function<int(Handle, int, int, Wide)> errors{"nvmlDeviceGetTotalEccErrors"};
  Function<int(Handle, Count, Count, Count, Count)> rows{"nvmlDeviceGetRemappedRows"};
  Function<int(NvmlEventSet*)> event_set{"nvmlEventSetCreate"};
  Function<int(NvmlEventSet)> free_event_set{"nvmlEventSetFree"};
  Function<int(Handle, unsigned long long, NvmlEventSet)> register_events{
      "nvmlDeviceRegisterEvents"};
  Function<int(NvmlEventSet, NvmlEvent*, std::uint32_t)> wait_event{"nvmlEventSetWait_v2"};
};

/// Between nvmlInit and nvmlShutdown.
class NvmlSession {
 public:
  /// See Nvml::open.
  static base::Result<std::shared_ptr<const NvmlSession>> open(
      const std::vector<std::string>& files);
  ~NvmlSession() { functions_.shutdown.call(); }
  NvmlSession(const NvmlSession&) = delete;
  NvmlSession& operator=(const NvmlSession&) = delete;

  const NvmlFunctions& functions() const { return functions_; }
  std::string error_text(int code) const { return error_text(functions_, code); }
  /// "libnvidia-ml.so.1: nvmlDeviceGetCount_v2: Driver Not Loaded".
  std::string problem(const char* function, int code) const {
    return problem(functions_, file_, function, code);
  }

 private:
  NvmlSession(const NvmlFunctions& functions, std::string file)
      : functions_(functions), file_(std::move(file)) {}
  static std::string error_text(const NvmlFunctions& functions, int code);
  static std::string problem(const NvmlFunctions& functions, const std::string& file,
                             const char* function, int code) {
    return fmt::format("{}: {}: {}", file, function, error_text(functions, code));
  }

  const NvmlFunctions functions_;
  const std::string file_;
};

}  // namespace troupe::gpu
