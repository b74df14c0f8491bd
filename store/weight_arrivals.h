// SPDX-License-Identifier: Apache-2.0
// WeightArrivals: the rank's side of pulls. Slices of a key come in the buffers of whoever has
// them. An array of the host is filled at their end. For a device they are kept while the rank may
// still compute with the weights before; then one operation fills the array from them on the
// device's stream, in its dtype. One per rank and store. pull(): the rank's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "base/buffer.h"
#include "base/dtype.h"
#include "base/status.h"
#include "engine/engine.h"
#include "ndarray/ndarray.h"
#include "ndarray/runtime.h"
#include "schemas/messages.h"

namespace troupe::store {

/// A key's pull that has been asked for. Whoever answers puts the slices there, then ends it; once.
/// One that nobody holds any more, the store included, has failed (Errc::abandoned).
class WeightArrival : public std::enable_shared_from_this<WeightArrival> {
 public:
  using Slices = std::vector<base::Buffer>;

  explicit WeightArrival(base::DType wire) : wire_(wire) {}

  /// Of the key, in their order, in its weight_wire. Nobody changes their bytes any more.
  Slices& slices() { return *slices_; }

  /// Any thread: where that is no engine's, an array of the host is filled by the rank's engine.
  void end(base::Status status);

 private:
  friend class WeightArrivals;
  void fill();

  const base::DType wire_;
  const std::shared_ptr<Slices> slices_ = std::make_shared<Slices>();  // a device reads them
  ndarray::NDArray host_;  // to be filled; none for a device
  engine::Completion completion_;
};

/// See the top of the file.
class WeightArrivals {
 public:
  /// Asks for a key's weights. On an engine thread: returns at once.
  using Ask = std::function<void(const std::shared_ptr<WeightArrival>&)>;

  /// `runtime` outlives every pull.
  explicit WeightArrivals(ndarray::Runtime& runtime) : runtime_(runtime) {}
  /// What streams still read stays until they are done.
  ~WeightArrivals();
  WeightArrivals(const WeightArrivals&) = delete;
  WeightArrivals& operator=(const WeightArrivals&) = delete;

  /// Pushes what fills `weight` with the answer to `ask`, whose error is the array's. Of the host:
  /// one operation, which asks when the array's readers are done. On a device: one that asks as
  /// soon as the key's pull before is done with its slices, and one behind the array's readers.
  /// From memory of the host that is not pinned a device gets weights more slowly.
  void pull(const schemas::KeyInfo& key, const ndarray::NDArray& weight, int priority, Ask ask);

 private:
  // Of a key: its pulls come one after the other. Slices for a device stay until the next begins.
  struct Kept {
    std::shared_ptr<WeightArrival> arrival;
    engine::Variable there;  // they are
    bool on_device = false;
  };
  // Where a slice waits on a device until it is widened, one after the other on the lane's stream.
  struct Waypoint {
    base::Buffer bytes;
  };
  void fill_device(Kept& kept, const ndarray::NDArray& weight, int priority);

  ndarray::Runtime& runtime_;
  std::map<std::uint32_t, Kept> kept_;  // by key
  const std::shared_ptr<Waypoint> waypoint_ = std::make_shared<Waypoint>();
};

}  // namespace troupe::store
