// SPDX-License-Identifier: Apache-2.0
// The figures of a batch iterator as metrics, read at each scrape.
#pragma once

#include <string_view>

#include "data/batch_iterator.h"
#include "monitoring/metrics.h"

namespace troupe::data {

/// Gives an iterator's figures under troupe_data_*{source}.
void scrape_batches(monitoring::Scrape& scrape, const BatchFigures& stats, std::string_view source);

/// For BatchSources of one iterator.
monitoring::Histogram& batch_seconds(monitoring::Metrics& metrics, std::string_view source);

}  // namespace troupe::data
