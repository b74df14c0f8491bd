// SPDX-License-Identifier: Apache-2.0
// The reader behind troupe_machine_*.
#include "monitoring/machine.h"

#include <chrono>
#include <fstream>
#include <thread>
#include <utility>

namespace troupe::monitoring {
namespace {

void scrape_load(Scrape& scrape, const std::string& path) {
  std::ifstream file(path);
  double minute = 0;
  if (file >> minute) scrape.value(family("troupe_machine_load_average"), {}, minute);
}

/// Lines are "NAME: NUMBER kB".
void scrape_memory(Scrape& scrape, const std::string& path) {
  constexpr double kUnit = 1024;
  std::ifstream file(path);
  std::string name;
  double number = 0;
  for (std::string unit; file >> name >> number && std::getline(file, unit);) {
    if (name == "MemTotal:") {
      scrape.value(family("troupe_machine_memory_bytes"), {}, number * kUnit);
    } else if (name == "MemAvailable:") {
      scrape.value(family("troupe_machine_memory_available_bytes"), {}, number * kUnit);
    }
  }
}

}  // namespace

Collection collect_machine(Metrics& metrics, MachineFiles files) {
  return metrics.on_scrape([files = std::move(files)](Scrape& scrape) {
    scrape_load(scrape, files.load);
    scrape_memory(scrape, files.memory);
    const unsigned processors = std::thread::hardware_concurrency();
    if (processors > 0) scrape.value(family("troupe_machine_processors"), {}, processors);
    const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
    scrape.value(family("troupe_machine_time_seconds"), {}, now.count());
  });
}

}  // namespace troupe::monitoring
