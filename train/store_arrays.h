// SPDX-License-Identifier: Apache-2.0
// StoreArrays: the arrays of a module's keys, and what a store sees of their gradients. Where the
// host reads a device's memory they are the same arrays. Else a store has copies of its own in
// pinned memory of the host, and runs of keys travel there, each by one copy, so that many small
// keys cost no more than a large one. Gradients are rounded to what they travel in before they
// leave their device. Made and used by the module's thread; copies are operations of its engine.
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
#include "ops/kernel.h"
#include "schemas/messages.h"
#include "storage/storage.h"

namespace troupe::train {

/// The size of runs: from here on the start of a copy is nothing beside the copy.
inline constexpr std::size_t kRunBytes = std::size_t{4} << 20;

/// Memory of the host for what travels to and from `device`: pinned where that is a GPU, which then
/// copies by itself.
base::BufferPool& host_pool(storage::Storage& storage, base::Device device);

/// Keys of a run that have one dtype and travel in one dtype: neighbours, whose gaps travel too.
struct RunPart {
  base::DType dtype = base::DType::f32, wire = base::DType::f32;
  std::int64_t elements = 0;                  ///< gaps between keys included
  std::size_t offset = 0, travel_offset = 0;  ///< bytes from the begin of the blocks
  std::shared_ptr<const ops::Kernel> rounds;  ///< from dtype to wire; null where they are the same
};

/// Keys whose gradients lie one behind the other, on the device and on the host.
struct KeyRun {
  std::vector<std::uint32_t> keys;
  std::vector<ndarray::NDArray> device, host;  ///< by position of `keys`; no host: nothing to copy
  /// The rest is empty where nothing leaves the device's memory.
  std::vector<RunPart> parts;             ///< in the order of their places
  base::Buffer device_block, host_block;  ///< `host_block` in the dtypes of the way
  ndarray::NDArray rounded;               ///< bytes of the device, laid out as `host_block`;
                                          ///< none where nothing is rounded
  /// What leaves the device: `rounded` or else `device`.
  base::Buffer travel_block() const { return rounded ? rounded.buffer() : device_block; }
};

/// How gradients get to a store.
enum class GradientWay : std::uint8_t {
  to_host,    ///< each rank's by themselves
  sum_lead,   ///< added on devices; the host's array of this rank gets a sum
  sum_member  ///< added on devices to another rank's: the host has no array
};

/// See the top of the file.
class StoreArrays {
 public:
  using Runs = std::vector<std::shared_ptr<const KeyRun>>;

  /// Arrays of zeros for all keys, whose ids are their positions. `computed`, by id: a backward
  /// pass writes the gradient; the others stay zero and never travel. A run ends with the key that
  /// fills it to `run_bytes`. `way` is to_host on a CPU. Blocks until all are zero.
  static base::Result<StoreArrays> create(ndarray::Runtime& runtime,
                                          std::span<const schemas::KeyInfo> keys,
                                          const std::vector<bool>& computed, base::Device device,
                                          std::size_t run_bytes = kRunBytes,
                                          GradientWay way = GradientWay::to_host);

  /// By id, on the device: what executors read and write.
  const std::vector<ndarray::NDArray>& parameters() const { return parameters_; }
  const std::vector<ndarray::NDArray>& gradients() const { return gradients_; }
  /// By id, of the host: the gradients that a store reads, in their gradient_wire where they come
  /// from a device with streams. sum_member: on the device.
  const std::vector<ndarray::NDArray>& pushed() const { return pushed_; }

  /// All keys as the backward pass writes their gradients, from the last id to the first.
  const Runs& gradient_runs() const { return gradient_runs_; }

  /// Pushes the copy of a run of gradients to the host, rounded; nothing where there are no two
  /// arrays.
  static void to_host(const std::shared_ptr<const KeyRun>& run, int priority);
  /// Pushes the rounding of a run of gradients alone, into KeyRun::rounded; nothing without one.
  static void round(const std::shared_ptr<const KeyRun>& run, int priority);

 private:
  StoreArrays() = default;

  std::vector<ndarray::NDArray> parameters_, gradients_, pushed_;
  Runs gradient_runs_;
};

}  // namespace troupe::train
