// SPDX-License-Identifier: Apache-2.0
// A job's silence at the coordinator: judged before training and after it, the servers' in between.
#include "control/job_state.h"

#include <algorithm>

#include "tests/support/catch.h"

namespace troupe::control {
namespace {

using schemas::ActorId;
using schemas::Role;

constexpr ActorId kRank{Role::worker, 0};
constexpr ActorId kServer{Role::parameter_server, 0};

JobRoster small_roster() {
  JobRoster roster;
  roster.placement.machine_of_rank = {0};
  roster.placement.machine_of_shard = {0};
  roster.placement.machines = {"a"};
  roster.limits.missing_log_ms = 100;
  roster.limits.stall_ms = 1'000;
  return roster;
}

/// The end among the effects; ok: none.
base::Status end_of(const std::vector<JobState::Effect>& effects) {
  for (const JobState::Effect& effect : effects) {
    if (const auto* end = std::get_if<End>(&effect)) return end->status;
  }
  return {};
}

TEST_CASE("a job whose ranks do not come is named, then ends") {
  JobState job(small_roster());
  job.handle(Begin{0});
  const auto warned = job.handle(Tick{100});
  REQUIRE(warned.size() == 1);
  CHECK(std::get<Note>(warned[0]).text.find("waiting for worker 0") != std::string::npos);
  CHECK(job.missing_ranks() == std::vector<std::uint32_t>{0});
  CHECK(end_of(job.handle(Tick{1'000})).code() == base::Errc::deadline_exceeded);
}

TEST_CASE("ranks that train need not log: the servers judge their silence, the end is bounded") {
  JobState job(small_roster());
  job.handle(Begin{0});
  job.handle(ActorSaid{kRank, schemas::DatasetReport{}});
  for (std::uint64_t now_ms = 50; now_ms <= 1'000'000; now_ms += 50) {
    job.handle(ActorSaid{kServer, schemas::ServerReport{0, now_ms}});
    REQUIRE(job.handle(Tick{now_ms}).empty());
  }
  SECTION("the server does not end") {
    job.handle(ActorSaid{kRank, schemas::ActorDone{kRank, 5}});
    CHECK(end_of(job.handle(Tick{1'000'999})).ok());
    const base::Status end = end_of(job.handle(Tick{1'001'000}));
    CHECK(end.text().find("waiting for parameter server 0") != std::string::npos);
  }
  SECTION("the rank does not end") {
    job.handle(ActorSaid{kServer, schemas::ActorDone{kServer, 5}});
    const base::Status end = end_of(job.handle(Tick{1'001'000}));
    CHECK(end.text().find("waiting for worker 0") != std::string::npos);
  }
}

TEST_CASE("a server that does not report is named, then ends the job, whatever ranks say") {
  JobRoster roster = small_roster();
  roster.placement.machine_of_shard = {0, 0};
  JobState job(roster);
  job.handle(Begin{0});
  job.handle(ActorSaid{kRank, schemas::DatasetReport{}});
  const auto tick = [&](std::uint64_t now_ms) {
    job.handle(ActorSaid{kServer, schemas::ServerReport{0, 0}});
    job.handle(ActorSaid{kServer, schemas::ServerReport{7, 0}});  // no such shard
    job.handle(ActorSaid{kRank, schemas::ProgressReport{}});
    return job.handle(Tick{now_ms});
  };
  for (std::uint64_t now_ms = 10; now_ms < 100; now_ms += 10) CHECK(tick(now_ms).empty());
  const auto warned = tick(100);
  REQUIRE(warned.size() == 1);
  CHECK(std::get<Note>(warned[0]).text ==
        "parameter server 1 on machine 'a' has not reported for 0 s, though its process lives");
  for (std::uint64_t now_ms = 110; now_ms < 1'000; now_ms += 10) CHECK(tick(now_ms).empty());
  const base::Status end = end_of(tick(1'000));
  CHECK(end.code() == base::Errc::deadline_exceeded);
  CHECK(end.text() ==
        "parameter server 1 on machine 'a' has not reported for 1 s, though its process lives");
}

TEST_CASE("a server that is done need not report") {
  JobRoster roster = small_roster();
  roster.placement.machine_of_shard = {0, 0};
  JobState job(roster);
  job.handle(Begin{0});
  job.handle(ActorSaid{kRank, schemas::DatasetReport{}});
  const schemas::ActorId other{Role::parameter_server, 1};
  job.handle(ActorSaid{other, schemas::ActorDone{other, 5}});
  for (std::uint64_t now_ms = 50; now_ms <= 2'000; now_ms += 50) {
    job.handle(ActorSaid{kServer, schemas::ServerReport{0, now_ms}});
    CHECK(job.handle(Tick{now_ms}).empty());
  }
}

TEST_CASE("every silence is told, whatever sign of life came between them") {
  JobState job(small_roster());
  job.handle(Begin{0});
  CHECK(job.handle(Tick{100}).size() == 1);
  CHECK(job.handle(Tick{200}).empty());
  // No progress yet, but it ends the silence.
  job.handle(ActorSaid{kServer, schemas::CheckpointReport{}});
  CHECK(job.missing_ranks().empty());
  CHECK(job.handle(Tick{299}).empty());
  const auto again = job.handle(Tick{300});
  REQUIRE(again.size() == 1);
  CHECK(std::get<Note>(again[0]).text.find("waiting for worker 0") != std::string::npos);
}

TEST_CASE("an epoch of which no image could be read has no score") {
  CHECK(no_score_text(3) == "epoch 3 has no score: no image of data.test could be read");
}

TEST_CASE("nobody speaks for another rank or server") {
  JobRoster roster = small_roster();
  roster.steps_total = 5;
  JobState job(roster);
  job.handle(Begin{0});
  const auto heard = [&](const schemas::ActorId& from, schemas::Message message) {
    return !job.handle(ActorSaid{from, std::move(message)}).empty();
  };
  CHECK_FALSE(heard(kServer, schemas::DatasetReport{}));
  CHECK_FALSE(heard({Role::worker, 1}, schemas::DatasetReport{}));
  CHECK(heard(kRank, schemas::DatasetReport{}));
  schemas::ProgressReport progress;
  progress.step = 5;
  progress.samples = 10;
  CHECK_FALSE(heard(kServer, progress));
  schemas::EvaluationReport score;
  score.samples = score.correct = 10;
  CHECK_FALSE(heard(kServer, score));
  CHECK_FALSE(heard(kRank, schemas::CheckpointReport{5, "elsewhere"}));
  CHECK_FALSE(heard(kServer, schemas::ActorDone{kRank, 5}));
  CHECK_FALSE(heard(kRank, schemas::ActorDone{kServer, 5}));
  CHECK_FALSE(job.ended());
  // Who fails, fails in its own name.
  const auto effects = job.handle(
      ActorSaid{kRank, schemas::ActorFailed{kServer, base::Errc::data_loss, "bad record"}});
  CHECK_THAT(std::get<End>(effects.back()).status.text(), Catch::StartsWith("worker 0"));
}

TEST_CASE("servers speak for themselves about a cut out of turn") {
  JobRoster roster = small_roster();
  roster.checkpoints = true;
  roster.steps_total = 10;
  JobState job(roster);
  job.handle(Begin{0});
  const auto early = job.handle(CutWanted{1, false});
  REQUIRE(early.size() == 1);
  CHECK(std::get<CutSettled>(early[0]).status.code() == base::Errc::failed_precondition);
  job.handle(ActorSaid{kRank, schemas::DatasetReport{}});
  CHECK(job.handle(CutWanted{2, false}).size() == 1);
  const schemas::CutReady ready{1, 0, 3};
  CHECK(job.handle(ActorSaid{kRank, ready}).empty());
  CHECK(job.handle(ActorSaid{kServer, ready}).empty());
  CHECK(job.handle(ActorSaid{{Role::device_server, 0}, ready}).size() == 1);
  const schemas::ExtraCutTaken taken{1, 0};
  CHECK(job.handle(ActorSaid{{Role::device_server, 0}, taken}).empty());
  CHECK(job.handle(ActorSaid{kServer, taken}).size() == 1);
  const auto ended = job.handle(Abort{base::error(base::Errc::cancelled, "stopped")});
  CHECK(std::holds_alternative<CutSettled>(*(ended.end() - 2)));
  CHECK(std::holds_alternative<End>(ended.back()));
}

TEST_CASE("a report of a checkpoint that is long forgotten is answered and no more") {
  JobState job(small_roster());
  job.handle(Begin{0});
  const auto report = [&](std::uint64_t step, base::Errc code) {
    schemas::CheckpointReport said;
    said.step = step;
    said.code = code;
    return job.handle(ActorSaid{kServer, said});
  };
  const auto notes = [](const std::vector<JobState::Effect>& effects) {
    return std::ranges::count_if(effects, [](const JobState::Effect& effect) {
      return std::holds_alternative<Note>(effect);
    });
  };
  CHECK(notes(report(1, base::Errc::unavailable)) == 1);
  for (std::uint64_t step = 2; step < 20; ++step) report(step, base::Errc::ok);
  for (int i = 0; i < 10; ++i) {
    const auto effects = report(1, base::Errc::unavailable);
    CHECK(notes(effects) == 0);
    CHECK(effects.size() == 1);
  }
}

TEST_CASE("the first cause ends a job, and nothing follows") {
  JobState job(small_roster());
  job.handle(Begin{0});
  const auto effects = job.handle(ActorSaid{
      kRank, schemas::ActorFailed{kRank, base::Errc::not_finite, "the loss is not finite"}});
  CHECK(end_of(effects).text() == "worker 0 on machine 'a' failed: the loss is not finite");
  std::size_t told = 0;
  for (const JobState::Effect& effect : effects) {
    const auto* send = std::get_if<Send<ActorId>>(&effect);
    if (send != nullptr && std::holds_alternative<schemas::JobEnd>(send->message)) ++told;
  }
  CHECK(told == job.roster().actors().size());
  CHECK(job.ended());
  CHECK(job.handle(Abort{base::error(base::Errc::cancelled, "too late")}).empty());
  CHECK(job.handle(Tick{5'000}).empty());
}

TEST_CASE("nobody who is not of the job can end it well") {
  JobState job(small_roster());
  job.handle(Begin{0});
  job.handle(ActorSaid{kRank, schemas::DatasetReport{}});
  for (std::uint32_t index = 1; index < 5; ++index) {
    const ActorId stranger{Role::worker, index};
    CHECK(job.handle(ActorSaid{kRank, schemas::ActorDone{stranger, 5}}).empty());
  }
  CHECK_FALSE(job.ended());
}

TEST_CASE("a job whose ranks have other data, or another test set, ends by the file's name") {
  JobRoster roster = small_roster();
  roster.placement.machine_of_rank = {0, 0};
  for (const bool test : {false, true}) {
    JobState job(roster);
    job.handle(Begin{0});
    schemas::DatasetReport data{0, {"train.rec", 100, 10, 1}, {"test.rec", 50, 5, 2}};
    job.handle(ActorSaid{kRank, data});
    data.rank = 1;
    (test ? data.test : data.train).records = 60;
    const ActorId other{Role::worker, 1};
    CHECK_THAT(end_of(job.handle(ActorSaid{other, data})).text(),
               Catch::Contains(test ? "test.rec is not the same file everywhere"
                                    : "train.rec is not the same file everywhere"));
  }
}

TEST_CASE("what is known of every rank is its phase, its steps and when it spoke last") {
  using schemas::RankPhase;
  JobRoster roster = small_roster();
  roster.placement.machine_of_rank = {0, 0};
  JobState job(roster);
  const auto phases = [&job] {
    std::vector<RankPhase> found;
    for (const schemas::RankInfo& rank : job.ranks()) found.push_back(rank.phase);
    return found;
  };
  using Phases = std::vector<RankPhase>;
  const ActorId other{Role::worker, 1};
  CHECK(job.ranks().empty());
  job.handle(Begin{0});
  CHECK(phases() == Phases{RankPhase::reading, RankPhase::reading});
  CHECK(job.ranks()[1].machine == "a");
  CHECK(job.ranks()[1].rank == 1);
  schemas::DatasetReport data;
  job.handle(ActorSaid{kRank, data});
  CHECK(phases() == Phases{RankPhase::waiting, RankPhase::reading});
  job.handle(Tick{100});  // a silence that is told
  CHECK(phases() == Phases{RankPhase::waiting, RankPhase::missing});
  CHECK(job.ranks()[1].heard_ms == 100);
  data.rank = 1;
  job.handle(ActorSaid{other, data});
  CHECK(phases() == Phases{RankPhase::training, RankPhase::training});
  job.handle(ActorSaid{kServer, schemas::ServerReport{0, 0}});
  job.handle(Tick{150});
  schemas::ProgressReport progress;
  progress.step = 4;
  progress.samples = 32;
  job.handle(ActorSaid{kRank, progress});
  job.handle(ActorSaid{kServer, schemas::ServerReport{0, 0}});
  job.handle(Tick{200});
  CHECK(job.ranks()[0].step == 4);
  CHECK(job.ranks()[0].samples_per_second == 640.0);
  CHECK(job.ranks()[0].heard_ms == 50);
  CHECK(job.ranks()[1].step == 0);
  CHECK(job.ranks()[1].samples_per_second == 0.0);
  CHECK(job.ranks()[1].heard_ms == 100);
  job.handle(ActorSaid{kRank, progress});  // again: a sign of life, no work
  CHECK(job.ranks()[0].heard_ms == 0);
  CHECK(job.ranks()[0].samples_per_second == 640.0);
  job.handle(ActorSaid{other, schemas::ActorDone{other, 5}});
  CHECK(phases() == Phases{RankPhase::training, RankPhase::done});
}

}  // namespace
}  // namespace troupe::control
