// SPDX-License-Identifier: Apache-2.0
// Reading of environment variables.
#include "base/environment.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace troupe::base {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

/// The folder of compiled kernels: of a relative path nobody knows what it means.
std::string kernel_cache() {
  if (std::getenv("TROUPE_KERNEL_CACHE") != nullptr) {
    std::string named = variable("TROUPE_KERNEL_CACHE");
    return named.starts_with('/') ? named : std::string();
  }
  std::string folder = variable("XDG_CACHE_HOME");
  if (!folder.starts_with('/')) {
    const std::string home = variable("HOME");
    if (!home.starts_with('/')) return {};
    folder = home + "/.cache";
  }
  return folder + "/troupe/kernels";
}

bool steers(std::string_view entry) {
  constexpr std::string_view kPrefixes[] = {"OMP_", "GOMP_", "KMP_",
                                            "NVIDIA_TF32_OVERRIDE=", "CUBLAS_EMULAT"};
  // How long threads of a team spin before they sleep changes no team: it is their caller's to say.
  constexpr std::string_view kWaiting[] = {"OMP_WAIT_POLICY=", "GOMP_SPINCOUNT=", "KMP_BLOCKTIME="};
  const auto begins = [entry](std::string_view name) { return entry.starts_with(name); };
  return std::ranges::any_of(kPrefixes, begins) && std::ranges::none_of(kWaiting, begins);
}

std::vector<std::string> variables(bool steering) {
  std::vector<std::string> result;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (steers(*entry) == steering) result.emplace_back(*entry);
  }
  return result;
}

}  // namespace

Environment read_environment() {
  Environment result;
  result.coordinator = variable("TROUPE_COORDINATOR");
  result.identity = variable("TROUPE_IDENTITY");
  result.token_file = variable("TROUPE_TOKEN_FILE");
  result.log_level = variable("TROUPE_LOG_LEVEL");
  result.kernel_cache = kernel_cache();
  result.dumb_terminal = variable("TERM") == "dumb";
  result.no_color = !variable("NO_COLOR").empty() || result.dumb_terminal;
  return result;
}

void order_gpus_by_bus() {
  ::setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 0);
}

std::optional<std::string> visible_gpus() {
  if (const char* const value = std::getenv("CUDA_VISIBLE_DEVICES")) return value;
  std::string given = variable("NVIDIA_VISIBLE_DEVICES");
  return given.starts_with("MIG-") ? std::optional(std::move(given)) : std::nullopt;
}

std::vector<std::string> steering_variables() {
  return variables(true);
}

std::vector<std::string> environment_without_steering() {
  return variables(false);
}

}  // namespace troupe::base
