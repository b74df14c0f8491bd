// SPDX-License-Identifier: Apache-2.0
// ExtraCut: checkpoints out of turn of one running job, from the wish to the durable file; in
// JobState. A cut goes through three rounds, so that nobody ever has to refuse it (decision 0014):
// all device servers let no further step begin and say how far they are; the step behind that is
// told to all parameter servers; when they know it, to the device servers, whose ranks go on. Pure:
// no clock, thread or socket; one owner.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"
#include "control/role_events.h"
#include "schemas/messages.h"

namespace troupe::control {

/// Names a wish for a cut; chosen by whoever wishes, never used twice.
using CutWish = std::uint64_t;

/// Event: somebody wants a checkpoint of the job as it is now. `last`: the run ends with it, so
/// nothing is computed that it does not contain. Answered by CutSettled, once.
struct CutWanted {
  CutWish wish = 0;
  bool last = false;
};

/// Effect: what has become of a wish. ok: the checkpoint of `step`, which contains every step that
/// had begun by the time of the wish, is durable.
struct CutSettled {
  CutWish wish = 0;
  base::Status status;
  std::uint64_t step = 0;
  std::string path;
};

/// Who takes part.
struct CutCast {
  schemas::Placement placement;   ///< its machines and shards
  std::uint64_t steps_total = 0;  ///< of the job
  std::uint64_t cut_ms = 0;       ///< limit
};

/// One cut at a time. A wish joins the cut under way as long as its step is not chosen, or when no
/// step begins any more; else it waits for the next one.
class ExtraCut {
 public:
  using Effect = std::variant<Send<schemas::ActorId>, CutSettled>;

  explicit ExtraCut(CutCast cast);

  void want(const CutWanted& wanted, std::uint64_t now_ms);
  void take(const schemas::CutReady& ready);
  void take(const schemas::ExtraCutTaken& taken);
  /// A checkpoint, whichever, is durable or was given up.
  void take(const schemas::CheckpointReport& report);
  /// Wishes that have waited for the limit are settled with deadline_exceeded; their cut goes on.
  void tick(std::uint64_t now_ms);
  /// The job ends: nothing more is written.
  void end(const base::Status& status);
  /// What is to be done, in order.
  std::vector<Effect> take_effects() { return std::exchange(effects_, {}); }

 private:
  enum class Stage : std::uint8_t {
    idle,
    asking,   // device servers hold their ranks and say how far they are
    telling,  // parameter servers are told the step
    writing   // everybody goes on
  };
  struct Wish {
    CutWanted wanted;
    std::uint64_t until_ms = 0;
  };

  void begin();
  void choose();
  void release();
  void settle(std::vector<Wish>& wishes, const CutSettled& result);
  std::string waits_for() const;
  std::string open_names(schemas::Role role) const;

  const CutCast cast_;
  std::set<std::uint32_t> machines_;  // with ranks, and so with a device server
  Stage stage_ = Stage::idle;
  std::uint64_t number_ = 0;
  std::uint64_t step_ = 0;        // that of the cut, from Stage::telling on
  bool last_ = false;             // no step from there on begins
  std::set<std::uint32_t> open_;  // machines or shards that have not answered
  std::uint64_t next_ = 0;        // the highest step that no rank heard of so far has begun
  std::vector<Wish> served_;      // by this cut
  std::vector<Wish> waiting_;     // for the next one
  std::optional<schemas::CheckpointReport> newest_;  // durable one
  std::vector<Effect> effects_;
};

}  // namespace troupe::control
