// SPDX-License-Identifier: Apache-2.0
// Engine counters by their families.
#include "engine/metrics.h"

#include <utility>

namespace troupe::engine {

using monitoring::family;

void scrape_engine(monitoring::Scrape& scrape, const Engine& engine, std::string_view name) {
  const EngineCounters counters = engine.counters();
  const auto operations = [&](std::string_view result, std::uint64_t count) {
    scrape.value(family("troupe_engine_operations_total"), {name, result},
                 static_cast<double>(count));
  };
  operations("done", counters.completed - counters.failed);
  operations("failed", counters.failed);
  scrape.value(family("troupe_engine_pending_operations"), {name},
               static_cast<double>(counters.pending));
  scrape.value(family("troupe_engine_asynchronous_operations"), {name},
               static_cast<double>(counters.asynchronous_in_flight));
}

monitoring::Collection show_engine(monitoring::Metrics& metrics, const Engine& engine,
                                   std::string name) {
  return metrics.on_scrape([&engine, name = std::move(name)](monitoring::Scrape& scrape) {
    scrape_engine(scrape, engine, name);
  });
}

}  // namespace troupe::engine
