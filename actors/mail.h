// SPDX-License-Identifier: Apache-2.0
// Mail: what all roles of a job share: the fence of generation and view around their messages, the
// making of envelopes, and the way into the job (placement, then start) and out of it. One owner,
// one thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/effect_list.h"
#include "actors/job_plan.h"
#include "actors/outbox.h"
#include "base/credit.h"
#include "base/limits.h"
#include "base/status.h"
#include "schemas/message_families.h"
#include "store/slice_rules.h"

namespace troupe::actors {

/// Bytes of one peer's envelopes that may wait for a later view or for the start: what its link's
/// connections let it send. More is a fault of the peer, which ends the job.
constexpr std::uint64_t parked_bytes_max(const base::Limits& limits) {
  return (1 + limits.data_connections) * base::connection_credit(limits, sizeof(schemas::Envelope));
}

/// What the fence has seen; counters only.
struct MailCounters {
  std::uint64_t other_generation = 0;  ///< dropped: of an earlier or later run of the job
  std::uint64_t stale_view = 0;        ///< refused: of an earlier view
  std::uint64_t parked = 0;            ///< kept for a later view or the start
  std::uint64_t repeated = 0;          ///< letters sent again because something had happened
  std::uint64_t asked = 0;             ///< questions about letters that were not answered
};

/// The fence. A role is open once it has a placement and the start; until then peers' envelopes
/// wait. An envelope of another generation is dropped, one of a lower view refused with StaleView,
/// one of a higher view parked until that view's placement comes. The coordinator's messages are
/// fenced by generation alone.
class Mail {
 public:
  /// What becomes of an envelope.
  enum class Verdict {
    take,    ///< process it now
    opened,  ///< the role has just been opened: rules() exist
    moved,   ///< a new view of the same ranks holds: parked() may have more
    done     ///< nothing is left to do with it
  };

  /// `plan` and `effects`, into which it sends, must outlive it.
  Mail(const JobPlan& plan, schemas::ActorId self, MailEffects& effects)
      : plan_(&plan), self_(self), effects_(&effects) {}

  const JobPlan& plan() const { return *plan_; }
  schemas::ActorId self() const { return self_; }
  bool open() const { return rules_.has_value() && !ended_; }
  bool ended() const { return ended_; }
  /// CHECKs that the role has been opened.
  const store::SliceRules& rules() const { return rules_.value(); }
  /// What training began with; CHECKs that the role has been opened.
  const schemas::TrainingStart& start() const { return start_.value(); }
  /// A cut out of turn: the plan of steps in rules() has it from now on; see StepPlan::add_cut.
  bool add_cut(std::uint64_t step) { return rules_.value().steps.add_cut(step); }
  std::uint64_t now_ms() const { return now_ms_; }
  void tick(std::uint64_t now_ms) { now_ms_ = now_ms; }

  /// Takes an envelope in: judges it, calls `open()` when it has opened the role, `moved()` when a
  /// new view holds, and `take(its)` for it and for those it lets in that were parked.
  template <typename Open, typename Moved, typename Take>
  void receive(schemas::Envelope envelope, const Open& open, const Moved& moved, const Take& take) {
    const Verdict verdict = judge(envelope);
    if (verdict == Verdict::done) return;
    if (verdict == Verdict::take) return take(envelope);
    if (verdict == Verdict::opened) open();
    if (verdict == Verdict::moved) moved();
    // A role that is open in this view hears now what peers said before it was.
    while (auto due = parked()) receive(std::move(*due), open, moved, take);
  }
  Verdict judge(schemas::Envelope& envelope);
  /// The next parked envelope that may be processed now.
  std::optional<schemas::Envelope> parked();

  /// Sends to a peer or the coordinator.
  void send(const schemas::ActorId& to, schemas::Message message, base::Buffer payload = {});
  void send(const Letter& letter) { send(letter.to, letter.message, letter.payload); }
  /// Time has passed: asks about the letters of an outbox that have been unanswered for long, and
  /// sends those again that could not be taken.
  template <typename Key>
  void attend(Outbox<Key>& outbox) {
    outbox.attend(
        now_ms_, [this](const Letter& letter) { send_again(letter); },
        [this](const Letter& letter) { ask(letter); });
  }
  /// The link to `peer` was resumed: what it had taken comes, but an answer may be missing.
  template <typename Key>
  void ask_about(Outbox<Key>& outbox, const schemas::ActorId& peer) {
    outbox.ask_about(peer, now_ms_, [this](const Letter& letter) { ask(letter); });
  }
  /// A new view holds: whoever had it already has refused what was sent in the last one.
  template <typename Key>
  void send_again(Outbox<Key>& outbox) {
    outbox.send_again(now_ms_, [this](const Letter& letter) { send_again(letter); });
  }
  /// An answer to one of the pushes that this role has sent; true when it ends the letter.
  bool settle(Outbox<schemas::PushName>& pushes, const schemas::PushAck& ack);
  /// Tells the coordinator, then the shell, that this role cannot go on; it is deaf from then on.
  void fail(const base::Status& status);
  const MailCounters& counters() const { return counters_; }

 private:
  Verdict take_placement(const schemas::Placement& placement);
  Verdict open_if_complete();
  void park(schemas::Envelope& envelope);
  void send_again(const Letter& letter);
  void ask(const Letter& letter);

  const JobPlan* plan_;
  schemas::ActorId self_;
  MailEffects* effects_;
  std::optional<schemas::Placement> placement_;
  std::optional<schemas::TrainingStart> start_;
  std::optional<store::SliceRules> rules_;
  bool ended_ = false;
  std::uint64_t now_ms_ = 0;
  std::deque<schemas::Envelope> parked_;
  std::map<schemas::ActorId, std::uint64_t> parked_bytes_;  // by sender
  MailCounters counters_;
};

/// What Mail reads itself; roles pass over it.
template <typename T>
concept ReadByMail = schemas::OneOf<T, schemas::StaleView, schemas::TrainingStart, schemas::JobEnd,
                                    schemas::Placement>;
/// What a job's actors tell the coordinator; whoever sends it to another role is not answered.
template <typename T>
concept ToldToCoordinator =
    schemas::OneOf<T, schemas::DatasetReport, schemas::ProgressReport, schemas::EvaluationReport,
                   schemas::ActorDone, schemas::ActorFailed, schemas::ProcessReady,
                   schemas::ServerReport, schemas::CutReady, schemas::ExtraCutTaken>;
/// What no worker or server acts upon: the above, and what never comes to an actor of a job.
template <typename T>
concept ForOthers = ReadByMail<T> || ToldToCoordinator<T> || schemas::AgentMessage<T> ||
    schemas::PersonMessage<T> || schemas::LinkMessage<T>;

/// The coordinator's address.
inline constexpr schemas::ActorId kCoordinator{schemas::Role::coordinator, 0};

}  // namespace troupe::actors
