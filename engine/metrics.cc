// SPDX-License-Identifier: Apache-2.0
// Engine counters by their families.
#include "engine/metrics.h"

#include <array>
#include <utility>

namespace troupe::engine {

using monitoring::family;

namespace {

constexpr std::array<std::string_view, kLaneKinds> kClasses = {"compute", "copy", "priority"};

void scrape_lanes(monitoring::Scrape& scrape, const LaneCounters& lanes, std::string_view engine,
                  std::string_view kind) {
  const auto operations = [&](std::string_view result, std::uint64_t count) {
    scrape.value(family("troupe_engine_ops_total"), {engine, kind, result},
                 static_cast<double>(count));
  };
  operations("done", lanes.completed - lanes.failed - lanes.skipped);
  operations("failed", lanes.failed);
  operations("skipped", lanes.skipped);
  scrape.value(family("troupe_engine_graph_ops_total"), {engine, kind},
               static_cast<double>(lanes.in_graphs));
  scrape.value(family("troupe_engine_queued_ops"), {engine, kind},
               static_cast<double>(lanes.queued));
  scrape.value(family("troupe_engine_threads"), {engine, kind}, static_cast<double>(lanes.threads));
  scrape.value(family("troupe_engine_busy_seconds_total"), {engine, kind},
               static_cast<double>(lanes.busy_ns) * 1e-9);
}

}  // namespace

void scrape_engine(monitoring::Scrape& scrape, const Engine& engine, std::string_view name) {
  const EngineCounters counters = engine.counters();
  for (std::size_t kind = 0; kind < kLaneKinds; ++kind) {
    scrape_lanes(scrape, counters.lanes[kind], name, kClasses[kind]);
  }
  scrape.value(family("troupe_engine_pending_ops"), {name}, static_cast<double>(counters.pending));
  scrape.value(family("troupe_engine_asynchronous_ops"), {name},
               static_cast<double>(counters.asynchronous_in_flight));
}

monitoring::Collection show_engine(monitoring::Metrics& metrics, const Engine& engine,
                                   std::string name) {
  return metrics.on_scrape([&engine, name = std::move(name)](monitoring::Scrape& scrape) {
    scrape_engine(scrape, engine, name);
  });
}

}  // namespace troupe::engine
