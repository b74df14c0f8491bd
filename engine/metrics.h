// SPDX-License-Identifier: Apache-2.0
// The figures of an engine as metrics, read at each scrape.
#pragma once

#include <string>
#include <string_view>

#include "engine/engine.h"
#include "monitoring/metrics.h"

namespace troupe::engine {

/// Gives the figures under troupe_engine_*{engine = name}.
void scrape_engine(monitoring::Scrape& scrape, const Engine& engine, std::string_view name);

/// Shows `engine` under troupe_engine_*{engine = name} while the result lives. Drop the result
/// before the engine.
[[nodiscard]] monitoring::Collection show_engine(monitoring::Metrics& metrics, const Engine& engine,
                                                 std::string name);

}  // namespace troupe::engine
