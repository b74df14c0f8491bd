// SPDX-License-Identifier: Apache-2.0
// A shard's checkpoints by themselves: credit, files, manifests, lost and repeated messages,
// failures.
#include "actors/checkpoint_tracker.h"

#include <memory>

#include "tests/actors/state_fixture.h"
#include "tests/support/catch.h"

namespace troupe::actors {
namespace {

using namespace testing;
using schemas::CheckpointReport;
using schemas::Role;
using schemas::ShardCheckpoint;

const base::Status kFull(base::Errc::resource_exhausted, "no space left on device");

/// A job of two slices; every step of its 8 is a checkpoint.
JobPlan plan_of(std::uint32_t shards) {
  const JobPlan plan = small_plan();
  schemas::JobSpec spec = plan.spec;
  spec.servers.shards = shards;
  return make_job_plan(plan.job, plan.generation, spec, plan.keys, 16).value();
}

/// One shard's tracker.
struct Tracker {
  JobPlan plan;
  std::uint32_t shard;
  EffectList<ParameterEffect> effects = {};
  Mail mail{plan, {Role::parameter_server, shard}, effects};
  std::unique_ptr<CheckpointTracker> tracker;
  std::vector<schemas::SliceId> slices;

  /// The tracker of the first shard, or of the other one of two.
  explicit Tracker(std::uint32_t shards = 2, bool first = true)
      : plan(plan_of(shards)),
        shard(first ? plan.layout.first_shard() : 1 - plan.layout.first_shard()) {
    schemas::Envelope placement = letter(plan, kCoordinator, small_placement(plan));
    mail.judge(placement);
    schemas::Envelope start = letter(plan, kCoordinator, schemas::TrainingStart{0, 16});
    REQUIRE(mail.judge(start) == Mail::Verdict::opened);
    for (const store::SliceInfo& slice : plan.layout.slices()) {
      if (slice.shard == shard) slices.push_back(slice.id);
    }
    tracker = std::make_unique<CheckpointTracker>(mail, effects, shard, slices.size());
  }
  Tracker(const Tracker&) = delete;

  /// Hands all slices of a step in; the writing that begins with the last one.
  WriteShard cut(std::uint64_t step) {
    for (const schemas::SliceId& slice : slices) tracker->hand_in(step, {slice, {}});
    return of_kind<WriteShard>(effects.take()).at(0);
  }
  /// The writing ends; what is sent about it.
  ShardCheckpoint write(const WriteShard& writing, const base::Status& status = {}) {
    EffectDone done{writing.id, status, {}};
    if (status.ok()) done.result = ShardCheckpoint{};
    REQUIRE(tracker->effect_done(done));
    const auto files = sent<ShardCheckpoint>(effects.take());
    REQUIRE(files.size() == 1);
    CHECK(files[0].first == schemas::ActorId{Role::parameter_server, plan.layout.first_shard()});
    return files[0].second;
  }
  /// A file is reported; what follows.
  std::vector<ParameterEffect> report(const ShardCheckpoint& file) {
    tracker->take(file);
    return effects.take();
  }
  ShardCheckpoint of_other(std::uint64_t step) const {
    ShardCheckpoint file;
    file.step = step;
    file.shard = 1 - shard;
    return file;
  }
  /// The coordinator says what became of a checkpoint; what follows.
  std::vector<ParameterEffect> answer(const CheckpointReport& report) {
    tracker->answered(report);
    return effects.take();
  }
  base::Status settled(std::uint64_t step, base::Errc code = base::Errc::ok) {
    return tracker->take(
        CheckpointReport{step, "there", code, code == base::Errc::ok ? "" : "full"});
  }
};

TEST_CASE("a shard's file is written when all its slices are in, ordered by slice") {
  Tracker of(1);
  REQUIRE(of.slices.size() == 2);
  CHECK(of.tracker->idle());
  of.tracker->hand_in(1, {of.slices[1], {}});
  CHECK(of.effects.take().empty());
  CHECK_FALSE(of.tracker->idle());
  of.tracker->hand_in(1, {of.slices[0], {}});
  const auto writes = of_kind<WriteShard>(of.effects.take());
  REQUIRE(writes.size() == 1);
  CHECK(writes[0].step == 1);
  REQUIRE(writes[0].slices.size() == 2);
  CHECK(writes[0].slices[0].slice == of.slices[0]);
  CHECK(writes[0].slices[1].slice == of.slices[1]);
}

TEST_CASE("what is being written is known to those who ask what is waited for") {
  Tracker of;
  CHECK(of.tracker->waits_for().empty());
  const WriteShard writing = of.cut(3);
  CHECK(of.tracker->waits_for() ==
        "the file of this shard of the checkpoint of step 3 is being written");
  of.write(writing);
  CHECK(of.tracker->waits_for().empty());
}

TEST_CASE("two checkpoints are in flight from the oldest on, a third waits for its report") {
  Tracker of;
  of.write(of.cut(1));
  CHECK(of.tracker->admits(2));
  const WriteShard second = of.cut(2);
  CHECK(of.tracker->admits(1));
  CHECK(of.tracker->admits(2));
  CHECK_FALSE(of.tracker->admits(3));
  of.write(second);
  CHECK(of.settled(2).ok());
  CHECK_FALSE(of.tracker->admits(3));  // the oldest is still in flight
  CHECK(of.settled(1).ok());
  CHECK(of.tracker->admits(3));
  CHECK(of.tracker->idle());
}

TEST_CASE("the first shard has the manifest written once all files are in, each counted once") {
  Tracker of;
  const ShardCheckpoint own = of.write(of.cut(1));
  CHECK(of.report(own).empty());
  CHECK(of.report(own).empty());
  const auto effects = of.report(of.of_other(1));
  const auto manifests = of_kind<WriteManifest>(effects);
  REQUIRE(manifests.size() == 1);
  CHECK(manifests[0].step == 1);
  REQUIRE(manifests[0].shards.size() == 2);
  CHECK(manifests[0].shards[0].shard == 0);
  CHECK(manifests[0].shards[1].shard == 1);
  CHECK(manifests[0].start.records == 16);
  CHECK(of.report(of.of_other(1)).empty());  // it is being written
  CHECK_FALSE(of.tracker->idle());

  REQUIRE(of.tracker->effect_done({manifests[0].id, {}, std::string("step-1-g3")}));
  const auto told = sent<CheckpointReport>(of.effects.take());
  REQUIRE(told.size() == 1);
  CHECK(told[0].first == kCoordinator);
  CHECK(told[0].second.path == "step-1-g3");
  CHECK(told[0].second.code == base::Errc::ok);
  CHECK(of.report(of.of_other(1)).empty());  // nobody is told before the coordinator knows
  const auto settled = of.answer(told[0].second);
  const auto reports = sent<CheckpointReport>(settled);
  CHECK(of_kind<RemoveCheckpoint>(settled).empty());
  REQUIRE(reports.size() == 2);  // both shards
  CHECK(reports[0].second.path == "step-1-g3");
  CHECK(of.answer(told[0].second).empty());
  // A shard that has missed the report sends its file again and gets it.
  const auto again = sent<CheckpointReport>(of.report(of.of_other(1)));
  REQUIRE(again.size() == 1);
  CHECK(again[0].first == schemas::ActorId{Role::parameter_server, 1 - of.shard});
  CHECK(again[0].second.path == "step-1-g3");
}

TEST_CASE("files of strangers, and files at another shard than the first, are passed over") {
  Tracker of;
  ShardCheckpoint file = of.of_other(1);
  file.shard = 7;
  CHECK(of.report(file).empty());
  for (const std::uint32_t shard : {1 - of.shard, of.shard}) {  // of a step that the job has not
    file = of.of_other(std::uint64_t{1} << 40);
    file.shard = shard;
    CHECK(of.report(file).empty());
  }
  Tracker other(2, false);
  CHECK(other.report(other.of_other(1)).empty());
  CHECK(other.report(other.write(other.cut(1))).empty());
}

TEST_CASE("a file is reported again and again until its checkpoint is settled") {
  Tracker of(2, false);
  of.mail.tick(0);
  of.write(of.cut(1));
  const auto repeated = [&](std::uint64_t now_ms) {
    of.mail.tick(now_ms);
    of.tracker->attend();
    return sent<ShardCheckpoint>(of.effects.take()).size();
  };
  CHECK(repeated(1) == 0);
  CHECK(repeated(10'000) == 1);
  CHECK(repeated(100'000) == 1);
  CHECK(of.settled(1).ok());
  CHECK(repeated(1'000'000) == 0);
}

TEST_CASE("a report of a checkpoint that this shard has not written yet, or again, says nothing") {
  Tracker of;
  const WriteShard writing = of.cut(1);
  CHECK(of.settled(1, base::Errc::internal).ok());
  CHECK_FALSE(of.tracker->idle());
  of.write(writing);
  CHECK(of.settled(1).ok());
  CHECK(of.tracker->idle());
  CHECK(of.settled(1, base::Errc::internal).ok());
  CHECK(of.tracker->idle());
}

TEST_CASE("an effect of somebody else is not the tracker's") {
  Tracker of;
  const WriteShard writing = of.cut(1);
  CHECK_FALSE(of.tracker->effect_done({writing.id + 1, {}, {}}));
  of.write(writing);
  CHECK_FALSE(of.tracker->effect_done({writing.id, {}, {}}));
}

TEST_CASE("a file that could not be written gives the checkpoint up without a manifest") {
  Tracker of;
  const ShardCheckpoint own = of.write(of.cut(1), kFull);
  CHECK(own.code == base::Errc::resource_exhausted);
  CHECK(own.step == 1);
  CHECK(own.shard == of.shard);
  CHECK(of.report(own).empty());
  const auto given_up = of.report(of.of_other(1));
  CHECK(of_kind<WriteManifest>(given_up).empty());
  const auto told = sent<CheckpointReport>(given_up);
  REQUIRE(told.size() == 1);
  CHECK(told[0].first == kCoordinator);
  const auto effects = of.answer(told[0].second);
  const auto reports = sent<CheckpointReport>(effects);
  REQUIRE(reports.size() == 2);
  CHECK(reports[0].second.code == base::Errc::resource_exhausted);
  CHECK(reports[0].second.text == "no space left on device");
  CHECK(reports[0].second.path.empty());
  const auto removed = of_kind<RemoveCheckpoint>(effects);
  REQUIRE(removed.size() == 1);
  CHECK(removed[0].step == 1);
}

TEST_CASE("a manifest that could not be written gives the checkpoint up, too") {
  Tracker of(1);
  const auto manifests = of_kind<WriteManifest>(of.report(of.write(of.cut(1))));
  REQUIRE(manifests.size() == 1);
  REQUIRE(of.tracker->effect_done({manifests[0].id, kFull, {}}));
  const auto told = sent<CheckpointReport>(of.effects.take());
  REQUIRE(told.size() == 1);
  const auto effects = of.answer(told[0].second);
  const auto reports = sent<CheckpointReport>(effects);
  REQUIRE(reports.size() == 1);
  CHECK(of_kind<RemoveCheckpoint>(effects).size() == 1);
  CHECK(reports[0].second.code == base::Errc::resource_exhausted);
}

TEST_CASE("a checkpoint of which the coordinator has no copy is given up") {
  Tracker of(1);
  const auto manifests = of_kind<WriteManifest>(of.report(of.write(of.cut(1))));
  REQUIRE(of.tracker->effect_done({manifests[0].id, {}, std::string("step-1-g3")}));
  of.effects.take();
  // It is asked again until it answers: a large copy takes its time.
  const auto repeated = [&](std::uint64_t now_ms) {
    of.mail.tick(now_ms);
    of.tracker->attend();
    const auto effects = of.effects.take();
    return sent<CheckpointReport>(effects).size();
  };
  CHECK(repeated(9'999) == 0);
  CHECK(repeated(10'001) == 1);
  const auto effects = of.answer({1, "", base::Errc::data_loss, "no copy"});
  CHECK(of_kind<RemoveCheckpoint>(effects).size() == 1);
  const auto reports = sent<CheckpointReport>(effects);
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].second.code == base::Errc::data_loss);
  CHECK(repeated(100'000) == 0);
}

TEST_CASE("failures in a row end the job, a success between them does not") {
  Tracker of;
  const auto fail = [&](std::uint64_t step) {
    of.write(of.cut(step));
    return of.settled(step, base::Errc::resource_exhausted);
  };
  CHECK(fail(1).ok());
  CHECK(of.settled(1, base::Errc::resource_exhausted).ok());  // an echo is no second failure
  CHECK(fail(2).ok());
  of.write(of.cut(3));
  CHECK(of.settled(3).ok());
  CHECK(fail(4).ok());
  CHECK(fail(5).ok());
  const base::Status third = fail(6);
  CHECK(third.code() == base::Errc::resource_exhausted);
  CHECK(third.text() == "3 checkpoints failed in a row, the last one of step 6: full");
}

TEST_CASE("the last step's checkpoint may not fail") {
  Tracker of;
  of.write(of.cut(8));
  const base::Status status = of.settled(8, base::Errc::resource_exhausted);
  CHECK(status.text() == "the last checkpoint, of step 8, was not written: full");
}

}  // namespace
}  // namespace troupe::actors
