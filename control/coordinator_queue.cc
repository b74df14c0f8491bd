// SPDX-License-Identifier: Apache-2.0
// The coordinator's queue: what agents have to give, which jobs get it, and what the others wait
// for. A slot, of a CPU or a GPU, is one rank's from its job's admission to the end of the run, and
// nobody's where the run has given up a process that may still use it, until that has ended.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/text.h"
#include "base/units.h"
#include "control/capacity.h"
#include "control/coordinator_state.h"
#include "control/rank_placement.h"

namespace troupe::control {
namespace {

using schemas::WorkerDevice;

/// Parameter servers of one job on one machine, each a process: more only wear the machine down.
constexpr std::size_t kServersPerMachineMax = 64;

/// "4 worker slots", "4 GPUs of one model with at least 40.0 GiB each". `of`: " of one model".
std::string wanted_text(const schemas::JobSpec& spec, const std::string& of) {
  const schemas::WorkersSpec& workers = spec.workers;
  if (workers.device == WorkerDevice::cpu) return base::format_counted(spec.ranks(), "worker slot");
  std::string text = base::format_counted(spec.ranks(), "GPU") + of;
  if (workers.memory == 0) return text;
  text += " with at least " + base::format_bytes(workers.memory);
  return spec.ranks() == 1 ? text : text + " each";
}

/// "a (GPUs 0, 2), b (GPU 1)": machines and, of a job on GPUs, those of its ranks.
std::string machines_text(const RunPlan& plan) {
  std::vector<std::set<std::uint32_t>> gpus(plan.placement.machines.size());
  for (std::size_t rank = 0; rank < plan.placement.gpu_of_rank.size(); ++rank) {
    gpus[plan.placement.machine_of_rank[rank]].insert(plan.placement.gpu_of_rank[rank]);
  }
  std::vector<std::string> words;
  for (std::size_t machine = 0; machine < gpus.size(); ++machine) {
    std::string& word = words.emplace_back(plan.placement.machines[machine]);
    if (gpus[machine].empty()) continue;
    word += fmt::format(" ({} {})", gpus[machine].size() == 1 ? "GPU" : "GPUs",
                        fmt::join(gpus[machine], ", "));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

/// `saved_model`, of the GPUs that the job's checkpoints are of, where on others it would refuse
/// them. Empty: any will do.
std::string bound_model(const schemas::JobSpec& spec, const std::string& saved_model) {
  const bool bound = spec.workers.device == WorkerDevice::gpu && one_numeric_class(spec) &&
                     !spec.checkpoint.dir.empty() && spec.checkpoint.resume &&
                     !spec.checkpoint.change_numerics;
  return bound ? saved_model : "";
}

}  // namespace

/// What agents have to give, in the order in which they joined: a placement depends on nothing
/// else.
struct CoordinatorState::Offers {
  std::vector<SlotOffer> offers;
  std::vector<PeerId> peers;  // by offer
  Capacity capacity;          // of all agents that are there, whether or not they offer something
  std::size_t withheld = 0;   // agents that withhold theirs
  std::string why_withheld;   // the first of them, and why
  std::size_t cut = 0;        // agents whose link is cut
  std::string first_cut;
  std::uint64_t kept = 0;  // slots of CPUs that ended runs may still use
  std::string why_kept;    // the first agent with such slots, and what uses them
  std::size_t lost = 0;    // GPUs that their agents have lost
  std::string why_lost;    // the first of those agents, and why
  ClosedCluster closed;

  void add(PeerId peer, const Agent& agent);
  void add_for_later(const Agent& agent);
  void take(const RankPlacement& placed);
  std::string shortage(const schemas::JobSpec& spec, const std::string& model) const;
  std::string missing(const schemas::WorkersSpec& workers) const;
};

std::uint32_t CoordinatorState::Agent::kept() const {
  std::uint64_t slots = hello.slots_kept;
  for (const auto& [process, of_process] : left) slots += of_process.slots;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(slots, hello.slots - used));
}

void CoordinatorState::Offers::add(PeerId peer, const Agent& agent) {
  const std::uint32_t of_agent = agent.kept();
  const std::uint32_t free = agent.hello.slots - agent.used - of_agent;
  capacity.add(Room{agent.hello.slots, agent.hello.slots - of_agent, free});
  capacity.add(agent.gpus, true);
  offers.push_back({agent.hello.name, free, agent.gpus.free()});
  peers.push_back(peer);
  if (of_agent > 0 && kept == 0) {
    const auto left = std::find_if(agent.left.begin(), agent.left.end(),
                                   [](const auto& entry) { return entry.second.slots > 0; });
    why_kept = fmt::format(
        "'{}': {} may still run", agent.hello.name,
        left == agent.left.end() ? "processes from before it joined" : left->second.name);
  }
  kept += of_agent;
  constexpr std::size_t kWordsMax = 256;  // every job that waits may be told
  if (lost == 0 && !agent.gpus.lost().empty()) {
    why_lost = base::shortened(
        fmt::format("'{}': {}", agent.hello.name, lost_text(agent.gpus.lost())), kWordsMax);
  }
  lost += agent.gpus.lost().size();
}

/// One that gets nothing at present. Of one that leaves nothing comes back.
void CoordinatorState::Offers::add_for_later(const Agent& agent) {
  if (agent.leaving) return;
  capacity.add(Room{agent.hello.slots, 0, 0});
  capacity.add(agent.gpus, false);
  if (agent.cut) {
    if (cut++ == 0) first_cut = agent.hello.name;
  } else if (withheld++ == 0) {
    why_withheld = fmt::format("'{}': {}", agent.hello.name, agent.hello.withheld);
  }
}

void CoordinatorState::Offers::take(const RankPlacement& placed) {
  for (std::size_t rank = 0; rank < placed.placement.machine_of_rank.size(); ++rank) {
    SlotOffer& offer = offers[placed.offers[placed.placement.machine_of_rank[rank]]];
    if (placed.slot_of_rank.empty()) {
      --offer.free_slots;
      capacity.take();
      continue;
    }
    const auto gpu =
        std::find_if(offer.free_gpus.begin(), offer.free_gpus.end(),
                     [&](const FreeGpu& free) { return free.place == placed.slot_of_rank[rank]; });
    capacity.take(*gpu);
    offer.free_gpus.erase(gpu);
  }
}

/// For people: what the job wants, all of `model` if it is bound to that, and what there is.
std::string CoordinatorState::Offers::shortage(const schemas::JobSpec& spec,
                                               const std::string& model) const {
  Room room = capacity.room_for(spec.workers);
  std::map<std::string, Room> models;
  if (spec.workers.device == WorkerDevice::gpu) models = capacity.models_for(spec.workers);
  if (!model.empty()) room = models[model];
  std::erase_if(models, [](const auto& entry) { return entry.second.all == 0; });
  const bool one_model =
      model.empty() && models.size() > 1 && spec.ranks() > 1 && one_numeric_class(spec);
  std::string of;
  if (one_model) of = " of one model";
  if (!model.empty()) of = " of model " + model;
  std::string text = wanted_text(spec, of) + "; ";
  if (one_model) {
    constexpr std::size_t kNamed = 8;
    std::vector<std::string> words;
    for (const auto& [name, of_name] : models) {
      if (words.size() == kNamed) break;
      words.push_back(fmt::format("{} of {} {}", of_name.free, of_name.all, name));
    }
    text += fmt::format("free: {}{} (reproducible = false takes several models)",
                        fmt::join(words, ", "), models.size() > kNamed ? ", ..." : "");
  } else if (spec.ranks() > room.all) {
    text += fmt::format("all agents together have {}", room.all);
  } else {
    text += fmt::format("{} of {} {} free", room.free, room.all, room.free == 1 ? "is" : "are");
  }
  text += missing(spec.workers);
  return model.empty() ? text : text + "; its checkpoints are of " + model;
}

/// For people: what cannot be had, and why.
std::string CoordinatorState::Offers::missing(const schemas::WorkersSpec& workers) const {
  std::string text;
  if (cut > 0) {
    text = fmt::format("; {} cut, '{}'s{}", cut == 1 ? "a link is" : "links are", first_cut,
                       cut == 1 ? "" : " and others'");
  }
  if (withheld > 0) {
    text += fmt::format("; {} {} none, {}", base::format_counted(withheld, "agent"),
                        withheld == 1 ? "offers" : "offer", why_withheld);
  }
  if (workers.device != WorkerDevice::gpu) {
    if (kept == 0) return text;
    return text + fmt::format("; {} {} out of service, {}", base::format_counted(kept, "slot"),
                              kept == 1 ? "is" : "are", why_kept);
  }
  const auto [too_small, largest] = capacity.too_small_for(workers);
  if (too_small > 0) {
    text += fmt::format("; {} {} less memory, at most {}", base::format_counted(too_small, "GPU"),
                        too_small == 1 ? "has" : "have", base::format_bytes(largest));
  }
  if (lost > 0) {
    text += fmt::format("; {} {} out of service, {}", base::format_counted(lost, "GPU"),
                        lost == 1 ? "is" : "are", why_lost);
  }
  return text;
}

CoordinatorState::Offers CoordinatorState::all_offers() const {
  std::map<std::uint64_t, PeerId> order;
  for (const auto& [peer, agent] : agents_) order[agent.number] = peer;
  Offers all;
  for (const auto& [number, peer] : order) {
    const Agent& agent = agents_.at(peer);
    if (agent.offers()) {
      all.add(peer, agent);
    } else {
      all.add_for_later(agent);
    }
  }
  all.closed = {options_.agents, agents_.size()};
  return all;
}

void CoordinatorState::admit_pending() {
  if (pending_.empty()) return;
  Offers offers = all_offers();
  const std::vector<std::uint64_t> numbers(pending_.begin(), pending_.end());
  for (const std::uint64_t number : numbers) admit(jobs_.at(number), offers);
}

void CoordinatorState::admit_new(Job& job) {
  pending_.insert(job.number);
  Offers offers = all_offers();
  admit(job, offers);
}

void CoordinatorState::defer(Job& job, const std::string& why) {
  const std::string note = base::shortened(why, kNoteBytesMax);
  if (job.info.text == note) return;
  job.info.text = note;
  emit(Note{false, fmt::format("job {} {}", job.info.id, note), true});
}

/// The run that writes its checkpoints to this folder. Other ways to it, over links, are found out
/// when it is locked.
const CoordinatorState::Job* CoordinatorState::holder_of(const std::string& folder) const {
  if (folder.empty()) return nullptr;
  for (const std::uint64_t number : running_) {
    const Job& job = jobs_.at(number);
    if (job.folder == folder) return &job;
  }
  return nullptr;
}

void CoordinatorState::admit(Job& job, Offers& offers) {
  // Who waits for something else has to be patient anew afterwards.
  const auto short_since_ms = std::exchange(job.short_since_ms, std::nullopt);
  if (const Job* holder = holder_of(job.folder)) {
    return defer(job,
                 fmt::format("waits for the end of job {}, which has the same checkpoint.dir {}",
                             holder->info.id, job.spec.checkpoint.dir));
  }
  std::string model = bound_model(job.spec, job.saved_model);
  // Where not enough of that model may come back, the checkpoints decide about others.
  if (!model.empty() && !offers.capacity.holds(job.spec, model, &Room::most)) model.clear();
  auto placed = offers.capacity.holds(job.spec, model, &Room::free)
                    ? place_ranks(offers.offers, job.spec, model.empty() ? job.model : model)
                    : std::nullopt;
  if (!placed) {
    job.short_since_ms = short_since_ms;
    return wait_for_room(job, offers.closed, offers.capacity, model,
                         offers.shortage(job.spec, model));
  }
  pending_.erase(job.number);
  job.model = std::move(placed->model);
  const std::size_t machines = placed->placement.machines.size();
  if (job.spec.shards() > machines * kServersPerMachineMax) {
    job.info.phase = schemas::JobPhase::failed;
    job.info.text = fmt::format("servers.shards {} on {}: at most {} each", job.spec.shards(),
                                base::format_counted(machines, "machine"), kServersPerMachineMax);
    changed_.insert(job.number);
    return;
  }
  offers.take(*placed);
  RunPlan plan{job.info.id, job.text, job.spec, std::move(placed->placement), {}, {}, {}};
  plan.slot_of_rank = std::move(placed->slot_of_rank);
  plan.pages_host = options_.pages_host;
  plan.placement.generation = job.generation;
  for (const std::size_t offer : placed->offers) {
    const PeerId peer = offers.peers[offer];
    const auto known = peers_.find(peer);
    plan.peers.push_back(peer);
    plan.hosts.push_back(known == peers_.end() ? "" : known->second.host);
  }
  begin_run(job, std::move(plan));
}

void CoordinatorState::begin_run(Job& job, RunPlan plan) {
  TROUPE_CHECK(!job.run, "a job is admitted once");
  emit(Note{false, fmt::format("job {} begins on {}", job.info.id, machines_text(plan))});
  emit(JobAdmitted{now_ms_ - job.queued_ms});
  use_slots(plan, false);
  running_.insert(job.number);
  job.run = std::make_unique<RunState>(std::move(plan));
  hand_to_run(job, Begin{now_ms_});
}

/// Of the agents that are there: a lost one's job is ending, and its slots are gone with it.
void CoordinatorState::use_slots(const RunPlan& plan, bool give_back) {
  for (std::size_t rank = 0; rank < plan.placement.machine_of_rank.size(); ++rank) {
    const auto found = agents_.find(plan.peers[plan.placement.machine_of_rank[rank]]);
    if (found == agents_.end()) continue;
    Agent& agent = found->second;
    if (plan.slot_of_rank.empty()) {
      agent.used += give_back ? -1 : 1;
      TROUPE_CHECK(agent.used <= agent.hello.slots, "a slot is one rank's");
    } else if (give_back) {
      agent.gpus.give_back(plan.slot_of_rank[rank]);
    } else {
      agent.gpus.take(plan.slot_of_rank[rank]);
    }
  }
  slots_changed_ = true;
}

/// What the run has given up may still be there: its slots are kept, as long as its agent is known.
void CoordinatorState::give_back_slots(const RunState& run) {
  use_slots(run.plan(), true);
  for (const auto& [machine, pid] : run.left_behind()) leave_behind(run.plan(), machine, pid);
}

void CoordinatorState::leave_behind(const RunPlan& plan, std::uint32_t machine, std::uint64_t pid) {
  const PeerId peer = plan.peers[machine];
  const auto agent = agents_.find(peer);
  if (agent == agents_.end()) return;  // lost by the same event by which the run was over
  Left left{pid == 0 ? fmt::format("the host process of job {}", plan.job)
                     : fmt::format("process {} of job {}", pid, plan.job)};
  for (std::size_t rank = 0; rank < plan.placement.machine_of_rank.size(); ++rank) {
    if (plan.placement.machine_of_rank[rank] != machine) continue;
    if (plan.placement.gpu_of_rank.empty()) {
      ++left.slots;
    } else {
      left.gpus.push_back(plan.placement.gpu_of_rank[rank]);
    }
  }
  emit(Note{true, fmt::format("agent '{}' keeps {} until {} has ended", agent->second.hello.name,
                              offer_text(left.slots, left.gpus.size()), left.name)});
  const schemas::ActorId host{schemas::Role::device_server, machine};
  agent->second.left[{plan.job, plan.placement.generation, host}] = std::move(left);
  note_lost(peer);
}

/// A process that its run had given up has ended after all.
void CoordinatorState::note_ended(PeerId peer, const schemas::ProcessExited& exited) {
  Agent& agent = agents_.at(peer);
  const auto left = agent.left.find({exited.job, exited.generation, exited.actor});
  if (left == agent.left.end()) return;
  emit(Note{false, fmt::format("agent '{}' offers {} again: {} has ended", agent.hello.name,
                               offer_text(left->second.slots, left->second.gpus.size()),
                               left->second.name)});
  agent.left.erase(left);
  slots_changed_ = true;
  note_lost(peer);
}

}  // namespace troupe::control
