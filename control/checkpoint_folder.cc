// SPDX-License-Identifier: Apache-2.0
// Probes, placing and collecting.
#include "control/checkpoint_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "base/check.h"
#include "schemas/manifest.h"

namespace troupe::control {

using base::Errc;
using schemas::CheckpointReport;

namespace {

/// Machines that get files at a time: what is read for them lies in the coordinator's memory.
constexpr std::size_t kPlacingMax = 8;
/// Checkpoints of machines that are tried before a run begins without them.
constexpr std::size_t kGatheredMax = 4;
/// Checkpoints that wait to be collected: servers have two under way at most, and may repeat
/// themselves.
constexpr std::size_t kReportsMax = 8;
/// Names of checkpoints on machines that are kept: machines may say what they like.
constexpr std::size_t kHeldMax = 65'536;

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

/// The coordinator's folder is where the next run looks for what to begin with. So the question to
/// each machine is whether it sees that one: a nonce of the coordinator's, which nothing older can
/// hold, is there or not.
void CheckpointFolder::probe() {
  TROUPE_CHECK(stage_ == Stage::idle, "a folder is probed once");
  stage_ = Stage::writing;
  asked_ = {own_place()};
  probes_ = {own_place()};
  emit(ProbeFolder{probe_of(own_place(), "", true), true});
}

base::Status CheckpointFolder::take(const FolderProbed& probed) {
  if (stage_ == Stage::writing) nonce_ = probed.nonce;
  return take(own_place(), probed.result);
}

base::Status CheckpointFolder::take(std::uint32_t machine,
                                    const schemas::FolderProbeResult& result) {
  if (!asked_.contains(machine)) return {};  // a probe's removal is answered, too
  if (stage_ == Stage::holding) return {};   // for it the coordinator is asked something else
  const bool reads = stage_ == Stage::reading || stage_ == Stage::comparing;
  const bool other = reads && elsewhere(result.code);
  if (!other && result.code != Errc::ok) {
    return base::error(Errc::failed_precondition, "checkpoint.dir {}: {} cannot {} there: {}",
                       plan_.folder, name_of(machine), reads ? "look" : "write", result.text);
  }
  TROUPE_TRY(note_newest(machine, result));
  if (stage_ == Stage::reading && other) own_.insert(machine);
  if (stage_ == Stage::comparing) {
    // Its view of the folder may be older than the coordinator's file.
    const std::uint32_t compared = unseen_.extract(unseen_.begin()).value();
    if (!other) own_.erase(compared);
  }
  heard(machine);
  return {};
}

base::Status CheckpointFolder::note_newest(std::uint32_t machine,
                                           const schemas::FolderProbeResult& result) {
  // No run can follow the highest one. And each is one above the last: who tells of far higher ones
  // would bring a folder there in one run.
  constexpr std::uint64_t kRunsAhead = std::uint64_t{1} << 32;
  const std::uint64_t believed = machine == own_place()
                                     ? schemas::kGenerationMax - 1
                                     : std::min(schemas::kGenerationMax - 1, highest_ + kRunsAhead);
  if (result.highest_generation > believed) {
    return base::error(Errc::failed_precondition,
                       "checkpoint.dir {}: {} has a checkpoint of generation {} there, far above "
                       "the highest that is known ({}); is it of this job?",
                       plan_.folder, name_of(machine), result.highest_generation, highest_);
  }
  highest_ = std::max(highest_, result.highest_generation);
  if (machine == own_place()) return {};  // what of it is whole is looked at later
  for (const schemas::NamedCheckpoint& held : result.newest) {
    const bool told = held.generation <= result.highest_generation;
    if (told && held_.size() < kHeldMax) held_.emplace(held.step, held.generation);
  }
  return {};
}

base::Status CheckpointFolder::take(const FolderHeld& held) {
  if (stage_ != Stage::holding || held.run != plan_.generation) return {};
  if (held.status.code() == Errc::already_exists) {
    return base::error(Errc::already_exists,
                       "checkpoint.dir {}: another job keeps its checkpoints there, perhaps by "
                       "another path",
                       plan_.folder);
  }
  if (!held.status.ok()) {
    return {held.status.code(),
            fmt::format("checkpoint.dir {}: the coordinator cannot keep copies there: {}",
                        plan_.folder, held.status.text())};
  }
  kept_ = {held.newest.step, held.newest.generation};
  heard(own_place());
  return {};
}

void CheckpointFolder::heard(std::uint32_t machine) {
  asked_.erase(machine);
  if (asked_.empty()) go_on();
}

void CheckpointFolder::go_on() {
  if (stage_ == Stage::writing) {
    stage_ = Stage::reading;
    asked_ = servers_;
    for (const std::uint32_t machine : servers_) ask(machine, false);
    return;
  }
  if (stage_ == Stage::reading && copied()) {
    stage_ = Stage::trying;
    asked_ = unseen_ = own_;
    for (const std::uint32_t machine : own_) ask(machine, true);
    return;
  }
  if (stage_ == Stage::trying || (stage_ == Stage::comparing && !unseen_.empty())) {
    return compare_next();
  }
  remove_probes();
  if (stage_ == Stage::comparing && copied()) {
    tell_own();
    return hold();
  }
  if (stage_ == Stage::holding) return gather();
  stage_ = Stage::known;
}

/// A machine that read too early what the coordinator wrote has no folder of its own, and nothing
/// may be removed there. One after the other: there may be many, and each costs a thread.
void CheckpointFolder::compare_next() {
  stage_ = Stage::comparing;
  asked_ = {own_place()};
  emit(ProbeFolder{probe_of(*unseen_.begin(), nonce_, false)});
}

void CheckpointFolder::tell_own() {
  std::vector<std::string> names;
  for (const std::uint32_t machine : own_) names.push_back(name_of(machine));
  emit(Note{true, fmt::format("job {}: {} {} not see the coordinator's {}: the coordinator keeps "
                              "copies of the checkpoints",
                              plan_.job, fmt::join(names, ", "), names.size() == 1 ? "does" : "do",
                              plan_.folder)});
}

/// The first server locks the folder that it sees, and that may be another one.
void CheckpointFolder::hold() {
  stage_ = Stage::holding;
  asked_ = {own_place()};
  held_alone_ = true;
  emit(HoldFolder{plan_.job, plan_.generation, plan_.folder, plan_.spec.limits.stop_grace_ms});
}

void CheckpointFolder::look_again() {
  TROUPE_CHECK(stage_ == Stage::known && copied(), "where copies are, a start is looked up");
  hold();
}

void CheckpointFolder::let_go() {
  if (std::exchange(held_alone_, false)) emit(LetGoOfFolder{plan_.job});
}

/// A run that began while machines hold something newer would repeat what is done. What nobody has
/// whole, or is of another job, is passed over, as damage in a folder that all share. After any
/// other error it may be whole, and the run fails: a full disk or a silent machine is no reason to
/// train again what is done.
void CheckpointFolder::gather() {
  stage_ = Stage::gathering;
  left_.clear();
  std::set_difference(held_.upper_bound(kept_), held_.end(), tried_.begin(), tried_.end(),
                      std::inserter(left_, left_.end()));
  while (left_.size() > kGatheredMax) left_.erase(left_.begin());
  gather_next();
}

void CheckpointFolder::gather_next() {
  if (left_.empty()) {
    stage_ = Stage::known;
    return;
  }
  const auto [step, generation] = *left_.rbegin();
  emit(Note{false, fmt::format("job {}: collects {}, which its machines hold", plan_.job,
                               schemas::checkpoint_name(step, generation))});
  CollectCheckpoint wanted = collect(step, generation);
  wanted.gathered_for = plan_.spec;
  for (const std::uint32_t machine : servers_) {
    wanted.of_manifest.push_back(plan_.peers[machine]);
  }
  emit(std::move(wanted));
}

base::Status CheckpointFolder::gathered(const CheckpointCollected& collected) {
  const Name name(collected.step, collected.generation);
  if (collected.run != plan_.generation || name != *left_.rbegin()) return {};
  tried_.insert(name);
  left_.erase(name);
  const std::string known = schemas::checkpoint_name(name.first, name.second);
  if (collected.status.ok()) {
    left_.clear();
  } else if (schemas::nothing_whole(collected.status.code())) {
    emit(Note{true, fmt::format("job {}: {} is not collected: {}", plan_.job, known,
                                collected.status.text())});
  } else {
    return {collected.status.code(),
            fmt::format("checkpoint.dir {}: {} is on the job's machines and could not be copied to "
                        "the coordinator: {}; to go on without it, remove {}.manifest there",
                        plan_.folder, known, collected.status.text(), known)};
  }
  gather_next();
  return {};
}

std::uint64_t CheckpointFolder::patience_ms() const {
  const base::Limits& limits = plan_.spec.limits;
  if (collecting()) return limits.stall_ms;
  // What a job before this one left may still be ending; then it is looked which files are whole.
  return stage_ == Stage::holding ? limits.stop_grace_ms + limits.start_ms : limits.probe_ms;
}

void CheckpointFolder::end() {
  remove_probes();
  if (collecting()) emit(EndCollecting{plan_.job});
  reports_.clear();
  if (gathering()) stage_ = Stage::known;
}

/// Each run and machine has a file of its own: a removal may come late, and machines may share.
schemas::FolderProbe CheckpointFolder::probe_of(std::uint32_t machine, const std::string& nonce,
                                                bool write) const {
  std::string file = fmt::format(".probe-{}-g{}", plan_.job, plan_.generation);
  if (machine != own_place()) file += fmt::format("-m{}", machine);
  return {plan_.job, plan_.generation, plan_.folder, std::move(file), nonce, write};
}

/// To read the coordinator's file, or to write one of its own.
void CheckpointFolder::ask(std::uint32_t machine, bool write) {
  if (write) probes_.insert(machine);
  emit(Send<std::uint32_t>{machine, probe_of(write ? machine : own_place(), nonce_, write)});
}

void CheckpointFolder::remove_probes() {
  for (const std::uint32_t machine : std::exchange(probes_, {})) {
    schemas::FolderProbe removal = probe_of(machine, "", true);
    if (machine == own_place()) {
      emit(ProbeFolder{std::move(removal)});
    } else {
      emit(Send<std::uint32_t>{machine, std::move(removal)});
    }
  }
}

// ---- files to where they are read ----

void CheckpointFolder::begin(const StartFound& found, std::uint64_t generation) {
  TROUPE_CHECK(stage_ == Stage::known, "what all see is known");
  plan_.generation = generation;
  start_step_ = found.step;
  checkpoint_bytes_ = found.checkpoint_bytes;
  if (!copied() || found.checkpoint.empty()) return;
  checkpoint_ = found.checkpoint;
  files_ = found.files;
  TROUPE_CHECK(found.files_of_shard.size() >= plan_.machine_of_shard.size(),
               "every shard's files are known");
  for (std::uint32_t shard = 0; shard < plan_.machine_of_shard.size(); ++shard) {
    const std::uint32_t machine = plan_.machine_of_shard[shard];
    if (!own_.contains(machine)) continue;
    waiting_[machine].insert(found.files_of_shard[shard].begin(),
                             found.files_of_shard[shard].end());
  }
  lie_.emplace(found.step, name_of_path(checkpoint_));
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
  return {placed.code,
          fmt::format("{} could not get {}: {}", name_of(machine), checkpoint_, placed.text)};
}

void CheckpointFolder::take(std::uint32_t machine, const schemas::PieceQuery& query) {
  const auto placing = placing_.find(machine);
  const auto offered = [&](std::uint32_t position) { return files_.at(position) == query.file; };
  const bool known = placing != placing_.end() &&
                     (query.file == name_of_path(checkpoint_) + ".manifest" ||
                      std::any_of(placing->second.begin(), placing->second.end(), offered));
  if (!known) {
    return emit(Send<std::uint32_t>{machine, refusal_of(query)});
  }
  schemas::PieceQuery piece = query;
  piece.folder = plan_.folder;
  emit(ServePiece{plan_.peers[machine], std::move(piece)});
}

schemas::FilePiece refusal_of(const schemas::PieceQuery& query) {
  schemas::FilePiece refusal;
  refusal.number = query.number;
  refusal.code = Errc::cancelled;
  refusal.text = "the coordinator does not send " + query.file.substr(0, 256);
  return refusal;
}

// ---- files to the coordinator ----

std::optional<ActorSaid> CheckpointFolder::take(ActorSaid said) {
  const auto& report = std::get<CheckpointReport>(said.message);
  if (!copied()) return said;
  if (steps_.contains(report.step)) {
    // The server asks what became of it. What is settled, the job knows: whoever says now that a
    // checkpoint has failed, of which there is a copy, is not believed.
    const bool waits = std::any_of(reports_.begin(), reports_.end(), [&](const ActorSaid& other) {
      return std::get<CheckpointReport>(other.message).step == report.step;
    });
    return waits ? std::nullopt : std::optional(std::move(said));
  }
  if (report.code != Errc::ok) {
    const std::string given_up = schemas::checkpoint_name(report.step, plan_.generation);
    drop(given_up, false);
    drop_copy(given_up);
    return said;
  }
  if (reports_.size() == kReportsMax) {
    auto& refused = std::get<CheckpointReport>(said.message);
    refused.code = Errc::resource_exhausted;
    refused.text = fmt::format("no copy at the coordinator: {} wait", kReportsMax);
    refused.path.clear();
    return said;
  }
  steps_.insert(report.step);
  lie_.emplace(report.step, schemas::checkpoint_name(report.step, plan_.generation));
  reports_.push_back(std::move(said));
  if (reports_.size() == 1) collect_next();
  return std::nullopt;
}

CollectCheckpoint CheckpointFolder::collect(std::uint64_t step, std::uint64_t generation) const {
  CollectCheckpoint wanted;
  wanted.job = plan_.job;
  wanted.run = plan_.generation;
  wanted.step = step;
  wanted.generation = generation;
  wanted.folder = plan_.folder;
  wanted.keep = plan_.keep;
  wanted.checkpoint_bytes = checkpoint_bytes_;
  return wanted;
}

void CheckpointFolder::collect_next() {
  const ActorSaid& said = reports_.front();
  CollectCheckpoint wanted =
      collect(std::get<CheckpointReport>(said.message).step, plan_.generation);
  wanted.start_step = start_step_;
  for (const std::uint32_t machine : plan_.machine_of_shard) {
    wanted.of_shard.push_back(plan_.peers[machine]);
  }
  TROUPE_CHECK(said.from.index < wanted.of_shard.size(), "a server of the job has reported");
  wanted.of_manifest = {wanted.of_shard[said.from.index]};
  emit(std::move(wanted));
}

/// A copy that failed takes nothing from the machines: what they hold is whole, and the next run
/// collects it.
std::optional<ActorSaid> CheckpointFolder::take(const CheckpointCollected& collected) {
  if (collected.run != plan_.generation || reports_.empty()) return std::nullopt;
  const auto& report = std::get<CheckpointReport>(reports_.front().message);
  if (collected.step != report.step || collected.generation != plan_.generation) {
    return std::nullopt;
  }
  ActorSaid said = std::move(reports_.front());
  reports_.pop_front();
  if (collected.status.ok()) {
    drop_older(collected.step);
  } else {
    // What of it is here stays: a machine that shares the folder may have written it, and what
    // failed may have been one look at the rest.
    auto& failed = std::get<CheckpointReport>(said.message);
    failed.code = collected.status.code();
    failed.text = fmt::format("no copy at the coordinator: {}", collected.status.text());
    failed.path.clear();
  }
  if (!reports_.empty()) collect_next();
  return said;
}

/// On machines with a folder of their own: the coordinator's is nobody else's to clear.
void CheckpointFolder::drop(const std::string& checkpoint, bool older) {
  for (const std::uint32_t machine : own_) {
    emit(Send<std::uint32_t>{machine, schemas::DropCheckpoint{plan_.folder, checkpoint, older}});
  }
}

/// With checkpoint.keep the older ones of all runs may go, as in a folder that all share. Without,
/// the machines' folder may hold what nobody else has, of earlier runs: a mount may be missing.
void CheckpointFolder::drop_older(std::uint64_t step) {
  if (plan_.keep > 0) return drop(schemas::checkpoint_name(step, plan_.generation), true);
  const auto end = lie_.lower_bound(step);
  for (auto older = lie_.begin(); older != end; older = lie_.erase(older)) {
    drop(older->second, false);
  }
}

/// In the coordinator's folder: machines that share it leave that to the coordinator.
void CheckpointFolder::drop_copy(const std::string& checkpoint) {
  emit(DropFiles{{plan_.folder, checkpoint, false}});
}

// ---- words ----

std::string CheckpointFolder::name_of(std::uint32_t machine) const {
  return machine == own_place() ? "the coordinator"
                                : fmt::format("machine '{}'", plan_.machines[machine]);
}

std::vector<std::string> CheckpointFolder::waited_for() const {
  std::vector<std::string> names;
  for (const std::uint32_t machine : asked_) {
    names.push_back(machine == own_place()
                        ? fmt::format("the coordinator's look at checkpoint.dir {}", plan_.folder)
                        : fmt::format("the agent of {} about checkpoint.dir {}", name_of(machine),
                                      plan_.folder));
  }
  if (stage_ == Stage::gathering) names.emplace_back("the copy of what its machines hold");
  for (const auto& [machine, files] : placing_) {
    names.push_back(fmt::format("the agent of {}, which gets {}", name_of(machine), checkpoint_));
  }
  return names;
}

}  // namespace troupe::control
