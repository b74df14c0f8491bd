// SPDX-License-Identifier: Apache-2.0
// From a shard's facts to the verdict, with lost and repeated messages on the way.
#include "actors/verdict_tracker.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"

namespace troupe::actors {

using schemas::Role;
using schemas::StepFacts;
using schemas::StepVerdict;

VerdictTracker::VerdictTracker(Mail& mail, EffectList<ParameterEffect>& effects,
                               std::uint32_t shard, std::size_t slices)
    : mail_(&mail),
      effects_(&effects),
      shard_(shard),
      facts_(shard, slices),
      told_(mail.plan().spec.limits) {
  const JobPlan& plan = mail.plan();
  if (shard != plan.layout.first_shard()) return;
  judge_.emplace(plan.layout, plan.keys, store::judge_rule(plan.spec));
  for (const store::SliceInfo& slice : plan.layout.slices()) owning_.insert(slice.shard);
}

base::Status VerdictTracker::found(std::size_t position, const store::SliceFinding& finding) {
  TROUPE_TRY_ASSIGN(auto facts,
                    facts_.take(position, finding.step, finding.count, finding.examined));
  if (!facts) return {};
  const std::uint64_t step = facts->step;
  Letter letter{
      {Role::parameter_server, mail_->plan().layout.first_shard()}, *std::move(facts), {}};
  mail_->send(letter);
  TROUPE_CHECK(told_.keep(step, std::move(letter), mail_->now_ms()),
               fmt::format("shard {} tells of step {} twice", shard_, step));
  return {};
}

base::Status VerdictTracker::take(const StepFacts& facts) {
  if (!judge_) return {};
  TROUPE_TRY_ASSIGN(const auto verdict, judge_->take(facts));
  if (!verdict) return {};
  if (announced_ == verdict->step) {
    // The shard has missed it.
    mail_->send({Role::parameter_server, facts.shard}, *verdict);
    return {};
  }
  announced_ = verdict->step;
  if (verdict->skip) effects_->emit(Note{false, judge_->reason()});
  effects_->emit(Judged{verdict->step, verdict->skip, verdict->norm, judge_->loss_scale()});
  for (const std::uint32_t shard : owning_) {
    mail_->send({Role::parameter_server, shard}, *verdict);
  }
  return {};
}

std::string VerdictTracker::waits_for() const {
  if (!judge_) return {};
  std::vector<std::uint32_t> missing = judge_->missing();
  std::erase(missing, shard_);
  return missing.empty()
             ? std::string()
             : fmt::format("the verdict waits for the sums of shards {}", fmt::join(missing, ", "));
}

}  // namespace troupe::actors
