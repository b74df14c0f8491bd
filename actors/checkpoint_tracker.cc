// SPDX-License-Identifier: Apache-2.0
// From a cut to a durable manifest, with lost and repeated messages on the way.
#include "actors/checkpoint_tracker.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/check.h"

namespace troupe::actors {

using base::Errc;
using schemas::CheckpointReport;
using schemas::Role;
using schemas::ShardCheckpoint;

CheckpointTracker::CheckpointTracker(Mail& mail, EffectList<ParameterEffect>& effects,
                                     std::uint32_t shard, std::size_t slices)
    : mail_(&mail),
      effects_(&effects),
      shard_(shard),
      slices_(slices),
      files_(mail.plan().spec.limits),
      failures_(mail.plan().spec.limits.checkpoint_failures_max),
      told_(mail.plan().spec.limits) {
  std::size_t own = 0;
  for (const store::SliceInfo& slice : mail.plan().layout.slices()) {
    owning_.insert(slice.shard);
    own += slice.shard == shard ? 1 : 0;
  }
  TROUPE_CHECK(slices == own, fmt::format("shard {} follows checkpoints of {} slices, but owns {}",
                                          shard, slices, own));
}

/// Two may be in flight: one is written while the next is collected, and each holds a version of
/// all slices in memory. They are counted from the oldest one not reported on, not by how many are:
/// then the first shard, which keeps the files' reports of a checkpoint until all shards are in,
/// has at most two of those as well (decision 0008, Checkpoints in flight).
bool CheckpointTracker::admits(std::uint64_t step) const {
  if (cuts_.empty() || cuts_.count(step) != 0) return true;
  return begun_ - cuts_.begin()->second.number < kCheckpointsInFlightMax;
}

void CheckpointTracker::hand_in(std::uint64_t step, CutSlice slice) {
  TROUPE_CHECK(admits(step), fmt::format("a slice is handed in for step {} without credit", step));
  TROUPE_CHECK(mail_->rules().steps.is_cut(step),
               fmt::format("a slice is handed in for step {}, which is no checkpoint", step));
  const auto [entry, is_new] = cuts_.try_emplace(step);
  if (is_new) entry->second.number = begun_++;
  std::vector<CutSlice>& cut = entry->second.slices;
  cut.push_back(std::move(slice));
  if (cut.size() < slices_) return;
  std::sort(cut.begin(), cut.end(),
            [](const CutSlice& a, const CutSlice& b) { return a.slice < b.slice; });
  const auto twice =
      std::adjacent_find(cut.begin(), cut.end(),
                         [](const CutSlice& a, const CutSlice& b) { return a.slice == b.slice; });
  TROUPE_CHECK(twice == cut.end(), fmt::format("a slice is twice in the checkpoint of {}", step));
  const EffectId id = effects_->next_id();
  writing_[id] = {step, false};
  effects_->emit(WriteShard{id, step, std::exchange(cut, {})});
}

bool CheckpointTracker::effect_done(const EffectDone& done) {
  const auto found = writing_.find(done.id);
  if (found == writing_.end()) return false;
  const Writing writing = found->second;
  writing_.erase(found);
  if (!writing.manifest) {
    shard_written(writing.step, done);
    return true;
  }
  TROUPE_CHECK(first(), fmt::format("shard {} has written a manifest", shard_));
  CheckpointReport report{writing.step, {}, done.status.code(), done.status.text()};
  if (done.status.ok()) report.path = std::get<std::string>(done.result);
  tell(std::move(report));
  return true;
}

void CheckpointTracker::shard_written(std::uint64_t step, const EffectDone& done) {
  TROUPE_CHECK(cuts_.count(step) == 1,
               fmt::format("shard {} has written step {}, which it never cut", shard_, step));
  ShardCheckpoint file;
  if (done.status.ok()) file = std::get<ShardCheckpoint>(done.result);
  file.step = step;
  file.shard = shard_;
  file.code = done.status.code();
  file.text = done.status.text();
  Letter letter{{Role::parameter_server, mail_->plan().layout.first_shard()}, std::move(file), {}};
  mail_->send(letter);
  TROUPE_CHECK(files_.keep(step, std::move(letter), mail_->now_ms()),
               fmt::format("shard {} has written step {} twice", shard_, step));
}

void CheckpointTracker::take(const ShardCheckpoint& file) {
  if (!first() || owning_.count(file.shard) == 0) return;
  if (const auto settled = settled_.find(file.step); settled != settled_.end()) {
    // The shard has missed the report.
    return mail_->send({Role::parameter_server, file.shard}, settled->second);
  }
  // A file may be large. Honest shards have two in flight, and send them again until they are
  // settled.
  const bool full = shards_in_.size() >= 2 * kCheckpointsInFlightMax;
  if (file.step > mail_->rules().steps.total) return;
  if (full && !shards_in_.contains(file.step)) return;
  auto& in = shards_in_[file.step];
  in.try_emplace(file.shard, file);
  if (in.size() < owning_.size()) return;
  if (told_.contains(file.step)) return;
  const bool waits = std::any_of(writing_.begin(), writing_.end(), [&](const auto& entry) {
    return entry.second.manifest && entry.second.step == file.step;
  });
  if (waits) return;
  std::vector<ShardCheckpoint> files;
  for (const auto& [shard, one] : in) {
    if (one.code != Errc::ok) return tell({file.step, {}, one.code, one.text});
    files.push_back(one);
  }
  const EffectId id = effects_->next_id();
  writing_[id] = {file.step, true};
  effects_->emit(WriteManifest{id, file.step, mail_->start(), std::move(files)});
}

/// First shard: a checkpoint counts when the coordinator knows of it, since only the coordinator
/// leads anybody back to it; and where machines do not share the folder it needs a copy first.
void CheckpointTracker::tell(CheckpointReport report) {
  const std::uint64_t step = report.step;
  Letter letter{kCoordinator, std::move(report), {}};
  mail_->send(letter);
  TROUPE_CHECK(told_.keep(step, std::move(letter), mail_->now_ms()),
               fmt::format("the coordinator is told of step {} twice", step));
}

void CheckpointTracker::answered(const CheckpointReport& report) {
  if (told_.answered(report.step)) settle(report);
}

void CheckpointTracker::attend() {
  mail_->attend(files_);
  mail_->attend(told_);
}

void CheckpointTracker::ask_about(const schemas::ActorId& peer) {
  mail_->ask_about(files_, peer);
  mail_->ask_about(told_, peer);
}

void CheckpointTracker::send_again() {
  mail_->send_again(files_);
  mail_->send_again(told_);
}

/// First shard: tells every shard what became of a checkpoint.
void CheckpointTracker::settle(const CheckpointReport& report) {
  TROUPE_CHECK(first(), fmt::format("shard {} settles a checkpoint", shard_));
  shards_in_.erase(report.step);
  settled_[report.step] = report;
  while (settled_.size() > 2 * kCheckpointsInFlightMax) settled_.erase(settled_.begin());
  // No shard writes it any more: all have reported. A full disk must not stay full.
  if (report.code != Errc::ok) effects_->emit(RemoveCheckpoint{report.step});
  for (std::uint32_t shard = 0; shard < mail_->plan().layout.shards(); ++shard) {
    mail_->send({Role::parameter_server, shard}, report);
  }
}

base::Status CheckpointTracker::take(const CheckpointReport& report) {
  if (!files_.answered(report.step)) return {};
  const bool was_cut = cuts_.erase(report.step) == 1;
  TROUPE_CHECK(was_cut,
               fmt::format("shard {} is told of step {}, which it never cut", shard_, report.step));
  const base::Status written =
      report.code == Errc::ok ? base::Status() : base::Status(report.code, report.text);
  // Whoever wanted one out of turn is told; however often people try, the job goes on.
  if (!written.ok() && !mail_->rules().steps.is_planned_cut(report.step)) return {};
  return failures_.settled(report.step, mail_->rules().steps.total, written);
}

std::string CheckpointTracker::waits_for() const {
  if (writing_.empty()) return {};
  const Writing& first = writing_.begin()->second;
  return fmt::format("the {} of the checkpoint of step {} is being written",
                     first.manifest ? "manifest" : "file of this shard", first.step);
}

}  // namespace troupe::actors
