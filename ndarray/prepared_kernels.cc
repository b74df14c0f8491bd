// SPDX-License-Identifier: Apache-2.0
// The cache of prepared kernels: a list in order of use and an index into it.
#include "ndarray/prepared_kernels.h"

#include <fmt/core.h>

#include <utility>

#include "ops/op.h"

namespace troupe::ndarray {

PreparedKernels::PreparedKernels(std::size_t prepared_kernels_max)
    : prepared_kernels_max_(prepared_kernels_max), calls_(prepared_kernels_max) {
  TROUPE_CHECK(prepared_kernels_max > 0, "a cache of kernels needs room for one");
}

std::shared_ptr<const PreparedCall> PreparedKernels::find(const CallRequest& request) {
  std::shared_ptr<const PreparedCall> call = calls_.find(request);
  if (call != nullptr) hits_.fetch_add(1, std::memory_order_relaxed);
  return call;
}

std::shared_ptr<const ops::Kernel> PreparedKernels::find(const ops::OpCall& call) {
  const base::MutexLock lock(mutex_);
  const auto it = index_.find(&call);
  if (it == index_.end()) {
    misses_.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  hits_.fetch_add(1, std::memory_order_relaxed);
  entries_.splice(entries_.begin(), entries_, it->second);
  return it->second->kernel;
}

base::Result<std::shared_ptr<const ops::Kernel>> PreparedKernels::get(const ops::OpCall& call) {
  if (std::shared_ptr<const ops::Kernel> kernel = find(call)) return kernel;
  // Outside the lock: making a library's object may take long, and a second maker does no harm.
  TROUPE_TRY_ASSIGN(std::shared_ptr<const ops::Kernel> made, ops::prepare(call));
  const base::MutexLock lock(mutex_);
  if (const auto it = index_.find(&call); it != index_.end()) return it->second->kernel;
  entries_.push_front({call, made});
  index_.emplace(&entries_.front().call, entries_.begin());
  if (entries_.size() > prepared_kernels_max_) {
    index_.erase(&entries_.back().call);
    entries_.pop_back();
  }
  return made;
}

std::size_t PreparedKernels::size() const {
  const base::MutexLock lock(mutex_);
  return entries_.size();
}

}  // namespace troupe::ndarray
