// SPDX-License-Identifier: Apache-2.0
// Transitions of an agent.
#include "control/agent_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "control/gpu_slots.h"
#include "schemas/codec.h"

namespace troupe::control {

using schemas::Role;

namespace {

/// Tries to join that fail for the same reason are told so often.
constexpr std::uint64_t kRemindMs = 30'000;

/// "process 77", for sentences that say that it is still there.
std::string process_text(bool started, std::int64_t pid) {
  return started ? fmt::format("process {}", pid) : "a process that is starting";
}

}  // namespace

AgentState::AgentState(schemas::AgentHello hello, const base::Limits& limits)
    : hello_(std::move(hello)), limits_(limits) {}

std::vector<AgentState::Effect> AgentState::handle(const Event& event) {
  if (ended_) return {};
  std::visit([this](const auto& what) { on(what); }, event);
  TROUPE_CHECK(begun_ || effects_.empty(), "what has not begun does nothing");
  if (leave_at_ms_ && alone() && placing_.empty()) leave_in_order();
  greet_if_alone();
  end_if_alone();
  return std::exchange(effects_, {});
}

void AgentState::on(const Begin& begin) {
  TROUPE_CHECK(!begun_, "an agent begins once");
  begun_ = true;
  now_ms_ = begin.now_ms;
  try_for(limits_.join_wait_ms);
  join();
}

void AgentState::on(const Tick& tick) {
  if (!begun_) return;  // the shell's clock may be first
  TROUPE_CHECK(tick.now_ms >= now_ms_, "a monotonic clock does not go back");
  now_ms_ = tick.now_ms;
  if (leave_at_ms_ && now_ms_ >= *leave_at_ms_) {
    emit(Note{true, fmt::format("its jobs have not left in time; their processes here ({}) end",
                                children_.size())});
    leave_in_order();
  }
  if (join_again_at_ms_ && now_ms_ >= *join_again_at_ms_) join();
  if (stop_all_at_ms_ && now_ms_ >= *stop_all_at_ms_) stop_all();
  for (auto& [process, child] : children_) {
    if (!child.kill_at_ms || now_ms_ < *child.kill_at_ms) continue;
    if (!child.stop_wanted) {
      child.hang =
          base::error(base::Errc::deadline_exceeded, "it has closed its link and does not end");
    }
    stop(process, child, 0);
    child.kill_at_ms = now_ms_ + limits_.stop_grace_ms;  // and again, should that be lost
  }
}

// ---- the coordinator ----

void AgentState::try_for(std::uint64_t wait_ms) {
  join_until_ms_ = now_ms_ + wait_ms;
  first_try_ = true;
  remind_at_ms_ = 0;
}

/// Every link has a number. What is still said on an earlier one is not this agent's business any
/// more: a refusal and the end of a link come one after the other, and may come late.
void AgentState::join() {
  join_again_at_ms_.reset();
  if (leaving_) return;
  link_ = Link::making;
  const std::uint64_t left_ms = join_until_ms_ - std::min(now_ms_, join_until_ms_);
  emit(JoinCoordinator{++joins_, first_try_ ? 0 : std::min(left_ms, kRemindMs)});
  first_try_ = false;
}

/// Short waits get short pauses: there are always several tries.
void AgentState::try_again(std::uint64_t pause_ms, const base::Status& why) {
  const std::uint64_t left_ms = join_until_ms_ - std::min(now_ms_, join_until_ms_);
  if (left_ms < limits_.retry_first_ms) return leave(why);
  join_again_at_ms_ = now_ms_ + std::min(pause_ms, left_ms / 4);
  if (now_ms_ < remind_at_ms_ && why.text() == told_) return;
  remind_at_ms_ = now_ms_ + kRemindMs;
  told_ = why.text();
  emit(Note{true, fmt::format("{}; tries again for {} s", why.text(), (left_ms + 999) / 1'000)});
}

void AgentState::leave(const base::Status& why) {
  leaving_ = why;
  leave_at_ms_.reset();
  if (!stop_all_at_ms_) stop_all_at_ms_ = now_ms_ + limits_.agent_grace_ms;
}

/// A coordinator knows no process that was started over an earlier link: to one that was started
/// anew the jobs are unknown, and to the same one they have failed.
void AgentState::on(const CoordinatorUp& up) {
  if (up.join != joins_ || link_ != Link::making) return;
  link_ = Link::up;
  std::map<std::string, std::size_t> left;
  for (auto& [process, child] : children_) {
    child.unknown = true;
    ++left[process.job];
  }
  for (const auto& [job, processes] : left) {
    emit(Note{true, fmt::format("the coordinator does not know this agent's job {} any more: its "
                                "processes here ({}) end",
                                job, processes)});
  }
  stop_all();
}

/// A process that is killed is soon gone, unless it hangs in the kernel: in a driver, on a dead
/// file system. Nobody knows when that ends. Half of stop_grace_ms after the kill, which comes
/// after a quarter of it: a coordinator that is greeted so late still waits, by request_ms.
bool AgentState::stays(const Child& child) const {
  return child.killed_ms && now_ms_ >= *child.killed_ms + limits_.stop_grace_ms / 2;
}

/// Whether no child is left that is waited for.
bool AgentState::alone() const {
  return std::all_of(children_.begin(), children_.end(),
                     [this](const auto& entry) { return stays(entry.second); });
}

/// As hello_ has it, but without what children may still use that the coordinator knows nothing of.
schemas::AgentOffer AgentState::offer() const {
  schemas::AgentOffer offer{hello_.withheld, hello_.lost_gpus};
  for (const auto& [process, child] : children_) {
    if (!child.unknown || process.actor.role == Role::parameter_server) continue;  // has no slot
    if (child.gpus.empty()) offer.slots_kept += static_cast<std::uint32_t>(child.ranks.size());
    for (const std::uint32_t index : child.gpus) {
      const auto same = [index](const schemas::LostGpu& gpu) { return gpu.index == index; };
      if (std::ranges::any_of(offer.lost_gpus, same)) continue;
      offer.lost_gpus.push_back({index, "still used by " + process_text(child.started, child.pid)});
    }
  }
  return offer;
}

/// An agent offers its slots when nothing uses them; for what does not end it keeps some back.
void AgentState::greet_if_alone() {
  if (leaving_ || link_ != Link::up || !alone()) return;
  link_ = Link::greeted;
  if (!children_.empty()) {
    emit(Note{true, fmt::format("joins though these do not end, and keeps back what they use: {}",
                                names_of_children())});
  }
  schemas::AgentOffer now = offer();
  schemas::AgentHello hello = hello_;
  hello.lost_gpus = std::move(now.lost_gpus);
  hello.slots_kept = now.slots_kept;
  tell(std::move(hello));
}

void AgentState::on(const CoordinatorSaid& said) {
  if (said.join != joins_) return;
  std::visit([&](const auto& message) { on_message(message); }, said.message);
}

/// Children outlive a lost coordinator by a grace, in which they may still end well by themselves:
/// their last messages are lost, their checkpoints are not.
void AgentState::on(const CoordinatorLost& lost) {
  if (lost.join != joins_) return;
  const bool was_welcomed = link_ == Link::welcomed;
  link_ = Link::none;
  if (leave_at_ms_) return leave_in_order();
  if (leaving_ || join_again_at_ms_) return;
  if (was_welcomed) {
    try_for(limits_.join_wait_ms);
    stop_all_at_ms_ = now_ms_ + limits_.agent_grace_ms;
  }
  const std::string children = !was_welcomed || children_.empty()
                                   ? ""
                                   : fmt::format("; its processes ({}) stop in {} ms",
                                                 children_.size(), limits_.agent_grace_ms);
  try_again(was_welcomed ? limits_.retry_first_ms : limits_.retry_most_ms,
            base::error(base::Errc::unavailable, "{}{}{}",
                        was_welcomed ? "lost the coordinator: " : "", lost.reason, children));
}

/// The children's jobs are to be saved first. The coordinator stops them then, and this agent
/// leaves when it has none any more. Time for that, and for the children's end, is the agent's own
/// limit.
void AgentState::on(const StopRequested&) {
  if (leaving_ && leaving_->ok()) return;
  const bool busy = !alone() || !placing_.empty();
  const bool waits = !leaving_ && !leave_at_ms_ && link_ == Link::welcomed && busy;
  if (!waits) return leave_in_order();
  const std::string text = "the agent was asked to end";
  leave_at_ms_ = now_ms_ + limits_.cut_ms + limits_.stop_grace_ms;
  emit(Note{false, fmt::format("{}: its jobs are saved first, for at most {} ms", text,
                               *leave_at_ms_ - now_ms_)});
  tell(schemas::AgentLeaving{text});
}

void AgentState::leave_in_order() {
  leave_at_ms_.reset();
  if (!leaving_ && link_ != Link::none) {
    link_ = Link::closing;
    emit(LeaveCoordinator{"the agent was asked to end"});
  }
  leaving_ = base::Status();
  stop_all();
}

/// Greetings have it, too, for the coordinators that this agent meets later.
void AgentState::on(const OfferChanged& changed) {
  const bool slots = changed.withheld != hello_.withheld;
  const bool gpus = changed.lost_gpus != hello_.lost_gpus;
  if (!slots && !gpus) return;
  hello_.withheld = changed.withheld;
  hello_.lost_gpus = changed.lost_gpus;
  if (slots) {
    emit(Note{!changed.withheld.empty(), changed.withheld.empty()
                                             ? "offers its slots again"
                                             : "offers no slots any more: " + changed.withheld});
  }
  if (gpus) {
    emit(Note{!changed.lost_gpus.empty(), changed.lost_gpus.empty()
                                              ? "offers all its GPUs again"
                                              : "offers no more: " + lost_text(changed.lost_gpus)});
  }
  tell(offer());
}

void AgentState::on_message(const schemas::AgentWelcome& welcome) {
  if (link_ != Link::greeted) return;
  link_ = Link::welcomed;
  emit(Note{false, fmt::format("joined the coordinator (version {}) as '{}' with {}",
                               welcome.coordinator_version, hello_.name,
                               offer_text(hello_.slots, hello_.gpus.size()))});
}

/// Refused. Where the name or a GPU is in use, that may be by this agent itself, before it was
/// started anew, whose link is not given up yet: it tries again (decision 0005). One that the
/// coordinator has given up, or whose children took so long to end that the coordinator has heard
/// nothing, is welcome again. For all else the agent leaves; one that is turned away with children
/// gives them a grace.
void AgentState::on_message(const schemas::JobEnd& end) {
  const bool welcome_again = end.code == base::Errc::unavailable ||
                             (end.code == base::Errc::deadline_exceeded && link_ == Link::up);
  if (leaving_ || join_again_at_ms_ || welcome_again) return;
  const base::Status why =
      end.code == base::Errc::ok ? base::Status() : base::Status(end.code, end.text);
  if (link_ != Link::welcomed && end.code == base::Errc::already_exists) {
    link_ = Link::none;
    return try_again(limits_.retry_most_ms, why);
  }
  leave(why);
}

/// While the agent leaves nobody is told anything: the link is ending or gone, and the coordinator
/// knows by its end that all processes here are lost.
void AgentState::tell(schemas::Message message) {
  if (leaving_ || (link_ != Link::greeted && link_ != Link::welcomed)) return;
  emit(Send<ToCoordinator>{{}, std::move(message)});
}

// ---- children ----

/// A command that comes again starts nothing twice. A coordinator that was started anew may number
/// a run as one of before, of which a process is still there: the next try has another number.
void AgentState::on_message(const schemas::LaunchProcess& launch) {
  const ProcessKey process{launch.job, launch.generation, launch.actor};
  const auto refuse = [&](const std::string& why) {
    tell(schemas::ProcessExited{launch.job, launch.generation, launch.actor, "not started: " + why,
                                false});
  };
  const auto known = children_.find(process);
  if (leaving_ || (known != children_.end() && !known->second.unknown)) return;
  if (known != children_.end()) {
    return refuse(fmt::format("{} of an earlier run with this number has not ended",
                              process_text(known->second.started, known->second.pid)));
  }
  for (const std::uint32_t index : launch.gpus) {
    const auto offered = [index](const schemas::GpuOffer& gpu) { return gpu.index == index; };
    if (std::ranges::any_of(hello_.gpus, offered)) continue;
    return refuse(fmt::format("agent '{}' does not offer GPU {}", hello_.name, index));
  }
  Child& child = children_[process];
  child.launch = launch;
  child.ranks = launch.ranks;
  child.gpus = launch.gpus;
  emit(StartChild{process, launch.gpus});
}

void AgentState::on_message(const schemas::StopProcesses& wanted) {
  for (auto& [process, child] : children_) {
    if (process.job != wanted.job || process.generation != wanted.generation) continue;
    stop(process, child, wanted.grace_ms);
  }
}

void AgentState::on_message(const schemas::ProcessMessage& message) {
  const auto child = find(message);
  if (child == children_.end() || child->second.unknown) return;
  auto inner = schemas::decode_message(message.message);
  if (!inner.ok()) {
    return emit(Note{true, fmt::format("a message for {} of job {}: {}", message.actor.to_string(),
                                       message.job, inner.status().text())});
  }
  emit(Send<ToChild>{{child->first, message.actor}, std::move(inner).value()});
}

/// Children that start from now on have it from this agent's own credentials.
void AgentState::on_message(const schemas::DenyList& list) {
  emit(UseDenyList{list.pem});
  for (const auto& [process, child] : children_) {
    if (child.started) emit(Send<ToChild>{{process, process.actor}, list});
  }
}

void AgentState::on_message(const schemas::FolderProbe& probe) {
  emit(Note{false, fmt::format("job {}: looks at {}", probe.job, probe.path), true});
  emit(ProbeFolder{probe});
}

void AgentState::on(const FolderProbed& probed) {
  tell(probed.result);
}

void AgentState::on_message(const schemas::PieceQuery& query) {
  emit(ServePiece{0, query});
}

void AgentState::on_message(const schemas::PlaceCheckpoint& place) {
  emit(Note{false,
            fmt::format("job {}: gets {} into {}", place.job, place.checkpoint, place.folder)});
  placing_[place.job] = ++placings_;
  emit(PlaceFiles{place, placings_});
}

/// One that a newer one of its job has followed is nobody's business any more.
void AgentState::on(const FilesPlaced& placed) {
  const auto counts = placing_.find(placed.result.job);
  if (counts == placing_.end() || counts->second != placed.number) return;
  placing_.erase(counts);
  tell(placed.result);
}

void AgentState::on_message(const schemas::DropCheckpoint& drop) {
  emit(DropFiles{drop});
}

/// What a child needs to know it learns as soon as it can listen. One that nobody can speak to is
/// of no use, and one that was to be stopped before it was there has nothing to end in good order:
/// both are killed.
void AgentState::on(const ChildStarted& started) {
  Child& child = child_of(started.process);
  TROUPE_CHECK(!child.started, "a child starts once");
  child.started = true;
  child.pid = started.pid;
  emit(Note{false, fmt::format("{} is process {}", name_of(started.process), child.pid)});
  if (!started.link.ok()) {
    child.silent = true;
    return emit(StopChild{started.process, true});
  }
  if (child.stop_wanted) emit(StopChild{started.process, true});
  emit(Send<ToChild>{{started.process, started.process.actor}, std::move(child.launch)});
}

void AgentState::on(const ChildNotStarted& failed) {
  Child& child = child_of(failed.process);
  TROUPE_CHECK(!child.started, "a child that has started ends by an exit");
  emit(Note{true,
            fmt::format("{} could not be started: {}", name_of(failed.process), failed.reason)});
  child.exit = Exit{"not started: " + failed.reason, false};
  child.silent = true;
  tell_if_ended(failed.process);
}

/// A child speaks for its own actors. One that does not has failed, and is believed nothing more.
void AgentState::on(const ChildSaid& said) {
  const auto child = children_.find(said.process);
  if (child == children_.end() || child->second.unknown) return;
  const std::vector<std::uint32_t>& ranks = child->second.ranks;
  const bool own = said.from == said.process.actor ||
                   (said.from.role == Role::worker &&
                    std::find(ranks.begin(), ranks.end(), said.from.index) != ranks.end());
  if (!own) {
    const std::string fault =
        fmt::format("its process speaks in the name of {}", said.from.to_string());
    emit(StopChild{said.process, true});
    return carry(said.process, said.process.actor,
                 schemas::ActorFailed{said.process.actor, base::Errc::data_loss, fault});
  }
  carry(said.process, said.from, said.message);
}

/// To the coordinator, from an actor of a child.
void AgentState::carry(const ProcessKey& process, const schemas::ActorId& from,
                       const schemas::Message& message) {
  auto bytes = schemas::encode_message(message);
  if (!bytes.ok()) {
    return emit(Note{true, fmt::format("{} of job {}: {}", from.to_string(), process.job,
                                       bytes.status().text())});
  }
  tell(schemas::ProcessMessage{process.job, process.generation, from, std::move(bytes).value()});
}

void AgentState::on(const ChildExited& exited) {
  Child& child = child_of(exited.process);
  TROUPE_CHECK(child.started, "a process that exits has started");
  TROUPE_CHECK(!child.exit, "a process exits once");
  const bool expected = exited.clean || child.stop_wanted;
  emit(Note{!expected, fmt::format("{}, process {}, has ended: {}", name_of(exited.process),
                                   child.pid, exited.how)});
  child.exit =
      child.hang.ok() ? Exit{exited.how, exited.clean} : Exit{"hung: " + child.hang.text(), false};
  tell_if_ended(exited.process);
}

/// The link of a child that could not be adopted tells nothing. Silence is a death: whoever waits
/// for the child must not wait for ever. One that has only closed its link is ending, and gets a
/// grace for it.
void AgentState::on(const ChildSilent& silent) {
  Child& child = child_of(silent.process);
  child.silent = true;
  if (child.exit) return tell_if_ended(silent.process);
  const bool hangs = silent.why.code() == base::Errc::deadline_exceeded;
  if (!hangs) {
    const std::uint64_t kill_at_ms = now_ms_ + limits_.stop_grace_ms;
    child.kill_at_ms = std::min(child.kill_at_ms.value_or(kill_at_ms), kill_at_ms);
    return;
  }
  child.hang = silent.why;
  emit(Note{true, fmt::format("{}, process {}, hangs and is killed: {}", name_of(silent.process),
                              child.pid, silent.why.text())});
  stop(silent.process, child, 0);
}

/// A child has ended when it is reaped and everything that it said was read: the cause of its end
/// is often its last message, and must reach the coordinator before the bare exit. One that knows
/// nothing of the child is told what is there for others again.
void AgentState::tell_if_ended(const ProcessKey& process) {
  const auto child = children_.find(process);
  if (!child->second.exit || !child->second.silent) return;
  const Exit exit = *child->second.exit;
  const ProcessKey ended = child->first;  // `process` may be a part of the child
  const bool unknown = child->second.unknown;
  children_.erase(child);
  if (unknown) return tell(offer());
  tell(schemas::ProcessExited{ended.job, ended.generation, ended.actor, exit.how, exit.clean});
}

/// "job x generation 2: host process (ranks 4, 5)".
std::string AgentState::name_of(const ProcessKey& process) {
  const std::string what =
      process.actor.role == Role::parameter_server
          ? process.actor.to_string()
          : fmt::format("host process (ranks {})", fmt::join(child_of(process).ranks, ", "));
  return fmt::format("job {} generation {}: {}", process.job, process.generation, what);
}

/// For the log: all of them.
std::string AgentState::names_of_children() {
  std::vector<std::string> names;
  for (const auto& [process, child] : children_) {
    names.push_back(
        fmt::format("{}, {}", name_of(process), process_text(child.started, child.pid)));
  }
  return fmt::format("{}", fmt::join(names, "; "));
}

/// The child that the message is for; a worker's is its host process.
AgentState::Children::iterator AgentState::find(const schemas::ProcessMessage& message) {
  if (message.actor.role != Role::worker) {
    return children_.find({message.job, message.generation, message.actor});
  }
  return std::find_if(children_.begin(), children_.end(), [&](const auto& entry) {
    const std::vector<std::uint32_t>& ranks = entry.second.ranks;
    return !entry.second.unknown && entry.first.job == message.job &&
           entry.first.generation == message.generation &&
           std::find(ranks.begin(), ranks.end(), message.actor.index) != ranks.end();
  });
}

/// The shell tells of children that it was asked to start, and of none after its end.
AgentState::Child& AgentState::child_of(const ProcessKey& process) {
  const auto child = children_.find(process);
  TROUPE_CHECK(child != children_.end(), "a child is known until it has ended");
  return child->second;
}

void AgentState::stop(const ProcessKey& process, Child& child, std::uint64_t grace_ms) {
  const std::uint64_t kill_at_ms = now_ms_ + grace_ms;
  // A second wish may shorten the first one's grace, not lengthen it.
  child.kill_at_ms = child.kill_at_ms ? std::min(*child.kill_at_ms, kill_at_ms) : kill_at_ms;
  child.stop_wanted = true;
  if (grace_ms == 0 && !child.killed_ms) child.killed_ms = now_ms_;
  emit(Note{false, fmt::format("{} is to end within {} ms", name_of(process), grace_ms), true});
  if (child.started) emit(StopChild{process, grace_ms == 0});
}

void AgentState::stop_all() {
  stop_all_at_ms_.reset();
  for (auto& [process, child] : children_) stop(process, child, limits_.stop_grace_ms / 4);
}

/// The Goodbye goes out before the end: without it the coordinator would take the agent for lost
/// and wait for its link to heal. The link bounds it by limits.goodbye_ms.
void AgentState::end_if_alone() {
  if (!leaving_ || !alone() || link_ == Link::closing) return;
  ended_ = true;
  if (!children_.empty()) {
    emit(Note{true, fmt::format("ends though these do not: {}", names_of_children())});
  }
  emit(End{*leaving_});
}

}  // namespace troupe::control
