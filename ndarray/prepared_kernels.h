// SPDX-License-Identifier: Apache-2.0
// PreparedKernels: the bounded cache of prepared kernels of imperative calls, keyed by the whole
// call; a kernel that was dropped from the cache lives on in its users. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "ops/kernel.h"

namespace troupe::ndarray {

/// Most kernels that a cache keeps when its maker names no other number.
inline constexpr std::size_t kPreparedKernelsMax = 1024;

/// Least recently used out. Preparing happens on the calling thread.
class PreparedKernels {
 public:
  explicit PreparedKernels(std::size_t prepared_kernels_max = kPreparedKernelsMax);

  /// The kernel for `call`, from the cache or prepared now. Errors are those of ops::prepare.
  base::Result<std::shared_ptr<const ops::Kernel>> get(const ops::OpCall& call);

  std::size_t size() const;
  std::uint64_t hits() const;
  std::uint64_t misses() const;

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
  mutable base::Mutex mutex_;
  Entries entries_ TROUPE_GUARDED_BY(mutex_);  // most recently used first
  std::unordered_map<const ops::OpCall*, Entries::iterator, Hash, Equal> index_
      TROUPE_GUARDED_BY(mutex_);
  std::uint64_t hits_ TROUPE_GUARDED_BY(mutex_) = 0;
  std::uint64_t misses_ TROUPE_GUARDED_BY(mutex_) = 0;
};

}  // namespace troupe::ndarray
