// SPDX-License-Identifier: Apache-2.0
// The figures of a storage's pools as metrics, read at each scrape.
#pragma once

#include <string>
#include <string_view>

#include "monitoring/metrics.h"
#include "storage/storage.h"

namespace troupe::storage {

/// Gives the figures under troupe_memory_*{device, pool = name}.
void scrape_storage(monitoring::Scrape& scrape, const Storage& storage, std::string_view name);

/// Shows `storage` under troupe_memory_*{device, pool = name} while the result lives. Drop the
/// result before the storage.
[[nodiscard]] monitoring::Collection show_storage(monitoring::Metrics& metrics,
                                                  const Storage& storage, std::string name);

}  // namespace troupe::storage
