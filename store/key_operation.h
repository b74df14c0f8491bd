// SPDX-License-Identifier: Apache-2.0
// KeyOperation: one rank's push or pull of one key at the local store, which ends when each of the
// key's slices has reported. Any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "engine/engine.h"
#include "store/weight_arrivals.h"

namespace troupe::store {

/// See the top of the file.
class KeyOperation {
 public:
  /// A push, which ends with `completion`.
  KeyOperation(std::size_t slices, engine::Completion completion)
      : open_(slices), completion_(std::move(completion)) {}
  /// A pull, which ends with `arrival`.
  KeyOperation(std::size_t slices, std::shared_ptr<WeightArrival> arrival)
      : arrival_(std::move(arrival)), open_(slices) {}

  /// A slice is done with it. The last one ends the operation, with the first failure if any.
  void slice_done(const base::Status& status) {
    engine::Completion done;
    base::Status first;
    {
      const base::MutexLock lock(mutex_);
      if (status_.ok()) status_ = status;
      if (--open_ > 0) return;
      done = std::move(completion_);
      first = status_;
    }
    if (arrival_) return arrival_->end(first);
    done.complete(first);
  }

 private:
  const std::shared_ptr<WeightArrival> arrival_;
  base::Mutex mutex_;
  std::size_t open_ TROUPE_GUARDED_BY(mutex_);
  base::Status status_ TROUPE_GUARDED_BY(mutex_);
  engine::Completion completion_ TROUPE_GUARDED_BY(mutex_);
};

/// Shared by the slices that have not reported.
using KeyOperationPointer = std::shared_ptr<KeyOperation>;
using KeyOperations = std::vector<KeyOperationPointer>;

}  // namespace troupe::store
