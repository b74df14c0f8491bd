// SPDX-License-Identifier: Apache-2.0
// The coordinator and its agents in a played cluster: jobs run, wait, fail with their cause, stop.
#include <fmt/format.h>

#include <algorithm>

#include "control/rank_placement.h"
#include "tests/control/control_world.h"
#include "tests/support/catch.h"

namespace troupe::control {
namespace {

using base::Errc;
using schemas::JobPhase;
using testing::ControlWorld;
using testing::Fate;

constexpr std::uint64_t kLongMs = 20'000;

std::string text_of(const schemas::JobSpec& spec) {
  return ControlWorld::job_text(spec);
}

/// Submits a job at once and runs to the end.
schemas::JobInfo run_job(ControlWorld& world, const schemas::JobSpec& spec) {
  world.say(schemas::JobSubmit{"", text_of(spec), ""});
  world.run_until(world.now_ms() + kLongMs);
  return world.coordinator().jobs().back();
}
schemas::JobInfo run_job(ControlWorld& world, std::uint32_t machines, std::uint32_t devices,
                         std::uint32_t shards) {
  return run_job(world, ControlWorld::job_spec(machines, devices, shards));
}

TEST_CASE("a job runs on two agents and leaves nothing") {
  ControlWorld world(1);
  world.add_agent("a", 2);
  world.add_agent("b", 2);
  const schemas::JobInfo info = run_job(world, 2, 2, 3);
  CHECK(info.phase == JobPhase::succeeded);
  CHECK(info.step == 5);
  CHECK(info.steps_total == 5);
  CHECK(info.loss == Approx(2.5));
  CHECK(world.processes() == 0);
  CHECK(world.coordinator().counts().cpus.used == 0);
}

TEST_CASE("a job waits for slots, and says so") {
  ControlWorld world(2);
  world.add_agent("a", 2);
  CHECK(run_job(world, 2, 2, 1).text == "waits for 4 worker slots; all agents together have 2");
  world.add_agent("b", 2);
  world.run_until(world.now_ms() + kLongMs);
  CHECK(world.coordinator().jobs().back().phase == JobPhase::succeeded);
}

TEST_CASE("what comes again with the same request is the same job, whatever became of it") {
  CoordinatorState state({"1", ControlWorld::limits()});
  const auto submit = [&](const std::string& id, const std::string& request) {
    const std::string text = text_of(ControlWorld::job_spec(1, 1, 1));
    for (const CoordinatorEffect& effect :
         state.handle(PeerSaid{9, schemas::JobSubmit{id, text, request}})) {
      const auto* send = std::get_if<Send<PeerId>>(&effect);
      if (send != nullptr) return std::get<schemas::JobSubmitted>(send->message).id;
    }
    return std::string("no answer");
  };
  const std::string first = submit("", "r1");
  CHECK(submit("", "r1") == first);
  CHECK(state.jobs().size() == 1);
  CHECK(submit("", "r2") != first);
  CHECK(submit("", "") != submit("", ""));
  CHECK(state.jobs().size() == 4);
  // Named jobs go on as a new run when they are submitted anew, but not because an answer was lost.
  CHECK(submit("x", "r3") == "x");
  state.handle(PeerSaid{9, schemas::JobStop{"x"}});
  CHECK(submit("x", "r3") == "x");
  CHECK(state.jobs().back().phase == JobPhase::stopped);
  CHECK(submit("x", "r4") == "x");
  CHECK(state.jobs().back().phase == JobPhase::pending);
  CHECK(submit("x", "r3") == "x");
  CHECK(state.jobs().size() == 5);
  // Neither does one that was answered while the job waited.
  CHECK(submit("x", "r5") == "x");
  state.handle(PeerSaid{9, schemas::JobStop{"x"}});
  for (const std::string request : {"r3", "r4", "r5"}) {
    CHECK(submit("x", request) == "x");
    CHECK(state.jobs().back().phase == JobPhase::stopped);
  }
  // The last eight count; when the job goes on anew none of the old ones does.
  CHECK(submit("x", "n1") == "x");
  for (int i = 2; i <= 9; ++i) submit("x", fmt::format("n{}", i));
  state.handle(PeerSaid{9, schemas::JobStop{"x"}});
  CHECK(submit("x", "n2") == "x");
  CHECK(state.jobs().back().phase == JobPhase::stopped);
  CHECK(submit("x", "n1") == "x");
  CHECK(state.jobs().back().phase == JobPhase::pending);
  state.handle(PeerSaid{9, schemas::JobStop{"x"}});
  CHECK(submit("x", "n9") == "x");
  CHECK(state.jobs().back().phase == JobPhase::pending);
}

TEST_CASE("an id is one job until it has ended, unknown ids are not found") {
  ControlWorld world(3);
  const auto answer = [&](schemas::Message message) {
    const PeerId person = world.say(std::move(message));
    world.run_until(world.now_ms() + 100);
    REQUIRE(world.answers(person).size() == 1);
    return world.answers(person).front();
  };
  const std::string text = text_of(ControlWorld::job_spec(1, 1, 1));
  const std::string other = text_of(ControlWorld::job_spec(1, 2, 1));
  CHECK(std::get<schemas::JobSubmitted>(answer(schemas::JobSubmit{"x", text, ""})).code ==
        Errc::ok);
  CHECK(std::get<schemas::JobSubmitted>(answer(schemas::JobSubmit{"x", text, ""})).code ==
        Errc::ok);
  CHECK(std::get<schemas::JobSubmitted>(answer(schemas::JobSubmit{"x", other, ""})).code ==
        Errc::already_exists);
  answer(schemas::JobStop{"x"});
  CHECK(std::get<schemas::JobSubmitted>(answer(schemas::JobSubmit{"x", text, ""})).code ==
        Errc::ok);
  CHECK(world.coordinator().jobs().front().phase != JobPhase::stopped);  // it goes on
  answer(schemas::JobStop{"x"});
  CHECK(std::get<schemas::JobSubmitted>(answer(schemas::JobSubmit{"x", other, ""})).code ==
        Errc::ok);  // the job file was repaired
  CHECK(world.coordinator().jobs().front().phase != JobPhase::stopped);  // it goes on
  CHECK(std::get<schemas::JobSubmitted>(answer(schemas::JobSubmit{"../y", text, ""})).code ==
        Errc::invalid_argument);
  CHECK(std::get<schemas::JobSubmitted>(answer(schemas::JobSubmit{"y", "garbage", ""})).code !=
        Errc::ok);
  CHECK(world.coordinator().jobs().size() == 1);
  CHECK(std::get<schemas::JobList>(answer(schemas::JobQuery{"z"})).code == Errc::not_found);
  CHECK(std::get<schemas::JobList>(answer(schemas::JobStop{"z"})).code == Errc::not_found);
  CHECK(std::get<schemas::JobList>(answer(schemas::JobStop{"x"})).jobs.front().phase ==
        JobPhase::stopped);
}

TEST_CASE("more parameter servers than a machine should hold fail the job before it starts") {
  ControlWorld world(3);
  world.add_agent("a", 1);
  const schemas::JobInfo info = run_job(world, 1, 1, 65);
  CHECK(info.phase == JobPhase::failed);
  CHECK(info.text == "servers.shards 65 on 1 machine: at most 64 each");
  CHECK(world.processes() == 0);
  // A final state stays.
  const PeerId stopping = world.say(schemas::JobStop{info.id});
  world.run_until(world.now_ms() + 100);
  REQUIRE(world.answers(stopping).size() == 1);
  CHECK(std::get<schemas::JobList>(world.answers(stopping)[0]).jobs[0].phase == JobPhase::failed);
}

TEST_CASE("a failed job names role, ranks, machine and cause") {
  struct Row {
    std::string process;
    Fate fate;
    std::string text;
  };
  const Row row = GENERATE(
      Row{"b/host", Fate::killed,
          "host process of machine 'b' (ranks 2, 3) was killed by signal 9"},
      Row{"b/server", Fate::killed, "parameter server 1 on machine 'b' was killed by signal 9"},
      Row{"a/host", Fate::exits, "host process of machine 'a' (ranks 0, 1) ended early: exit 3"},
      Row{"b/host", Fate::fails, "device server 1 on machine 'b' failed: the loss is not finite"},
      Row{"b/host", Fate::never_ready,
          "the job could not start: no answer of host process of machine 'b' (ranks 2, 3)"},
      Row{"b/host", Fate::hangs,
          "no progress for 3 s: waiting for worker 2 on machine 'b', "
          "worker 3 on machine 'b'"});
  ControlWorld world(4);
  world.add_agent("a", 2);
  world.add_agent("b", 2);
  world.set_fate(row.process, row.fate);
  const schemas::JobInfo info = run_job(world, 2, 2, 2);
  CHECK(info.phase == JobPhase::failed);
  CHECK(info.text == row.text + "; no checkpoint was reported");
  CHECK(world.processes() == 0);
}

TEST_CASE("a reproducible job of sequential tiers does not run over two numeric classes") {
  ControlWorld world(5);
  world.add_agent("a", 2);
  world.add_agent("b", 2);
  world.set_class("a", "avx512");
  world.set_class("b", "avx2");
  const bool reproducible = GENERATE(true, false);
  const bool sequential = GENERATE(true, false);
  schemas::JobSpec spec = ControlWorld::job_spec(2, 2, 2);
  spec.reproducible = reproducible;
  if (!sequential) spec.consistency.cluster.mode = schemas::ConsistencyMode::eventual;
  const schemas::JobInfo info = run_job(world, spec);
  INFO(info.text);
  if (reproducible && sequential) {
    CHECK(info.phase == JobPhase::failed);
    for (const char* part : {"two numeric classes", "avx512", "avx2", "machine 'a'", "machine 'b'",
                             "reproducible = false"}) {
      CHECK(info.text.find(part) != std::string::npos);
    }
  } else {
    CHECK(info.phase == JobPhase::succeeded);
  }
  CHECK(world.processes() == 0);
}

TEST_CASE("a lost agent fails its jobs, the others' processes end") {
  ControlWorld world(5);
  world.add_agent("a", 2);
  world.run_until(100);
  world.add_agent("b", 2);
  world.set_fate("a/host", Fate::hangs);
  world.at(600, [&] { world.kill_agent("b"); });
  world.at(650, [&] {  // a's processes still end
    const CoordinatorFigures counts = world.coordinator().counts();
    CHECK(counts.cpus.all == 2);
    CHECK(counts.cpus.used == 2);
  });
  const schemas::JobInfo info = run_job(world, 2, 2, 2);
  CHECK(info.phase == JobPhase::failed);
  CHECK(info.text.find("agent of machine 'b' is lost (closed)") == 0);
  CHECK(info.text.find("ranks 2, 3") != std::string::npos);
  CHECK(world.processes() == 0);
  CHECK(world.coordinator().counts().cpus.all == 2);
}

TEST_CASE("stopping is answered at the end, to everybody who asked") {
  ControlWorld world(6);
  world.add_agent("a", 1);
  world.set_fate("a/host", Fate::hangs);
  world.say(schemas::JobSubmit{"x", text_of(ControlWorld::job_spec(1, 1, 1)), ""});
  world.run_until(50);
  world.run_until(400);
  const PeerId first = world.say(schemas::JobStop{"x"});
  const PeerId second = world.say(schemas::JobStop{"x"});
  world.run_until(440);
  CHECK(world.answers(first).empty());
  CHECK(world.answers(second).empty());
  world.run_until(2'000);
  for (const PeerId person : {first, second}) {
    REQUIRE(world.answers(person).size() == 1);
    CHECK(std::get<schemas::JobList>(world.answers(person)[0]).jobs[0].phase == JobPhase::stopped);
  }
  CHECK(world.processes() == 0);
}

TEST_CASE("a process that outlives its run is not taken for one of the next run") {
  ControlWorld world(8);
  world.add_agent("a", 2);
  const schemas::JobSubmit submit{"x", text_of(ControlWorld::job_spec(1, 1, 1)), ""};
  world.set_fate("a/host", Fate::lingers);
  world.say(submit);
  world.at(400, [&] { world.say(schemas::JobStop{"x"}); });
  world.run_until(1'100);
  REQUIRE(world.coordinator().jobs()[0].phase == JobPhase::stopped);
  REQUIRE(world.processes() == 1);

  world.set_fate("a/host", Fate::hangs);
  world.say(submit);
  world.run_until(1'400);
  CHECK(world.coordinator().jobs()[0].phase == JobPhase::running);
  CHECK(world.processes() == 3);
  world.run_until(2'000);  // the first run's process has ended
  CHECK(world.coordinator().jobs()[0].phase == JobPhase::running);
  CHECK(world.processes() == 2);
}

TEST_CASE("a peer that asks again and again waits once") {
  CoordinatorState state({"1", ControlWorld::limits()});
  schemas::AgentHello hello;
  hello.name = std::string("a");
  hello.version = std::string("1");
  hello.slots = 1;
  state.handle(PeerSaid{2, hello});
  state.handle(PeerSaid{1, schemas::JobSubmit{"x", text_of(ControlWorld::job_spec(1, 1, 1)), ""}});
  state.handle(FolderProbed{{"x", 1, Errc::ok, ""}, "nonce"});
  state.handle(PeerSaid{2, schemas::FolderProbeResult{"x", 1, Errc::ok, ""}});
  state.handle(StartFound{"x", 1, {}, 0, 1, 5, ""});
  for (int i = 0; i < 100; ++i) state.handle(PeerSaid{1, schemas::JobStop{"x"}});
  state.handle(
      PeerSaid{2, schemas::ProcessExited{"x", 1, {schemas::Role::device_server, 0}, "", {}}});
  const auto effects = state.handle(
      PeerSaid{2, schemas::ProcessExited{"x", 1, {schemas::Role::parameter_server, 0}, "", {}}});
  CHECK(std::count_if(effects.begin(), effects.end(), [](const CoordinatorEffect& effect) {
          const auto* send = std::get_if<Send<PeerId>>(&effect);
          return send != nullptr && send->to == 1;
        }) == 1);
}

TEST_CASE("a look at the clock that comes late changes nothing") {
  CoordinatorState state({"1", ControlWorld::limits()});
  state.handle(Tick{1'000});
  state.handle(PeerSaid{1, schemas::JobSubmit{"x", text_of(ControlWorld::job_spec(1, 1, 1)), ""}});
  CHECK(state.handle(Tick{950}).empty());
  CHECK(state.jobs().front().age_ms == 0);
  state.handle(Tick{1'050});
  CHECK(state.jobs().front().age_ms == 50);
}

TEST_CASE("jobs' time in the queue and their ends are told once") {
  CoordinatorState state({"1", ControlWorld::limits()});
  std::vector<std::uint64_t> queued;
  std::vector<JobPhase> ended;
  const auto handle = [&](const CoordinatorEvent& event) {
    for (const CoordinatorEffect& effect : state.handle(event)) {
      if (const auto* job = std::get_if<JobAdmitted>(&effect)) queued.push_back(job->queued_ms);
      if (const auto* job = std::get_if<JobFinished>(&effect)) ended.push_back(job->phase);
    }
  };
  handle(Tick{1'000});
  handle(PeerSaid{1, schemas::JobSubmit{"x", text_of(ControlWorld::job_spec(1, 1, 1)), ""}});
  handle(PeerSaid{1, schemas::JobSubmit{"y", text_of(ControlWorld::job_spec(1, 1, 1)), ""}});
  handle(PeerSaid{1, schemas::JobStop{"y"}});
  handle(Tick{1'250});
  CHECK(queued.empty());
  schemas::AgentHello hello;
  hello.name = "a";
  hello.version = "1";
  hello.slots = 1;
  handle(PeerSaid{2, hello});
  handle(Tick{1'300});
  CHECK(queued == std::vector<std::uint64_t>{250});
  CHECK(ended == std::vector<JobPhase>{JobPhase::stopped});
}

TEST_CASE("agents outlive the coordinator by their patience, processes by the grace") {
  ControlWorld world(7);
  world.add_agent("a", 1);
  world.set_fate("a/host", Fate::hangs);
  world.say(schemas::JobSubmit{"x", text_of(ControlWorld::job_spec(1, 1, 1)), ""});
  world.run_until(400);
  CHECK(world.processes() > 0);
  world.kill_coordinator();
  world.run_until(500);
  CHECK(world.processes() > 0);
  world.run_until(1'500);
  CHECK(world.processes() == 0);
  CHECK(world.exited_agents().empty());
  world.run_until(4'000);
  REQUIRE(world.exited_agents().contains("a"));
  CHECK(world.exited_agents().at("a").code() == Errc::unavailable);
}

TEST_CASE("agents join a coordinator that was started anew, and the same job runs there") {
  ControlWorld world(7);
  world.add_agent("a", 1);
  world.add_agent("b", 1);
  const schemas::JobSubmit submit{"x", text_of(ControlWorld::job_spec(2, 1, 2)), ""};
  world.set_fate("a/host", GENERATE(Fate::hangs, Fate::lingers));
  world.say(submit);
  world.run_until(400);
  REQUIRE(world.processes() == 4);
  world.kill_coordinator();
  world.run_until(410);
  world.start_coordinator();
  world.set_fate("a/host", Fate::well);
  world.say(submit);  // it waits until the agents are there, and they until their children are not
  world.run_until(10'000);
  CHECK(world.exited_agents().empty());
  REQUIRE(world.coordinator().jobs().size() == 1);
  CHECK(world.coordinator().jobs()[0].phase == JobPhase::succeeded);
  CHECK(world.processes() == 0);
}

schemas::AgentHello hello_of(const std::string& name) {
  schemas::AgentHello hello;
  hello.name = name;
  hello.version = std::string("1");
  hello.slots = 1;
  return hello;
}

TEST_CASE("a job does not begin on an agent whose link is cut") {
  CoordinatorState state({"1", ControlWorld::limits()});
  state.handle(PeerSaid{1, hello_of("a")});
  state.handle(PeerCut{1, "closed"});
  const std::string text = text_of(ControlWorld::job_spec(1, 1, 1));
  state.handle(PeerSaid{9, schemas::JobSubmit{"x", text, ""}});
  CHECK(state.jobs()[0].phase == JobPhase::pending);
  state.handle(PeerBack{1});
  CHECK(state.jobs()[0].phase == JobPhase::pending);  // however often links come and go
  state.handle(Tick{500});
  CHECK(state.jobs()[0].phase == JobPhase::starting);
}

TEST_CASE("a link that is cut again and again fills no log") {
  CoordinatorState state({"1", ControlWorld::limits()});
  state.handle(Tick{100});
  state.handle(PeerSaid{1, hello_of("a")});
  const auto notes = [](const std::vector<CoordinatorEffect>& effects) {
    return std::ranges::count_if(effects, [](const CoordinatorEffect& effect) {
      return std::holds_alternative<Note>(effect);
    });
  };
  CHECK(notes(state.handle(PeerCut{1, "closed"})) == 1);
  CHECK(notes(state.handle(PeerBack{1})) == 1);
  for (int i = 0; i < 100; ++i) {
    CHECK(notes(state.handle(PeerCut{1, "closed"})) == 0);
    CHECK(notes(state.handle(PeerBack{1})) == 0);
  }
  state.handle(Tick{20'000});
  CHECK(notes(state.handle(PeerCut{1, "closed"})) == 1);
}

TEST_CASE("an agent that is dropped gets nothing new, and is gone with its link") {
  CoordinatorState state({"1", ControlWorld::limits()});
  state.handle(PeerSaid{1, hello_of("a")});
  const auto effects = state.handle(PeerSaid{1, hello_of("a")});  // once is enough
  REQUIRE(std::ranges::any_of(effects, [](const CoordinatorEffect& effect) {
    return std::holds_alternative<DropPeer>(effect);
  }));
  const std::string text = text_of(ControlWorld::job_spec(1, 1, 1));
  state.handle(PeerSaid{9, schemas::JobSubmit{"x", text, ""}});
  CHECK(state.jobs()[0].phase == JobPhase::pending);
  state.handle(PeerLost{1, "closed"});
  CHECK(state.counts().agents == 0);
  state.handle(PeerSaid{2, hello_of("a")});
  CHECK(state.jobs()[0].phase == JobPhase::starting);
}

TEST_CASE("who only says again who it is keeps no place") {
  const base::Limits limits = ControlWorld::limits();
  CoordinatorState state({"1", limits});
  state.handle(PeerLinked{1, {}, "127.0.0.1:9", {}});
  bool dropped = false;
  for (std::uint64_t ms = 0; ms <= 2 * limits.request_ms; ms += limits.request_ms / 4) {
    for (const CoordinatorEffect& effect : state.handle(Tick{ms})) {
      dropped = dropped || std::holds_alternative<DropPeer>(effect);
    }
    state.handle(PeerSaid{1, schemas::PersonHello{"nothing"}});
  }
  CHECK(dropped);
}

TEST_CASE("a link that is cut yields to its own process at once, to no other") {
  CoordinatorState state({"1", ControlWorld::limits()});
  const auto dropped = [&](PeerId peer, std::uint64_t process_token = 1) {
    schemas::AgentHello hello = hello_of("a");
    hello.process_token = process_token;
    std::vector<std::pair<PeerId, Errc>> found;
    for (const CoordinatorEffect& effect : state.handle(PeerSaid{peer, hello})) {
      if (const auto* drop = std::get_if<DropPeer>(&effect)) {
        found.emplace_back(drop->peer, drop->reason.code());
      }
    }
    return found;
  };
  using Dropped = std::vector<std::pair<PeerId, Errc>>;
  CHECK(dropped(1).empty());
  CHECK(dropped(2) == Dropped{{2, Errc::already_exists}});
  state.handle(PeerCut{1, "closed"});
  state.handle(PeerBack{1});
  CHECK(dropped(3) == Dropped{{3, Errc::already_exists}});
  state.handle(PeerCut{1, "closed"});
  CHECK(dropped(4, 2) == Dropped{{4, Errc::already_exists}});
  CHECK(dropped(5) == Dropped{{1, Errc::unavailable}});
  CHECK(state.counts().agents == 1);
  state.handle(PeerLost{1, "closed"});
  CHECK(state.counts().agents == 1);
  // The other one has its place when the first one's link is down.
  state.handle(PeerCut{5, "closed"});
  CHECK(dropped(6, 2) == Dropped{{6, Errc::already_exists}});
  state.handle(PeerLost{5, "closed"});
  CHECK(dropped(7, 2).empty());
  CHECK(state.counts().agents == 1);
}

TEST_CASE("an agent that joins again needs no second place among agents_max") {
  base::Limits limits = ControlWorld::limits();
  limits.agents_max = 2;
  CoordinatorState state({"1", limits});
  state.handle(PeerSaid{1, hello_of("a")});
  state.handle(PeerSaid{2, hello_of("b")});
  const auto refusal = [&](PeerId peer, const std::string& name) {
    for (const CoordinatorEffect& effect : state.handle(PeerSaid{peer, hello_of(name)})) {
      const auto* drop = std::get_if<DropPeer>(&effect);
      if (drop != nullptr && drop->peer == peer) return drop->reason.code();
    }
    return Errc::ok;
  };
  CHECK(refusal(3, "c") == Errc::resource_exhausted);
  state.handle(PeerCut{1, "closed"});
  CHECK(refusal(4, "c") == Errc::resource_exhausted);
  CHECK(refusal(5, "a") == Errc::ok);
  CHECK(state.counts().agents == 2);
}

TEST_CASE("an agent of another version or of a name in use is refused") {
  CoordinatorState state({"1", ControlWorld::limits()});
  schemas::AgentHello hello;
  hello.name = "a";
  hello.version = "1";
  hello.slots = 1;
  CHECK(std::holds_alternative<Send<PeerId>>(state.handle(PeerSaid{1, hello})[0]));
  const auto refusal = [&](PeerId peer) {
    for (const CoordinatorEffect& effect : state.handle(PeerSaid{peer, hello})) {
      if (const auto* drop = std::get_if<DropPeer>(&effect)) return drop->reason.code();
    }
    return Errc::ok;
  };
  CHECK(refusal(2) == Errc::already_exists);
  hello.name = "b";
  hello.version = "2";
  CHECK(refusal(3) == Errc::version_mismatch);
  hello.name = "b\nlevel=error";
  hello.version = "1";
  CHECK(refusal(4) == Errc::invalid_argument);
  const auto effects =
      state.handle(PeerSaid{5, schemas::ProcessExited{"x", 1, {}, "exit 0", true}});
  CHECK(std::holds_alternative<DropPeer>(effects[0]));
}

TEST_CASE("an agent's slots are bounded, and its page is on its own host") {
  CoordinatorState state({"1", ControlWorld::limits()});
  schemas::AgentHello hello;
  hello.name = "a";
  hello.version = "1";
  hello.slots = kSlotsMax;
  const auto fault = [&](PeerId peer, const std::string& host) -> std::string {
    state.handle(PeerLinked{peer, host});
    for (const CoordinatorEffect& effect : state.handle(PeerSaid{peer, hello})) {
      if (const auto* drop = std::get_if<DropPeer>(&effect)) return drop->reason.text();
    }
    return "";
  };
  CHECK(fault(1, "127.0.0.1").empty());
  hello.name = "b";
  hello.slots = ~std::uint32_t{0};
  CHECK(fault(2, "127.0.0.1") == "agent 'b' offers 4294967295 worker slots; the limit is 4096");
  hello.slots = 1;
  for (const std::string address : {"169.254.169.254:80", "10.1.2.3:9", "127.0.0.1:0", "here"}) {
    hello.http_address = address;
    CHECK_THAT(fault(3, "127.0.0.1"), Catch::StartsWith("agent 'b': '" + address + "' is"));
  }
  hello.http_address = "[::1]:9";
  CHECK(fault(4, "127.0.0.1").empty());
  hello.name = "c";
  hello.http_address = "10.1.2.3:9";
  CHECK(fault(5, "10.1.2.3").empty());
  CHECK(state.counts().cpus.all == kSlotsMax + 2);
  // Where its certificate tells who listens there it may be anywhere, and have a name.
  state.handle(PeerLinked{6, std::nullopt});
  hello.name = "d";
  hello.http_address = "node2:9";
  for (const auto& effect : state.handle(PeerSaid{6, hello})) {
    CHECK_FALSE(std::holds_alternative<DropPeer>(effect));
  }
  CHECK(state.counts().cpus.all == kSlotsMax + 3);
}

TEST_CASE("who asks nothing more keeps no place, agents and those who wait do") {
  base::Limits limits = ControlWorld::limits();
  limits.request_ms = 100;
  CoordinatorState state({"1", limits});
  const auto dropped = [&](std::uint64_t now_ms) {
    std::vector<PeerId> peers;
    for (const CoordinatorEffect& effect : state.handle(Tick{now_ms})) {
      if (const auto* drop = std::get_if<DropPeer>(&effect)) peers.push_back(drop->peer);
    }
    return peers;
  };
  schemas::AgentHello hello;
  hello.name = "a";
  hello.version = "1";
  hello.slots = 1;
  state.handle(Tick{1'000});
  for (const PeerId peer : {1, 2, 3, 4}) state.handle(PeerLinked{peer, "127.0.0.1"});
  state.handle(PeerSaid{1, hello});
  state.handle(PeerSaid{2, schemas::JobSubmit{"x", text_of(ControlWorld::job_spec(1, 1, 1))}});
  state.handle(FolderProbed{{"x", 1, Errc::ok, ""}, "nonce"});
  state.handle(PeerSaid{1, schemas::FolderProbeResult{"x", 1, Errc::ok, ""}});
  state.handle(StartFound{"x", 1, {}, 0, 1, 5, ""});
  state.handle(PeerSaid{2, schemas::JobStop{"x"}});  // answered when its processes have ended
  state.handle(PeerSaid{3, schemas::JobQuery{}});
  CHECK(dropped(1'099).empty());
  state.handle(PeerSaid{4, schemas::JobQuery{}});
  CHECK(dropped(1'100) == std::vector<PeerId>{3});
  CHECK(dropped(1'101).empty());  // once
  state.handle(PeerLost{3, "it left"});
  CHECK(dropped(1'200) == std::vector<PeerId>{4});
  state.handle(PeerLost{1, "it crashed"});  // so the job has ended, and who stopped it is answered
  CHECK(dropped(1'201).empty());
  CHECK(dropped(1'300) == std::vector<PeerId>{2});
}

}  // namespace
}  // namespace troupe::control
