// SPDX-License-Identifier: Apache-2.0
// One run, event by event: what is checked before processes start, whose word counts when one is
// lost, and that every stage ends in time with a name.
#include "control/run_state.h"

#include <algorithm>

#include "schemas/codec.h"
#include "tests/control/control_world.h"
#include "tests/support/catch.h"

namespace troupe::control {
namespace {

using base::Errc;
using schemas::ActorId;
using schemas::JobPhase;
using schemas::Role;

using Effects = std::vector<RunState::Effect>;

constexpr ActorId kHostA{Role::device_server, 0};
constexpr ActorId kHostB{Role::device_server, 1};
constexpr ActorId kServer{Role::parameter_server, 0};
constexpr PeerId kAgentA = 10;
constexpr PeerId kAgentB = 11;
constexpr std::uint64_t kGeneration = 3;

/// What is sent to an agent, of one kind.
template <typename Message>
std::vector<Message> sent(const Effects& effects, PeerId peer) {
  std::vector<Message> found;
  for (const RunState::Effect& effect : effects) {
    const auto* send = std::get_if<Send<PeerId>>(&effect);
    if (send == nullptr || send->to != peer) continue;
    if (const auto* message = std::get_if<Message>(&send->message)) found.push_back(*message);
  }
  return found;
}

bool searches(const Effects& effects) {
  return std::any_of(effects.begin(), effects.end(), [](const RunState::Effect& effect) {
    return std::holds_alternative<FindStart>(effect);
  });
}

/// Rank 0 and the only shard on machine a, rank 1 on machine b. Time begins at 1 s.
struct Run {
  explicit Run(bool probed = true) {
    RunPlan plan;
    plan.job = std::string("x");
    plan.spec = testing::ControlWorld::job_spec(2, 1, 1);
    if (!probed) plan.spec.checkpoint.dir.clear();
    plan.placement.generation = kGeneration;
    plan.placement.machines = {"a", "b"};
    plan.placement.machine_of_rank = {0, 1};
    plan.placement.machine_of_shard = {0};
    plan.peers = {kAgentA, kAgentB};
    plan.hosts = {"127.0.0.1", "10.1.2.3"};
    limits = plan.spec.limits;
    state.emplace(std::move(plan));
    begun = state->handle(Begin{1'000});
  }
  Effects probe(std::uint32_t machine, Errc code = Errc::ok) {
    return state->handle(
        AgentSaid{machine, schemas::FolderProbeResult{"x", kGeneration, code, "no such folder"}});
  }
  /// The coordinator's own file is there.
  Effects look(Errc code = Errc::ok) {
    return state->handle(FolderProbed{{"x", kGeneration, code, "no such folder"}, "nonce"});
  }
  Effects found(std::uint64_t step = 0, std::uint64_t generation = 1,
                std::uint64_t asked_by = kGeneration) {
    return state->handle(
        StartFound{"x", asked_by, {}, step, generation, 5, step > 0 ? "step-2-g7" : "", {1, 2, 3}});
  }
  Effects says(std::uint32_t machine, ActorId from, const schemas::Message& message) {
    return state->handle(AgentSaid{
        machine,
        schemas::ProcessMessage{"x", kGeneration, from, schemas::encode_message(message).value()}});
  }
  Effects ready(std::uint32_t machine, ActorId process) {
    schemas::ProcessReady word;
    word.actor = process;
    word.pid = 70 + machine;
    word.address = std::string(machine == 0 ? "127.0.0.1:5" : "10.1.2.3:5");
    return says(machine, process, word);
  }
  Effects exits(std::uint32_t machine, ActorId process, const std::string& how) {
    return state->handle(AgentSaid{
        machine, schemas::ProcessExited{"x", kGeneration, process, how, how == "exit 0"}});
  }
  /// To the point where all processes are up.
  Effects train() {
    found();
    ready(0, kHostA);
    ready(0, kServer);
    return ready(1, kHostB);
  }
  const schemas::JobInfo& info() const { return state->info(); }

  base::Limits limits;
  std::optional<RunState> state;
  Effects begun;
};

// A server has found it damaged and set it aside, so nobody would resume from it.
TEST_CASE("a run that ends by damage promises no resume from where it began") {
  const auto text = [](Errc code) {
    Run run;
    run.look();
    run.probe(0);
    run.found(2);
    run.ready(0, kHostA);
    run.ready(0, kServer);
    run.ready(1, kHostB);
    run.says(0, kServer, schemas::ActorFailed{kServer, code, "damaged between bytes 0 and 9"});
    run.exits(0, kServer, "exit 1");
    run.exits(0, kHostA, "exit 1");
    run.exits(1, kHostB, "exit 1");
    return run.info().text;
  };
  CHECK(text(Errc::data_loss) ==
        "parameter server 0 on machine 'a' failed: damaged between bytes 0 and 9");
  CHECK_THAT(text(Errc::internal), Catch::Contains("resumes from step-2-g7"));
}

TEST_CASE("every process of a run learns the run's secret and how many machines there are") {
  Run run(false);
  const Effects effects = run.found();
  for (const auto& [peer, processes] : {std::pair(kAgentA, 2u), std::pair(kAgentB, 1u)}) {
    const auto launched = sent<schemas::LaunchProcess>(effects, peer);
    REQUIRE(launched.size() == processes);
    for (const schemas::LaunchProcess& launch : launched) {
      CHECK(launch.secret == base::Secret{1, 2, 3});
      CHECK(launch.machines == 2);
    }
  }
}

TEST_CASE("a process that says it listens on another machine than its agent's fails the job") {
  Run run(false);
  run.found();
  schemas::ProcessReady word;
  word.actor = kServer;
  SECTION("where others are to dial") {
    word.address = std::string("10.1.2.3:5");
  }
  SECTION("where its page is") {
    word.http_address = std::string("10.1.2.3:5");
  }
  run.says(0, kServer, word);
  CHECK(run.info().phase == JobPhase::stopping);
  run.exits(0, kHostA, "signal 15");
  run.exits(0, kServer, "signal 15");
  run.exits(1, kHostB, "signal 15");
  CHECK(run.info().phase == JobPhase::failed);
  CHECK_THAT(run.info().text,
             Catch::StartsWith("parameter server 0 on machine 'a': '10.1.2.3:5' is no address of "
                               "127.0.0.1, where its owner calls from"));
}

TEST_CASE("machines with servers see the coordinator's folder before the start is looked up") {
  Run run;
  REQUIRE(run.begun.size() >= 1);
  CHECK(sent<schemas::FolderProbe>(run.begun, kAgentA).empty());
  const Effects asked = run.look();
  const auto read = sent<schemas::FolderProbe>(asked, kAgentA);
  REQUIRE(read.size() == 1);
  CHECK_FALSE(read[0].write);
  CHECK(read[0].nonce == "nonce");
  CHECK(sent<schemas::FolderProbe>(asked, kAgentB).empty());  // it has no server
  SECTION("they do") {
    const Effects effects = run.probe(0);
    CHECK(std::count_if(effects.begin(), effects.end(), [](const RunState::Effect& effect) {
            const auto* own = std::get_if<ProbeFolder>(&effect);
            return own != nullptr && own->probe.nonce.empty();
          }) == 1);  // its file goes
    CHECK(searches(effects));
  }
  SECTION("one may not look") {
    const Effects effects = run.probe(0, Errc::permission_denied);
    CHECK_FALSE(searches(effects));
    CHECK(run.info().phase == JobPhase::failed);
    CHECK(run.info().text == "checkpoint.dir /out: machine 'a' cannot look there: no such folder");
  }
  SECTION("one does not answer") {
    CHECK(run.state->handle(Tick{1'000 + run.limits.probe_ms - 1}).empty());
    run.state->handle(Tick{1'000 + run.limits.probe_ms});
    CHECK(run.info().text ==
          "the job could not start: no answer of the agent of machine 'a' about checkpoint.dir "
          "/out");
  }
}

TEST_CASE("a job without checkpoints asks no folder, and a search that does not end is named") {
  Run run(false);
  CHECK(searches(run.begun));
  run.state->handle(Tick{1'000 + run.limits.start_ms});
  CHECK(run.info().text ==
        "the job could not start: no answer of the coordinator's look at the job's files");
}

TEST_CASE("a run goes on from the newest checkpoint, above its generation") {
  Run run(false);
  CHECK(run.found(4, 8, kGeneration - 1).empty());  // an earlier run's search
  const Effects effects = run.found(2, 8);
  for (const PeerId peer : {kAgentA, kAgentB}) {
    for (const auto& launch : sent<schemas::LaunchProcess>(effects, peer)) {
      CHECK(launch.generation == 8);
    }
  }
  CHECK(sent<schemas::LaunchProcess>(effects, kAgentA).size() == 2);
  CHECK(sent<schemas::LaunchProcess>(effects, kAgentB).size() == 1);
  CHECK(run.state->plan().placement.start_step == 2);
  CHECK(run.info().step == 2);
  // A second answer, of an earlier search, changes nothing.
  CHECK(run.found(4, 9).empty());
  CHECK(run.state->plan().placement.generation == 8);
}

TEST_CASE("a job whose last checkpoint is there needs no process") {
  Run run(false);
  const Effects effects = run.found(5);
  CHECK(sent<schemas::LaunchProcess>(effects, kAgentA).empty());
  CHECK(run.state->over());
  CHECK(run.info().phase == JobPhase::succeeded);
  CHECK(run.info().done_before);
}

TEST_CASE("training begins when all processes are up, and only their own agent speaks for them") {
  Run run(false);
  run.found();
  run.ready(0, kHostA);
  run.ready(0, kServer);
  CHECK(run.ready(0, kHostB).empty());  // machine a speaks of b's process
  CHECK(run.info().phase == JobPhase::starting);
  const Effects effects = run.ready(1, kHostB);
  CHECK(run.info().phase == JobPhase::running);
  // Each actor gets its placement: two on machine b, three on machine a.
  CHECK(sent<schemas::ProcessMessage>(effects, kAgentA).size() == 3);
  CHECK(sent<schemas::ProcessMessage>(effects, kAgentB).size() == 2);
  CHECK(run.state->plan().placement.shard_addresses == std::vector<std::string>{"127.0.0.1:5"});
}

TEST_CASE("a lost peer is a suspicion, until its agent says what happened") {
  Run run(false);
  run.train();
  const std::string lost_server = "lost parameter server 0";
  run.says(1, kHostB, schemas::ActorFailed{kHostB, Errc::unavailable, lost_server, kServer});
  CHECK(run.info().phase == JobPhase::running);
  SECTION("the agent knows better") {
    run.exits(0, kServer, "signal 9");
    CHECK(run.info().phase == JobPhase::stopping);
    run.exits(0, kHostA, "exit 1");
    run.exits(1, kHostB, "exit 1");
    CHECK(run.info().text ==
          "parameter server 0 on machine 'a' was killed by signal 9; it writes no checkpoints");
  }
  SECTION("nobody knows better") {
    run.state->handle(Tick{1'000 + run.limits.suspicion_ms - 1});
    CHECK(run.info().phase == JobPhase::running);
    run.state->handle(Tick{1'000 + run.limits.suspicion_ms});
    CHECK(run.info().phase == JobPhase::stopping);
  }
  SECTION("the link to an agent is cut, too") {
    const std::uint32_t machine = GENERATE(0U, 1U);  // that of the lost peer, or another
    run.state->handle(AgentCut{machine, "closed"});
    const bool back = GENERATE(true, false);
    if (back) run.state->handle(AgentBack{machine});
    const auto effects = run.state->handle(Tick{1'000 + run.limits.suspicion_ms});
    const auto* lost = effects.empty() ? nullptr : std::get_if<GiveUpAgent>(&effects[0]);
    CHECK((lost != nullptr) == (!back && machine == 0));
    if (lost == nullptr) return;
    CHECK(lost->peer == kAgentA);
    run.state->handle(AgentLost{0, lost->reason});
    run.exits(1, kHostB, "exit 1");
    CHECK(run.info().text.find("agent of machine 'a' is lost (closed)") == 0);
  }
  SECTION("who complained leaves") {
    run.exits(1, kHostB, "exit 1");
    CHECK(run.info().phase == JobPhase::stopping);
    run.exits(0, kHostA, "exit 1");
    run.exits(0, kServer, "exit 1");
    CHECK(run.info().text ==
          "device server 1 on machine 'b' failed: " + lost_server + "; it writes no checkpoints");
  }
}

TEST_CASE("a disk that fails is no lost peer", "[run_state]") {
  Run run(false);
  run.train();
  run.state->handle(AgentCut{0, "closed"});  // an innocent one
  run.says(1, kHostB, schemas::ActorFailed{kHostB, Errc::io_error, "a.rec: cannot read"});
  CHECK(run.info().phase == JobPhase::stopping);
}

TEST_CASE("how a process ended is told as it was") {
  Run run(false);
  run.train();
  run.says(1, kHostB, schemas::ActorFailed{kHostB, Errc::unavailable, "lost parameter server 0"});
  struct Row {
    std::string how;
    std::string text;
  };
  const Row row =
      GENERATE(Row{"signal 9", "was killed by signal 9"},
               Row{"signal 9: the kernel ran out of memory",
                   "was killed by signal 9: the kernel ran out of memory"},
               Row{"hung: silent for 15000 ms", "hung and was killed: silent for 15000 ms"});
  run.exits(1, kHostB, row.how);  // a cause of its own, though it has complained
  run.exits(0, kHostA, "exit 1");
  run.exits(0, kServer, "exit 1");
  CHECK(run.info().text.find("host process of machine 'b' (rank 1) " + row.text) == 0);
}

TEST_CASE("an actor's own failure is the cause at once") {
  Run run(false);
  run.train();
  const Effects effects = run.says(
      0, {Role::worker, 0}, schemas::ActorFailed{{Role::worker, 0}, Errc::data_loss, "bad record"});
  CHECK(run.info().phase == JobPhase::stopping);
  for (const PeerId peer : {kAgentA, kAgentB}) {
    CHECK(sent<schemas::StopProcesses>(effects, peer).size() == 1);
  }
  run.exits(0, kHostA, "signal 9");  // killed after the grace: no cause
  run.exits(0, kServer, "exit 1");
  CHECK_FALSE(run.state->over());
  run.exits(1, kHostB, "exit 1");
  CHECK(run.info().phase == JobPhase::failed);
  CHECK(run.info().text.find("worker 0 on machine 'a' failed: bad record") == 0);
  CHECK(run.exits(1, kHostB, "exit 1").empty());
}

TEST_CASE("a lost agent takes its processes with it, and nothing more is sent to it") {
  Run run(false);
  run.train();
  const Effects effects = run.state->handle(AgentLost{0, "closed"});
  CHECK(sent<schemas::ProcessMessage>(effects, kAgentA).empty());
  CHECK(sent<schemas::StopProcesses>(effects, kAgentA).empty());
  CHECK(sent<schemas::StopProcesses>(effects, kAgentB).size() == 1);
  CHECK(run.state->handle(Tick{1'001}).empty());
  run.exits(1, kHostB, "exit 1");
  CHECK(run.info().phase == JobPhase::failed);
  CHECK(run.info().text.find("agent of machine 'a' is lost (closed), and with it ranks 0") == 0);
  CHECK(run.state->left_behind().empty());
}

TEST_CASE("processes of a job that is done and do not end are killed, and at last given up") {
  Run run(false);
  run.train();
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const ActorId worker{Role::worker, rank};
    run.says(rank, worker, schemas::ActorDone{worker, 5});
  }
  run.says(0, kServer, schemas::ActorDone{kServer, 5});
  REQUIRE(run.info().phase == JobPhase::stopping);
  run.exits(0, kHostA, "exit 0");
  run.exits(0, kServer, "exit 0");
  const std::uint64_t grace_ms = run.limits.stop_grace_ms;
  CHECK(run.state->handle(Tick{1'000 + grace_ms - 1}).empty());
  const auto killed =
      sent<schemas::StopProcesses>(run.state->handle(Tick{1'000 + grace_ms}), kAgentB);
  REQUIRE(killed.size() == 1);
  CHECK(killed[0].grace_ms == 0);
  run.state->handle(Tick{1'000 + 3 * grace_ms - 1});
  CHECK_FALSE(run.state->over());
  CHECK(run.state->left_behind().empty());
  run.state->handle(Tick{1'000 + 3 * grace_ms});
  CHECK(run.state->over());
  // Whoever gives its slots to others should know.
  CHECK(run.state->left_behind() == std::map<std::uint32_t, std::uint64_t>{{1, 71}});
  CHECK(run.info().phase == JobPhase::failed);
  CHECK(run.info().text.find("host process of machine 'b' (rank 1) did not end") == 0);
}

TEST_CASE("a stopped run is stopped, whatever its processes say then") {
  Run run(false);
  run.train();
  run.state->handle(StopRequested{});
  run.says(0, kHostA, schemas::ActorFailed{kHostA, Errc::data_loss, "late"});
  CHECK(run.state->handle(StopRequested{}).empty());
  run.exits(0, kHostA, "exit 1");
  run.exits(0, kServer, "exit 1");
  run.exits(1, kHostB, "exit 1");
  CHECK(run.info().phase == JobPhase::stopped);
  CHECK(run.info().text == "stopped by request; it writes no checkpoints");
  CHECK(run.state->targets().empty());
}

// ---- cuts out of turn ----

constexpr PeerId kAnn = 77;

/// The answers to kAnn's wishes for a checkpoint.
std::vector<schemas::JobCheckpointAnswer> answered(const Effects& effects) {
  return sent<schemas::JobCheckpointAnswer>(effects, kAnn);
}

/// A run that trains and writes checkpoints.
struct Saving : Run {
  Saving() {
    look();
    probe(0);
    train();
    for (const std::uint32_t rank : {0u, 1u}) {
      says(rank, {Role::worker, rank}, schemas::DatasetReport{rank, {"f", 100, 10, 1}});
    }
  }
  /// Everybody takes part in the cut under way, but for the checkpoint itself. `next`: what machine
  /// b says.
  Effects cut(std::uint64_t number, std::uint64_t next) {
    says(0, kHostA, schemas::CutReady{number, 0, 1});
    says(1, kHostB, schemas::CutReady{number, 1, next});
    return says(0, kServer, schemas::ExtraCutTaken{number, 0});
  }
  Effects written(std::uint64_t step, Errc code = Errc::ok) {
    return says(0, kServer,
                schemas::CheckpointReport{step, code == Errc::ok ? "step" : "", code, "full"});
  }
  void all_exit() {
    exits(0, kHostA, "exit 1");
    exits(0, kServer, "exit 1");
    exits(1, kHostB, "exit 1");
  }
};

TEST_CASE("a person is told of the checkpoint when it is there, and the job goes on") {
  Saving run;
  CHECK(answered(run.state->handle(CheckpointRequested{kAnn})).empty());
  CHECK(run.state->owes(kAnn));
  run.cut(1, 2);
  const auto answers = answered(run.written(3));
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].path == "/out/step-3-g3");
  CHECK(answers[0].step == 3);
  CHECK_FALSE(run.state->owes(kAnn));
  CHECK(run.info().phase == JobPhase::running);
  CHECK(run.info().checkpoint == "/out/step-3-g3");
}

TEST_CASE("a person is told why there is no checkpoint, and the job goes on") {
  Saving run;
  run.state->handle(CheckpointRequested{kAnn});
  std::vector<schemas::JobCheckpointAnswer> answers;
  SECTION("it cannot be written") {
    run.cut(1, 2);
    answers = answered(run.written(3, Errc::resource_exhausted));
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].text == "the checkpoint of step 3 could not be written: full");
  }
  SECTION("it takes too long") {
    answers = answered(run.state->handle(Tick{1'000 + run.limits.cut_ms}));
    REQUIRE(answers.size() == 1);
    CHECK_THAT(
        answers[0].text,
        Catch::Contains("device server 0 on machine 'a', device server 1 on machine 'b' did"));
  }
  CHECK(answers[0].path.empty());
  CHECK(run.info().phase == JobPhase::running);
}

TEST_CASE("a checkpoint is refused where there is nothing to save") {
  Run run(false);
  const auto early = answered(run.state->handle(CheckpointRequested{kAnn}));
  REQUIRE(early.size() == 1);
  CHECK(early[0].text == "job x is not training yet");
  run.train();
  for (const std::uint32_t rank : {0u, 1u}) {
    run.says(rank, {Role::worker, rank}, schemas::DatasetReport{rank, {"f", 100, 10, 1}});
  }
  const auto without = answered(run.state->handle(CheckpointRequested{kAnn}));
  REQUIRE(without.size() == 1);
  CHECK(without[0].text == "checkpoint.dir is not set");
  run.state->handle(StopRequested{});
  const auto late = answered(run.state->handle(CheckpointRequested{kAnn}));
  REQUIRE(late.size() == 1);
  CHECK(late[0].text == "job x is ending");
}

TEST_CASE("a run that is stopped with a checkpoint ends when that is there") {
  Saving run;
  CHECK(sent<schemas::StopProcesses>(run.state->handle(StopRequested{true}), kAgentA).empty());
  run.state->handle(StopRequested{true});  // asked again
  SECTION("written") {
    const auto cuts = sent<schemas::ProcessMessage>(run.cut(1, 2), kAgentB);
    REQUIRE(cuts.size() == 1);
    const auto cut = schemas::decode_message(cuts[0].message).value();
    CHECK(std::get<schemas::ExtraCut>(cut).last);
    CHECK(sent<schemas::StopProcesses>(run.written(3), kAgentB).size() == 1);
    run.all_exit();
    CHECK(run.state->uncut().empty());
    CHECK(run.info().text == "stopped by request; submitting it again resumes from /out/step-3-g3");
  }
  SECTION("not written in time") {
    const Effects late = run.state->handle(Tick{1'000 + run.limits.cut_ms});
    CHECK(sent<schemas::StopProcesses>(late, kAgentB).size() == 1);
    run.all_exit();
    CHECK_THAT(run.state->uncut(), Catch::StartsWith("the checkpoint was not written: no"));
    CHECK_THAT(run.info().text, Catch::Contains("stopped by request; the checkpoint was not"));
  }
  SECTION("stopped once more, without") {
    const Effects now = run.state->handle(StopRequested{});
    CHECK(sent<schemas::StopProcesses>(now, kAgentB).size() == 1);
    run.all_exit();
    CHECK_THAT(run.state->uncut(), Catch::Contains("the job has ended: stopped by request"));
  }
  SECTION("a process dies meanwhile") {
    run.exits(1, kHostB, "signal 9");
    run.all_exit();
    CHECK(run.info().phase == JobPhase::failed);
    CHECK_THAT(run.state->uncut(), Catch::Contains("was killed by signal 9"));
    return;
  }
  CHECK(run.info().phase == JobPhase::stopped);
  CHECK_FALSE(run.state->moves());
}

TEST_CASE("a run whose last step is the cut is done, not stopped") {
  Saving run;
  run.state->handle(StopRequested{true});
  run.cut(1, 5);
  run.written(5);
  CHECK(run.info().phase == JobPhase::running);
  for (const ActorId& actor : {ActorId{Role::worker, 0}, ActorId{Role::worker, 1}, kServer}) {
    run.says(actor.index == 1 ? 1 : 0, actor, schemas::ActorDone{actor, 5});
  }
  run.all_exit();
  CHECK(run.info().phase == JobPhase::succeeded);
  CHECK_FALSE(run.info().done_before);
}

TEST_CASE("a run leaves a machine with a checkpoint, and goes on elsewhere") {
  Saving run;
  const auto query =
      sent<schemas::ProcessMessage>(run.state->handle(MachineLeaving{1, "asked"}), kAgentB);
  REQUIRE(query.size() == 1);
  CHECK(run.state->handle(MachineLeaving{0, "asked, too"}).empty());
  SECTION("the checkpoint is there") {
    run.cut(1, 2);
    CHECK(sent<schemas::StopProcesses>(run.written(3), kAgentA).size() == 1);
    run.all_exit();
    CHECK(run.state->moves());
    CHECK(run.info().text == "leaves machine 'b'");
  }
  SECTION("a person stops it first") {
    run.cut(1, 2);
    run.written(3);
    run.state->handle(StopRequested{});
    run.all_exit();
    CHECK_FALSE(run.state->moves());
    CHECK(run.info().phase == JobPhase::stopped);
  }
  SECTION("it cannot be written") {
    run.cut(1, 2);
    run.written(3, Errc::resource_exhausted);
    run.all_exit();
    CHECK_FALSE(run.state->moves());
    CHECK(run.info().phase == JobPhase::failed);
    CHECK_THAT(run.info().text,
               Catch::StartsWith("agent of machine 'b' is lost (asked; the checkpoint was not "
                                 "written: the checkpoint of step 3 could not be written: full), "
                                 "and with it ranks 1"));
  }
}

TEST_CASE("a run that has trained nothing leaves a machine at once, one without a folder fails") {
  Run run(false);
  SECTION("nothing to lose") {
    run.found();
    run.state->handle(MachineLeaving{1, "asked"});
    run.exits(0, kHostA, "exit 1");
    run.exits(0, kServer, "exit 1");
    run.exits(1, kHostB, "exit 1");
    CHECK(run.state->moves());
  }
  SECTION("nothing to save it with") {
    run.train();
    for (const std::uint32_t rank : {0u, 1u}) {
      run.says(rank, {Role::worker, rank}, schemas::DatasetReport{rank, {"f", 100, 10, 1}});
    }
    run.state->handle(MachineLeaving{1, "asked"});
    run.exits(0, kHostA, "exit 1");
    run.exits(0, kServer, "exit 1");
    run.exits(1, kHostB, "exit 1");
    CHECK_FALSE(run.state->moves());
    CHECK_THAT(run.info().text, Catch::StartsWith("agent of machine 'b' is lost (asked), and"));
  }
}

TEST_CASE("what a process says is no message: the run fails and names it") {
  Run run(false);
  run.train();
  run.state->handle(
      AgentSaid{1, schemas::ProcessMessage{"x", kGeneration, kHostB, std::string("garbage")}});
  CHECK(run.info().phase == JobPhase::stopping);
}

}  // namespace
}  // namespace troupe::control
