// SPDX-License-Identifier: Apache-2.0
// Transitions of the coordinator.
#include "control/coordinator_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/address.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/name.h"
#include "base/text.h"
#include "base/units.h"
#include "schemas/codec.h"

namespace troupe::control {

using base::Errc;

namespace {

/// Between two lines in the log that say that an agent's link is cut.
constexpr std::uint64_t kCutNotedMs = 10'000;

/// Letters, digits and dashes of a job's name; "job" when nothing is left.
std::string id_stem(const std::string& name) {
  constexpr std::size_t kLongest = 40;
  std::string stem;
  for (const char letter : name.substr(0, kLongest)) {
    const bool plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                       (letter >= '0' && letter <= '9');
    if (plain) {
      stem += letter;
    } else if (!stem.empty() && stem.back() != '-') {
      stem += '-';
    }
  }
  return stem.empty() ? "job" : stem;
}

/// Others read these words on their terminals and in the log.
base::Status check_words(const schemas::JobSpec& spec) {
  std::vector<std::pair<const char*, const std::string*>> words = {
      {"model.network", &spec.model.network},
      {"model.symbol", &spec.model.symbol},
      {"data.train", &spec.data.train},
      {"data.test", &spec.data.test},
      {"train.optimizer.name", &spec.train.optimizer.name},
      {"train.optimizer.symbol", &spec.train.optimizer.symbol},
      {"train.weights", &spec.train.weights},
      {"checkpoint.dir", &spec.checkpoint.dir},
      {"numerics.kernels", &spec.numerics.kernels}};
  for (const schemas::KeyRule& rule : spec.train.keys) {
    words.emplace_back("train.keys.match", &rule.match);
  }
  for (const auto& [key, word] : words) {
    if (!base::has_control(*word)) continue;
    return base::error(Errc::invalid_argument, "{}: '{}' has a control character", key,
                       base::printable(*word));
  }
  return {};
}

/// Without what makes no difference: "/out/./x/" is "/out/x". Empty: there is none.
std::string plain_folder(const std::string& path) {
  const std::filesystem::path normal = std::filesystem::path(path).lexically_normal();
  return (normal.has_filename() ? normal : normal.parent_path()).string();
}

}  // namespace

CoordinatorState::CoordinatorState(CoordinatorOptions options) : options_(std::move(options)) {}

std::vector<CoordinatorState::Effect> CoordinatorState::handle(const Event& event) {
  std::visit([this](const auto& what) { on(what); }, event);
  settle();
  return std::exchange(effects_, {});
}

void CoordinatorState::on(const PeerLinked& linked) {
  peers_[linked.peer] = Peer{linked.host, {linked.address, linked.holder, {}}, now_ms_};
}

void CoordinatorState::on(const PeerSaid& said) {
  const auto peer = peers_.find(said.peer);
  if (peer != peers_.end()) {
    if (peer->second.dropped) return;
    // Who only says again who it is has asked nothing.
    const bool asks = !std::holds_alternative<schemas::PersonHello>(said.message);
    if (asks) peer->second.heard_ms = now_ms_;
  }
  std::visit([&](const auto& message) { on_message(said.peer, message); }, said.message);
}

/// A peer may be an agent, with parts of several jobs, or a person who waits for some.
void CoordinatorState::on(const PeerLost& lost) {
  for (const std::uint64_t number : running_) jobs_.at(number).waiting.erase(lost.peer);
  if (agents_.contains(lost.peer)) lose_agent(lost.peer, lost.reason);
  peers_.erase(lost.peer);
}

void CoordinatorState::on(const PeerCut& cut) {
  const auto agent = agents_.find(cut.peer);
  if (agent == agents_.end()) return;
  agent->second.cut = true;
  links_changed_ = true;
  // One that is cut again and again fills no log.
  const std::uint64_t noted_ms = agent->second.cut_noted_ms;
  agent->second.cut_noted = false;
  agent->second.cut_reason = cut.reason;
  if (noted_ms == 0 || now_ms_ - noted_ms >= kCutNotedMs) note_cut(agent->second);
  for (const auto& [job, machine] : runs_on(cut.peer)) {
    hand_to_run(*job, AgentCut{machine, cut.reason});
  }
}

void CoordinatorState::note_cut(Agent& agent) {
  agent.cut_noted = true;
  agent.cut_noted_ms = std::max<std::uint64_t>(now_ms_, 1);
  emit(Note{true,
            fmt::format("the link to agent '{}' is cut: {}", agent.hello.name, agent.cut_reason)});
}

void CoordinatorState::on(const PeerBack& back) {
  const auto agent = agents_.find(back.peer);
  if (agent == agents_.end()) return;
  agent->second.cut = false;
  links_changed_ = true;
  if (agent->second.cut_noted) {
    emit(Note{false,
              fmt::format("the link to agent '{}' is whole again", agent->second.hello.name)});
  }
  for (const auto& [job, machine] : runs_on(back.peer)) hand_to_run(*job, AgentBack{machine});
}

std::vector<std::pair<CoordinatorState::Job*, std::uint32_t>> CoordinatorState::runs_on(
    PeerId agent) {
  std::vector<std::pair<Job*, std::uint32_t>> found;
  for (const std::uint64_t number : running_) {
    Job& job = jobs_.at(number);
    const std::vector<PeerId>& peers = job.run->plan().peers;
    const auto machine = std::find(peers.begin(), peers.end(), agent);
    if (machine == peers.end()) continue;
    found.emplace_back(&job, static_cast<std::uint32_t>(machine - peers.begin()));
  }
  return found;
}

/// The agent, should it live, joins anew.
void CoordinatorState::give_up(PeerId agent, const std::string& reason) {
  if (!agents_.contains(agent)) return;
  drop(agent, base::error(Errc::unavailable, "the coordinator has given this link up"));
  lose_agent(agent, reason);
}

void CoordinatorState::lose_agent(PeerId agent, const std::string& reason) {
  std::string what = fmt::format("agent '{}' is gone: {}", agents_.at(agent).hello.name, reason);
  note_change(agent, what);
  emit(Note{true, std::move(what)});
  agents_.erase(agent);
  slots_changed_ = true;
  for (const auto& [job, machine] : runs_on(agent)) hand_to_run(*job, AgentLost{machine, reason});
}

void CoordinatorState::on(const StartFound& found) {
  Job* job = find(found.job);
  if (job != nullptr && job->run) hand_to_run(*job, found);
}

void CoordinatorState::on(const Tick& tick) {
  // The shell's first look at the clock and its timer's may cross on the way.
  if (tick.now_ms < now_ms_) return;
  now_ms_ = tick.now_ms;
  slots_changed_ |= std::exchange(links_changed_, false);
  for (const std::uint64_t number : running_) hand_to_run(jobs_.at(number), tick);
  for (auto& [peer, agent] : agents_) {
    look_at_offer(peer, agent);
    const bool untold = agent.cut && !agent.cut_noted;
    if (untold && now_ms_ - agent.cut_noted_ms >= kCutNotedMs) note_cut(agent);
  }
  look_at_patience();
  drop_idle_people();
  note_left_out(access_.take_left_out(now_ms_));
}

/// People ask and are answered; who does not go on asking keeps no place. Agents may be silent, and
/// so may those who wait for a job's end or checkpoint.
void CoordinatorState::drop_idle_people() {
  for (auto& [number, peer] : peers_) {
    const std::uint64_t silent_ms = now_ms_ - peer.heard_ms;
    if (silent_ms < options_.limits.request_ms / 2 || peer.dropped || agents_.contains(number)) {
      continue;
    }
    // Whoever gets an answer just now is not idle yet.
    if (awaits(number)) peer.heard_ms = now_ms_;
    if (now_ms_ - peer.heard_ms < options_.limits.request_ms) continue;
    drop(number, base::error(Errc::deadline_exceeded, "it asked nothing for {} ms",
                             options_.limits.request_ms));
  }
}

bool CoordinatorState::awaits(PeerId peer) const {
  return std::any_of(running_.begin(), running_.end(), [&](const std::uint64_t number) {
    const Job& job = jobs_.at(number);
    return job.waiting.contains(peer) || job.run->owes(peer);
  });
}

// ---- agents ----

/// An agent is known by its link, and a machine by its agent's name: jobs are placed on names, so
/// no two agents share one. A link that is cut yields to the same process only: any other may be a
/// second agent, and the first one lives. An agent that was started anew before its old link is
/// known to be gone is refused, too, and tries again (agent_state.h).
base::Status CoordinatorState::check_agent(PeerId peer, const schemas::AgentHello& hello) const {
  const auto self = agents_.find(peer);
  const auto older = self != agents_.end() ? self : agent_named(hello.name);
  const bool taken = older != agents_.end();
  const bool yields = taken && older->first != peer && older->second.cut &&
                      older->second.hello.process_token == hello.process_token;
  if (taken && !yields) {
    return base::error(Errc::already_exists, "an agent named '{}' has joined already{}",
                       older->second.hello.name,
                       older->second.cut ? ", and its link, which is cut, may heal" : "");
  }
  if (hello.version != options_.version) {
    return base::error(Errc::version_mismatch, "agent '{}' is version {}, the coordinator {}",
                       hello.name, hello.version, options_.version);
  }
  if (!base::plain_name(hello.name)) {
    return base::error(Errc::invalid_argument, "agent '{}' has no name of {}", hello.name,
                       base::kPlainNameRule);
  }
  if (hello.slots == 0 && hello.gpus.empty()) {
    return base::error(Errc::invalid_argument, "agent '{}' offers no device", hello.name);
  }
  if (hello.slots > kSlotsMax) {
    return base::error(Errc::invalid_argument, "agent '{}' offers {} worker slots; the limit is {}",
                       hello.name, hello.slots, kSlotsMax);
  }
  TROUPE_TRY(check_gpus(hello.name, hello.gpus));
  TROUPE_TRY(check_uuids(hello));
  if (!hello.http_address.empty()) {
    const auto known = peers_.find(peer);
    TROUPE_CHECK(known != peers_.end(), "who speaks is linked");
    const base::Status local =
        check_page(hello.http_address, known->second.host, options_.pages_host);
    if (!local.ok()) return local.with_context(fmt::format("agent '{}'", hello.name));
  }
  if (agents_.size() - (yields ? 1 : 0) >= options_.limits.agents_max) {
    return base::error(Errc::resource_exhausted, "limits.agents_max {} reached",
                       options_.limits.agents_max);
  }
  return {};
}

/// Two agents of one machine would give each its GPUs to jobs of their own. That one whose link is
/// cut may live, and be the same under its name of before: who is refused tries again.
base::Status CoordinatorState::check_uuids(const schemas::AgentHello& hello) const {
  std::map<std::string, std::uint32_t> own;
  for (const schemas::GpuOffer& gpu : hello.gpus) {
    if (!gpu.uuid.empty()) own.emplace(gpu.uuid, gpu.index);
  }
  for (const auto& [peer, other] : agents_) {
    if (other.hello.name == hello.name) continue;
    for (const schemas::GpuOffer& gpu : other.hello.gpus) {
      const auto same = own.find(gpu.uuid);
      if (same == own.end()) continue;
      return base::error(Errc::already_exists,
                         "agent '{}' offers GPU {} ({}), which agent '{}' offers as its GPU {}{}",
                         hello.name, same->second, gpu.uuid, other.hello.name, gpu.index,
                         other.cut ? "; that one's link, which is cut, may heal" : "");
    }
  }
  return {};
}

CoordinatorState::Agents::const_iterator CoordinatorState::agent_named(
    const std::string& name) const {
  return std::find_if(agents_.begin(), agents_.end(),
                      [&](const auto& entry) { return entry.second.hello.name == name; });
}

void CoordinatorState::on_message(PeerId peer, const schemas::AgentHello& hello) {
  base::Status fault = check_holder(peer, hello);
  if (fault.ok()) fault = check_agent(peer, hello);
  if (!fault.ok()) return drop(peer, fault);
  const base::Status counted = access_.count_change(caller_of(peer), now_ms_);
  if (!counted.ok()) return drop(peer, base::error(Errc::unavailable, "{}", counted.text()));
  TROUPE_CHECK(!agents_.contains(peer), "a link is one agent's");
  const auto older = agent_named(hello.name);
  if (older != agents_.end()) give_up(older->first, "its link was cut, and it has joined anew");
  Agent& agent = agents_[peer] = Agent{hello, next_agent_, GpuSlots(hello.gpus)};
  agent.hello.withheld.clear();
  agent.hello.slots_kept = 0;
  slots_changed_ = true;
  emit(Send<PeerId>{
      peer, schemas::AgentWelcome{static_cast<std::uint32_t>(next_agent_), options_.version}});
  if (!deny_list_.empty()) emit(Send<PeerId>{peer, schemas::DenyList{deny_list_}});
  const std::string offer = offer_text(hello.slots, hello.gpus.size());
  note_change(peer, fmt::format("agent '{}' joins with {}", hello.name, offer));
  emit(Note{false, fmt::format("agent '{}' has joined with {}", hello.name, offer)});
  emit(Note{false,
            fmt::format("agent '{}': /metrics at {}, {}", hello.name, hello.http_address,
                        hello.numeric_class.to_string()),
            true});
  note_withheld(peer, hello.withheld);
  note_lost(peer);
  note_kept(agent, hello.slots_kept);
  ++next_agent_;
}

// ---- people ----

void CoordinatorState::on_message(PeerId peer, const schemas::JobSubmit& request) {
  const std::string what =
      request.id.empty() ? "submit a job" : fmt::format("submit job '{}'", request.id);
  if (!may(peer, trust::Right::submit, what)) return;
  auto result = submit(peer, request);
  emit(Send<PeerId>{peer, result.ok() ? *result
                                      : schemas::JobSubmitted{request.id, result.status().code(),
                                                              result.status().text()}});
}

/// The same command again is the same job: while it waits, runs or has succeeded nothing happens
/// but the answer. One that failed or was stopped goes on from its checkpoint, as a new run.
base::Result<schemas::JobSubmitted> CoordinatorState::submit(PeerId peer,
                                                             const schemas::JobSubmit& request) {
  // A command that got no answer asks again: whatever has become of the job since, it is this one.
  const auto known = by_request_.find(request.request);
  if (known != by_request_.end()) {
    return schemas::JobSubmitted{jobs_.at(known->second).info.id, Errc::ok, ""};
  }
  if (request.job_text.size() > options_.limits.job_spec_bytes_max) {
    return base::error(Errc::resource_exhausted,
                       "the job has {} bytes, limits.job_spec_bytes_max {}",
                       request.job_text.size(), options_.limits.job_spec_bytes_max);
  }
  TROUPE_TRY_ASSIGN(schemas::JobSpec spec, schemas::decode_job_spec(request.job_text));
  const std::uint64_t ranks = std::uint64_t{spec.workers.machines} * spec.workers.devices;
  if (ranks == 0 || ranks > schemas::kRanksMax || spec.shards() > schemas::kRanksMax) {
    return base::error(Errc::invalid_argument, "a job has 1 to {} ranks and at most as many shards",
                       schemas::kRanksMax);
  }
  const std::string id = request.id.empty() ? choose_id(spec, request.job_text) : request.id;
  for (const std::string& name : {spec.name, id}) {
    if (base::plain_name(name)) continue;
    return base::error(Errc::invalid_argument, "'{}' is no name for a job: {}", name,
                       base::kPlainNameRule);
  }
  TROUPE_TRY(check_words(spec));
  Job fresh;
  fresh.text = request.job_text;
  fresh.spec = std::move(spec);
  fresh.folder = plain_folder(fresh.spec.checkpoint.dir);
  Job* same = find(id);
  if (same != nullptr) {
    const schemas::JobPhase phase = shown(*same).phase;
    const bool other = same->text != request.job_text;
    if (!other && (!is_final(phase) || phase == schemas::JobPhase::succeeded)) {
      note_request(*same, request.request);
      return schemas::JobSubmitted{id, Errc::ok, ""};
    }
    TROUPE_TRY(check_replaced(peer, *same, other));
  }
  TROUPE_TRY(access_.count_change(caller_of(peer), now_ms_));
  if (same != nullptr) {
    carry_over(*same, fresh);
    forget(*same);
  }
  fresh.generation = behind_left(id, fresh.generation);
  TROUPE_TRY(make_room());
  TROUPE_CHECK(find(id) == nullptr, "an id is one job");
  Job& job = jobs_[next_job_] = std::move(fresh);
  job.number = next_job_++;
  by_id_[id] = job.number;
  note_request(job, request.request);
  job.info.id = id;
  job.info.name = job.spec.name;
  job.submitted_ms = job.queued_ms = now_ms_;
  job.owner = access_.name_of(caller_of(peer));
  note_change(peer, fmt::format("submits job '{}' of {}", id,
                                base::format_counted(job.spec.ranks(), "rank")));
  emit(Note{false, fmt::format("job {} submitted: {}, {}", id,
                               base::format_counted(job.spec.ranks(), "rank"),
                               base::format_counted(job.spec.shards(), "parameter server"))});
  // Those that wait already do not fit, and this one changes nothing for them.
  admit_new(job);
  return schemas::JobSubmitted{id, Errc::ok, ""};
}

/// What a job takes over from the one of its id that failed or was stopped: the same command goes
/// on from its checkpoint, or the job was repaired.
void CoordinatorState::carry_over(const Job& from, Job& to) const {
  to.generation = (from.run ? from.run->plan().placement.generation : from.generation) + 1;
  if (from.text == to.text) to.earlier = all_runs(from);
  to.model = from.model;
  if (from.folder == to.folder) to.saved_model = saved_model(from);
}

/// `generation`, or a later one where a process of this job's is still there of a run that nobody
/// remembers any more.
std::uint64_t CoordinatorState::behind_left(const std::string& job,
                                            std::uint64_t generation) const {
  for (const auto& [peer, agent] : agents_) {
    for (const auto& [process, left] : agent.left) {
      if (process.job == job) generation = std::max(generation, process.generation + 1);
    }
  }
  return generation;
}

/// Who asks again, because the answer was lost, does so soon: a job keeps its last few requests.
void CoordinatorState::note_request(Job& job, const std::string& request) {
  constexpr std::size_t kRequestsKept = 8;
  if (request.empty()) return;
  by_request_[request] = job.number;
  job.requests.push_back(request);
  if (job.requests.size() <= kRequestsKept) return;
  by_request_.erase(job.requests.front());
  job.requests.pop_front();
}

/// Forgets the oldest job that has ended.
base::Status CoordinatorState::make_room() {
  if (jobs_.size() < options_.limits.jobs_max) return {};
  const auto oldest = std::find_if(jobs_.begin(), jobs_.end(), [&](const auto& entry) {
    return is_final(shown(entry.second).phase);
  });
  if (oldest == jobs_.end()) {
    return base::error(Errc::resource_exhausted, "{} jobs wait or run, limits.jobs_max",
                       jobs_.size());
  }
  forget(oldest->second);
  return {};
}

/// Of a job that has ended.
void CoordinatorState::forget(const Job& job) {
  const std::uint64_t number = job.number;
  TROUPE_CHECK(!pending_.contains(number) && !running_.contains(number), "the job has ended");
  by_id_.erase(job.info.id);
  for (const std::string& request : job.requests) by_request_.erase(request);
  changed_.erase(number);
  jobs_.erase(number);
}

std::string CoordinatorState::choose_id(const schemas::JobSpec& spec,
                                        const std::string& text) const {
  const std::uint64_t hash = base::hash64(text, next_job_);
  return fmt::format("{}-{:04x}{:x}", id_stem(spec.name), hash & 0xffff, next_job_);
}

void CoordinatorState::refuse(PeerId peer) {
  drop(peer, base::error(Errc::permission_denied, "the coordinator does not take that"));
}

// ---- runs ----

/// Only agents speak about runs, and only those on whose machine the run is. What belongs to an
/// earlier run of the same id, which may still be ending there, is dropped; but who waits is told.
void CoordinatorState::hand_to_run(PeerId peer, const std::string& id, std::uint64_t generation,
                                   const AgentReport& report) {
  if (!agents_.contains(peer)) return refuse(peer);
  if (const auto* exited = std::get_if<schemas::ProcessExited>(&report)) note_ended(peer, *exited);
  Job* job = find(id);
  if (job != nullptr && job->run && !job->run->over() &&
      generation == job->run->plan().placement.generation) {
    const std::vector<PeerId>& peers = job->run->plan().peers;
    const auto machine = std::find(peers.begin(), peers.end(), peer);
    if (machine == peers.end()) return;
    return hand_to_run(*job,
                       AgentSaid{static_cast<std::uint32_t>(machine - peers.begin()), report});
  }
  if (const auto* query = std::get_if<schemas::PieceQuery>(&report)) {
    emit(Send<PeerId>{peer, refusal_of(*query)});
  }
}

/// A run's effects are the coordinator's own, but for what only it can do.
void CoordinatorState::hand_to_run(Job& job, const RunState::Event& event) {
  for (RunState::Effect& effect : job.run->handle(event)) {
    std::visit(
        [&](auto& what) {
          if constexpr (requires { what.owner; }) what.owner = job.owner;
          perform(std::move(what));
        },
        effect);
  }
  if (job.run->over()) changed_.insert(job.number);
}

/// After every event, and only for what it has changed: jobs that fit are admitted, first come
/// first served, and who waits for a job that has ended is answered. A small job may pass a large
/// one that does not fit yet.
void CoordinatorState::settle() {
  while (slots_changed_ || !changed_.empty()) {
    if (std::exchange(slots_changed_, false)) admit_pending();
    for (const std::uint64_t number : std::exchange(changed_, {})) settle(jobs_.at(number));
  }
}

void CoordinatorState::settle(Job& job) {
  if (job.run && job.run->moves()) return queue_again(job);
  if (!is_final(shown(job).phase)) return;
  if (!job.ended_ms) {
    job.ended_ms = now_ms_;
    emit(JobFinished{shown(job).phase});
    if (running_.erase(job.number) > 0) give_back_slots(*job.run);
  }
  const std::string uncut = job.run ? job.run->uncut() : "";
  for (const auto& [peer, saved] : job.waiting) {
    emit(Send<PeerId>{peer, schemas::JobList{Errc::ok, uncut, {info_of(job)}}});
  }
  job.waiting.clear();
}

CoordinatorState::Job* CoordinatorState::find(const std::string& id) {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &jobs_.at(found->second);
}

schemas::JobInfo CoordinatorState::info_of(const Job& job) const {
  schemas::JobInfo info = shown(job);
  info.age_ms = now_ms_ - job.submitted_ms;
  info.number = job.number;
  return info;
}

}  // namespace troupe::control
