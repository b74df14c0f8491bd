// SPDX-License-Identifier: Apache-2.0
// The step verdict: what can be decided only when a whole step's gradients are in, over all keys.
// It exists where both tiers are sequential and the job trains in f16 (a step that overflows is
// dropped) or cuts the norm of all gradients. The owner of a slice says what its sum is like
// (SliceOwner), StepFacts of a shard are complete with its last slice (FactsOfShard), and with the
// last shard's one judge, at the shard of slice (0, 0), gives the verdict (StepJudge), with which
// all owners go on. Pure: no clock, thread or byte. One owner, one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "schemas/job_spec.h"
#include "schemas/messages.h"
#include "store/schedule.h"
#include "store/slice_layout.h"

namespace troupe::store {

/// Why a job's steps are judged, and how.
struct JudgeRule {
  bool loss_scaled = false;  ///< an overflow drops the step instead of ending the job
  double clip_norm = 0.0;    ///< OptimizerSpec's
  bool check = true;         ///< NonFinite::fail: what nothing else explains ends the job

  /// Whether steps are judged at all.
  bool judges() const { return loss_scaled || clip_norm > 0.0; }
};

/// The rule of a job, and of the updates that one makes.
JudgeRule judge_rule(const schemas::JobSpec& job);
JudgeRule judge_rule(const UpdateRule& rule);
/// invalid_argument where steps are judged and a tier is eventual, whose weights know no whole
/// steps.
base::Status check_judged(const schemas::JobSpec& job);
/// invalid_argument unless it is 0 (nothing is cut) or from 1e-30 to 1e30.
base::Status check_clip_norm(double clip_norm);

/// What was found of one slice's sum.
struct Examined {
  schemas::SliceFacts facts;
  double loss_scale = 0.0;  ///< of the loss scale's key: at this step
};

/// The facts of a shard's slices on their way to be complete.
class FactsOfShard {
 public:
  /// `slices`: how many the shard has.
  FactsOfShard(std::uint32_t shard, std::size_t slices);

  /// Of the slice at `position` among them, which says it once a step; the shard's with the last.
  /// invalid_argument when the slice's step or count is not that of the others: ranks have said
  /// different things to them.
  base::Result<std::optional<schemas::StepFacts>> take(std::size_t position, std::uint64_t step,
                                                       double count, const Examined& examined);

 private:
  schemas::StepFacts facts_;
  std::set<std::size_t> in_;
  std::size_t slices_;
};

/// See the top of the file.
class StepJudge {
 public:
  StepJudge(const SliceLayout& layout, std::span<const schemas::KeyInfo> keys,
            const JudgeRule& rule);

  /// A shard's facts, which may come twice. The verdict: with those of the step's last shard, and
  /// again for a shard that has missed it. Errors end the job: facts that do not fit the layout or
  /// each other; not_finite, naming the step and the first key that is beyond its range, where no
  /// loss scale above 1 explains it and the rule checks.
  base::Result<std::optional<schemas::StepVerdict>> take(schemas::StepFacts facts);
  /// Shards whose facts of the open step have not come; empty where none is open.
  std::vector<std::uint32_t> missing() const;
  /// Why the last verdict drops its step, as a sentence; empty: it counts.
  const std::string& reason() const { return reason_; }
  /// At the last judged step; none, where the job has no loss scale.
  std::optional<double> loss_scale() const { return loss_scale_; }

 private:
  struct Place {
    std::uint32_t shard = 0;
    std::size_t position = 0;  // among the shard's slices
    bool gradient = false;     // of a dense key
    std::string key;
  };
  base::Result<schemas::StepVerdict> judge();

  JudgeRule rule_;
  std::vector<Place> places_;                       // in the layout's order
  std::map<std::uint32_t, std::size_t> slices_of_;  // by shard that has any
  std::uint32_t scale_shard_ = 0;                   // the one that holds the loss scale
  std::map<std::uint32_t, schemas::StepFacts> in_;  // of the open step
  std::optional<schemas::StepVerdict> last_;
  std::optional<double> loss_scale_;
  std::string reason_;
};

}  // namespace troupe::store
