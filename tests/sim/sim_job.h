// SPDX-License-Identifier: Apache-2.0
// SimJob: one random job for the simulator, a pure function of a seed: its shape, modes, faults,
// and the arithmetic that stands for training. Nothing here knows a state machine. Plain values.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/cast_values.h"
#include "schemas/job_spec.h"
#include "schemas/messages.h"

namespace troupe::sim {

/// SplitMix64 (Steele, Lea, Flood 2014): the simulator's only source of chance.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  /// Uniform in [low, high].
  std::uint64_t between(std::uint64_t low, std::uint64_t high);
  /// True with probability `percent` / 100.
  bool chance(double percent);

 private:
  std::uint64_t state_;
};

/// A well-mixed hash of numbers; the source of all values.
std::uint64_t mix(std::initializer_list<std::uint64_t> numbers);

/// What goes wrong, until `faults_end_ms`.
struct Faults {
  double drop_percent = 0.0;
  double double_percent = 0.0;
  double slow_percent = 0.0;  ///< messages delayed a hundredfold, hence far out of order
  double disk_percent = 0.0;  ///< checkpoint writes that fail
  std::uint64_t faults_end_ms = 0;
  std::optional<std::uint64_t> kill_ms;  ///< one role dies
  std::uint32_t kill_role = 0;  ///< position in the list of all roles, the coordinator last
  std::optional<std::uint64_t> view_ms;  ///< a new view of the same ranks is announced
  std::uint32_t cuts = 0;                ///< of links, each of them for a while
  std::vector<std::uint64_t> wishes_ms;  ///< checkpoints out of turn are wanted
  bool last_wish = false;                ///< with the last of them a person stops the run

  /// Nothing goes wrong that could be a reason to send anything twice.
  bool none() const {
    return drop_percent + double_percent + slow_percent == 0.0 && !kill_ms && !view_ms && cuts == 0;
  }
};

/// What all links are like, each way.
struct LinkShape {
  std::uint64_t bytes_per_ms = 0;                 ///< 0: no bound
  std::uint64_t queue_bytes = ~std::uint64_t{0};  ///< what does not fit waits at its sender
};

/// What scales an update.
struct Measure {
  double count = 0.0;  ///< times the loss scale, for dense keys
  double share = 1.0;
  std::uint64_t step = 0;
};

/// What is left of a value that has travelled in `wire`.
template <typename T>
T on_wire(base::DType wire, T value) {
  if (wire == base::kDTypeOf<T>) return value;
  std::uint16_t bits = 0;
  base::cast_values(base::kDTypeOf<T>, &value, wire, &bits, 1);
  base::cast_values(wire, &bits, base::kDTypeOf<T>, &value, 1);
  return value;
}

/// A job and its bad luck.
struct SimJob {
  std::uint64_t seed = 0;
  schemas::JobSpec spec;
  std::vector<schemas::KeyInfo> keys;
  std::uint64_t slice_bytes = 16;
  std::uint64_t records = 1;
  std::vector<std::uint32_t> machine_of_rank;
  LinkShape links;
  Faults faults;

  std::uint32_t ranks() const { return spec.ranks(); }
  std::uint32_t machines() const;
  std::uint64_t epoch_steps() const;
  std::uint64_t total_steps() const;
  bool sequential() const;
  bool is_epoch_end(std::uint64_t step) const { return step % epoch_steps() == 0; }
  bool is_barrier(std::uint64_t step) const;
  /// Steps are judged: the job trains in f16, and its last key is the loss scale.
  bool judged() const { return spec.numerics.dtype == base::DType::f16; }
  /// Somebody's gradients overflow: the step is dropped.
  bool overflows(std::uint64_t step) const;
  /// (loss scale, steps since it changed) before `step`; (1, 0) where nothing is judged.
  std::array<double, 2> loss_scale(std::uint64_t step) const;
  /// Samples of all ranks.
  std::uint64_t samples_of_all(std::uint64_t step) const;

  /// Samples of a rank at a step: the last step of an epoch deals what is left, in rank order.
  std::uint64_t samples(std::uint32_t rank, std::uint64_t step) const;
  /// First step at or behind `step` to which the rank has a sample; steps beyond the end count.
  std::uint64_t next_with_samples(std::uint32_t rank, std::uint64_t step) const;

  /// The arithmetic, in T = float or double, one element at a time.
  template <typename T>
  T initial(std::uint32_t key, std::uint64_t element) const;
  /// Sum over the samples, scaled where the job is judged; `weight` is what the rank computed with.
  template <typename T>
  T gradient(std::uint32_t rank, std::uint64_t step, std::uint32_t key, std::uint64_t element,
             T weight) const;
  /// The updater: sgd with momentum for dense keys, the moving average else.
  template <typename T>
  void update(const schemas::KeyInfo& key, T sum, const Measure& measure, T& weight,
              T& momentum) const;

  /// One line: what a failing seed is about.
  std::string to_string() const;
};

/// The job of a seed.
SimJob make_sim_job(std::uint64_t seed);
/// Makes a sequential job one whose steps are judged.
void judge(SimJob& job);

}  // namespace troupe::sim
