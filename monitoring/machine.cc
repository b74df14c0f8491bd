// SPDX-License-Identifier: Apache-2.0
// The reader behind troupe_machine_*.
#include "monitoring/machine.h"

#include <chrono>
#include <fstream>
#include <thread>
#include <utility>

#include "base/machine_memory.h"

namespace troupe::monitoring {
namespace {

void scrape_load(Scrape& scrape, const std::string& path) {
  std::ifstream file(path);
  double minute = 0;
  if (file >> minute) scrape.value(family("troupe_machine_load_average"), {}, minute);
}

void scrape_memory(Scrape& scrape, const std::string& path) {
  const base::MachineMemory memory = base::read_machine_memory(path);
  if (memory.total > 0) {
    scrape.value(family("troupe_machine_memory_bytes"), {}, static_cast<double>(memory.total));
  }
  if (memory.available > 0) {
    scrape.value(family("troupe_machine_memory_available_bytes"), {},
                 static_cast<double>(memory.available));
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
