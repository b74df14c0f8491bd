// SPDX-License-Identifier: Apache-2.0
// KVStore: where a rank's gradients go and its weights come from. The same interface for the local
// store and for the company's tiers; calls push asynchronous operations to the rank's engine and
// return, so communication overlaps with computation. One KVStore belongs to one rank and its
// thread.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <span>

#include "base/check.h"
#include "base/dtype.h"
#include "base/status.h"
#include "ndarray/ndarray.h"
#include "schemas/job_spec.h"
#include "schemas/messages.h"
#include "store/schedule.h"

namespace troupe::store {

/// Which contribution a push is.
struct PushInfo {
  std::uint64_t step = 0;
  double count = 0.0;  ///< sum of the loss's weights behind the gradient: samples by default
  int priority = 0;    ///< higher first; keys used first in the next forward come first
  /// Instead of `count` where nobody knows it at the call, as of a sum that is still being added:
  /// read when the gradient is ready, by the operation.
  std::shared_ptr<const double> counted = nullptr;

  double ready_count() const { return counted ? *counted : count; }
};

/// Which weights a pull wants.
struct PullInfo {
  std::uint64_t step = 0;  ///< weights for the rank's computation of this step
  bool barrier = false;    ///< only with all contributions of all ranks to steps < `step`
  int priority = 0;
};

/// CHECKs that `gradient` has the shape of `key`, and its dtype or gradient_wire.
inline void check_gradient(const schemas::KeyInfo& key, const ndarray::NDArray& gradient) {
  const bool of_type = gradient.dtype() == key.dtype || gradient.dtype() == key.gradient_wire;
  TROUPE_CHECK(of_type && gradient.shape() == key.shape,
               fmt::format("a gradient of {} {} for key '{}' of {} {}",
                           base::dtype_name(gradient.dtype()), gradient.shape().to_string(),
                           key.name, base::dtype_name(key.dtype), key.shape.to_string()));
}

/// What a rank sees of the store.
class KVStore {
 public:
  virtual ~KVStore() = default;
  virtual std::uint32_t rank() const = 0;
  virtual std::uint32_t ranks() const = 0;

  /// Declares all keys, in the order of their ids. Every rank calls it once, before anything else,
  /// with `values` or without; a second call, as of a second fit, is failed_precondition: steps,
  /// versions and optimizer states of a store are those of one run.
  /// - one array per key, which must agree in shape and dtype: rank 0's become version 0. Other
  ///   ranks wait for it, at most the store's deadline. The local store takes them; the company
  ///   answers `unimplemented`: its servers draw or load version 0 themselves.
  /// - none: the store has version 0, from the job's seed, a checkpoint or train.weights; a local
  ///   store from LocalStoreOptions::first.
  virtual base::Status init(std::span<const schemas::KeyInfo> keys,
                            std::span<const ndarray::NDArray> values) = 0;
  /// Every rank calls it with the same rule, after init.
  virtual base::Status set_updater(const UpdateRule& rule) = 0;

  /// Pushes an operation that reads `gradient` (a sum over samples; for a key of kind average the
  /// batch's value; in the key's dtype or, already rounded, in its gradient_wire) and contributes
  /// it. The array's read tag is held until the store has added it. With count 0 the array's values
  /// do not matter: the rank takes part with nothing. CHECKs that the key is one of
  /// init()'s, which with set_updater() comes first, and that the array is of its shape, of one of
  /// these dtypes and of the rank's engine.
  virtual void push(std::uint32_t key, const ndarray::NDArray& gradient, const PushInfo& info) = 0;
  /// Pushes operations that fill `weight`, of as many elements as the key has, with the values for
  /// info.step once they exist. CHECKs as push() does.
  virtual void pull(std::uint32_t key, const ndarray::NDArray& weight, const PullInfo& info) = 0;
  /// This rank contributes to steps < `steps` only: nobody waits for it any more.
  virtual base::Status finish(std::uint64_t steps) = 0;
};

}  // namespace troupe::store
