// SPDX-License-Identifier: Apache-2.0
// Who may ask the coordinator for what; what is revoked.
#include <fmt/format.h>

#include <map>
#include <utility>

#include "base/units.h"
#include "control/coordinator_state.h"

namespace troupe::control {

using base::Errc;

/// A peer that nobody has linked has shown nothing.
Caller CoordinatorState::caller_of(PeerId peer) const {
  const auto known = peers_.find(peer);
  return known == peers_.end() ? Caller{} : known->second.caller;
}

/// What it has sent before it learns that is not heard.
void CoordinatorState::drop(PeerId peer, base::Status reason) {
  const auto known = peers_.find(peer);
  if (known != peers_.end()) known->second.dropped = true;
  const auto agent = agents_.find(peer);
  if (agent != agents_.end()) agent->second.leaving = true;  // it is gone when its link is
  emit(DropPeer{peer, std::move(reason)});
}

bool CoordinatorState::may(PeerId peer, trust::Right right, const std::string& what) {
  const Caller caller = caller_of(peer);
  const base::Status status = access_.check(caller, right);
  if (status.ok()) return true;
  if (access_.note_refusal(caller, now_ms_)) {
    emit(Audit{caller.to_string(), fmt::format("wants to {}", what), caller.address, status});
  }
  drop(peer, status);
  return false;
}

/// What a person was refused beyond what was told is told as a number.
void CoordinatorState::note_left_out(const std::vector<Access::LeftOut>& all) {
  for (const Access::LeftOut& one : all) {
    emit(
        Audit{one.who,
              fmt::format("more refusals of a token of '{}' are left out: {}", one.name, one.count),
              one.from, base::error(Errc::resource_exhausted, "it was refused too often")});
  }
}

bool CoordinatorState::may_end(PeerId peer, const Job* job, const std::string& what) {
  const std::string name = access_.name_of(caller_of(peer));
  const bool own = job != nullptr && !name.empty() && job->owner == name;
  return may(peer, own ? trust::Right::submit : trust::Right::stop, what);
}

Audit CoordinatorState::change_by(PeerId peer, std::string what) const {
  const Caller caller = caller_of(peer);
  const std::string name = access_.name_of(caller);
  const bool by_token = !caller.holder && !name.empty();
  return {by_token ? fmt::format("person '{}'", name) : caller.to_string(), std::move(what),
          caller.address};
}

void CoordinatorState::note_change(PeerId peer, std::string what) {
  emit(change_by(peer, std::move(what)));
}

/// Where certificates are, an agent is who its own says. Where none are and people need tokens, an
/// agent needs one, too: it is sent their jobs. One that cannot be judged now may try again.
base::Status CoordinatorState::check_holder(PeerId peer, const schemas::AgentHello& hello) const {
  const Caller caller = caller_of(peer);
  if (!caller.holder) {
    const base::Status status = access_.check(caller, trust::Right::join);
    if (status.ok()) return {};
    const Errc code = access_.unread() ? Errc::unavailable : status.code();
    return base::error(code, "agent '{}': {}", hello.name, status.text());
  }
  if (caller.holder->role == trust::Role::agent && caller.holder->name == hello.name) return {};
  return base::error(Errc::permission_denied, "{} may not join as agent '{}'", caller.to_string(),
                     hello.name);
}

/// Nothing is said about it now: what it is worth is asked with every request.
void CoordinatorState::on_message(PeerId peer, const schemas::PersonHello& hello) {
  if (agents_.contains(peer)) return refuse(peer);
  const auto known = peers_.find(peer);
  if (known == peers_.end() || hello.token.empty()) return;
  known->second.caller.token = base::sha256(hello.token);
}

/// An agent that was let in by its token, or before any was needed, has to have the right still.
/// Where somebody has withdrawn its token it goes; else it stays with what it runs, and gets
/// nothing new. While nobody can be judged all stay.
void CoordinatorState::on(const TokensRead& read) {
  note_left_out(access_.set(read));
  if (access_.unread()) return;
  std::map<PeerId, base::Status> out;
  for (const auto& [peer, agent] : agents_) {
    Caller& caller = peers_.at(peer).caller;
    if (caller.holder) continue;
    caller.ended = {};
    const base::Status status = access_.check(caller, trust::Right::join);
    if (access_.withdrawn(caller)) {
      out[peer] = status.with_context(fmt::format("agent '{}'", agent.hello.name));
      continue;
    }
    // What it runs is not lost because a day has come, or because nobody needed one when it joined.
    if (!status.ok()) {
      const std::string why =
          caller.token ? status.text() : std::string("it joined before tokens were made");
      caller.ended = base::error(Errc::permission_denied, "{}: start it anew with --token", why);
    }
    note_withheld(peer, std::string(agent.said));
  }
  for (const auto& [peer, status] : out) {
    if (!agents_.contains(peer)) continue;  // a run has given it up meanwhile
    drop(peer, status);
    lose_agent(peer, status.text());
  }
}

void CoordinatorState::on_message(PeerId peer, const schemas::DenyList& list) {
  if (!may(peer, trust::Right::admin, "hand in what is revoked")) return;
  emit(TakeDenyList{peer, list.pem, change_by(peer, "hands in what is revoked")});
}

void CoordinatorState::on(const DenyListRead& read) {
  if (read.peer != 0) {
    emit(Send<PeerId>{read.peer, schemas::DenyList{"", read.status.code(), read.status.text()}});
  }
  if (!read.status.ok() || read.pem == deny_list_) return;
  deny_list_ = read.pem;
  if (read.change) emit(*read.change);
  for (const auto& [peer, agent] : agents_) {
    emit(Send<PeerId>{peer, schemas::DenyList{deny_list_}});
  }
}

/// An agent's link stays, and with it what runs there: only nothing new comes. A person is refused
/// with the next request.
void CoordinatorState::on(const CertificateJudged& judged) {
  const auto known = peers_.find(judged.peer);
  if (known == peers_.end()) return;
  known->second.caller.ended = judged.ended;
  const auto agent = agents_.find(judged.peer);
  if (agent != agents_.end()) note_withheld(judged.peer, std::string(agent->second.said));
}

/// The id of a job that has ended is free for the same person, or for whoever may stop others'
/// jobs: the job goes on, or it has `other` content, as a job file that was repaired keeps its id.
base::Status CoordinatorState::check_replaced(PeerId peer, const Job& job, bool other) const {
  const std::string& id = job.info.id;
  const std::string_view phase = schemas::job_phase_name(shown(job).phase);
  if (!is_final(shown(job).phase)) {
    return base::error(
        Errc::already_exists,
        "job '{}' is {} and has other content: stop it first, or choose another --id", id, phase);
  }
  const Caller caller = caller_of(peer);
  if (job.owner == access_.name_of(caller) || access_.check(caller, trust::Right::stop).ok()) {
    return {};
  }
  return base::error(Errc::already_exists, "job '{}' of {} {}{}: choose another --id", id,
                     job.owner.empty() ? "somebody" : job.owner, phase,
                     other ? " and has other content" : "");
}

}  // namespace troupe::control
