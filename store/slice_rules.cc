// SPDX-License-Identifier: Apache-2.0
// Who holds which rank.
#include "store/slice_rules.h"

#include <algorithm>

#include "store/step_judge.h"

namespace troupe::store {

std::uint32_t SliceRules::machines() const {
  const auto last = std::max_element(machine_of_rank.begin(), machine_of_rank.end());
  return last == machine_of_rank.end() ? 0 : *last + 1;
}

std::vector<std::uint32_t> SliceRules::ranks_of_machine(std::uint32_t machine) const {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < machine_of_rank.size(); ++rank) {
    if (machine_of_rank[rank] == machine) ranks.push_back(rank);
  }
  return ranks;
}

base::Result<SliceRules> make_rules(const schemas::JobSpec& job,
                                    const schemas::Placement& placement,
                                    const schemas::TrainingStart& start) {
  if (placement.machine_of_rank.size() != job.ranks()) {
    return base::error(base::Errc::invalid_argument, "[placement] view {} places {} ranks of {}",
                       placement.view, placement.machine_of_rank.size(), job.ranks());
  }
  if (start.records == 0) {
    return base::error(base::Errc::invalid_argument, "[start] the training data has no records");
  }
  return SliceRules{AdditionTree(job.workers.machines, job.workers.devices),
                    job.consistency,
                    make_step_plan(job, start.records, start.step),
                    static_cast<double>(job.ranks()) * job.data.batch,
                    placement.machine_of_rank,
                    judge_rule(job).judges()};
}

std::vector<std::uint32_t> machine_of_rank_by_group(const schemas::WorkersSpec& workers) {
  std::vector<std::uint32_t> machine_of_rank;
  for (std::uint32_t rank = 0; rank < workers.machines * workers.devices; ++rank) {
    machine_of_rank.push_back(rank / workers.devices);
  }
  return machine_of_rank;
}

}  // namespace troupe::store
