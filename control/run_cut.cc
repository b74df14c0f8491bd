// SPDX-License-Identifier: Apache-2.0
// A run's checkpoints out of turn: a person wants one, a person stops the job with one, a machine
// leaves. The last two end the run with it, and no step that was begun is lost.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "control/run_state.h"

namespace troupe::control {

using base::Errc;
using schemas::Role;

/// Each asks once; but who has gone is still waited for until its wish is settled.
void RunState::on(const CheckpointRequested& request) {
  constexpr std::size_t kPeopleMax = 256;
  schemas::JobCheckpointAnswer answer;
  if (trains() && people_.size() < kPeopleMax) {
    people_[++wishes_] = request.peer;
    return hand_to_job(CutWanted{wishes_, false});
  }
  if (trains()) {
    answer.code = Errc::resource_exhausted;
    answer.text =
        fmt::format("{} wishes for a checkpoint of job {} are open", people_.size(), plan_.job);
    return emit(Send<PeerId>{request.peer, std::move(answer)});
  }
  answer.text = stage_ == Stage::ending ? fmt::format("job {} is ending", plan_.job)
                                        : fmt::format("job {} is not training yet", plan_.job);
  emit(Send<PeerId>{request.peer, std::move(answer)});
}

bool RunState::owes(PeerId peer) const {
  return std::any_of(people_.begin(), people_.end(),
                     [peer](const auto& entry) { return entry.second == peer; });
}

/// Whoever stops a job without a checkpoint wants it stopped now, whatever is under way.
void RunState::on(const StopRequested& stop_it) {
  if (stage_ == Stage::ending) {
    if (outcome_.ok()) return end_processes();  // the job is done: nothing waits to be scraped
    stopped_ = stopped_ || moving_;             // it was to go on elsewhere
    return;
  }
  if (!stop_it.checkpoint || !trains()) return stop();
  stopping_ = true;
  want_last_cut();
}

/// The processes of a machine that leaves die with its agent. What has not trained yet loses
/// nothing; what writes no checkpoints loses all, as with a lost agent.
void RunState::on(const MachineLeaving& leaving) {
  TROUPE_CHECK(leaving.machine < lost_.size(), "the coordinator knows the run's machines");
  if (stage_ == Stage::ending || leaving_) return;
  leaving_ = leaving;
  if (!trains()) return move();
  if (plan_.spec.checkpoint.dir.empty()) {
    return fail(lost_machine(leaving.machine, leaving.reason));
  }
  emit(Note{false, fmt::format("job {} leaves machine '{}' with a checkpoint: {}", plan_.job,
                               plan_.placement.machines[leaving.machine], leaving.reason)});
  want_last_cut();
}

void RunState::want_last_cut() {
  if (last_cut_) return;
  last_cut_ = ++wishes_;
  hand_to_job(CutWanted{*last_cut_, true});
}

void RunState::perform(const CutSettled& settled) {
  if (settled.wish == last_cut_) return last_cut_settled(settled);
  const auto person = people_.find(settled.wish);
  TROUPE_CHECK(person != people_.end(), "a cut is settled that nobody wanted");
  emit(Send<PeerId>{person->second, schemas::JobCheckpointAnswer{Errc::ok, settled.status.text(),
                                                                 settled.step, settled.path}});
  people_.erase(person);
}

/// A job whose last step is done ends by itself, and well.
void RunState::last_cut_settled(const CutSettled& settled) {
  last_cut_.reset();
  const std::string fault =
      settled.status.ok() ? "" : "the checkpoint was not written: " + settled.status.text();
  if (stopping_) uncut_ = fault;
  if (job_->ended() || (settled.status.ok() && settled.step == info_.steps_total)) return;
  if (stopping_) return stop();
  TROUPE_CHECK(leaving_.has_value(), "a run's last cut has a reason");
  if (settled.status.ok()) return move();
  fail(lost_machine(leaving_->machine, fmt::format("{}; {}", leaving_->reason, fault)));
}

void RunState::stop() {
  stopped_ = true;
  fail(base::error(Errc::cancelled, "stopped by request"));
}

void RunState::move() {
  moving_ = true;
  fail(base::error(Errc::cancelled, "leaves machine '{}'",
                   plan_.placement.machines[leaving_->machine]));
}

base::Status RunState::lost_machine(std::uint32_t machine, const std::string& reason) const {
  std::vector<std::string> names;
  for (const auto& [actor, process] : processes_) {
    if (process.machine != machine) continue;
    names.push_back(actor.role == Role::parameter_server
                        ? actor.to_string()
                        : fmt::format("ranks {}", fmt::join(process.ranks, ", ")));
  }
  return base::error(Errc::failed_precondition,
                     "agent of machine '{}' is lost ({}), and with it {}",
                     plan_.placement.machines[machine], reason, fmt::join(names, ", "));
}

}  // namespace troupe::control
