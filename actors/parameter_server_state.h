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
#include "actors/server_figures.h"
#include "store/slice_owner.h"

namespace troupe::actors {

/// Pulls of one slice that wait for their version; more are ignored, their askers repeat them.
inline constexpr std::size_t kPullsWaitingMax = 4'096;

/// What the server has done, for metrics. Bytes are payload bytes.
struct ParameterServerCounters {
  std::uint64_t pushes = 0;  ///< taken
  std::uint64_t push_bytes = 0;
  std::uint64_t duplicates = 0;
  std::uint64_t not_ready = 0;
  std::uint64_t replies = 0;
  std::uint64_t reply_bytes = 0;
  std::uint64_t updates = 0;
  std::uint64_t additions = 0;
};

/// The server of one shard, in one generation of a job.
class ParameterServerState {
 public:
  /// `plan` must outlive it.
  ParameterServerState(const JobPlan& plan, std::uint32_t shard);
  ParameterServerState(const ParameterServerState&) = delete;
  ParameterServerState& operator=(const ParameterServerState&) = delete;

  /// One event; what follows from it, in order. `now_ns`, of any steady clock, is for metrics.
  std::vector<Effect> handle(Event event, std::int64_t now_ns = 0);

  const ParameterServerCounters& counters() const { return counters_; }
  ServerHoldings holdings() const;
  const MailCounters& mail_counters() const { return mail_.counters(); }
  /// Whom the slice that is furthest behind waits for; empty before the start and when none is.
  std::string waits_for() const;

 private:
  /// A running Add, Update or InitSlice.
  struct Work {
    std::size_t slice = 0;
    std::uint64_t addition = 0;  // its name to the owner; 0: an update or first values
  };
  using Pull = std::pair<std::uint32_t, schemas::WeightPull>;  // machine, pull
  struct Owned {
    std::size_t position = 0;  // in the layout
    store::SliceOwner owner;
    std::map<Pull, std::int64_t> pulls = {};    // with the time they came
    OpenRequests<store::PushName> pushes = {};  // whose answer has to wait
    PushRound round = {};
  };

  void open();
  void receive(schemas::Envelope envelope);
  void take(schemas::Envelope& envelope);
  void take_push(schemas::Envelope& envelope, schemas::GradientPush& push);
  void take_pull(const schemas::Envelope& envelope, const schemas::WeightPull& pull);
  void take_finished(const schemas::Finished& finished);
  void effect_done(EffectDone& done);
  void tick(std::uint64_t now_ms);
  const store::SliceInfo& info(const Owned& owned) const;
  std::optional<std::size_t> own(const schemas::SliceId& slice);
  void pump(std::size_t index);
  void run_work(std::size_t index);
  void send_acks(std::size_t index);
  const Owned* furthest_behind() const;  // null when no slice is behind the end
  void note_missing(std::vector<std::uint32_t> ranks);
  void answer_pulls(std::size_t index);
  bool cut(std::size_t index);
  void watch_progress();
  void finish_if_done();

  Mail mail_;
  std::uint32_t shard_;
  std::vector<Owned> slices_;
  std::map<schemas::SliceId, std::size_t> index_;
  std::map<EffectId, Work> running_;
  std::optional<CheckpointTracker> checkpoints_;
  std::set<std::uint32_t> finished_;
  bool done_ = false;
  std::uint64_t progress_ = 0;  // counts whatever moves training on
  std::uint64_t progress_seen_ = 0;
  std::uint64_t progress_ms_ = 0;
  bool warned_ = false;
  std::vector<std::uint32_t> missing_;  // ranks, as last told
  ParameterServerCounters counters_;
  std::uint64_t keys_ = 0;
  std::uint64_t store_bytes_ = 0;
  LowestVersion version_;
};

}  // namespace troupe::actors
