// SPDX-License-Identifier: Apache-2.0
// ParameterServerState: level 2, one shard. Owns its slices: first values, contributions, updates,
// versions, checkpoints. Pure state machine: events in, effects out; it holds handles and never
// touches bytes. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/checkpoint_tracker.h"
#include "actors/mail.h"
#include "actors/pull_desk.h"
#include "actors/verdict_tracker.h"
#include "control/silence.h"
#include "store/slice_owner.h"

namespace troupe::actors {

/// The server of one shard, in one generation of a job.
class ParameterServerState {
 public:
  using Event = ServerEvent;
  using Effect = ParameterEffect;

  /// `plan` must outlive it.
  ParameterServerState(const JobPlan& plan, std::uint32_t shard);
  ParameterServerState(const ParameterServerState&) = delete;
  ParameterServerState& operator=(const ParameterServerState&) = delete;

  /// One event; what follows from it, in order.
  std::vector<Effect> handle(Event event);

  const MailCounters& mail_counters() const { return mail_.counters(); }
  /// Whom the slice that is furthest behind waits for; empty before the start and when none is.
  std::string waits_for() const;

 private:
  /// A running Add, Examine, Update or InitSlice.
  struct Work {
    std::size_t slice = 0;
    std::uint64_t addition = 0;  // its name to the owner; 0: none of these
  };
  struct Owned {
    std::size_t position = 0;  // in the layout
    store::SliceOwner owner;
    PullDesk pulls = {};
  };

  void on(Received& received);
  void on(const Tick& tick);
  void on(EffectDone& done);
  void on(const LinkResumed& resumed);
  void open();
  void moved();
  void take(schemas::Envelope& envelope, schemas::GradientPush& push);
  void take(schemas::Envelope& envelope, const schemas::PushQuery& query);
  void take(schemas::Envelope& envelope, const schemas::WeightPull& pull);
  void take(schemas::Envelope& envelope, const schemas::Finished& finished);
  void take(schemas::Envelope& envelope, const schemas::ShardCheckpoint& file);
  void take(schemas::Envelope& envelope, const schemas::CheckpointReport& report);
  void take(schemas::Envelope& envelope, const schemas::ExtraCut& cut);
  void take(schemas::Envelope& envelope, const schemas::StepFacts& facts);
  void take(schemas::Envelope& envelope, const schemas::StepVerdict& verdict);
  /// The answers that it gives itself, and what device servers are asked.
  template <schemas::OneOf<schemas::PushAck, schemas::WeightReply, schemas::CutQuery> Message>
  void take(schemas::Envelope&, const Message&) {}
  template <ForOthers Message>
  void take(schemas::Envelope&, const Message&) {}
  bool from_first_shard(const schemas::Envelope& envelope) const;
  const store::SliceInfo& info(const Owned& owned) const;
  std::optional<std::size_t> own(const schemas::SliceId& slice);
  void pump(std::size_t index);
  void run_work(std::size_t index);
  void send_acks(std::size_t index);
  const Owned* furthest_behind() const;  // null when no slice is behind the end
  void note_missing(std::vector<std::uint32_t> ranks);
  void answer_pulls(std::size_t index);
  void answer_or_wait(std::size_t index, const Pull& pull);
  bool cut(std::size_t index);
  void watch_progress();
  void report();
  void finish_if_done();

  EffectList<Effect> effects_;
  Mail mail_;
  std::uint32_t shard_;
  std::vector<Owned> slices_;
  std::map<schemas::SliceId, std::size_t> index_;
  std::map<EffectId, Work> running_;
  std::optional<CheckpointTracker> checkpoints_;
  std::optional<VerdictTracker> verdicts_;  // where steps are judged
  std::set<std::uint32_t> finished_;
  bool done_ = false;
  std::optional<std::uint64_t> reported_ms_;
  bool moved_ = false;                  // something has moved training on since the last tick
  control::Silence silence_;            // of whatever does
  std::vector<std::uint32_t> missing_;  // ranks, as last told
};

}  // namespace troupe::actors
