// SPDX-License-Identifier: Apache-2.0
// Whether a GPU may be trusted with work: the rule, a function of what it told at two successive
// looks. nvml.h asks it; cluster/device_watch.h acts on the answer. Plain data; any thread.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "gpu/inventory.h"

namespace troupe::gpu {

/// How a device answers.
enum class DeviceAnswer : std::uint8_t {
  whole,        ///< with all that it can tell
  none,         ///< an error that may pass, or no answer within the time
  needs_reset,  ///< it does nothing until it is reset
  lost,         ///< it has fallen off the bus
  gone,         ///< it is a slice (multi-instance GPU) that was shown before and is not any more
  sliced,       ///< it is cut into slices (multi-instance GPU), none of which was chosen
  hidden        ///< NVML has never shown it to this process, whatever CUDA does
};

/// Why the driver or the hardware runs a device slower than it could, by the names of `nvidia-smi
/// -q`, in the order of NVML's bits. That it has nothing to do, and clocks that people have set,
/// are no such reasons.
inline constexpr std::array<std::string_view, 6> kThrottleReasons = {
    "sw_power_cap",         // the limit of its power
    "hw_slowdown",          // half the clocks or less: one of the two below, or a peak of power
    "sync_boost",           // another one of its group is slower
    "sw_thermal_slowdown",  // it or its memory is as warm as it may be
    "hw_thermal_slowdown",  // it is too hot
    "hw_power_brake_slowdown"};  // the machine's power supply asks for it

/// Which of kThrottleReasons hold.
using ThrottleReasons = std::bitset<kThrottleReasons.size()>;

/// What a device told at one look. What is absent it cannot tell, or did not any more.
struct DeviceSample {
  DeviceAnswer answer = DeviceAnswer::whole;
  std::string problem;                       ///< why the answer is not whole
  std::optional<double> utilization;         ///< share of the time in which a kernel ran, 0 to 1
  std::optional<double> memory_utilization;  ///< the same of reads and writes of memory
  std::optional<std::uint64_t> memory_used_bytes;   ///< the driver's own included
  std::optional<std::uint64_t> memory_total_bytes;  ///< the same of all
  std::optional<double> power_watts;
  std::optional<double> temperature_celsius;
  std::optional<double> sm_clock_hertz;
  std::optional<std::uint64_t> uncorrectable_errors;  ///< of memory, since the last reset
  std::optional<std::uint64_t> correctable_errors;    ///< the same of those that harmed nothing
  std::optional<bool> rows_not_replaced;     ///< a bad row of memory found no spare one, ever
  std::optional<bool> rows_await_reset;      ///< a bad row gets its spare one at the next reset
  std::optional<ThrottleReasons> throttled;  ///< at this moment
  std::optional<double> power_violation_seconds;    ///< of low clocks for power, ever
  std::optional<double> thermal_violation_seconds;  ///< the same for heat
  /// XID errors since the look before, the oldest first; absent: nobody has listened.
  std::optional<std::vector<std::uint32_t>> xids;

  friend bool operator==(const DeviceSample&, const DeviceSample&) = default;
};

/// "GPU 2 (NVIDIA H100, GPU-...)", by its Device::index.
std::string device_text(std::int32_t index, const DeviceFacts& facts);

/// Ok: the device `who` is in service after it told `now`, and `before` at the look before (null:
/// this is the first one). Else failed_precondition says why not. Memory with an uncorrectable
/// error is not to be trusted until a reset, which sets the counter to 0, whenever the error was. A
/// device that is lost, sliced or needs a reset says so at once; one without an answer is out of
/// service at the second such look, and until then what `before` says of it stands; at the first
/// look nobody has said anything of it, and it is out.
base::Status check_health(const std::string& who, const DeviceSample* before,
                          const DeviceSample& now);

}  // namespace troupe::gpu
