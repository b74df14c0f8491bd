// SPDX-License-Identifier: Apache-2.0
// JobProgress: adds up what ranks report. A step or epoch is told once all ranks have reported it,
// with sums over the job, so what people see does not depend on who was first. Pure; one owner.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "schemas/messages.h"

namespace troupe::control {

/// The job at a log point.
struct StepProgress {
  std::uint64_t step = 0;     ///< steps done
  std::uint64_t samples = 0;  ///< by all ranks since this run began
  std::map<std::string, schemas::MetricPair> metrics;
};

/// What people should know about a training loss that is no number.
std::string divergence_text(std::uint64_t step, double loss);

/// What people should know of an epoch whose score is of no image at all.
std::string no_score_text(std::uint64_t epoch);

/// The test set after an epoch.
struct EpochScore {
  std::uint64_t epoch = 0;  ///< epochs done
  std::uint64_t step = 0;
  std::uint64_t samples = 0;
  std::uint64_t correct = 0;
  double loss_sum = 0.0;
  double accuracy() const {
    return samples > 0 ? static_cast<double>(correct) / static_cast<double>(samples) : 0.0;
  }
};

/// Sums by step and epoch. At most kOpenMax of each stay open: the oldest is dropped. Of a report
/// count kMetricsMax metrics at most, with names of kMetricBytesMax: who lies takes little memory.
class JobProgress {
 public:
  explicit JobProgress(std::uint32_t ranks) : ranks_(ranks) {}

  /// The sum once the last rank of that step has reported. A rank that reports twice counts once.
  std::optional<StepProgress> add(const schemas::ProgressReport& report);
  /// The score once the last rank of that epoch has reported; each epoch, and none before it, once.
  std::optional<EpochScore> add(const schemas::EvaluationReport& report);

  /// Ranks that have not reported the oldest open step, for messages about who is missing.
  std::vector<std::uint32_t> missing() const;

  static constexpr std::size_t kOpenMax = 1024;
  static constexpr std::size_t kMetricsMax = 8;
  static constexpr std::size_t kMetricBytesMax = 32;

 private:
  template <typename Report>
  using ByRank = std::map<std::uint32_t, Report>;

  std::uint32_t ranks_;
  std::map<std::uint64_t, ByRank<schemas::ProgressReport>> steps_;
  std::map<std::uint64_t, ByRank<schemas::EvaluationReport>> epochs_;
  std::optional<std::uint64_t> scored_;  // the last epoch that was told
};

}  // namespace troupe::control
