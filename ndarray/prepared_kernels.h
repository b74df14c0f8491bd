// SPDX-License-Identifier: Apache-2.0
// PreparedKernels: the bounded caches of prepared kernels, keyed by the whole call, and of what
// imperative calls say of themselves; a kernel that was dropped from the cache lives on in its
// users. Any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/lru_cache.h"
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

  std::size_t size() const { return kernels_.size(); }
  std::uint64_t hits() const { return hits_.load(std::memory_order_relaxed); }
  std::uint64_t misses() const { return misses_.load(std::memory_order_relaxed); }

 private:
  /// Calls as keys of a cache.
  struct Calls {
    using Key = ops::OpCall;
    using View = const ops::OpCall*;
    static Key own(View call) { return *call; }
    static View view(const Key& call) { return &call; }
    static std::size_t hash(View call) { return call->hash(); }
    static bool equal(View a, View b) { return *a == *b; }
  };

  void count(bool known) { (known ? hits_ : misses_).fetch_add(1, std::memory_order_relaxed); }

  PreparedCalls calls_;
  base::LruCache<Calls, std::shared_ptr<const ops::Kernel>> kernels_;
  std::atomic<std::uint64_t> hits_{0};
  std::atomic<std::uint64_t> misses_{0};
};

}  // namespace troupe::ndarray
