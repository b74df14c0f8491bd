// SPDX-License-Identifier: Apache-2.0
// What a coordinator shows of itself: to people, to metrics, to the discovery of Prometheus.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "control/coordinator_state.h"
#include "schemas/codec.h"

namespace troupe::control {
namespace {

/// Lost GPUs of one list, over all machines: see list().
constexpr std::size_t kLostGpusListed = 1'024;

}  // namespace

/// Who asks for lists on and on is dropped: it is not heard any more, and others are.
void CoordinatorState::on_message(PeerId peer, const schemas::JobQuery& query) {
  if (!may(peer, trust::Right::read, "read")) return;
  if (query.id.empty()) {
    const base::Status counted = access_.count_list(caller_of(peer), now_ms_);
    if (!counted.ok()) return drop(peer, counted);
    emit(Send<PeerId>{peer, list(query.cluster)});
    return;
  }
  Job* job = find(query.id);
  if (job == nullptr) {
    tell_unknown(peer, query.id);
  } else {
    emit(Send<PeerId>{peer, schemas::JobList{base::Errc::ok, "", {info_of(*job)}}});
  }
}

std::vector<schemas::JobInfo> CoordinatorState::jobs() const {
  std::vector<schemas::JobInfo> list;
  for (const auto& [number, job] : jobs_) list.push_back(info_of(job));
  return list;
}

schemas::JobList CoordinatorState::list(bool cluster) const {
  // Beside them as many machines and ranks as a list may have fit into a message.
  constexpr std::size_t kBytesMax = 2'097'152;
  constexpr std::size_t kListedNoteBytesMax = 256;
  constexpr std::size_t kFixedBytes = 256;  // numbers, pointers and padding of one job
  schemas::JobList list;
  std::size_t bytes = 0;
  for (auto entry = jobs_.rbegin(); entry != jobs_.rend(); ++entry) {
    schemas::JobInfo info = info_of(entry->second);
    info.text = base::shortened(info.text, kListedNoteBytesMax);
    bytes +=
        kFixedBytes + info.id.size() + info.name.size() + info.checkpoint.size() + info.text.size();
    if (bytes > kBytesMax || list.jobs.size() == schemas::kJobsMax) break;
    list.jobs.push_back(std::move(info));
  }
  std::reverse(list.jobs.begin(), list.jobs.end());
  if (const std::size_t left_off = jobs_.size() - list.jobs.size(); left_off > 0) {
    list.text = fmt::format("{} left off", base::format_counted(left_off, "older job"));
  }
  if (cluster) {
    list.machines = machines();
    list.ranks = ranks();
  }
  return list;
}

/// A run that goes on from a checkpoint had one before it, whether or not it was seen here. One
/// that was moved has not failed.
CoordinatorState::EarlierRuns CoordinatorState::all_runs(const Job& job) const {
  EarlierRuns all = job.earlier;
  if (!job.run) return all;
  const HeldTime held = job.run->held();
  all.held.held_ms += held.held_ms;
  all.held.counted_ms += held.counted_ms;
  if (!job.moved && (all.runs > 0 || job.run->resumed())) ++all.resumes;
  ++all.runs;
  if (job.run->checkpointed_ms() != 0) all.checkpointed_ms = job.run->checkpointed_ms();
  return all;
}

std::string CoordinatorState::saved_model(const Job& job) {
  return job.run && job.run->saved() ? job.model : job.saved_model;
}

std::vector<ScrapedJob> CoordinatorState::scraped_jobs() const {
  std::vector<ScrapedJob> list;
  for (const auto& [number, job] : jobs_) {
    const bool shown = !job.ended_ms || now_ms_ - *job.ended_ms < options_.limits.finished_job_ms;
    if (!shown) continue;
    const EarlierRuns runs = all_runs(job);
    ScrapedJob& scraped = list.emplace_back();
    scraped.info = info_of(job);
    scraped.checkpointed_ms = runs.checkpointed_ms;
    scraped.goodput = runs.held.goodput();
    scraped.resumes = runs.resumes;
    if (job.run) scraped.missing_ranks = job.run->missing_ranks();
  }
  return list;
}

std::vector<ScrapeTarget> CoordinatorState::targets() const {
  std::vector<ScrapeTarget> targets;
  for (const auto& [peer, agent] : agents_) {
    if (agent.hello.http_address.empty()) continue;
    targets.push_back({agent.hello.http_address, "agent", agent.hello.name, "", ""});
  }
  for (const std::uint64_t number : running_) {
    for (ScrapeTarget& target : jobs_.at(number).run->targets())
      targets.push_back(std::move(target));
  }
  return targets;
}

std::vector<schemas::MachineInfo> CoordinatorState::machines() const {
  constexpr std::size_t kListedWordsMax = 128;  // of each: see list()
  std::size_t lost_left = kLostGpusListed;
  std::map<std::uint64_t, const Agent*> order;
  for (const auto& [peer, agent] : agents_) order[agent.number] = &agent;
  std::vector<schemas::MachineInfo> list;
  for (const auto& [number, agent] : order) {
    if (list.size() == schemas::kMachinesListed) break;
    schemas::MachineInfo& machine = list.emplace_back();
    machine.name = agent->hello.name;
    machine.slots = agent->hello.slots;
    machine.slots_used = agent->used + agent->kept();
    machine.cut = agent->cut;
    machine.withheld = base::shortened(agent->hello.withheld, kListedWordsMax);
    machine.gpus = static_cast<std::uint32_t>(agent->gpus.all().size());
    machine.gpus_used = agent->gpus.used();
    machine.lost_gpus = agent->gpus.lost();
    machine.lost_gpus.resize(std::min(machine.lost_gpus.size(), lost_left));
    lost_left -= machine.lost_gpus.size();
  }
  return list;
}

std::vector<schemas::RankInfo> CoordinatorState::ranks() const {
  std::vector<schemas::RankInfo> list;
  for (const std::uint64_t number : running_) {
    for (schemas::RankInfo& rank : jobs_.at(number).run->ranks()) {
      if (list.size() < schemas::kRanksListed) list.push_back(std::move(rank));
    }
  }
  return list;
}

CoordinatorFigures CoordinatorState::counts() const {
  CoordinatorFigures counts;
  for (const auto& [number, job] : jobs_) ++counts.jobs[shown(job).phase];
  for (const auto& [peer, agent] : agents_) {
    ++counts.agents;
    const bool withheld = !agent.offers();
    const std::uint32_t gpus_used = agent.gpus.used();
    counts.cpus.all += agent.hello.slots;
    counts.cpus.used += agent.used;
    counts.cpus.withheld += withheld ? agent.hello.slots - agent.used : agent.kept();
    counts.gpus.all += agent.gpus.all().size();
    counts.gpus.used += gpus_used;
    counts.gpus.withheld +=
        withheld ? agent.gpus.all().size() - gpus_used : agent.gpus.lost_unused();
  }
  return counts;
}

}  // namespace troupe::control
