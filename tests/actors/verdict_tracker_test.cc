// SPDX-License-Identifier: Apache-2.0
// A shard's part in verdicts by itself: who is told what, lost and repeated messages.
#include "actors/verdict_tracker.h"

#include <memory>

#include "store/loss_scale.h"
#include "tests/actors/state_fixture.h"
#include "tests/support/catch.h"

namespace troupe::actors {
namespace {

using namespace testing;
using schemas::Role;
using schemas::StepFacts;
using schemas::StepVerdict;

/// A job whose gradients are cut, on two shards with a slice each.
JobPlan clipped_plan() {
  const JobPlan plan = small_plan();
  schemas::JobSpec spec = plan.spec;
  spec.train.optimizer.clip_norm = 1.0;
  return make_job_plan(plan.job, plan.generation, spec, plan.keys, 16).value();
}

struct Tracker {
  explicit Tracker(bool is_first)
      : first(plan.layout.first_shard()), shard(is_first ? first : 1 - first) {
    schemas::Envelope placement = letter(plan, kCoordinator, small_placement(plan));
    mail = std::make_unique<Mail>(plan, schemas::ActorId{Role::parameter_server, shard}, effects);
    mail->judge(placement);
    schemas::Envelope start = letter(plan, kCoordinator, schemas::TrainingStart{0, 16});
    REQUIRE(mail->judge(start) == Mail::Verdict::opened);
    REQUIRE(mail->rules().judged);
    tracker = std::make_unique<VerdictTracker>(*mail, effects, shard, 1);
  }
  Tracker(const Tracker&) = delete;

  /// Its slice has been examined; what it tells.
  std::vector<std::pair<schemas::ActorId, StepFacts>> examined(std::uint64_t step) {
    REQUIRE(tracker->found(0, {step, 4.0, {{9.0, 0}, 0.0}}).ok());
    return sent<StepFacts>(effects.take());
  }
  /// What follows from the facts of shard `from`.
  std::vector<std::pair<schemas::ActorId, StepVerdict>> told(std::uint32_t from,
                                                             std::uint64_t step) {
    REQUIRE(tracker->take(StepFacts{step, from, 4.0, 0.0, {{9.0, 0}}}).ok());
    return sent<StepVerdict>(effects.take());
  }

  JobPlan plan = clipped_plan();
  std::uint32_t first;
  std::uint32_t shard;
  EffectList<ParameterEffect> effects = {};
  std::unique_ptr<Mail> mail;
  std::unique_ptr<VerdictTracker> tracker;
};

TEST_CASE("a shard tells the first one, again where that may not have heard it", "[verdict]") {
  Tracker other(false);
  const auto facts = other.examined(0);
  REQUIRE(facts.size() == 1);
  CHECK(facts[0].first == schemas::ActorId{Role::parameter_server, other.first});
  CHECK(facts[0].second == StepFacts{0, other.shard, 4.0, 0.0, {{9.0, 0}}});
  other.tracker->ask_about({Role::parameter_server, other.shard});
  CHECK(sent<StepFacts>(other.effects.take()).empty());
  other.tracker->ask_about({Role::parameter_server, other.first});
  CHECK(sent<StepFacts>(other.effects.take()).size() == 1);
  other.tracker->send_again();
  CHECK(sent<StepFacts>(other.effects.take()).size() == 1);
  other.mail->tick(other.plan.spec.limits.letter_ask_ms + 1);
  other.tracker->attend();
  CHECK(sent<StepFacts>(other.effects.take()).size() == 1);

  CHECK(other.tracker->take(StepVerdict{0}));
  CHECK_FALSE(other.tracker->take(StepVerdict{0}));
  CHECK_FALSE(other.tracker->take(StepVerdict{3}));
  other.tracker->send_again();
  CHECK(sent<StepFacts>(other.effects.take()).empty());
  CHECK(other.told(other.first, 0).empty());  // it judges nothing
}

TEST_CASE("the first shard tells all, and once more who has missed it", "[verdict]") {
  Tracker judge(true);
  CHECK(judge.tracker->waits_for().empty());
  CHECK(judge.told(judge.first, 0).empty());
  CHECK_FALSE(judge.tracker->waits_for().empty());
  CHECK_THAT(judge.tracker->waits_for(),
             Catch::Contains(fmt::format("of shards {}", 1 - judge.first)));
  const auto verdicts = judge.told(1 - judge.first, 0);
  REQUIRE(verdicts.size() == 2);
  CHECK(verdicts[0].second == verdicts[1].second);
  CHECK(verdicts[0].second.divisor > 1.0);  // sqrt(18) / 4 is more than 1
  CHECK(judge.tracker->waits_for().empty());
  const auto again = judge.told(1 - judge.first, 0);
  REQUIRE(again.size() == 1);
  CHECK(again[0].first == schemas::ActorId{Role::parameter_server, 1 - judge.first});
  CHECK_FALSE(judge.tracker->take(StepFacts{1, 7, 4.0, 0.0, {{9.0, 0}}}).ok());
}

TEST_CASE("who judges says why a step is dropped", "[verdict]") {
  JobPlan plan = small_plan();
  schemas::JobSpec spec = plan.spec;
  spec.servers.shards = 1;
  spec.numerics.dtype = base::DType::f16;
  plan =
      make_job_plan(plan.job, plan.generation, spec, {plan.keys[0], store::loss_scale_key(1)}, 16)
          .value();
  EffectList<ParameterEffect> effects;
  Mail mail(plan, {Role::parameter_server, 0}, effects);
  schemas::Envelope placement = letter(plan, kCoordinator, small_placement(plan));
  mail.judge(placement);
  schemas::Envelope start = letter(plan, kCoordinator, schemas::TrainingStart{0, 16});
  REQUIRE(mail.judge(start) == Mail::Verdict::opened);
  VerdictTracker tracker(mail, effects, 0, 3);
  REQUIRE(tracker.take(StepFacts{0, 0, 4.0, 8.0, {{1.0, 0}, {1.0, 2}, {0.0, 0}}}).ok());
  const auto after = effects.take();
  const auto verdicts = sent<StepVerdict>(after);
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].second == StepVerdict{0, true, 8.0, 0.0});
  const auto notes = of_kind<Note>(after);
  REQUIRE(notes.size() == 1);
  CHECK_FALSE(notes[0].warning);
  CHECK_THAT(notes[0].text, Catch::Contains("step 0 does not count: the sum of 'weight' holds 2"));
  const auto judged = of_kind<Judged>(after);
  REQUIRE(judged.size() == 1);
  CHECK(judged[0].dropped);
  CHECK(judged[0].loss_scale == 8.0);
}

}  // namespace
}  // namespace troupe::actors
