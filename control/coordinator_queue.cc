// SPDX-License-Identifier: Apache-2.0
// The coordinator's queue: what agents have to give, which jobs get it, and what the others wait
// for. A slot, of a CPU or a GPU, is one rank's from its job's admission to the end of the run.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "base/units.h"
#include "control/coordinator_state.h"
#include "control/rank_placement.h"

namespace troupe::control {
namespace {

using schemas::WorkerDevice;

/// Parameter servers of one job on one machine, each a process: more only wear the machine down.
constexpr std::size_t kServersPerMachineMax = 64;

/// Without what makes no difference: "/out/./x/" is "/out/x".
std::filesystem::path plain_path(const std::string& path) {
  const std::filesystem::path normal = std::filesystem::path(path).lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

/// "4 worker slots", "4 GPUs with at least 40.0 GiB each".
std::string wanted_text(const schemas::JobSpec& spec) {
  const schemas::WorkersSpec& workers = spec.workers;
  if (workers.device == WorkerDevice::cpu) return base::format_counted(spec.ranks(), "worker slot");
  std::string text = base::format_counted(spec.ranks(), "GPU");
  if (workers.memory == 0) return text;
  text += " with at least " + base::format_bytes(workers.memory);
  return spec.ranks() == 1 ? text : text + " each";
}

/// Slots that a job could have, and those of them that are free.
struct Room {
  std::uint64_t all = 0;
  std::uint64_t free = 0;
};

}  // namespace

/// What agents have to give, in the order in which they joined: a placement depends on nothing
/// else.
struct CoordinatorState::Offers {
  std::vector<SlotOffer> offers;
  std::vector<PeerId> peers;           // by offer
  Room cpus;                           // of all agents
  std::map<std::uint64_t, Room> gpus;  // the same by bytes of memory
  std::size_t withheld = 0;            // agents that withhold theirs
  std::string why_withheld;            // the first of them, and why
  std::size_t lost = 0;                // GPUs that their agents have lost
  std::string why_lost;                // the first of those agents, and why

  void add(PeerId peer, const std::string& machine, std::uint32_t slots, std::uint32_t used);
  void add(const std::string& machine, const GpuSlots& of_machine);
  Room room_for(const schemas::WorkersSpec& workers) const;
  void take(const RankPlacement& placed);
  std::string missing(const schemas::WorkersSpec& workers) const;
};

void CoordinatorState::Offers::add(PeerId peer, const std::string& machine, std::uint32_t slots,
                                   std::uint32_t used) {
  offers.push_back({machine, slots - used});
  peers.push_back(peer);
  cpus.all += slots;
  cpus.free += slots - used;
}

/// To the offer that was added last.
void CoordinatorState::Offers::add(const std::string& machine, const GpuSlots& of_machine) {
  offers.back().free_gpus = of_machine.free();
  for (const FreeGpu& gpu : offers.back().free_gpus) ++gpus[gpu.memory_bytes].free;
  for (const std::uint64_t memory_bytes : of_machine.in_service()) ++gpus[memory_bytes].all;
  if (of_machine.lost().empty()) return;
  constexpr std::size_t kWordsMax = 256;  // every job that waits may be told
  if (lost == 0) {
    why_lost =
        base::shortened(fmt::format("'{}': {}", machine, lost_text(of_machine.lost())), kWordsMax);
  }
  lost += of_machine.lost().size();
}

Room CoordinatorState::Offers::room_for(const schemas::WorkersSpec& workers) const {
  if (workers.device == WorkerDevice::cpu) return cpus;
  Room room;
  for (auto entry = gpus.lower_bound(workers.memory); entry != gpus.end(); ++entry) {
    room.all += entry->second.all;
    room.free += entry->second.free;
  }
  return room;
}

void CoordinatorState::Offers::take(const RankPlacement& placed) {
  for (std::size_t rank = 0; rank < placed.placement.machine_of_rank.size(); ++rank) {
    SlotOffer& offer = offers[placed.offers[placed.placement.machine_of_rank[rank]]];
    if (placed.gpu_of_rank.empty()) {
      --offer.free_slots;
      --cpus.free;
      continue;
    }
    const auto gpu =
        std::find_if(offer.free_gpus.begin(), offer.free_gpus.end(),
                     [&](const FreeGpu& free) { return free.place == placed.gpu_of_rank[rank]; });
    --gpus.at(gpu->memory_bytes).free;
    offer.free_gpus.erase(gpu);
  }
}

/// For people: what cannot be had, and why.
std::string CoordinatorState::Offers::missing(const schemas::WorkersSpec& workers) const {
  std::string text;
  if (withheld > 0) {
    text = fmt::format("; {} {} none, {}", base::format_counted(withheld, "agent"),
                       withheld == 1 ? "offers" : "offer", why_withheld);
  }
  if (workers.device != WorkerDevice::gpu) return text;
  std::uint64_t too_small = 0, largest = 0;
  for (const auto& [memory_bytes, room] : gpus) {
    if (memory_bytes >= workers.memory) break;
    too_small += room.all;
    if (room.all > 0) largest = memory_bytes;
  }
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
  Offers all;
  for (const auto& [peer, agent] : agents_) {
    // Nobody knows whether one lives whose link is cut.
    if (agent.offers()) order[agent.number] = peer;
    if (agent.hello.withheld.empty()) continue;
    if (all.withheld++ == 0) {
      all.why_withheld = fmt::format("'{}': {}", agent.hello.name, agent.hello.withheld);
    }
  }
  for (const auto& [number, peer] : order) {
    const Agent& agent = agents_.at(peer);
    all.add(peer, agent.hello.name, agent.hello.slots, agent.used);
    all.add(agent.hello.name, agent.gpus);
  }
  return all;
}

void CoordinatorState::admit_pending() {
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
  const std::filesystem::path wanted = plain_path(folder);
  for (const std::uint64_t number : running_) {
    const Job& job = jobs_.at(number);
    if (plain_path(job.spec.checkpoint.dir) == wanted) return &job;
  }
  return nullptr;
}

void CoordinatorState::admit(Job& job, Offers& offers) {
  const schemas::WorkersSpec& workers = job.spec.workers;
  const std::uint32_t ranks = job.spec.ranks();
  if (const Job* holder = holder_of(job.spec.checkpoint.dir)) {
    return defer(job,
                 fmt::format("waits for the end of job {}, which has the same checkpoint.dir {}",
                             holder->info.id, job.spec.checkpoint.dir));
  }
  const Room room = offers.room_for(workers);
  auto placed = ranks <= room.free ? place_ranks(offers.offers, job.spec) : std::nullopt;
  if (!placed) {
    return defer(job, fmt::format("waits for {}; ", wanted_text(job.spec)) +
                          (ranks > room.all ? fmt::format("all agents together have {}", room.all)
                                            : fmt::format("{} of {} {} free", room.free, room.all,
                                                          room.free == 1 ? "is" : "are")) +
                          offers.missing(workers));
  }
  pending_.erase(job.number);
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
  plan.gpu_of_rank = std::move(placed->gpu_of_rank);
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
  emit(Note{false, fmt::format("job {} begins on {}", job.info.id,
                               fmt::join(plan.placement.machines, ", "))});
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
    if (plan.gpu_of_rank.empty()) {
      agent.used += give_back ? -1 : 1;
      TROUPE_CHECK(agent.used <= agent.hello.slots, "a slot is one rank's");
    } else if (give_back) {
      agent.gpus.give_back(plan.gpu_of_rank[rank]);
    } else {
      agent.gpus.take(plan.gpu_of_rank[rank]);
    }
  }
  slots_changed_ = true;
}

}  // namespace troupe::control
