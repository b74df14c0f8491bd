// SPDX-License-Identifier: Apache-2.0
// NVIDIA's rules of compatibility: CUDA C++ Programming Guide, "Binary Compatibility" and "PTX
// Compatibility".
#include "gpu/machine_code.h"

#include <charconv>

namespace troupe::gpu {
namespace {

/// One entry of the list.
bool one_runs_on(std::string_view entry, int device) {
  const std::size_t dash = entry.find('-');
  const std::string_view kind = dash == std::string_view::npos ? "" : entry.substr(dash + 1);
  std::string_view name = entry.substr(0, dash);
  const bool exact = name.ends_with('a');
  if (exact) name.remove_suffix(1);
  int architecture = 0;
  const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), architecture);
  if (problem != std::errc() || end != name.data() + name.size()) return true;
  if (exact) return device == architecture;
  if (device < architecture) return false;
  return kind != "real" || device / 10 == architecture / 10;
}

}  // namespace

bool runs_on(std::string_view architectures, int major, int minor) {
  while (!architectures.empty()) {
    const std::size_t end = architectures.find_first_of("; ");
    const std::string_view entry = architectures.substr(0, end);
    if (!entry.empty() && one_runs_on(entry, major * 10 + minor)) return true;
    if (end == std::string_view::npos) return false;
    architectures.remove_prefix(end + 1);
  }
  return false;
}

}  // namespace troupe::gpu
