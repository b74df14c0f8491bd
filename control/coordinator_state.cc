// SPDX-License-Identifier: Apache-2.0
// Transitions of the coordinator.
#include "control/coordinator_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"
#include "base/name.h"
#include "control/rank_placement.h"
#include "schemas/codec.h"

namespace troupe::control {

using base::Errc;

namespace {

void append(CoordinatorState::Effects& effects, CoordinatorState::Effects more) {
  std::move(more.begin(), more.end(), std::back_inserter(effects));
}

schemas::JobList not_found(const std::string& id) {
  return {Errc::not_found, fmt::format("no job '{}'", id), {}};
}

/// Parameter servers of one job on one machine, each a process: more only wear the machine down.
constexpr std::size_t kServersPerMachineMax = 64;

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

}  // namespace

CoordinatorState::CoordinatorState(CoordinatorOptions options) : options_(std::move(options)) {}

CoordinatorState::Effects CoordinatorState::handle(const CoordinatorEvent& event) {
  Effects effects;
  std::visit([&](const auto& content) { on(content, effects); }, event);
  settle(effects);
  return effects;
}

void CoordinatorState::on(const PeerSaid& said, Effects& effects) {
  std::visit([&](const auto& message) { on_message(said.peer, message, effects); }, said.message);
}

void CoordinatorState::on(const PeerLost& lost, Effects& effects) {
  for (auto& [number, job] : jobs_) {
    job.waiting.erase(lost.peer);
    if (!job.run) continue;
    const std::vector<PeerId>& peers = job.run->plan().peers;
    const auto machine = std::find(peers.begin(), peers.end(), lost.peer);
    if (machine == peers.end()) continue;
    append(effects,
           job.run->machine_lost(static_cast<std::uint32_t>(machine - peers.begin()), lost.reason));
  }
  const auto agent = agents_.find(lost.peer);
  if (agent == agents_.end()) return;
  effects.push_back(
      Note{true, fmt::format("agent '{}' is gone: {}", agent->second.hello.name, lost.reason)});
  agents_.erase(agent);
}

void CoordinatorState::on(const StartFound& found, Effects& effects) {
  Job* job = find(found.job);
  if (job != nullptr && job->run) append(effects, job->run->start_found(found));
}

void CoordinatorState::on(const TimePassed& time, Effects& effects) {
  now_ms_ = time.now_ms;
  for (auto& [number, job] : jobs_) {
    if (job.run) append(effects, job.run->tick(now_ms_));
  }
}

void CoordinatorState::on_message(PeerId peer, const schemas::AgentHello& hello, Effects& effects) {
  base::Status fault;
  if (hello.version != options_.version) {
    fault = base::error(Errc::version_mismatch, "agent '{}' is version {}, the coordinator {}",
                        hello.name, hello.version, options_.version);
  } else if (!base::plain_name(hello.name)) {
    fault = base::error(Errc::invalid_argument, "agent '{}' has no name of {}", hello.name,
                        base::kPlainNameRule);
  } else if (hello.slots == 0) {
    fault = base::error(Errc::invalid_argument, "agent '{}' offers no device", hello.name);
  } else if (agents_.size() >= options_.limits.agents_max) {
    fault = base::error(Errc::resource_exhausted, "limits.agents_max {} reached",
                        options_.limits.agents_max);
  }
  for (const auto& [other, agent] : agents_) {
    if (other == peer || agent.hello.name == hello.name) {
      fault = base::error(Errc::already_exists, "an agent named '{}' has joined already",
                          agent.hello.name);
    }
  }
  if (!fault.ok()) {
    effects.push_back(Note{true, fault.text()});
    effects.push_back(DropPeer{peer, fault});
    return;
  }
  agents_[peer] = Agent{hello, next_agent_};
  effects.push_back(ToPeer{
      peer, schemas::AgentWelcome{static_cast<std::uint32_t>(next_agent_), options_.version}});
  effects.push_back(
      Note{false, fmt::format("agent '{}' has joined with {} slots", hello.name, hello.slots)});
  ++next_agent_;
}

void CoordinatorState::on_message(PeerId peer, const schemas::JobSubmit& request,
                                  Effects& effects) {
  auto result = submit(request);
  effects.push_back(ToPeer{peer, result.ok()
                                     ? *result
                                     : schemas::JobSubmitted{request.id, result.status().code(),
                                                             result.status().text()}});
}

base::Result<schemas::JobSubmitted> CoordinatorState::submit(const schemas::JobSubmit& request) {
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
  std::uint64_t generation = 1;
  if (const Job* same = find(id)) {
    if (same->text != request.job_text) {
      return base::error(Errc::already_exists, "job '{}' exists with other content", id);
    }
    const schemas::JobPhase phase = info_of(*same).phase;
    if (!is_final(phase) || phase == schemas::JobPhase::succeeded) {
      return schemas::JobSubmitted{id, Errc::ok, ""};
    }
    // It failed or was stopped: the same command goes on from its checkpoint.
    generation = (same->run ? same->run->plan().placement.generation : same->generation) + 1;
    std::erase_if(jobs_, [same](const auto& entry) { return &entry.second == same; });
  }
  TROUPE_TRY(make_room());
  Job& job = jobs_[next_job_++];
  job.text = request.job_text;
  job.info.id = id;
  job.info.name = spec.name;
  job.generation = generation;
  job.spec = std::move(spec);
  job.submitted_ms = now_ms_;
  return schemas::JobSubmitted{id, Errc::ok, ""};
}

base::Status CoordinatorState::make_room() {
  if (jobs_.size() < options_.limits.jobs_max) return {};
  const auto oldest = std::find_if(jobs_.begin(), jobs_.end(), [&](const auto& entry) {
    return is_final(info_of(entry.second).phase);
  });
  if (oldest == jobs_.end()) {
    return base::error(Errc::resource_exhausted, "{} jobs wait or run, limits.jobs_max",
                       jobs_.size());
  }
  jobs_.erase(oldest);
  return {};
}

std::string CoordinatorState::choose_id(const schemas::JobSpec& spec,
                                        const std::string& text) const {
  const std::uint64_t hash = base::hash64(text, next_job_);
  return fmt::format("{}-{:04x}{:x}", id_stem(spec.name), hash & 0xffff, next_job_);
}

void CoordinatorState::on_message(PeerId peer, const schemas::JobQuery& query, Effects& effects) {
  if (query.id.empty()) {
    effects.push_back(ToPeer{peer, schemas::JobList{Errc::ok, "", jobs()}});
    return;
  }
  Job* job = find(query.id);
  if (job == nullptr) {
    effects.push_back(ToPeer{peer, not_found(query.id)});
  } else if (query.wait) {
    job->waiting.insert(peer);
  } else {
    effects.push_back(ToPeer{peer, schemas::JobList{Errc::ok, "", {info_of(*job)}}});
  }
}

void CoordinatorState::on_message(PeerId peer, const schemas::JobStop& stop, Effects& effects) {
  Job* job = find(stop.id);
  if (job == nullptr) {
    effects.push_back(ToPeer{peer, not_found(stop.id)});
    return;
  }
  job->waiting.insert(peer);
  if (job->run) {
    append(effects, job->run->stop());
  } else if (!is_final(job->info.phase)) {
    job->info.phase = schemas::JobPhase::stopped;
    job->info.text = "stopped before it began";
  }
}

void CoordinatorState::on_message(PeerId peer, const schemas::FolderProbeResult& result,
                                  Effects& effects) {
  to_run(peer, result, effects);
}

void CoordinatorState::on_message(PeerId peer, const schemas::ProcessMessage& message,
                                  Effects& effects) {
  to_run(peer, message, effects);
}

void CoordinatorState::on_message(PeerId peer, const schemas::ProcessExited& exited,
                                  Effects& effects) {
  to_run(peer, exited, effects);
}

template <typename Message>
void CoordinatorState::to_run(PeerId peer, const Message& message, Effects& effects) {
  if (!agents_.contains(peer)) {
    refuse(peer, effects);
    return;
  }
  Job* job = find(message.job);
  if (job == nullptr || !job->run) return;
  const RunPlan& plan = job->run->plan();
  if (message.generation != plan.placement.generation) return;  // of an earlier run
  const auto machine = std::find(plan.peers.begin(), plan.peers.end(), peer);
  if (machine == plan.peers.end()) return;
  append(effects,
         job->run->received(static_cast<std::uint32_t>(machine - plan.peers.begin()), message));
}

void CoordinatorState::refuse(PeerId peer, Effects& effects) {
  effects.push_back(
      DropPeer{peer, base::error(Errc::permission_denied, "the coordinator does not take that")});
}

void CoordinatorState::settle(Effects& effects) {
  for (auto& [number, job] : jobs_) {
    if (!job.run && job.info.phase == schemas::JobPhase::pending) admit(job, effects);
    const schemas::JobInfo info = info_of(job);
    if (!is_final(info.phase)) continue;
    if (job.ended_ms == 0) {
      job.ended_ms = now_ms_;
      effects.push_back(JobFinished{info.phase});
    }
    for (const PeerId peer : job.waiting) {
      effects.push_back(ToPeer{peer, schemas::JobList{Errc::ok, "", {info}}});
    }
    job.waiting.clear();
  }
}

void CoordinatorState::admit(Job& job, Effects& effects) {
  std::vector<std::pair<std::uint64_t, PeerId>> order;
  for (const auto& [peer, agent] : agents_) order.emplace_back(agent.number, peer);
  std::sort(order.begin(), order.end());
  std::vector<SlotOffer> offers;
  std::uint32_t free = 0;
  const std::map<PeerId, std::uint32_t> used = used_slots();
  for (const auto& [number, peer] : order) {
    const auto taken = used.find(peer);
    const schemas::AgentHello& hello = agents_.at(peer).hello;
    offers.push_back({hello.name, hello.slots - (taken == used.end() ? 0 : taken->second)});
    free += offers.back().free_slots;
  }
  auto placed = place_ranks(offers, job.spec);
  if (!placed) {
    job.info.text = fmt::format("waits for {} worker slots; {} are free", job.spec.ranks(), free);
    return;
  }
  const std::size_t machines = placed->placement.machines.size();
  if (job.spec.shards() > machines * kServersPerMachineMax) {
    job.info.phase = schemas::JobPhase::failed;
    job.info.text = fmt::format("servers.shards {} on {} machine(s): at most {} each",
                                job.spec.shards(), machines, kServersPerMachineMax);
    return;
  }
  RunPlan plan{job.info.id, job.text, job.spec, std::move(placed->placement), {}};
  plan.placement.generation = job.generation;
  for (const std::size_t offer : placed->offers) {
    plan.peers.push_back(order[offer].second);
  }
  effects.push_back(Note{false, fmt::format("job {} begins on {}", job.info.id,
                                            fmt::join(plan.placement.machines, ", "))});
  effects.push_back(JobAdmitted{now_ms_ - job.submitted_ms});
  job.run = std::make_unique<RunState>(std::move(plan));
  append(effects, job.run->begin(now_ms_));
}

std::map<PeerId, std::uint32_t> CoordinatorState::used_slots() const {
  std::map<PeerId, std::uint32_t> used;
  for (const auto& [number, job] : jobs_) {
    if (!job.run || job.run->over()) continue;
    const RunPlan& plan = job.run->plan();
    for (const std::uint32_t machine : plan.placement.machine_of_rank) {
      if (agents_.contains(plan.peers[machine])) ++used[plan.peers[machine]];
    }
  }
  return used;
}

CoordinatorState::Job* CoordinatorState::find(const std::string& id) {
  for (auto& [number, job] : jobs_) {
    if (job.info.id == id) return &job;
  }
  return nullptr;
}

schemas::JobInfo CoordinatorState::info_of(const Job& job) const {
  schemas::JobInfo info = job.run ? job.run->info() : job.info;
  info.age_ms = now_ms_ - job.submitted_ms;
  return info;
}

std::vector<schemas::JobInfo> CoordinatorState::jobs() const {
  std::vector<schemas::JobInfo> list;
  for (const auto& [number, job] : jobs_) list.push_back(info_of(job));
  return list;
}

std::vector<ScrapedJob> CoordinatorState::scraped_jobs() const {
  std::vector<ScrapedJob> list;
  for (const auto& [number, job] : jobs_) {
    const bool shown =
        job.ended_ms == 0 || now_ms_ - job.ended_ms < options_.limits.finished_job_ms;
    if (!shown) continue;
    ScrapedJob& scraped = list.emplace_back(ScrapedJob{info_of(job), 0, {}});
    if (!job.run) continue;
    scraped.checkpointed_ms = job.run->checkpointed_ms();
    scraped.missing_ranks = job.run->missing_ranks();
  }
  return list;
}

std::vector<ScrapeTarget> CoordinatorState::targets() const {
  std::vector<ScrapeTarget> targets;
  for (const auto& [peer, agent] : agents_) {
    if (agent.hello.http_address.empty()) continue;
    targets.push_back({agent.hello.http_address, "agent", agent.hello.name, "", ""});
  }
  for (const auto& [number, job] : jobs_) {
    if (!job.run) continue;
    for (ScrapeTarget& target : job.run->targets()) targets.push_back(std::move(target));
  }
  return targets;
}

CoordinatorCounts CoordinatorState::counts() const {
  CoordinatorCounts counts;
  for (const auto& [number, job] : jobs_) ++counts.jobs[info_of(job).phase];
  for (const auto& [peer, agent] : agents_) {
    ++counts.agents;
    counts.slots += agent.hello.slots;
  }
  for (const auto& [peer, slots] : used_slots()) counts.slots_used += slots;
  return counts;
}

}  // namespace troupe::control
