// SPDX-License-Identifier: Apache-2.0
// WeightArrivals: the rank's side of pulls. A key's slices are kept as they come, in the buffers of
// whoever has them, while the rank may still use the weights before; then one operation fills the
// array from them, on the array's device, in its dtype. One per rank and store. pull(): the rank's
// thread.
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

/// See the top of the file.
class WeightArrivals {
 public:
  /// The slices of a key's weights in their order, in its weight_wire. Nobody changes their bytes.
  using Slices = std::vector<base::Buffer>;
  /// Asks for a key's weights. Who answers puts the slices there and then completes. On an engine
  /// thread: returns at once.
  using Ask = std::function<void(const std::shared_ptr<Slices>&, engine::Completion)>;

  /// `runtime` outlives every pull.
  explicit WeightArrivals(ndarray::Runtime& runtime) : runtime_(runtime) {}

  /// Pushes two operations: `ask`, once the key's pull before is done with its slices, and behind
  /// it the filling of `weight`, whose error is the answer's. From memory of the host that is not
  /// pinned a device gets weights more slowly. Slices for a device stay until its next pull of the
  /// key begins.
  void pull(const schemas::KeyInfo& key, const ndarray::NDArray& weight, int priority, Ask ask);

 private:
  struct Arrival {
    engine::Variable variable;
    std::shared_ptr<Slices> slices;
  };
  // Where a slice waits on a device until it is widened, one after the other on the lane's stream.
  struct Waypoint {
    base::Buffer bytes;
  };

  ndarray::Runtime& runtime_;
  std::map<std::uint32_t, Arrival> arrivals_;  // by key
  const std::shared_ptr<Waypoint> waypoint_ = std::make_shared<Waypoint>();
};

}  // namespace troupe::store
