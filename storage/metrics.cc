// SPDX-License-Identifier: Apache-2.0
// Pool statistics by their families.
#include "storage/metrics.h"

#include <utility>

namespace troupe::storage {
namespace {

using monitoring::family;

void show_pool(monitoring::Scrape& scrape, const PoolFigures& pool, std::string_view device,
               std::string_view name) {
  const auto bytes = [&](const monitoring::Family& row, std::uint64_t value) {
    scrape.value(row, {device, name}, static_cast<double>(value));
  };
  bytes(family("troupe_memory_used_bytes"), pool.used_bytes);
  bytes(family("troupe_memory_reserved_bytes"), pool.reserved_bytes);
  bytes(family("troupe_memory_peak_bytes"), pool.peak_bytes);
  const auto allocations = [&](std::string_view result, std::uint64_t count) {
    scrape.value(family("troupe_memory_allocations_total"), {device, name, result},
                 static_cast<double>(count));
  };
  allocations("hit", pool.hits);
  allocations("miss", pool.misses);
  allocations("out_of_memory", pool.failures);
}

}  // namespace

void scrape_storage(monitoring::Scrape& scrape, const Storage& storage, std::string_view name) {
  for (const base::Device& device : storage.devices()) {
    show_pool(scrape, storage.statistics(device), device.to_string(), name);
  }
  const PoolFigures pinned = storage.pinned_statistics();
  if (pinned.misses > 0) show_pool(scrape, pinned, "pinned", name);
}

monitoring::Collection show_storage(monitoring::Metrics& metrics, const Storage& storage,
                                    std::string name) {
  return metrics.on_scrape([&storage, name = std::move(name)](monitoring::Scrape& scrape) {
    scrape_storage(scrape, storage, name);
  });
}

}  // namespace troupe::storage
