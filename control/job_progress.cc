// SPDX-License-Identifier: Apache-2.0
// Collecting reports until all ranks are in; sums are taken in rank order.
#include "control/job_progress.h"

#include <fmt/format.h>

#include <iterator>

namespace troupe::control {
namespace {

// Adds a report under its key; the complete set once all ranks are in it.
template <typename Report>
std::map<std::uint32_t, Report> collect(
    std::map<std::uint64_t, std::map<std::uint32_t, Report>>& open, std::uint64_t key,
    const Report& report, std::uint32_t ranks) {
  auto& reports = open[key];
  reports.emplace(report.rank, report);
  if (reports.size() == ranks) return std::move(open.extract(key).mapped());
  if (open.size() > JobProgress::kOpenMax) open.erase(open.begin());
  return {};
}

}  // namespace

std::string divergence_text(std::uint64_t step, double loss) {
  return fmt::format(
      "the loss is {} at step {}: training has diverged; a lower train.optimizer.lr may help", loss,
      step);
}

std::string no_score_text(std::uint64_t epoch) {
  return fmt::format("epoch {} has no score: no image of data.test could be read", epoch);
}

std::optional<StepProgress> JobProgress::add(const schemas::ProgressReport& report) {
  schemas::ProgressReport kept = report;
  std::erase_if(kept.metrics,
                [](const auto& metric) { return metric.first.size() > kMetricBytesMax; });
  while (kept.metrics.size() > kMetricsMax) kept.metrics.erase(std::prev(kept.metrics.end()));
  const auto reports = collect(steps_, report.step, kept, ranks_);
  if (reports.empty()) return std::nullopt;
  StepProgress sum;
  sum.step = report.step;
  for (const auto& [rank, part] : reports) {
    sum.samples += part.samples;
    for (const auto& [name, pair] : part.metrics) sum.metrics[name] += pair;
  }
  return sum;
}

std::optional<EpochScore> JobProgress::add(const schemas::EvaluationReport& report) {
  if (scored_ && report.epoch <= *scored_) return std::nullopt;
  const auto reports = collect(epochs_, report.epoch, report, ranks_);
  if (reports.empty()) return std::nullopt;
  scored_ = report.epoch;
  EpochScore score;
  score.epoch = report.epoch;
  score.step = report.step;
  for (const auto& [rank, part] : reports) {
    score.samples += part.samples;
    score.correct += part.correct;
    score.loss_sum += part.loss_sum;
  }
  return score;
}

std::vector<std::uint32_t> JobProgress::missing() const {
  std::vector<std::uint32_t> ranks;
  if (steps_.empty()) return ranks;
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    if (!steps_.begin()->second.contains(rank)) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace troupe::control
