// SPDX-License-Identifier: Apache-2.0
// The /proc reader behind process_*.
#include "monitoring/process.h"

#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "base/control_group.h"
#include "base/log.h"

namespace troupe::monitoring {
namespace {

/// Fields of /proc/self/stat from the third on (proc(5) numbers them from 1); empty if unreadable.
std::vector<std::string> stat_fields() {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::size_t end_of_name = text.rfind(')');  // the name may hold spaces and parentheses
  if (end_of_name == std::string::npos) return {};
  std::istringstream rest(text.substr(end_of_name + 1));
  return {std::istream_iterator<std::string>(rest), {}};
}

/// Unix time at which the machine was started, or 0.
double boot_time() {
  std::ifstream file("/proc/stat");
  std::string word;
  double seconds = 0;
  while (file >> word) {
    if (word == "btime" && file >> seconds) return seconds;
  }
  return 0;
}

void scrape_stat(Scrape& scrape) {
  const std::vector<std::string> fields = stat_fields();
  constexpr std::size_t kFirst = 3;  // number of the first field here
  constexpr std::size_t kUser = 14, kSystem = 15, kThreads = 20, kStart = 22, kVirtual = 23,
                        kResident = 24;
  if (fields.size() <= kResident - kFirst) return;
  const auto number = [&](std::size_t field) { return std::stod(fields[field - kFirst]); };
  const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  scrape.value(family("process_cpu_seconds_total"), {}, (number(kUser) + number(kSystem)) / ticks);
  scrape.value(family("process_threads"), {}, number(kThreads));
  scrape.value(family("process_start_time_seconds"), {}, boot_time() + number(kStart) / ticks);
  scrape.value(family("process_virtual_memory_bytes"), {}, number(kVirtual));
  scrape.value(family("process_resident_memory_bytes"), {},
               number(kResident) * static_cast<double>(sysconf(_SC_PAGESIZE)));
}

void scrape_files(Scrape& scrape) {
  std::error_code failed;
  const std::filesystem::directory_iterator entries("/proc/self/fd", failed);
  if (!failed) {
    const auto open = std::distance(entries, std::filesystem::directory_iterator());
    scrape.value(family("process_open_fds"), {}, static_cast<double>(open));
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    scrape.value(family("process_max_fds"), {}, static_cast<double>(limit.rlim_cur));
  }
}

void scrape_log(Scrape& scrape) {
  constexpr std::array<std::string_view, base::kLogLevelCount> levels = {"debug", "info", "warn",
                                                                         "error"};
  const auto counts = base::log_line_counts();
  for (std::size_t i = 0; i < levels.size(); ++i) {
    scrape.value(family("troupe_log_messages_total"), {levels[i]}, static_cast<double>(counts[i]));
  }
}

void scrape_limit(Scrape& scrape) {
  const auto memory = base::ControlGroup::of_this_process().memory();
  if (!memory) return;
  scrape.value(family("troupe_cgroup_memory_limit_bytes"), {}, static_cast<double>(memory->limit));
  scrape.value(family("troupe_cgroup_memory_used_bytes"), {}, static_cast<double>(memory->used));
}

}  // namespace

Collection collect_process(Metrics& metrics, std::string_view version, std::string_view build,
                           std::string_view role) {
  metrics.gauge(family("troupe_build_info"), {version, build, role}).set(1);
  return metrics.on_scrape([](Scrape& scrape) {
    scrape_stat(scrape);
    scrape_files(scrape);
    scrape_limit(scrape);
    scrape_log(scrape);
  });
}

}  // namespace troupe::monitoring
