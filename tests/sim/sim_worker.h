// SPDX-License-Identifier: Apache-2.0
// SimWorker: the training loop of one rank as the simulator plays it: waits for weights, computes
// for a while, writes gradients into buffers that it uses again and again. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "actors/effects.h"
#include "store/slice_layout.h"
#include "tests/sim/memory.h"
#include "tests/sim/sim_job.h"

namespace troupe::sim {

/// What a rank's loop does to the world.
struct SimWorkerPorts {
  std::function<void(actors::WorkerEvent)> event;              ///< to its state machine, later
  std::function<void(std::function<void()>)> after_computing;  ///< calls back after a while
  std::function<std::uint64_t(std::uint64_t, std::uint64_t)> chance;  ///< uniform in [a, b]
};

/// One rank. The loop follows the shape of the real one: a key's gradient is pushed as soon as it
/// is written and its next weights are pulled at once; averages are pulled only to be scored.
class SimWorker {
 public:
  SimWorker(const SimJob& job, const store::SliceLayout& layout, Memory& memory, std::uint32_t rank,
            SimWorkerPorts ports);
  ~SimWorker();
  SimWorker(const SimWorker&) = delete;
  SimWorker& operator=(const SimWorker&) = delete;

  void start(std::uint64_t step);
  void ready(const actors::WeightsReady& ready);
  void taken(const actors::GradientTaken& taken);

  std::uint32_t rank() const { return rank_; }
  std::uint64_t step() const { return step_; }

 private:
  struct Key {
    std::vector<std::byte> weights;
    std::optional<std::uint64_t> loaded;  // the step that the weights are for
    base::Buffer gradient;
    bool borrowed = false;
    bool to_push = false;
  };

  void pull(std::uint32_t key, std::uint64_t step);
  void advance();
  bool computes_with(std::uint32_t key) const;
  bool loaded() const;
  bool scores(std::uint64_t step) const;
  void score();
  void compute();
  void push_what_can_be();
  void write_gradient(std::uint32_t key);
  template <typename T>
  void fill(std::uint32_t key);

  const SimJob* job_;
  const store::SliceLayout* layout_;
  Memory* memory_;
  std::uint32_t rank_;
  SimWorkerPorts ports_;
  std::vector<Key> keys_;
  std::uint64_t start_ = 0;
  std::uint64_t step_ = 0;
  bool computing_ = false;
  bool pushing_ = false;
  bool finished_ = false;
};

}  // namespace troupe::sim
