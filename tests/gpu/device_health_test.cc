// SPDX-License-Identifier: Apache-2.0
// When a GPU is out of service, and when it comes back.
#include "gpu/device_health.h"

#include "tests/support/catch.h"

namespace troupe::gpu {
namespace {

const std::string kWho = device_text(2, {.name = "NVIDIA H100", .uuid = "GPU-1"});

DeviceSample counted(std::uint64_t errors) {
  return {.uncorrectable_errors = errors};
}
DeviceSample answered(DeviceAnswer answer) {
  return {.answer = answer, .problem = "nvmlX of 1B: Unknown Error"};
}
/// Empty: in service.
std::string verdict(const DeviceSample& before, const DeviceSample& now) {
  return check_health(kWho, &before, now).text();
}

TEST_CASE("uncorrectable errors take a GPU out of service, whenever they were", "[device_health]") {
  CHECK(check_health(kWho, nullptr, counted(0)).ok());
  CHECK(check_health(kWho, nullptr, {}).ok());  // does not count
  const base::Status first = check_health(kWho, nullptr, counted(1));
  CHECK(first.code() == base::Errc::failed_precondition);
  CHECK(first.text() == "GPU 2 (NVIDIA H100, GPU-1) has 1 uncorrectable memory error");
  CHECK(verdict(counted(0), counted(3)) ==
        "GPU 2 (NVIDIA H100, GPU-1) has 3 uncorrectable memory errors");
  CHECK_FALSE(verdict(counted(3), counted(3)).empty());
  CHECK(verdict(counted(3), counted(0)).empty());  // it was reset
  CHECK(verdict(counted(0), {.correctable_errors = 7}).empty());
}

TEST_CASE("a GPU that is lost or needs a reset is out of service at once", "[device_health]") {
  const DeviceSample lost = answered(DeviceAnswer::lost);
  CHECK(verdict(counted(0), lost) == "GPU 2 (NVIDIA H100, GPU-1) has fallen off the bus");
  CHECK(check_health(kWho, nullptr, lost).text() == verdict(counted(0), lost));
  CHECK(verdict(counted(0), answered(DeviceAnswer::gone)) ==
        "GPU 2 (NVIDIA H100, GPU-1) is not there any more: its GPU has been cut anew (MIG)");
  CHECK(verdict(counted(0), answered(DeviceAnswer::needs_reset)) ==
        "GPU 2 (NVIDIA H100, GPU-1) needs a reset");
  CHECK(verdict(lost, counted(0)).empty());
  CHECK(verdict(lost, counted(1)) == "GPU 2 (NVIDIA H100, GPU-1) has 1 uncorrectable memory error");
}

TEST_CASE("a GPU that NVML has never shown is as good as CUDA says", "[device_health]") {
  const DeviceSample hidden = answered(DeviceAnswer::hidden);
  CHECK(check_health(kWho, nullptr, hidden).ok());
  CHECK(verdict(hidden, hidden).empty());
}

TEST_CASE("one missing answer changes nothing, two do", "[device_health]") {
  const DeviceSample none = answered(DeviceAnswer::none);
  CHECK(verdict(counted(0), none).empty());
  CHECK(verdict(counted(3), none) == verdict(counted(0), counted(3)));
  CHECK(verdict(answered(DeviceAnswer::lost), none) ==
        "GPU 2 (NVIDIA H100, GPU-1) has fallen off the bus");
  CHECK(verdict(none, none) ==
        "GPU 2 (NVIDIA H100, GPU-1) does not answer: nvmlX of 1B: Unknown Error");
  CHECK(verdict(none, counted(0)).empty());
}

TEST_CASE("a GPU that has never answered is out of service", "[device_health]") {
  CHECK(check_health(kWho, nullptr, answered(DeviceAnswer::none)).text() ==
        "GPU 2 (NVIDIA H100, GPU-1) does not answer: nvmlX of 1B: Unknown Error");
}

}  // namespace
}  // namespace troupe::gpu
