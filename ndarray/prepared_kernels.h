// SPDX-License-Identifier: Apache-2.0
// PreparedKernels: the bounded caches of prepared kernels, keyed by the whole call, and of what
// imperative calls say of themselves; a kernel that was dropped from the cache lives on in its
// users. Any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "ndarray/prepared_calls.h"
#include "ops/kernel.h"

namespace troupe::ndarray {

/// Most kernels that a cache keeps when its maker names no other number.
inline constexpr std::size_t kPreparedKernelsMax = 1024;

/// Least recently used out. Preparing happens on the calling thread.
class PreparedKernels {
 public:
  explicit PreparedKernels(std::size_t prepared_kernels_max = kPreparedKernelsMax);

  /// What is known of an imperative call; null: nothing. Where keep() told it, it counts as a hit.
  std::shared_ptr<const PreparedCall> find(const CallRequest& request);
  void keep(const CallRequest& request, std::shared_ptr<const PreparedCall> call) {
    calls_.keep(request, std::move(call));
  }

  /// The kernel for `call`, from the cache or prepared now. Errors are those of ops::prepare.
  base::Result<std::shared_ptr<const ops::Kernel>> get(const ops::OpCall& call);

  std::size_t size() const;
  std::uint64_t hits() const { return hits_.load(std::memory_order_relaxed); }
  std::uint64_t misses() const { return misses_.load(std::memory_order_relaxed); }

 private:
  struct Hash {
    std::size_t operator()(const ops::OpCall* call) const { return call->hash(); }
  };
  struct Equal {
    bool operator()(const ops::OpCall* a, const ops::OpCall* b) const { return *a == *b; }
  };
  struct Entry {
    ops::OpCall call;
    std::shared_ptr<const ops::Kernel> kernel;
  };
  using Entries = std::list<Entry>;

  std::shared_ptr<const ops::Kernel> find(const ops::OpCall& call);

  const std::size_t prepared_kernels_max_;
  PreparedCalls calls_;
  mutable base::Mutex mutex_;
  Entries entries_ TROUPE_GUARDED_BY(mutex_);  // most recently used first
  std::unordered_map<const ops::OpCall*, Entries::iterator, Hash, Equal> index_
      TROUPE_GUARDED_BY(mutex_);
  std::atomic<std::uint64_t> hits_{0};
  std::atomic<std::uint64_t> misses_{0};
};

}  // namespace troupe::ndarray
