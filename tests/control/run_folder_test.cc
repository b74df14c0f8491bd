// SPDX-License-Identifier: Apache-2.0
// A run and its folder of checkpoints, where a machine has one of its own: what is collected before
// the run begins, and that nobody waits for it in vain.
#include <algorithm>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "control/run_state.h"
#include "schemas/codec.h"
#include "tests/control/control_world.h"
#include "tests/support/catch.h"

namespace troupe::control {
namespace {

using base::Errc;
using schemas::JobPhase;
using schemas::Role;
using Effects = std::vector<RunState::Effect>;

constexpr std::uint64_t kGeneration = 3;
constexpr PeerId kAgent = 11;
constexpr schemas::ActorId kHost{Role::device_server, 0};
constexpr schemas::ActorId kServer{Role::parameter_server, 0};

template <typename Kind>
std::size_t count(const Effects& effects) {
  return static_cast<std::size_t>(std::count_if(
      effects.begin(), effects.end(),
      [](const RunState::Effect& effect) { return std::holds_alternative<Kind>(effect); }));
}

/// What the machine is sent, of one kind.
template <typename Message>
std::vector<Message> sent(const Effects& effects) {
  std::vector<Message> found;
  for (const auto& effect : effects) {
    const auto* send = std::get_if<Send<PeerId>>(&effect);
    if (send == nullptr) continue;
    if (const auto* message = std::get_if<Message>(&send->message)) found.push_back(*message);
  }
  return found;
}

/// One machine, which has a folder of its own. Time begins at 1 s.
struct Run {
  Run() {
    RunPlan plan;
    plan.job = std::string("x");
    plan.spec = testing::ControlWorld::job_spec(1, 1, 1);
    plan.placement.generation = kGeneration;
    plan.placement.machines = {"a"};
    plan.placement.machine_of_rank = {0};
    plan.placement.machine_of_shard = {0};
    plan.peers = {kAgent};
    plan.hosts = {"127.0.0.1"};
    limits = plan.spec.limits;
    state.emplace(std::move(plan));
    state->handle(Begin{1'000});
  }
  Effects look(Errc code = Errc::ok) {
    return state->handle(FolderProbed{{"x", kGeneration, code, "no such file", {}, 0}, "nonce"});
  }
  Effects held(schemas::NamedCheckpoint newest = {}) {
    return state->handle(FolderHeld{"x", kGeneration, {}, newest});
  }
  /// Until the coordinator has its folder for itself.
  Effects separate(std::vector<schemas::NamedCheckpoint> newest, std::uint64_t highest) {
    look();
    state->handle(AgentSaid{0, schemas::FolderProbeResult{"x", kGeneration, Errc::not_found, "no",
                                                          std::move(newest), highest}});
    state->handle(AgentSaid{
        0, schemas::FolderProbeResult{"x", kGeneration, Errc::ok, "", {}, highest}});  // it writes
    CHECK(count<HoldFolder>(look(Errc::not_found)) == 1);
    return held();
  }
  Effects found(const base::Status& status = {}, bool set_aside = false) {
    StartFound start{"x", kGeneration, status, 2, 1, 5, ""};
    start.set_aside = set_aside;
    return state->handle(start);
  }
  Effects says(schemas::ActorId from, const schemas::Message& message) {
    return state->handle(AgentSaid{
        0,
        schemas::ProcessMessage{"x", kGeneration, from, schemas::encode_message(message).value()}});
  }
  /// To the point where its processes are up, and nobody says anything any more.
  void train() {
    separate({}, 0);
    found();
    for (const schemas::ActorId process : {kHost, kServer}) {
      schemas::ProcessReady word;
      word.actor = process;
      word.address = std::string("127.0.0.1:5");
      says(process, word);
    }
    REQUIRE(state->info().phase == JobPhase::running);
  }
  /// The server has written this step's checkpoint.
  void write(std::uint64_t step) {
    says(kServer, schemas::CheckpointReport{step, "/out", Errc::ok, ""});
  }
  /// Whether it still runs then.
  bool runs_at(std::uint64_t now_ms) {
    state->handle(Tick{now_ms});
    return state->info().phase == JobPhase::running;
  }
  base::Limits limits;
  std::optional<RunState> state;
};

TEST_CASE("a run's generation is above what its machines hold, and nobody waits for it in vain") {
  Run run;
  CHECK(count<FindStart>(run.separate({}, 20)) == 1);
  // Who asks for files that are not sent is told.
  const auto refused =
      sent<schemas::FilePiece>(run.state->handle(AgentSaid{0, schemas::PieceQuery{5, "x"}}));
  CHECK(refused.at(0).number == 5);
  const auto launched = sent<schemas::LaunchProcess>(run.found());
  CHECK(launched.at(0).generation == 21);
  CHECK(launched.at(0).copied);
}

TEST_CASE("what is collected before a run may take long, but something has to come") {
  Run run;
  CHECK(count<CollectCheckpoint>(run.separate({{2, 7}}, 7)) == 1);
  const std::uint64_t patience_ms = run.limits.stall_ms;
  std::uint64_t now = 1'000;
  for (int i = 0; i < 3; ++i) {
    now += patience_ms - 1;
    CHECK(run.state->handle(Tick{now}).empty());
    run.state->handle(WorkGoesOn{"x", kGeneration});
  }
  const Effects effects = run.state->handle(Tick{now + patience_ms});
  CHECK(count<EndCollecting>(effects) == 1);
  CHECK(count<FindStart>(effects) == 0);  // nobody's steps are done again for want of patience
  CHECK(run.state->info().phase == JobPhase::failed);
}

TEST_CASE("a run whose turn comes nearer may wait long for it") {
  Run run;
  std::uint64_t now = 1'000;
  const auto waits = [&](std::uint64_t patience_ms) {
    for (int i = 0; i < 3; ++i) {
      now += patience_ms - 1;
      CHECK(run.state->handle(Tick{now}).empty());
      run.state->handle(WorkGoesOn{"x", kGeneration});
    }
  };
  SECTION("for the look at its folder") {
    waits(run.limits.probe_ms);
    run.state->handle(Tick{now + run.limits.probe_ms});
  }
  SECTION("for the search for its start") {
    run.look();
    run.state->handle(
        AgentSaid{0, schemas::FolderProbeResult{"x", kGeneration, Errc::ok, "", {}, 0}});
    waits(run.limits.start_ms);
    run.state->handle(Tick{now + run.limits.start_ms});
  }
  CHECK(run.state->info().phase == JobPhase::failed);
  CHECK_THAT(run.state->info().text, Catch::Contains("no answer of"));
}

TEST_CASE("a server that reports more steps than the job has ends it") {
  Run run;
  run.train();
  run.write(5);
  CHECK(run.state->info().phase == JobPhase::running);
  run.write(6);
  CHECK(run.state->info().phase == JobPhase::stopping);
}

TEST_CASE("while a copy comes, nobody is taken for silent, and each copy has its own time") {
  Run run;
  run.train();
  const std::uint64_t patience_ms = run.limits.stall_ms;
  std::uint64_t now = 1'000;
  SECTION("without one, silence ends the job") {
    CHECK_FALSE(run.runs_at(now + patience_ms));
  }
  SECTION("pieces come") {
    run.write(2);
    for (int i = 0; i < 5; ++i) {
      CHECK(run.runs_at(now += patience_ms / 2));
      run.state->handle(WorkGoesOn{"x", kGeneration});
    }
    // Then nothing comes any more, for which servers that it holds up would wait for ever.
    CHECK(run.runs_at(now += patience_ms - 1));
    CHECK_FALSE(run.runs_at(now += patience_ms));
    for (const schemas::ActorId process : {kHost, kServer}) {
      run.state->handle(
          AgentSaid{0, schemas::ProcessExited{"x", kGeneration, process, "exit 1", false}});
    }
    CHECK_THAT(run.state->info().text, Catch::Contains("nothing has come of a checkpoint's copy"));
  }
  SECTION("one copy follows the other") {
    run.write(2);
    run.write(3);
    CHECK(run.runs_at(now += 1));
    CHECK(run.runs_at(now += patience_ms - 1));
    run.state->handle(CheckpointCollected{"x", kGeneration, 2, kGeneration, {}});
    CHECK(run.runs_at(now += 1));
    CHECK(run.runs_at(now += patience_ms - 1));
  }
}

TEST_CASE("what may be whole on a machine is waited for by nobody, and not trained again") {
  Run run;
  run.separate({{2, 7}}, 7);
  const Effects effects =
      run.state->handle(CheckpointCollected{"x", kGeneration, 2, 7, {Errc::unavailable, "gone"}});
  CHECK(count<FindStart>(effects) == 0);
  CHECK(run.state->info().phase == JobPhase::failed);
  CHECK_THAT(run.state->info().text, Catch::Contains("step-2-g7 is on the job's machines"));
}

TEST_CASE("what turns out damaged is looked for on the machines before the run begins") {
  Run run;
  run.separate({{2, 7}}, 7);
  CHECK(count<FindStart>(run.state->handle(
            CheckpointCollected{"x", kGeneration, 2, 7, {Errc::data_loss, "sums"}})) == 1);
  const Effects effects = run.found({}, true);
  CHECK(count<FindStart>(effects) == 0);
  CHECK(sent<schemas::LaunchProcess>(effects).empty());
  CHECK(count<HoldFolder>(effects) == 1);
  CHECK(count<FindStart>(run.held({1, 6})) == 1);
  // The folder is let go of when the run is over.
  const Effects over = run.found({Errc::failed_precondition, "another job"});
  CHECK(run.state->info().phase == JobPhase::failed);
  CHECK(count<LetGoOfFolder>(over) == 1);
}

}  // namespace
}  // namespace troupe::control
