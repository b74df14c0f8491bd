// SPDX-License-Identifier: Apache-2.0
// VerdictTracker: a parameter server's part in the verdict on a step: tells the first shard what
// its slices' sums are like, and there gives the verdict to all. Lost and repeated messages are its
// business; what is decided is store::StepJudge's. Pure; part of ParameterServerState.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "actors/effect_list.h"
#include "actors/effects.h"
#include "actors/mail.h"
#include "actors/outbox.h"
#include "base/status.h"
#include "schemas/messages.h"
#include "store/step_judge.h"

namespace troupe::actors {

/// See the top of the file.
class VerdictTracker {
 public:
  /// `slices`: of this shard. Made when the mail is open; `mail` and `effects` must outlive it.
  VerdictTracker(Mail& mail, EffectList<ParameterEffect>& effects, std::uint32_t shard,
                 std::size_t slices);

  /// The slice at `position` among the shard's has been examined. An error ends the job.
  base::Status found(std::size_t position, const store::SliceFinding& finding);
  /// First shard: another's facts, or its own. An error ends the job.
  base::Status take(const schemas::StepFacts& facts);
  /// From the first shard; true: it is news, and the step goes on.
  bool take(const schemas::StepVerdict& verdict) { return told_.answered(verdict.step); }
  /// Time has passed, a link was resumed, a new view holds: see Mail.
  void attend() { mail_->attend(told_); }
  void ask_about(const schemas::ActorId& peer) { mail_->ask_about(told_, peer); }
  void send_again() { mail_->send_again(told_); }
  /// First shard: "the verdict waits for the sums of shards 1, 3"; empty where no other is missing.
  std::string waits_for() const;

 private:
  Mail* mail_;
  EffectList<ParameterEffect>* effects_;
  std::uint32_t shard_;
  store::FactsOfShard facts_;
  Outbox<std::uint64_t> told_;              // StepFacts, by step, until there is a verdict
  std::optional<store::StepJudge> judge_;   // first shard
  std::set<std::uint32_t> owning_;          // first shard: shards that have slices, so are told
  std::optional<std::uint64_t> announced_;  // first shard: the last step with a verdict
};

}  // namespace troupe::actors
