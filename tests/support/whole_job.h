// SPDX-License-Identifier: Apache-2.0
// A job run to its end in this process, what it told, and the hash of what it left.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "store/checkpoint.h"
#include "tests/support/catch.h"
#include "train/job.h"
#include "train/local_run.h"

namespace troupe::tests {

/// Keeps what a job tells.
class JobRecorder final : public train::JobObserver {
 public:
  void progress(const control::StepProgress& progress) override { steps.push_back(progress.step); }
  void scored(const control::EpochScore& score) override { scores.push_back(score); }
  void checkpointed(std::uint64_t step, const std::string&) override { cuts.push_back(step); }
  std::vector<std::uint64_t> steps, cuts;
  std::vector<control::EpochScore> scores;
};

struct JobOutcome {
  base::Status status;
  JobRecorder seen;
};

/// train::run_local or another one with the same arguments, which runs a job.
using JobRun = std::function<base::Status(const std::shared_ptr<const train::Job>&,
                                          const ops::OpTable&, base::Clock&, train::JobObserver&)>;

inline JobRun local_run(const train::LocalRunOptions& options = {}) {
  return [options](const auto& job, const ops::OpTable& table, base::Clock& clock,
                   train::JobObserver& seen) {
    return train::run_local(job, table, clock, seen, options);
  };
}

inline JobOutcome run_job(const ops::OpTable& table, const schemas::JobSpec& spec,
                          const JobRun& run = local_run()) {
  JobOutcome outcome;
  base::SteadyClock clock;
  const auto job = train::open_job(spec, table);
  INFO(job.status().to_string());
  REQUIRE(job.ok());
  outcome.status = run(*job, table, clock, outcome.seen);
  return outcome;
}

/// Of the newest checkpoint.
inline std::string checkpoint_hash(const schemas::JobSpec& spec) {
  const auto checkpoint = store::Checkpoint::open_newest(spec.checkpoint.dir);
  REQUIRE(checkpoint.ok());
  return base::to_hex((*checkpoint)->hash().value());
}

/// Of the last checkpoint of the job, which runs well and writes into the folder `out` beside its
/// own. `seen`, if given, gets what the job told.
inline std::string trained_hash(const ops::OpTable& table, schemas::JobSpec spec,
                                const std::string& out, const JobRun& run = local_run(),
                                JobRecorder* seen = nullptr) {
  spec.checkpoint.dir = std::filesystem::path(spec.checkpoint.dir).parent_path() / out;
  const JobOutcome outcome = run_job(table, spec, run);
  INFO(outcome.status.to_string());
  REQUIRE(outcome.status.ok());
  if (seen != nullptr) *seen = outcome.seen;
  return checkpoint_hash(spec);
}

}  // namespace troupe::tests
