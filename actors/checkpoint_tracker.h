// SPDX-License-Identifier: Apache-2.0
// CheckpointTracker: a shard's checkpoints in flight. Collects the slices' states at a cut, has
// them written while training goes on, reports the file to the server of slice (0, 0), which, when
// all shards are in, has the manifest written and tells the coordinator. What the coordinator
// answers is what became of the checkpoint, and everybody is told that. Pure; one owner, one thread
// at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/mail.h"
#include "actors/outbox.h"
#include "store/checkpoint_failures.h"

namespace troupe::actors {

/// Checkpoints of one shard from the oldest one not yet reported on; the next waits, and with it
/// the slices that have reached its step.
inline constexpr std::size_t kCheckpointsInFlightMax = 2;

/// One shard's checkpoints. The first shard's tracker also sees to the job's manifests.
class CheckpointTracker {
 public:
  /// `mail` and `effects` are the server's and must outlive it. `slices`: how many the shard owns.
  CheckpointTracker(Mail& mail, EffectList<ParameterEffect>& effects, std::uint32_t shard,
                    std::size_t slices);

  /// True when a slice's state at `step` may be handed in now.
  bool admits(std::uint64_t step) const;
  /// A slice's state at a cut; the last one starts the writing.
  void hand_in(std::uint64_t step, CutSlice slice);
  /// The end of a WriteShard or WriteManifest; false when the effect was another's.
  bool effect_done(const EffectDone& done);

  /// First shard: a shard's file.
  void take(const schemas::ShardCheckpoint& file);
  /// First shard, from the coordinator: it knows of the checkpoint, or has given it up.
  void answered(const schemas::CheckpointReport& report);
  /// From the first shard: a checkpoint is settled, the credit returns. An error ends the job: too
  /// many failed in a row, or the last step's.
  base::Status take(const schemas::CheckpointReport& report);
  /// Time has passed, a link was resumed, a new view holds: see Mail.
  void attend();
  void ask_about(const schemas::ActorId& peer);
  void send_again();

  /// All that this shard has to write is written; what became of it is not known yet.
  bool waits_for_word() const { return !cuts_.empty() && writing_.empty(); }
  /// What is being written here, for people; empty: nothing is.
  std::string waits_for() const;
  bool idle() const { return cuts_.empty() && writing_.empty(); }

 private:
  struct Cut {
    std::uint64_t number = 0;  // counts this shard's cuts
    std::vector<CutSlice> slices;
  };
  struct Writing {
    std::uint64_t step = 0;
    bool manifest = false;
  };

  bool first() const { return shard_ == mail_->plan().layout.first_shard(); }
  void shard_written(std::uint64_t step, const EffectDone& done);
  void tell(schemas::CheckpointReport report);
  void settle(const schemas::CheckpointReport& report);

  Mail* mail_;
  EffectList<ParameterEffect>* effects_;
  std::uint32_t shard_;
  std::size_t slices_;
  std::set<std::uint32_t> owning_;     // shards that own a slice, so write a file
  std::map<std::uint64_t, Cut> cuts_;  // by step, until reported
  std::uint64_t begun_ = 0;
  std::map<EffectId, Writing> writing_;
  Outbox<std::uint64_t> files_;  // ShardCheckpoints, by step, until reported
  store::CheckpointFailures failures_;
  // First shard only.
  Outbox<std::uint64_t> told_;  // reports to the coordinator, by step, until answered
  std::map<std::uint64_t, std::map<std::uint32_t, schemas::ShardCheckpoint>> shards_in_;
  std::map<std::uint64_t, schemas::CheckpointReport> settled_;  // the last few, for echoes
};

}  // namespace troupe::actors
