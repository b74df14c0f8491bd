// SPDX-License-Identifier: Apache-2.0
// A rank's figures by their families.
#include "train/metrics.h"

#include <string>
#include <vector>

#include "data/metrics.h"
#include "engine/metrics.h"
#include "gpu/inventory.h"
#include "storage/metrics.h"

namespace troupe::train {

using monitoring::family;

namespace {

/// Empty where nothing is known of it.
std::string uuid_of(base::Device device) {
  const std::vector<gpu::DeviceFacts>& known = gpu::inventory().devices;
  const auto index = static_cast<std::size_t>(device.index);
  return device.kind == base::DeviceKind::cuda && index < known.size() ? known[index].uuid : "";
}

/// Of a rank that computes beside its host.
void show_device(monitoring::Scrape& scrape, const std::string& rank, base::Device device) {
  if (device.kind == base::DeviceKind::cpu) return;
  scrape.value(family("troupe_worker_device_info"), {rank, device.to_string(), uuid_of(device)},
               1.0);
}

}  // namespace

monitoring::Collection show_rank(monitoring::Metrics& metrics, RankRunner& runner,
                                 std::uint32_t rank, base::Device device) {
  return metrics.on_scrape(
      [&runner, device, name = std::to_string(rank)](monitoring::Scrape& scrape) {
        show_device(scrape, name, device);
        const RankFigures& figures = runner.figures();
        const auto show = [&](const monitoring::Family& row, const auto& figure) {
          scrape.value(row, {name}, static_cast<double>(figure.load(std::memory_order_relaxed)));
        };
        show(family("troupe_worker_steps_total"), figures.steps);
        show(family("troupe_worker_samples_total"), figures.samples);
        show(family("troupe_worker_epoch"), figures.epoch);
        show(family("troupe_worker_loss"), figures.loss);
        show(family("troupe_worker_learning_rate"), figures.learning_rate);
        show(family("troupe_worker_global_step"), figures.global_step);
        if (figures.last_step_seconds.load(std::memory_order_relaxed) != 0) {
          show(family("troupe_worker_last_step_timestamp_seconds"), figures.last_step_seconds);
        }
        const RankPhases::Times times = runner.phases().times();
        for (std::size_t i = 0; i < times.size(); ++i) {
          scrape.value(family("troupe_worker_phase_seconds_total"), {name, kRankPhaseNames[i]},
                       static_cast<double>(times[i]) * 1e-9);
        }
        data::scrape_batches(scrape, runner.data_stats(), "train");
        if (const auto stats = runner.score_data_stats())
          data::scrape_batches(scrape, *stats, "test");
        engine::scrape_engine(scrape, runner.runtime().engine, "rank" + name);
        storage::scrape_storage(scrape, runner.runtime().storage, "rank" + name);
      });
}

}  // namespace troupe::train
