// SPDX-License-Identifier: Apache-2.0
// StoreArrays: the arrays of a module's keys, and what a store sees of them. Where the host reads
// and writes a device's memory they are the same arrays. Else a store has copies of its own in
// pinned memory of the host, and runs of keys travel between the two, each by one copy, so that
// many small keys cost no more than a large one. Made and used by the module's thread; copies are
// operations of its engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/device.h"
#include "base/status.h"
#include "ndarray/ndarray.h"
#include "ndarray/runtime.h"
#include "schemas/messages.h"

namespace troupe::train {

/// The size of runs: from here on the start of a copy is nothing beside the copy.
inline constexpr std::size_t kRunBytes = std::size_t{4} << 20;

/// Memory of the host for what travels to and from `device`: pinned where that is a GPU, which then
/// copies by itself.
base::BufferPool& host_pool(ndarray::Runtime& runtime, base::Device device);

/// Keys whose arrays lie one behind the other, on the device and on the host.
struct KeyRun {
  std::vector<std::uint32_t> keys;
  std::vector<ndarray::NDArray> device, host;  ///< by position of `keys`; no host: nothing to copy
  std::size_t bytes = 0;                       ///< from the first key to the end of the last
};

/// See the top of the file.
class StoreArrays {
 public:
  using Runs = std::vector<std::shared_ptr<const KeyRun>>;

  /// Arrays of zeros for all keys, whose ids are their positions. `computed`, by id: a backward
  /// pass writes the gradient; the others stay zero and never travel. A run ends with the key that
  /// fills it to `run_bytes`. Blocks until all are zero.
  static base::Result<StoreArrays> create(ndarray::Runtime& runtime,
                                          std::span<const schemas::KeyInfo> keys,
                                          const std::vector<bool>& computed, base::Device device,
                                          std::size_t run_bytes = kRunBytes);

  /// By id, on the device: what executors read and write.
  const std::vector<ndarray::NDArray>& parameters() const { return parameters_; }
  const std::vector<ndarray::NDArray>& gradients() const { return gradients_; }
  /// By id, of the host: what a store fills with weights, and the gradients that it reads.
  const std::vector<ndarray::NDArray>& pulled() const { return pulled_; }
  const std::vector<ndarray::NDArray>& pushed() const { return pushed_; }

  /// All keys as the forward pass wants their weights, and as the backward pass writes their
  /// gradients: by id, and from the last id to the first.
  const Runs& weight_runs() const { return weight_runs_; }
  const Runs& gradient_runs() const { return gradient_runs_; }

  /// Pushes the copy of a run of gradients to the host; nothing where there are no two arrays.
  static void to_host(const std::shared_ptr<const KeyRun>& run, int priority);
  /// Pushes the copy of a run of weights to the device; likewise.
  static void to_device(const std::shared_ptr<const KeyRun>& run, int priority);

 private:
  StoreArrays() = default;
  static base::Result<Runs> make_runs(ndarray::Runtime& runtime,
                                      std::span<const schemas::KeyInfo> keys,
                                      const std::vector<std::uint32_t>& order, base::Device device,
                                      std::size_t run_bytes);
  void place(const Runs& runs, std::vector<ndarray::NDArray>& device,
             std::vector<ndarray::NDArray>& host) const;

  std::vector<ndarray::NDArray> parameters_, gradients_, pulled_, pushed_;
  Runs weight_runs_, gradient_runs_;
};

}  // namespace troupe::train
