// SPDX-License-Identifier: Apache-2.0
// Checker: the simulator's judge. It sees what was computed from what (origins of buffers), never
// what a state machine says about it, keeps a ledger of applied updates, and holds the weights of
// an undisturbed single-threaded run with an addition order of its own making. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/effects.h"
#include "actors/server_figures.h"
#include "store/slice_layout.h"
#include "tests/sim/memory.h"
#include "tests/sim/sim_job.h"
#include "tests/sim/traffic.h"

namespace troupe::sim {

/// Weights and momentum of every key before every step, by the plainest possible loops.
class Reference {
 public:
  explicit Reference(const SimJob& job);
  /// Bytes of a key's weights (slot 0) or momentum (slot 1) before `step`.
  const std::vector<std::byte>& at(std::uint64_t step, std::uint32_t key, int slot) const {
    return values_[step][2 * key + static_cast<std::uint32_t>(slot)];
  }

 private:
  template <typename T>
  void run(const SimJob& job, const schemas::KeyInfo& key);
  std::vector<std::vector<std::vector<std::byte>>> values_;  // by step, by 2 * key + slot
};

/// One line of the ledger: a sum that went into a slice.
struct LedgerEntry {
  std::uint64_t generation = 0;
  schemas::SliceId slice;
  std::uint64_t version = 0;
  std::vector<schemas::Contribution> parts;
};

/// Every invariant; the first violation stays.
class Checker {
 public:
  Checker(const SimJob& job, Memory& memory);

  /// A generation begins with the state of `step`.
  void begin(std::uint64_t generation, std::uint64_t step, const store::SliceLayout& layout);
  /// An update is about to be computed; gives the new weights' `applied`.
  std::vector<std::uint64_t> update(schemas::SliceId slice, const store::SliceUpdate& update);
  /// Two blocks are about to be added, or one copied, into a new one.
  void read(const base::Buffer& buffer);
  /// A rank on `machine_of_rank[rank]` got a key's weights for a step.
  void weights(const actors::WeightsReady& ready, std::uint32_t rank,
               const std::vector<std::uint32_t>& machine_of_rank);
  /// The bytes that a checkpoint of `step` is made of; the manifest's slices must be complete.
  void cut(std::uint64_t step, const std::vector<actors::CutSlice>& slices);
  /// The coordinator has chosen a step for a cut out of turn. Nobody may have begun it, it is a
  /// barrier from now on, and behind the `last` one of a run nobody begins anything.
  void extra_cut(std::uint64_t step, bool last);
  /// The highest step for which a rank of this generation has got weights.
  std::uint64_t begun() const { return begun_; }
  void manifest(std::uint64_t step, const std::vector<schemas::SliceId>& slices);
  void observe(const actors::Staleness& seen);
  /// All ranks must have seen the same weights at a barrier.
  void evaluation(std::uint64_t step, std::uint32_t rank, std::uint64_t digest);
  /// A server sends an envelope to another server. Nothing that wants an answer, and no answer with
  /// bytes, may be sent again over a link unless something has happened.
  void posted(const schemas::Envelope& envelope);
  /// An envelope is lost, doubled or very late: its letter may be sent once more.
  void misfortune(const schemas::Envelope& envelope);
  /// The link between two servers goes on after a cut.
  void resumed(const schemas::ActorId& one, const schemas::ActorId& other);
  /// The job has succeeded.
  void end();

  void fail(std::string text);
  const std::optional<std::string>& fault() const { return fault_; }
  const std::vector<LedgerEntry>& ledger() const { return ledger_; }
  std::uint64_t staleness_max(std::uint32_t level) const { return staleness_max_[level]; }

 private:
  /// What an update may have been told about its sum: the schedule's step and how late it is.
  void check_timing(const schemas::SliceId& slice, const store::SliceUpdate& update,
                    const std::vector<schemas::Contribution>& parts, double count,
                    const std::string& what);
  void check_verdict(const store::SliceUpdate& update, const std::string& what);
  /// Samples of all ranks in steps [0, step).
  double samples_below(std::uint64_t step) const;
  bool is_barrier(std::uint64_t step) const {
    return job_->is_barrier(step) || extra_.contains(step);
  }
  void check_staleness(const std::vector<std::uint64_t>& applied, std::uint64_t step,
                       std::uint32_t rank, const std::vector<std::uint32_t>& machine_of_rank,
                       const std::string& what);
  void check_exact(const std::vector<std::uint64_t>& applied, std::uint64_t step,
                   const std::string& what);
  void check_bits(const base::Buffer& bytes, const store::SliceInfo& info, std::uint64_t step,
                  int slot, base::DType wire, const std::string& what);

  const SimJob* job_;
  const store::SliceLayout* layout_ = nullptr;
  Memory* memory_;
  std::optional<Reference> reference_;  // sequential only
  /// Samples that a slice contains, and contained right behind each rank's last contribution.
  struct Samples {
    double total = 0.0;
    std::vector<double> behind_rank;
  };

  std::uint64_t generation_ = 0;
  std::map<schemas::SliceId, std::vector<std::uint64_t>> applied_;
  std::map<schemas::SliceId, Samples> samples_;
  std::map<schemas::SliceId, std::optional<std::uint64_t>> updates_;  // before the next one
  std::vector<LedgerEntry> ledger_;
  std::map<std::uint64_t, std::uint64_t> digests_;
  std::set<std::uint64_t> extra_;     // barriers beside the job's own: cuts out of turn, the start
  std::optional<std::uint64_t> end_;  // the cut with which the run ends
  std::uint64_t begun_ = 0;
  Traffic traffic_;
  std::uint64_t staleness_max_[3] = {};
  std::optional<std::string> fault_;
};

}  // namespace troupe::sim
