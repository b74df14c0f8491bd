// SPDX-License-Identifier: Apache-2.0
// Probes, placing and collecting.
#include "control/checkpoint_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/check.h"

namespace troupe::control {

using base::Errc;
using schemas::CheckpointReport;

namespace {

/// Machines that get files at a time: what is read for them lies in the coordinator's memory.
constexpr std::size_t kPlacingMax = 8;

/// "step-500-g1".
std::string name_of_path(const std::string& checkpoint) {
  return std::filesystem::path(checkpoint).filename().string();
}

/// There is no such file, or another one: the folder is another one.
bool elsewhere(Errc code) {
  return code == Errc::not_found || code == Errc::failed_precondition;
}

}  // namespace

CheckpointFolder::CheckpointFolder(FolderPlan plan)
    : plan_(std::move(plan)),
      servers_(plan_.machine_of_shard.begin(), plan_.machine_of_shard.end()) {
  TROUPE_CHECK(plan_.peers.size() == plan_.machines.size(), "every machine has its agent");
}

// ---- one folder, or one per machine? ----

/// Checkpoints that machines write into different folders under one name would be found out only
/// by the next resume. So the first machine writes a nonce where checkpoints go, and all others
/// read there before anything is started.
void CheckpointFolder::probe() {
  TROUPE_CHECK(stage_ == Stage::idle, "a folder is probed once");
  stage_ = Stage::writing;
  asked_ = {0};
  send_probe(0, true);
}

base::Status CheckpointFolder::take(std::uint32_t machine,
                                    const schemas::FolderProbeResult& result) {
  if (!asked_.contains(machine)) return {};  // a probe's removal is answered, too
  if (result.code == Errc::ok) {
    heard(machine);
    return {};
  }
  if (stage_ == Stage::reading && elsewhere(result.code)) {
    copied_ = true;
    heard(machine);
    return {};
  }
  return base::error(Errc::failed_precondition, "checkpoint.dir {}: {} cannot {} there: {}",
                     plan_.folder, name_of(machine), stage_ == Stage::reading ? "look" : "write",
                     result.text);
}

base::Status CheckpointFolder::take_own(const schemas::FolderProbeResult& result) {
  return take(own(), result);
}

void CheckpointFolder::heard(std::uint32_t machine) {
  asked_.erase(machine);
  if (asked_.empty()) go_on();
}

void CheckpointFolder::go_on() {
  if (stage_ == Stage::writing) {
    stage_ = Stage::reading;
    for (std::uint32_t machine = 1; machine < own(); ++machine) {
      asked_.insert(machine);
      send_probe(machine, false);
    }
    asked_.insert(own());
    return emit(ProbeFolder{probe_of(plan_.job, false)});
  }
  if (stage_ == Stage::reading && copied_) {
    stage_ = Stage::trying;
    emit(Note{true, fmt::format("job {}: the machines and the coordinator do not share {}: the "
                                "coordinator keeps copies of the checkpoints",
                                plan_.job, plan_.folder)});
    for (const std::uint32_t machine : servers_) {
      if (probes_.contains(machine)) continue;
      asked_.insert(machine);
      send_probe(machine, true);
    }
    if (!asked_.empty()) return;
  }
  stage_ = Stage::known;
  remove_probes();
}

void CheckpointFolder::end() {
  remove_probes();
  if (!reports_.empty()) emit(EndCollecting{plan_.job});
  reports_.clear();
}

void CheckpointFolder::remove_probes() {
  for (const std::uint32_t machine : std::exchange(probes_, {})) {
    emit(Send<std::uint32_t>{machine, probe_of("", true)});
  }
}

/// A removal of an earlier run may come late, so each run has a file of its own.
schemas::FolderProbe CheckpointFolder::probe_of(const std::string& nonce, bool write) const {
  return {plan_.job,    plan_.generation,
          plan_.folder, fmt::format(".probe-{}-g{}", plan_.job, plan_.generation),
          nonce,        write};
}

void CheckpointFolder::send_probe(std::uint32_t machine, bool write) {
  if (write) probes_.insert(machine);
  emit(Send<std::uint32_t>{machine, probe_of(plan_.job, write)});
}

// ---- files to where they are read ----

void CheckpointFolder::begin(const StartFound& found, std::uint64_t generation) {
  TROUPE_CHECK(stage_ == Stage::known, "what all see is known");
  plan_.generation = generation;
  start_step_ = found.step;
  if (!copied_ || found.checkpoint.empty()) return;
  checkpoint_ = found.checkpoint;
  files_ = found.files;
  TROUPE_CHECK(found.files_of_shard.size() >= plan_.machine_of_shard.size(),
               "every shard's files are known");
  for (std::uint32_t shard = 0; shard < plan_.machine_of_shard.size(); ++shard) {
    waiting_[plan_.machine_of_shard[shard]].insert(found.files_of_shard[shard].begin(),
                                                   found.files_of_shard[shard].end());
  }
  place_more();
}

void CheckpointFolder::place_more() {
  while (!waiting_.empty() && placing_.size() < kPlacingMax) {
    const auto node = waiting_.extract(waiting_.begin());
    const auto& [machine, files] = *placing_.emplace(node.key(), node.mapped()).first;
    emit(Send<std::uint32_t>{machine, schemas::PlaceCheckpoint{plan_.job,
                                                               plan_.generation,
                                                               plan_.folder,
                                                               name_of_path(checkpoint_),
                                                               {files.begin(), files.end()}}});
  }
}

base::Status CheckpointFolder::take(std::uint32_t machine,
                                    const schemas::CheckpointPlaced& placed) {
  if (placing_.erase(machine) == 0) return {};
  if (placed.code == Errc::ok) {
    place_more();
    return {};
  }
  waiting_.clear();
  // The machine may have read wrong bytes, or the copy holds them.
  if (placed.code == Errc::data_loss) emit(CheckCopy{checkpoint_});
  return base::Status(placed.code, fmt::format("{} could not get {}: {}", name_of(machine),
                                               checkpoint_, placed.text));
}

void CheckpointFolder::take(std::uint32_t machine, const schemas::PieceQuery& query) {
  const auto placing = placing_.find(machine);
  if (placing == placing_.end()) return;
  const auto offered = [&](std::uint32_t position) { return files_.at(position) == query.file; };
  const bool manifest = query.file == name_of_path(checkpoint_) + ".manifest";
  if (!manifest && std::none_of(placing->second.begin(), placing->second.end(), offered)) return;
  schemas::PieceQuery known = query;
  known.folder = plan_.folder;
  emit(ServePiece{plan_.peers[machine], std::move(known)});
}

// ---- files to the coordinator ----

std::optional<ActorSaid> CheckpointFolder::take(ActorSaid said) {
  const auto& report = std::get<CheckpointReport>(said.message);
  if (!copied_) return said;
  if (report.code != Errc::ok) {
    drop(report.step, false);
    return said;
  }
  if (!steps_.insert(report.step).second) {
    // The server asks what became of it. What is settled, the job knows.
    const bool waits = std::any_of(reports_.begin(), reports_.end(), [&](const ActorSaid& other) {
      return std::get<CheckpointReport>(other.message).step == report.step;
    });
    return waits ? std::nullopt : std::optional(std::move(said));
  }
  reports_.push_back(std::move(said));
  if (reports_.size() == 1) collect_next();
  return std::nullopt;
}

void CheckpointFolder::collect_next() {
  const ActorSaid& said = reports_.front();
  CollectCheckpoint collect;
  collect.job = plan_.job;
  collect.generation = plan_.generation;
  collect.step = std::get<CheckpointReport>(said.message).step;
  collect.folder = plan_.folder;
  collect.keep = plan_.keep;
  collect.start_step = start_step_;
  for (const std::uint32_t machine : plan_.machine_of_shard) {
    collect.peers.push_back(plan_.peers[machine]);
  }
  TROUPE_CHECK(said.from.index < collect.peers.size(), "a server of the job has reported");
  collect.of_manifest = collect.peers[said.from.index];
  emit(std::move(collect));
}

std::optional<ActorSaid> CheckpointFolder::take(const CheckpointCollected& collected) {
  if (reports_.empty()) return std::nullopt;
  auto& report = std::get<CheckpointReport>(reports_.front().message);
  if (collected.generation != plan_.generation || collected.step != report.step) {
    return std::nullopt;
  }
  ActorSaid said = std::move(reports_.front());
  reports_.pop_front();
  if (!collected.status.ok()) {
    auto& failed = std::get<CheckpointReport>(said.message);
    failed.code = collected.status.code();
    failed.text = fmt::format("no copy at the coordinator: {}", collected.status.text());
    failed.path.clear();
  }
  drop(collected.step, collected.status.ok());
  if (!reports_.empty()) collect_next();
  return said;
}

void CheckpointFolder::drop(std::uint64_t step, bool older) {
  for (const std::uint32_t machine : servers_) {
    emit(Send<std::uint32_t>{
        machine, schemas::DropCheckpoint{
                     plan_.folder, fmt::format("step-{}-g{}", step, plan_.generation), older}});
  }
}

// ---- words ----

std::string CheckpointFolder::name_of(std::uint32_t machine) const {
  return machine == own() ? "the coordinator"
                          : fmt::format("machine '{}'", plan_.machines[machine]);
}

std::vector<std::string> CheckpointFolder::waited_for() const {
  std::vector<std::string> names;
  for (const std::uint32_t machine : asked_) {
    names.push_back(machine == own()
                        ? fmt::format("the coordinator's look at checkpoint.dir {}", plan_.folder)
                        : fmt::format("the agent of {} about checkpoint.dir {}", name_of(machine),
                                      plan_.folder));
  }
  for (const auto& [machine, files] : placing_) {
    names.push_back(fmt::format("the agent of {}, which gets {}", name_of(machine), checkpoint_));
  }
  return names;
}

}  // namespace troupe::control
