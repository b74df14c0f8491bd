// SPDX-License-Identifier: Apache-2.0
// The kernel's files of a control group.
#include "base/control_group.h"

#include <charconv>
#include <filesystem>
#include <sstream>

#include "base/file.h"

namespace troupe::base {
namespace {

std::string read_all(const std::string& path) {
  constexpr std::size_t kBytesMax = 65'536;
  auto text = read_text_file(path, kBytesMax);
  return text.ok() ? std::move(text).value() : std::string();
}

/// The number that `text` begins with; none where it begins with none, as "max" does.
std::optional<std::uint64_t> leading_number(const std::string& text) {
  std::uint64_t number = 0;
  const auto [rest, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  return code == std::errc() ? std::optional(number) : std::nullopt;
}

/// The number behind "NAME " at the beginning of a line of `text`.
std::uint64_t number_of(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name + " ")) continue;
    return leading_number(line.substr(name.size() + 1)).value_or(0);
  }
  return 0;
}

}  // namespace

ControlGroup::ControlGroup(const std::string& groups, const std::string& root) {
  // Lines are NUMBER:CONTROLLERS:PATH; in version 2 there is one, without controllers. A container
  // sees its own group as the root, whatever path it is told.
  std::istringstream lines(groups);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && controllers != "memory") continue;
    unified_ = controllers.empty();
    const std::string top = unified_ ? root : root + "/memory";
    std::string group = line.substr(second + 1);
    while (!group.empty() && group.back() == '/') group.pop_back();
    folders_.clear();
    std::error_code unknown;
    for (; !group.empty(); group.resize(group.rfind('/'))) {
      if (!group.starts_with('/')) break;
      if (std::filesystem::exists(top + group, unknown)) folders_.push_back(top + group);
    }
    folders_.push_back(top);
    if (!unified_) return;  // where both are mounted memory is version 1's
  }
}

ControlGroup ControlGroup::of_this_process() {
  return {read_all("/proc/self/cgroup"), "/sys/fs/cgroup"};
}

std::uint64_t ControlGroup::out_of_memory_kills() const {
  if (folders_.empty()) return 0;
  const std::string file = unified_ ? "/memory.events" : "/memory.oom_control";
  return number_of(read_all(folders_.front() + file), "oom_kill");
}

std::optional<GroupMemory> ControlGroup::memory_of(const std::string& folder) const {
  constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60;  // version 1 has a number for none
  const auto limit =
      leading_number(read_all(folder + (unified_ ? "/memory.max" : "/memory.limit_in_bytes")));
  const auto used =
      leading_number(read_all(folder + (unified_ ? "/memory.current" : "/memory.usage_in_bytes")));
  if (!limit || !used || *limit == 0 || *limit >= kNoLimit) return std::nullopt;
  const std::uint64_t files = number_of(read_all(folder + "/memory.stat"),
                                        unified_ ? "inactive_file" : "total_inactive_file");
  return GroupMemory{*limit, *used > files ? *used - files : 0};
}

std::optional<GroupMemory> ControlGroup::memory() const {
  std::optional<GroupMemory> nearest;
  const auto share = [](const GroupMemory& memory) {
    return static_cast<double>(memory.used) / static_cast<double>(memory.limit);
  };
  for (const std::string& folder : folders_) {
    const auto found = memory_of(folder);
    if (found && (!nearest || share(*found) > share(*nearest))) nearest = found;
  }
  return nearest;
}

std::optional<std::uint64_t> ControlGroup::least_limit() const {
  std::optional<std::uint64_t> least;
  for (const std::string& folder : folders_) {
    const auto found = memory_of(folder);
    if (found && (!least || found->limit < *least)) least = found->limit;
  }
  return least;
}

}  // namespace troupe::base
