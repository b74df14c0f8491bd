// SPDX-License-Identifier: Apache-2.0
// SliceOwner: level 2 of the parameter server for one slice. It decides which contributions are
// taken, what is added to what, when the updater runs, which version a pull gets and what a
// checkpoint contains; it never touches bytes. Pure: events in, work and answers out. One owner,
// one thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/buffer.h"
#include "base/status.h"
#include "schemas/messages.h"
#include "store/addition_tree.h"
#include "store/slice_rules.h"
#include "store/slice_sum.h"
#include "store/slice_values.h"
#include "store/step_judge.h"

namespace troupe::store {

using schemas::PushName;

/// What a push brings, as the owner sees it.
struct SlicePush {
  std::uint32_t machine = 0;  ///< the sender
  TreeNode node;              ///< both tiers sequential: what it sums
  std::uint64_t step = 0;     ///< sequential: the step; else the sender's running number
  double count = 0.0;
  std::vector<schemas::Contribution> contributions;  ///< else: what it sums
  base::Buffer data;                                 ///< empty: nothing (count 0)
  bool abstains = false;  ///< the machine only says that round `step` need not wait for it
};

/// Run the updater once: from.values and the gradient in, new buffers out.
struct SliceUpdate {
  SliceState from;        ///< the version replaced; its `updates` is Adam's t - 1
  base::Buffer gradient;  ///< a sum over samples, in the key's gradient_wire
  double count = 0.0;     ///< divides it
  double share = 1.0;     ///< n / N where a tier is eventual: lr x share, and for kind average
                          ///< m^share
  /// A tier is eventual: how late the sum is, in whole steps' samples: what has been applied to the
  /// slice since the contributor's last step, whose weights it had at least; the largest of those
  /// contributed. The rate is divided by 1 + delay.
  double delay = 0.0;
  std::uint64_t step = 0;  ///< the schedule's step: the lowest of those contributed
  std::vector<schemas::Contribution> contributions;  ///< eventual; for ledgers and messages
  schemas::StepVerdict verdict = {};                 ///< of a judged step
};

/// See what a sum is like; steps are judged by it. Reads `values`, too: what a loss scale is.
struct SliceExamination {
  SliceValues values;
  base::Buffer gradient;
};

/// One thing to be computed for a slice.
using SliceWork = std::variant<Addition, SliceExamination, SliceUpdate>;

/// A slice's part in the verdict on a step.
struct SliceFinding {
  std::uint64_t step = 0;
  double count = 0.0;
  Examined examined;
};

/// What a pull waits for.
struct PullNeed {
  enum class Kind : std::uint8_t {
    version,  ///< a version of at least `value`
    barrier,  ///< the barrier `value`
    steps,    ///< all contributions of steps below `value`
    pushes    ///< the pushes of `machine` numbered below `value`
  };
  Kind kind = Kind::version;
  std::uint32_t machine = 0;
  std::uint64_t value = 0;
  friend auto operator<=>(const PullNeed&, const PullNeed&) = default;
};

/// The answer to a pull.
struct SliceAnswer {
  base::Errc code = base::Errc::ok;  ///< not_found: the version is gone
  std::string text;
  std::uint64_t version = 0;
  base::Buffer weight;
  std::vector<std::uint64_t> next;  ///< a tier is eventual: per rank the lowest step not contained
};

/// The owner of one slice. Usage: after every call that changes it, run next_work() until empty,
/// send take_acks(), then ask again for pulls that wait. At most one update runs at a time.
///
/// How rounds form (device tier, cluster tier):
/// - sequential, sequential: version t + 1 = update by the root sum of step t.
/// - eventual, sequential: version v + 1 = update by the sum, along the tree over machines, of at
///   most one push per machine. A round waits for no machine whose ranks have all contributed up to
///   the next barrier, nor for one that abstains (its ranks wait for other slices, where others may
///   wait for it); but for one push at least.
/// - eventual cluster: one update per push, in order of arrival.
/// Where steps are judged (rules.judged), a sum is examined first: hand take_finding() on, and the
/// update comes with judged(). A step without samples needs no verdict.
class SliceOwner {
 public:
  /// `rules` must outlive the owner.
  SliceOwner(const SliceRules& rules, schemas::SliceId id);

  /// The first values, at step rules.steps.start; the version becomes that step's number.
  void start(SliceState first);
  bool started() const { return started_; }

  /// A push. A result: the answer to send now. No result: it was taken and take_acks() names it
  /// when its turn has come (the data is then in the hands of an update, so a sender never has more
  /// than one push waiting here). An error breaks an invariant and ends the job.
  base::Result<std::optional<schemas::PushResult>> push(SlicePush push);
  /// What has become of the push of this name: `duplicate` when it has been taken, `unknown` when
  /// it has not come; no result when take_acks() will name it.
  std::optional<schemas::PushResult> asked(const PushName& name) const;
  /// The next thing to compute, each once.
  std::optional<SliceWork> next_work();
  void added(std::uint64_t addition, base::Buffer sum) { sum_.added(addition, std::move(sum)); }
  void updated(SliceValues values);
  /// What the examination gave.
  void examined(const Examined& examined);
  /// The step whose sum has been examined, once.
  std::optional<SliceFinding> take_finding() { return std::exchange(finding_, std::nullopt); }
  /// The verdict on it.
  void judged(const schemas::StepVerdict& verdict);
  /// Pushes that may be acknowledged now.
  std::vector<PushName> take_acks();

  /// The answer to a pull of `machine`, or nothing as long as it has to wait.
  std::optional<SliceAnswer> answer(const schemas::WeightPull& pull, std::uint32_t machine) const;
  /// What it has to wait for, if for anything; when that has come, there may be something else.
  std::optional<PullNeed> needs(const schemas::WeightPull& pull, std::uint32_t machine) const;
  /// True when nobody has to wait for this any more.
  bool meets(const PullNeed& need) const;
  /// Machines whose pushes have come into the weights since the last call (eventual cluster).
  std::set<std::uint32_t> take_applied() { return std::exchange(applied_, {}); }

  /// The rank has no steps from `steps` on.
  void finish(std::uint32_t rank, std::uint64_t steps);

  /// The checkpoint that this slice has reached; no update starts until it is taken.
  std::optional<std::uint64_t> cut_due() const;
  /// The state at that step, exactly; the buffers stay as they are for ever.
  SliceState take_cut();

  const SliceState& state() const { return current_; }
  /// Steps below this one of every rank are contained.
  std::uint64_t applied_below() const { return applied_below_; }
  bool idle() const { return !updating_ && !waiting_ && queue_.empty(); }
  /// Its own sum is complete; others' are waited for.
  bool waits_for_verdict() const { return waiting_.has_value(); }
  /// Who is waited for, as text for people: "slice (3, 0) of step 12 waits for ranks 2, 3".
  std::string waits_for() const;
  /// The ranks among them; empty where no particular rank is waited for.
  std::vector<std::uint32_t> missing_ranks() const;

 private:
  using Taking = base::Result<std::optional<schemas::PushResult>>;

  /// A complete sum on its way into the weights.
  struct Round {
    base::Buffer sum;
    double count = 0.0;
    std::uint64_t step = 0;
    std::vector<schemas::Contribution> contributions;
    std::optional<PushName> name;  // eventual cluster: acknowledged when its update starts
    schemas::StepVerdict verdict;

    bool has_samples() const { return sum && count != 0.0; }
  };
  struct Published {
    std::uint64_t version = 0;
    base::Buffer weight;
    std::vector<std::uint64_t> next;
  };

  Taking push_to_step(SlicePush& push);
  Taking push_to_round(SlicePush& push);
  Taking push_arrival(SlicePush& push);
  Taking abstain(const SlicePush& push);
  base::Status check_sums(const SlicePush& push) const;
  base::Status take_contributions(const SlicePush& push);
  void join_round(SlicePush& push);
  PushName name_of(const SlicePush& push) const;
  bool duplicate(const PushName& name) const;
  void open_step();
  void open_round();
  void close_round();
  bool has_come_to_barrier(std::uint32_t machine) const;
  std::optional<Round> next_round();
  void publish(SliceValues values, bool counts, const Round& round);
  void advance(const Round& round);
  double delay_of(const Round& round) const;
  Published present() const { return {current_.version, current_.values.sent(), next_}; }
  std::string name() const;

  const SliceRules* rules_;
  schemas::SliceId id_;
  AdditionTree machine_tree_;  // eventual device, sequential cluster: one leaf per machine
  SliceSum sum_;               // sequential cluster: the open step or round
  std::vector<schemas::Contribution> round_contributions_;
  std::set<std::uint32_t> pushed_;     // machines in the open round
  std::set<std::uint32_t> abstained_;  // machines that need not be
  bool closed_ = false;                // the round takes no more
  // For the next step or round: each node's sum or at most one push per machine, whose
  // contributions have been taken.
  std::map<PushName, SlicePush> next_pushes_;
  std::deque<Round> queue_;       // eventual cluster: at most one per machine
  std::optional<Round> waiting_;  // judged steps: being examined, or without a verdict
  bool has_verdict_ = false;      // it can go on
  std::optional<SliceFinding> finding_;
  std::optional<Round> updating_;

  bool started_ = false;
  SliceState current_;
  std::optional<Published> previous_;  // dropped when the next update starts
  std::uint64_t barrier_step_ = 0;     // the last barrier reached
  Published barrier_;                  // its weights until all ranks have contributed past it
  std::optional<std::uint64_t> cut_due_;

  std::vector<std::uint64_t> taken_;  // per rank: lowest step not taken
  std::vector<std::uint64_t> next_;   // per rank: lowest step not contained
  std::vector<std::uint64_t> end_;    // per rank: it has no steps from here on
  std::uint64_t applied_below_ = 0;
  double samples_applied_ = 0.0;
  std::vector<double> samples_before_;  // per rank: samples_applied_ with its last contribution
  std::vector<std::uint64_t> numbers_;  // per machine: next push to take
  std::vector<std::uint64_t> numbers_applied_;  // per machine: pushes below are contained
  std::set<std::uint32_t> applied_;             // machines whose number has grown
  std::vector<PushName> acks_;
};

}  // namespace troupe::store
