// SPDX-License-Identifier: Apache-2.0
// Batch statistics by their families.
#include "data/metrics.h"

namespace troupe::data {

using monitoring::family;

void scrape_batches(monitoring::Scrape& scrape, const BatchFigures& stats,
                    std::string_view source) {
  const auto show = [&](const monitoring::Family& row, auto value) {
    scrape.value(row, {source}, static_cast<double>(value));
  };
  show(family("troupe_data_records_total"), stats.records);
  show(family("troupe_data_read_bytes_total"), stats.bytes);
  show(family("troupe_data_batches_total"), stats.batches);
  show(family("troupe_data_queued_batches"), stats.queue_depth);
  show(family("troupe_data_queue_limit_batches"), stats.queue_limit);
  show(family("troupe_data_starved_seconds_total"), stats.starved_seconds);
  const auto stage = [&](std::string_view name, std::int64_t ns) {
    scrape.value(family("troupe_data_stage_seconds_total"), {source, name},
                 static_cast<double>(ns) * 1e-9);
  };
  const StageTimes& times = stats.stages;
  stage("read", times.read_ns);
  stage("decode", times.decode_ns);
  stage("other", times.total_ns - times.read_ns - times.decode_ns);
  scrape.value(family("troupe_data_bad_records_total"), {source, "damaged"},
               static_cast<double>(stats.skipped));
}

monitoring::Histogram& batch_seconds(monitoring::Metrics& metrics, std::string_view source) {
  return metrics.histogram(family("troupe_data_batch_seconds"), {source});
}

}  // namespace troupe::data
