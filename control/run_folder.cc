// SPDX-License-Identifier: Apache-2.0
// A run and its folder of checkpoints: what is found out about it, what is sent to machines before
// processes start, and when a checkpoint counts. What is decided: checkpoint_folder.h.
#include <fmt/format.h>

#include <filesystem>
#include <type_traits>
#include <utility>

#include "control/run_state.h"
#include "schemas/manifest.h"

namespace troupe::control {

using base::Errc;
using schemas::ActorId;
using schemas::Role;

void RunState::on_report(std::uint32_t machine, const schemas::FolderProbeResult& result) {
  if (stage_ == Stage::probing && folder_) judge_folder(folder_->take(machine, result));
}

void RunState::on(const FolderProbed& probed) {
  if (stage_ == Stage::probing && folder_) judge_folder(folder_->take(probed));
}

void RunState::judge_folder(const base::Status& fault) {
  if (!fault.ok()) return fail(fault);
  if (folder_->known()) return find_start();
  deadline_ms_ = now_ms_ + folder_->patience_ms();
}

void RunState::on(const FolderHeld& held) {
  if (stage_ == Stage::probing && folder_) judge_folder(folder_->take(held));
}

void RunState::perform_folder() {
  if (!folder_) return;
  for (CheckpointFolder::Effect& effect : folder_->take_effects()) {
    if (auto* to_machine = std::get_if<Send<std::uint32_t>>(&effect)) {
      send(to_machine->to, std::move(to_machine->message));
      continue;
    }
    std::visit(
        [this](auto& what) {
          using What = std::remove_reference_t<decltype(what)>;
          if constexpr (!std::is_same_v<What, Send<std::uint32_t>>) emit(std::move(what));
        },
        effect);
  }
}

/// Looking through a large file takes a machine long, too.
void RunState::on_report(std::uint32_t machine, const schemas::PieceQuery& query) {
  if (stage_ != Stage::placing) return send(machine, refusal_of(query));
  deadline_ms_ = now_ms_ + plan_.spec.limits.stall_ms;
  folder_->take(machine, query);
}

void RunState::on_report(std::uint32_t machine, const schemas::CheckpointPlaced& placed) {
  if (stage_ != Stage::placing) return;
  deadline_ms_ = now_ms_ + plan_.spec.limits.stall_ms;
  const base::Status fault = folder_->take(machine, placed);
  if (!fault.ok()) return fail(fault);
  if (folder_->placed()) launch();
}

/// Where the coordinator keeps copies, a checkpoint that is on its machines alone does not count.
void RunState::on_message(const ActorId& from, Process& process,
                          const schemas::CheckpointReport& report) {
  if (stage_ != Stage::running || from.role != Role::parameter_server) return;
  if (report.step > info_.steps_total) {
    return fail(base::error(Errc::invalid_argument,
                            "{} reports a checkpoint of step {}; the job has {}",
                            name_of(from, process), report.step, info_.steps_total));
  }
  schemas::CheckpointReport known = report;
  if (known.code == Errc::ok) {  // where it is, is no affair of a server
    known.text.clear();
    known.path = (std::filesystem::path(plan_.spec.checkpoint.dir) /
                  schemas::checkpoint_name(report.step, plan_.placement.generation))
                     .string();
  }
  std::optional<ActorSaid> said(ActorSaid{from, std::move(known)});
  if (folder_) said = folder_->take(*std::move(said));
  if (said) hand_to_job(*said);
}

/// However large a copy is: while pieces come, nobody is late. Nor is a run whose turn in a queue
/// of the coordinator's comes nearer.
void RunState::on(const WorkGoesOn&) {
  if (copying_ms_) copying_ms_ = now_ms_;
  if (stage_ == Stage::probing && folder_) deadline_ms_ = now_ms_ + folder_->patience_ms();
  if (stage_ == Stage::finding) deadline_ms_ = now_ms_ + plan_.spec.limits.start_ms;
}

void RunState::on(const CheckpointCollected& collected) {
  if (!folder_) return;
  if (folder_->gathering()) return judge_folder(folder_->gathered(collected));
  const std::optional<ActorSaid> said = folder_->take(collected);
  if (said) copying_ms_.reset();  // the next one has its own time
  if (said && stage_ == Stage::running) hand_to_job(*said);
}

/// The copy of a large checkpoint takes its time, in which nobody else need say anything. When
/// nothing comes of it for too long, the job ends.
void RunState::watch_copies() {
  if (!folder_ || !folder_->collecting()) {
    copying_ms_.reset();
    return;
  }
  if (!copying_ms_) copying_ms_ = now_ms_;
  const std::uint64_t still_ms = now_ms_ - *copying_ms_;
  if (still_ms < plan_.spec.limits.stall_ms) return hand_to_job(CopyUnderWay{});
  // Servers whose slices it holds up wait for it as long as it takes.
  fail(base::error(Errc::deadline_exceeded, "nothing has come of a checkpoint's copy for {} ms",
                   still_ms));
}

}  // namespace troupe::control
