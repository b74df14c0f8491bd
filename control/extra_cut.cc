// SPDX-License-Identifier: Apache-2.0
// The rounds of a cut out of turn.
#include "control/extra_cut.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace troupe::control {

using base::Errc;
using schemas::Role;

ExtraCut::ExtraCut(CutCast cast)
    : cast_(std::move(cast)),
      machines_(cast_.placement.machine_of_rank.begin(), cast_.placement.machine_of_rank.end()) {}

/// Before the step is chosen a wish may join: every step begun by now lies below it. Afterwards
/// ranks go on, and the cut may be older than the wish, unless it is the run's last.
void ExtraCut::want(const CutWanted& wanted, std::uint64_t now_ms) {
  const Wish wish{wanted, now_ms + cast_.cut_ms};
  if (stage_ == Stage::idle) {
    served_.push_back(wish);
    return begin();
  }
  const bool joins = stage_ == Stage::asking || last_;
  (joins ? served_ : waiting_).push_back(wish);
  last_ = last_ || (stage_ == Stage::asking && wanted.last);
}

void ExtraCut::begin() {
  TROUPE_CHECK(stage_ == Stage::idle && !served_.empty(), "a cut begins for a wish");
  stage_ = Stage::asking;
  ++number_;
  next_ = 0;
  last_ = std::any_of(served_.begin(), served_.end(),
                      [](const Wish& wish) { return wish.wanted.last; });
  open_ = machines_;
  for (const std::uint32_t machine : machines_) {
    effects_.emplace_back(
        Send<schemas::ActorId>{{Role::device_server, machine}, schemas::CutQuery{number_}});
  }
}

void ExtraCut::take(const schemas::CutReady& ready) {
  if (stage_ != Stage::asking || ready.number != number_) return;
  if (open_.erase(ready.machine) == 0) return;
  next_ = std::max(next_, ready.next);
  if (open_.empty()) choose();
}

/// One step behind the first that nobody has begun. So no slice is there yet: its version would
/// need a gradient of a step that no rank may begin. (A cut at the very step that slices have
/// reached would have to be made up by them afterwards.) The job's end is a cut anyhow.
void ExtraCut::choose() {
  stage_ = Stage::telling;
  step_ = std::min(next_ + 1, cast_.steps_total);
  for (std::uint32_t shard = 0; shard < cast_.placement.machine_of_shard.size(); ++shard) {
    open_.insert(shard);
  }
  for (const std::uint32_t shard : open_) {
    effects_.emplace_back(Send<schemas::ActorId>{{Role::parameter_server, shard},
                                                 schemas::ExtraCut{number_, step_, last_}});
  }
}

void ExtraCut::take(const schemas::ExtraCutTaken& taken) {
  if (stage_ != Stage::telling || taken.number != number_) return;
  open_.erase(taken.shard);
  if (open_.empty()) release();
}

void ExtraCut::release() {
  stage_ = Stage::writing;
  for (const std::uint32_t machine : machines_) {
    effects_.emplace_back(Send<schemas::ActorId>{{Role::device_server, machine},
                                                 schemas::ExtraCut{number_, step_, last_}});
  }
  // The job's last checkpoint may be there already, when everything had been done.
  if (newest_ && newest_->step == step_) take(*newest_);
}

void ExtraCut::take(const schemas::CheckpointReport& report) {
  if (report.code == Errc::ok) newest_ = report;
  if (stage_ != Stage::writing || report.step != step_) return;
  const base::Status status =
      report.code == Errc::ok
          ? base::Status()
          : base::error(report.code, "the checkpoint of step {} could not be written: {}",
                        report.step, report.text);
  stage_ = Stage::idle;
  last_ = false;
  settle(served_, {0, status, report.step, report.path});
  served_ = std::exchange(waiting_, {});
  if (!served_.empty()) begin();
}

void ExtraCut::tick(std::uint64_t now_ms) {
  for (std::vector<Wish>* wishes : {&served_, &waiting_}) {
    const auto late = std::stable_partition(
        wishes->begin(), wishes->end(), [&](const Wish& wish) { return now_ms < wish.until_ms; });
    std::vector<Wish> over(late, wishes->end());
    wishes->erase(late, wishes->end());
    settle(over, {0,
                  base::error(Errc::deadline_exceeded, "no checkpoint within limits.cut_ms {}: {}",
                              cast_.cut_ms, waits_for()),
                  0,
                  {}});
  }
}

void ExtraCut::end(const base::Status& status) {
  stage_ = Stage::idle;
  if (status.ok() && newest_ && newest_->step == cast_.steps_total) {
    // All is done and saved, which is what was wanted.
    const CutSettled saved{0, {}, newest_->step, newest_->path};
    settle(served_, saved);
    return settle(waiting_, saved);
  }
  const base::Status why =
      base::error(Errc::cancelled, "the job has ended{}{}", status.ok() ? "" : ": ", status.text());
  settle(served_, {0, why, 0, {}});
  settle(waiting_, {0, why, 0, {}});
}

void ExtraCut::settle(std::vector<Wish>& wishes, const CutSettled& result) {
  for (const Wish& wish : std::exchange(wishes, {})) {
    CutSettled settled = result;
    settled.wish = wish.wanted.wish;
    effects_.emplace_back(std::move(settled));
  }
}

std::string ExtraCut::waits_for() const {
  switch (stage_) {
    case Stage::idle:
      break;
    case Stage::asking:
      return open_names(Role::device_server) + " did not say how far its ranks are";
    case Stage::telling:
      return fmt::format("{} did not take step {}", open_names(Role::parameter_server), step_);
    case Stage::writing:
      return fmt::format("the one of step {} is not written yet", step_);
  }
  return "nothing is under way";
}

std::string ExtraCut::open_names(Role role) const {
  std::vector<std::string> names;
  for (const std::uint32_t index : open_) names.push_back(cast_.placement.name_of({role, index}));
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace troupe::control
