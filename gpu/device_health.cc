// SPDX-License-Identifier: Apache-2.0
// The rule and its sentences.
#include "gpu/device_health.h"

#include <fmt/format.h>

#include "base/units.h"

namespace troupe::gpu {

using base::Errc;

std::string device_text(std::int32_t index, const DeviceFacts& facts) {
  return fmt::format("GPU {} ({}, {})", index, facts.name, facts.uuid);
}

base::Status check_health(const std::string& who, const DeviceSample* before,
                          const DeviceSample& now) {
  switch (now.answer) {
    case DeviceAnswer::lost:
      return base::error(Errc::failed_precondition, "{} has fallen off the bus", who);
    case DeviceAnswer::gone:
      return base::error(Errc::failed_precondition,
                         "{} is not there any more: its GPU has been cut anew (MIG)", who);
    case DeviceAnswer::needs_reset:
      return base::error(Errc::failed_precondition, "{} needs a reset", who);
    case DeviceAnswer::sliced:
      return base::error(Errc::failed_precondition,
                         "{} is cut into slices (MIG): CUDA_VISIBLE_DEVICES must name one, as "
                         "`nvidia-smi -L` shows it",
                         who);
    case DeviceAnswer::none:
      if (before != nullptr && before->answer != DeviceAnswer::none) {
        return check_health(who, nullptr, *before);
      }
      return base::error(Errc::failed_precondition, "{} does not answer: {}", who, now.problem);
    case DeviceAnswer::whole:
    case DeviceAnswer::hidden:
      break;
  }
  const std::uint64_t errors = now.uncorrectable_errors.value_or(0);
  if (errors == 0) return {};
  return base::error(Errc::failed_precondition, "{} has {}", who,
                     base::format_counted(errors, "uncorrectable memory error"));
}

}  // namespace troupe::gpu
