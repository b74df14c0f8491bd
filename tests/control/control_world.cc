// SPDX-License-Identifier: Apache-2.0
// The played links and processes.
#include "tests/control/control_world.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"
#include "schemas/codec.h"

namespace troupe::control::testing {

using schemas::ActorId;
using schemas::Role;

namespace {

constexpr std::uint64_t kTickMs = 20;
constexpr std::uint64_t kDelayMs = 30;
constexpr std::uint64_t kSteps = 5;
constexpr std::uint64_t kBegun = 2;  // steps by the time of a cut out of turn
constexpr std::uint64_t kLingerMs = 1'000;

}  // namespace

ControlWorld::ControlWorld(std::uint64_t seed, std::uint64_t agents)
    : expected_(agents), state_(seed * 2 + 1) {
  start_coordinator();
  tick();
}

base::Limits ControlWorld::limits() {
  base::Limits limits;
  limits.start_ms = 1'000;
  limits.probe_ms = 500;
  limits.missing_log_ms = 1'000;
  limits.stall_ms = 3'000;
  limits.stop_grace_ms = 400;
  limits.agent_grace_ms = 300;
  limits.suspicion_ms = 400;
  limits.cut_ms = 500;
  limits.join_wait_ms = 3'000;
  return limits;
}

schemas::JobSpec ControlWorld::job_spec(std::uint32_t machines, std::uint32_t devices,
                                        std::uint32_t shards) {
  schemas::JobSpec spec;
  spec.name = "world";
  spec.model.network = "lenet";
  spec.data.train = "/data/train.rec";
  spec.workers = {machines, devices, 1};
  spec.servers.shards = shards;
  spec.checkpoint.dir = "/out";
  spec.limits = limits();
  return spec;
}

std::string ControlWorld::job_text(const schemas::JobSpec& spec) {
  return schemas::encode_job_spec(spec).value();
}

std::uint64_t ControlWorld::random(std::uint64_t below) {
  state_ = base::hash64("control world", state_);
  return state_ % below;
}

void ControlWorld::at(std::uint64_t time_ms, std::function<void()> action) {
  queue_.push({time_ms, next_entry_++, std::move(action)});
}

void ControlWorld::run_until(std::uint64_t time_ms) {
  while (!queue_.empty() && queue_.top().time_ms <= time_ms) {
    const Entry entry = queue_.top();
    queue_.pop();
    now_ms_ = entry.time_ms;
    entry.action();
  }
  now_ms_ = time_ms;
}

void ControlWorld::tick() {
  coordinate(Tick{now_ms_});
  std::vector<std::string> names;
  for (const auto& [name, agent] : agents_) names.push_back(name);
  for (const std::string& name : names) handle(name, Tick{now_ms_});
  after(kTickMs, [this] { tick(); });
}

void ControlWorld::note(const std::string& text) {
  notes_.push_back(fmt::format("{} {}", now_ms_, text));
  trace_ = base::hash64(notes_.back(), trace_);
}

void ControlWorld::add_agent(const std::string& name, std::uint32_t slots,
                             const std::vector<schemas::GpuOffer>& gpus) {
  schemas::AgentHello hello;
  hello.name = name;
  hello.version = std::string("1");
  hello.slots = slots;
  hello.gpus = gpus;
  Agent& agent = agents_[name];
  agent.alive = true;  // one of this name may have been killed
  agent.slots = slots;
  agent.gpus = gpus;
  agent.state = std::make_unique<AgentState>(hello, limits());
  handle(name, Begin{now_ms_});
}

void ControlWorld::lose_gpus(const std::string& name, const std::vector<schemas::LostGpu>& lost) {
  note(
      fmt::format("{} of {} GPUs of {} are lost", lost.size(), agents_.at(name).gpus.size(), name));
  handle(name, OfferChanged{"", lost});
}

void ControlWorld::kill_agent(const std::string& name) {
  Agent& agent = agents_.at(name);
  if (!agent.alive) return;
  note("kill agent " + name);
  agent.alive = false;
  agent.processes.clear();  // children die with their agent
  cut(name);
}

void ControlWorld::stop_agent(const std::string& name) {
  note("stop agent " + name);
  handle(name, StopRequested{});
}

void ControlWorld::cut(const std::string& name) {
  Agent& agent = agents_.at(name);
  if (!agent.linked) return;
  agent.linked = false;
  after(random(kDelayMs), [this, peer = agent.peer] { coordinate(PeerLost{peer, "closed"}); });
  after(random(kDelayMs), [this, name, join = agent.join] {
    handle(name, CoordinatorLost{join, "closed"});
  });
}

void ControlWorld::kill_coordinator() {
  note("kill coordinator");
  coordinator_.reset();
  for (auto& [name, agent] : agents_) cut(name);
}

void ControlWorld::start_coordinator() {
  note("start coordinator");
  coordinator_ =
      std::make_unique<CoordinatorState>(CoordinatorOptions{"1", limits(), "", expected_});
}

PeerId ControlWorld::say(schemas::Message message) {
  const PeerId person = next_peer_++;
  answers_[person] = {};
  after(random(kDelayMs), [this, person, message = std::move(message)] {
    coordinate(PeerSaid{person, message});
  });
  return person;
}

PeerId ControlWorld::say_often(const schemas::Message& message, int times) {
  const PeerId person = next_peer_++;
  answers_[person] = {};
  coordinate(PeerLinked{person, "127.0.0.1"});
  for (int i = 0; i < times; ++i) coordinate(PeerSaid{person, message});
  return person;
}

// ---- the coordinator's effects ----

void ControlWorld::coordinate(const CoordinatorEvent& event) {
  if (!coordinator_) return;
  for (const CoordinatorEffect& effect : coordinator_->handle(event)) {
    std::visit([this](const auto& what) { perform(what); }, effect);
  }
}

void ControlWorld::perform(const Send<PeerId>& send) {
  note(fmt::format("to {}: {}", send.to, schemas::message_name(send.message.index())));
  if (answers_.contains(send.to)) {
    answers_[send.to].push_back(send.message);
    return;
  }
  for (auto& [name, agent] : agents_) {
    if (agent.peer != send.to || !agent.linked) continue;
    agent.to_agent_ms = std::max(agent.to_agent_ms, now_ms_ + random(kDelayMs));
    at(agent.to_agent_ms, [this, whose = name, join = agent.join, message = send.message] {
      if (agents_.at(whose).linked) handle(whose, CoordinatorSaid{join, message});
    });
  }
}

void ControlWorld::perform(const FindStart& find) {
  const auto saved = saved_.find(find.job);
  StartFound found = saved == saved_.end() ? StartFound{find.job, find.run, {}, 0, 1, kSteps, ""}
                                           : StartFound{find.job,
                                                        find.run,
                                                        {},
                                                        saved->second,
                                                        1,
                                                        kSteps,
                                                        fmt::format("step-{}", saved->second)};
  if (saved != saved_.end() && !find.spec.checkpoint.resume) {
    found.status = base::error(base::Errc::already_exists, "checkpoint.resume is false");
  }
  if (find.copied) found.files_of_shard.resize(find.spec.shards(), {0});
  found.files = {"step-0-g1-shard-0-of-1.safetensors"};
  after(random(kDelayMs), [this, found] { coordinate(found); });
}

void ControlWorld::perform(const ProbeFolder& probe) {
  after(random(kDelayMs), [this, asked = probe.probe] {
    coordinate(FolderProbed{look(asked), "nonce"});
  });
}

void ControlWorld::perform(const HoldFolder& hold) {
  after(random(kDelayMs), [this, hold] { coordinate(FolderHeld{hold.job, hold.run, {}}); });
}

void ControlWorld::perform(const CollectCheckpoint& collect) {
  after(random(kDelayMs),
        [this, done = CheckpointCollected{
                   collect.job, collect.run, collect.step, collect.generation, {}}] {
          coordinate(done);
        });
}

void ControlWorld::perform(const Note& line) {
  note(line.text);
}

void ControlWorld::perform(const DropPeer& drop) {
  note("drop: " + drop.reason.text());
  for (auto& [name, agent] : agents_) {
    if (agent.peer == drop.peer) cut(name);
  }
}

// ---- an agent's effects ----

void ControlWorld::handle(const std::string& name, const AgentEvent& event) {
  Agent& agent = agents_.at(name);
  if (!agent.alive) return;
  for (const AgentEffect& effect : agent.state->handle(event)) {
    std::visit([&](const auto& what) { perform(name, what); }, effect);
  }
}

void ControlWorld::perform(const std::string& name, const Send<ToCoordinator>& send) {
  Agent& agent = agents_.at(name);
  if (!agent.linked) return;
  agent.from_agent_ms = std::max(agent.from_agent_ms, now_ms_ + random(kDelayMs));
  at(agent.from_agent_ms, [this, name, message = send.message] {
    const Agent& sender = agents_.at(name);
    if (sender.linked) coordinate(PeerSaid{sender.peer, message});
  });
}

void ControlWorld::perform(const std::string& name, const JoinCoordinator& join) {
  agents_.at(name).join = join.join;
  dial(name, join, now_ms_ + join.wait_ms);
}

void ControlWorld::dial(const std::string& name, const JoinCoordinator& join,
                        std::uint64_t until_ms) {
  Agent& agent = agents_.at(name);
  if (!agent.alive || agent.join != join.join) return;
  if (coordinator_) {
    agent.peer = next_peer_++;
    agent.linked = true;
    coordinate(PeerLinked{agent.peer, "127.0.0.1"});
    handle(name, CoordinatorUp{join.join});
  } else if (now_ms_ + kDelayMs > until_ms) {
    handle(name, CoordinatorLost{join.join, "nobody is there"});
  } else {
    after(kDelayMs, [=, this] { dial(name, join, until_ms); });
  }
}

void ControlWorld::perform(const std::string& name, const LeaveCoordinator&) {
  cut(name);
}

schemas::FolderProbeResult ControlWorld::look(const schemas::FolderProbe& probe) const {
  const bool elsewhere = separate_ && !probe.write;
  return {probe.job, probe.generation, elsewhere ? base::Errc::not_found : base::Errc::ok,
          elsewhere ? "no such file" : ""};
}

void ControlWorld::perform(const std::string& name, const ProbeFolder& probe) {
  after(random(kDelayMs),
        [this, name, asked = probe.probe] { handle(name, FolderProbed{look(asked)}); });
}

void ControlWorld::perform(const std::string& name, const PlaceFiles& place) {
  after(random(kDelayMs), [this, name, asked = place.place, number = place.number] {
    handle(name, FilesPlaced{{asked.job, asked.generation, base::Errc::ok, ""}, number});
  });
}

void ControlWorld::perform(const std::string& name, const End& end) {
  exited_[name] = end.status;
  agents_.at(name).alive = false;
  cut(name);
}

void ControlWorld::perform(const std::string& name, const StartChild& start) {
  after(random(kDelayMs), [this, name, key = start.process] {
    if (!agents_.at(name).alive) return;
    const bool server = key.actor.role == Role::parameter_server;
    const auto fate = fates_.find(name + (server ? "/server" : "/host"));
    agents_.at(name).processes[key] = {fate == fates_.end() ? Fate::well : fate->second, false};
    handle(name, ChildStarted{key, {}, 1});
  });
}

void ControlWorld::perform(const std::string& name, const StopChild& stop) {
  const Process* child = process(name, stop.process);
  if (child == nullptr || (child->hung && !stop.kill)) return;
  const bool lingers = child->fate == Fate::lingers;
  child_ends(name, stop.process, stop.kill ? "signal 9" : "exit 143",
             lingers ? kLingerMs : random(kDelayMs));
}

// ---- processes ----

ControlWorld::Process* ControlWorld::process(const std::string& name, const ProcessKey& key) {
  Agent& agent = agents_.at(name);
  const auto found = agent.processes.find(key);
  return found == agent.processes.end() ? nullptr : &found->second;
}

std::size_t ControlWorld::processes() const {
  std::size_t count = 0;
  for (const auto& [name, agent] : agents_) count += agent.processes.size();
  return count;
}

void ControlWorld::child_says(const std::string& name, const ProcessKey& key, ActorId from,
                              schemas::Message message, std::uint64_t delay_ms) {
  after(delay_ms, [this, name, key, from, message = std::move(message)] {
    const Process* child = process(name, key);
    if (child != nullptr && !child->hung) handle(name, ChildSaid{key, from, message});
  });
}

/// The end of a process and that of its link come in either order.
void ControlWorld::child_ends(const std::string& name, const ProcessKey& key,
                              const std::string& how, std::uint64_t delay_ms) {
  after(delay_ms, [this, name, key, how] {
    if (agents_.at(name).processes.erase(key) == 0) return;
    note(fmt::format("{} of {} on {} ends: {}", key.actor.to_string(), key.job, name, how));
    const auto exited = [=, this] { handle(name, ChildExited{key, how, how == "exit 0"}); };
    const auto silent = [=, this] { handle(name, ChildSilent{key, {}}); };
    const bool exit_first = random(2) == 0;
    after(exit_first ? 0 : random(kDelayMs), exited);
    after(exit_first ? random(kDelayMs) : 0, silent);
  });
}

void ControlWorld::perform(const std::string& name, const Send<ToChild>& send) {
  const Process* child = process(name, send.to.process);
  if (child == nullptr || child->hung) return;
  const ActorId actor = send.to.actor;
  if (const auto* launch = std::get_if<schemas::LaunchProcess>(&send.message)) {
    check_slots(name, *launch);
    if (child->fate == Fate::never_ready) return;
    schemas::ProcessReady ready;
    ready.actor = actor;
    ready.pid = 1;
    ready.http_address = "127.0.0.1:9";
    ready.numeric_class.isa = classes_[name];
    child_says(name, send.to.process, actor, ready, random(kDelayMs));
  } else if (std::holds_alternative<schemas::Placement>(send.message)) {
    if (actor.role != Role::worker) return;
    schemas::DatasetReport report;
    report.rank = actor.index;
    report.train.records = 100;
    child_says(name, send.to.process, actor, report, random(kDelayMs));
  } else if (std::holds_alternative<schemas::TrainingStart>(send.message)) {
    train(name, send.to.process, actor);
  } else if (cut(name, send)) {
    return;
  } else if (const auto* end = std::get_if<schemas::JobEnd>(&send.message)) {
    child_ends(name, send.to.process, end->code == base::Errc::ok ? "exit 0" : "exit 1",
               random(kDelayMs));
  }
}

/// Parameter servers compute on no GPU. Of all that host processes of a machine have at a time its
/// agent has offered as many slots.
void ControlWorld::check_slots(const std::string& name, const schemas::LaunchProcess& launch) {
  Agent& agent = agents_.at(name);
  const schemas::JobSpec spec = *schemas::decode_job_spec(launch.job_text);
  const bool on_gpus = spec.workers.device == schemas::WorkerDevice::gpu;
  const bool host = launch.actor.role == schemas::Role::device_server;
  if (host ? launch.gpus.size() != (on_gpus ? launch.ranks.size() : 0)
           : launch.gpus.empty() == on_gpus) {
    faults_.push_back(
        fmt::format("{} GPUs for {} ranks on {}", launch.gpus.size(), launch.ranks.size(), name));
  }
  if (!host) return;
  Process& own = agent.processes.at({launch.job, launch.generation, launch.actor});
  own.gpus = launch.gpus;
  own.slots = on_gpus ? 0 : launch.ranks.size();
  if (!launch.gpus.empty()) ++launches_on_gpus_;
  for (const std::uint32_t index : launch.gpus) check_gpu(name, launch, index);
  std::size_t used = 0;
  for (const auto& [key, child] : agent.processes) used += child.slots;
  if (used <= agent.slots) return;
  faults_.push_back(
      fmt::format("job {}: {} of {} slots of {} are used", launch.job, used, agent.slots, name));
}

/// Each is as large as the job wants it, and of the model of the others.
void ControlWorld::check_gpu(const std::string& name, const schemas::LaunchProcess& launch,
                             std::uint32_t index) {
  const Agent& agent = agents_.at(name);
  const schemas::JobSpec spec = *schemas::decode_job_spec(launch.job_text);
  std::ptrdiff_t had = 0, offered = 0;
  for (const auto& [key, child] : agent.processes) {
    had += std::count(child.gpus.begin(), child.gpus.end(), index);
  }
  for (const schemas::GpuOffer& gpu : agent.gpus) {
    if (gpu.index != index) continue;
    offered += gpu.memory_bytes >= spec.workers.memory ? 1 : 0;
    const auto first = models_.emplace(std::pair(launch.job, launch.generation), gpu.name).first;
    if (first->second == gpu.name || !spec.reproducible) continue;
    faults_.push_back(fmt::format("job {}: {} and {}", launch.job, first->second, gpu.name));
  }
  if (had <= offered) return;
  faults_.push_back(fmt::format("job {}: GPU {} of {} has {} ranks and {} slots for it", launch.job,
                                index, name, had, offered));
}

/// What a process answers while its run is cut out of turn. When the first machine goes on, the
/// first shard's server has written the checkpoint.
bool ControlWorld::cut(const std::string& name, const Send<ToChild>& send) {
  const ActorId actor = send.to.actor;
  const auto say = [&](schemas::Message message, std::uint64_t delay_ms) {
    child_says(name, send.to.process, actor, std::move(message), delay_ms);
  };
  if (const auto* query = std::get_if<schemas::CutQuery>(&send.message)) {
    say(schemas::CutReady{query->number, actor.index, kBegun}, random(kDelayMs));
    return true;
  }
  const auto* wanted = std::get_if<schemas::ExtraCut>(&send.message);
  if (wanted == nullptr) return false;
  if (actor.role == Role::parameter_server) {
    say(schemas::ExtraCutTaken{wanted->number, actor.index}, random(kDelayMs));
  } else if (actor.index == 0) {
    saved_[send.to.process.job] = wanted->step;
    const ProcessKey server{
        send.to.process.job, send.to.process.generation, {Role::parameter_server, 0}};
    for (const auto& [machine, agent] : agents_) {
      if (!agent.processes.contains(server)) continue;
      child_says(machine, server, server.actor, schemas::CheckpointReport{wanted->step, "there"},
                 random(kDelayMs));
    }
  }
  return true;
}

void ControlWorld::train(const std::string& name, const ProcessKey& key, ActorId actor) {
  Process& child = *process(name, key);
  if (actor == key.actor) {
    switch (child.fate) {
      case Fate::killed:
        child_ends(name, key, "signal 9", random(kDelayMs));
        break;
      case Fate::exits:
        child_ends(name, key, "exit 3", random(kDelayMs));
        break;
      case Fate::fails:
        child_says(name, key, actor,
                   schemas::ActorFailed{actor, base::Errc::not_finite, "the loss is not finite"},
                   0);
        break;
      case Fate::hangs:
      case Fate::lingers:
        child.hung = true;
        break;
      default:
        break;
    }
  }
  if (child.fate != Fate::well || actor.role == Role::device_server) return;
  std::uint64_t time_ms = 0;
  for (std::uint64_t step = 1; actor.role == Role::worker && step <= kSteps; ++step) {
    schemas::ProgressReport report;
    report.rank = actor.index;
    report.step = step;
    report.samples = step * 10;
    report.metrics["cross_entropy"] = {static_cast<double>(step), 2.0};
    time_ms += random(kDelayMs) + 1;
    child_says(name, key, actor, report, time_ms);
  }
  child_says(name, key, actor, schemas::ActorDone{actor, kSteps}, time_ms + 1);
}

}  // namespace troupe::control::testing
