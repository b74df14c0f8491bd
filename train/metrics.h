// SPDX-License-Identifier: Apache-2.0
// The figures of a rank as metrics, read at each scrape.
#pragma once

#include <cstdint>

#include "monitoring/metrics.h"
#include "train/rank_runner.h"

namespace troupe::train {

/// Shows `runner` as `rank` on `device` under troupe_worker_*, and its data, engine and memory
/// under their families, while the result lives. Drop the result before the runner.
[[nodiscard]] monitoring::Collection show_rank(monitoring::Metrics& metrics, RankRunner& runner,
                                               std::uint32_t rank, base::Device device);

}  // namespace troupe::train
