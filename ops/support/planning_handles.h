// SPDX-License-Identifier: Apache-2.0
// Handles of a GPU library that kernels are planned with: planning is rare, and a handle takes
// milliseconds to make, so that all threads share one for each device.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/device.h"
#include "base/mutex.h"

namespace troupe::ops {

/// `Handle` has get(): the library's own handle, which it makes when it is first asked, or an
/// error. Objects stay for ever: at a program's end the driver may be gone before a handle is
/// destroyed.
template <typename Handle>
class PlanningHandles {
 public:
  /// plan(handle) with the handle of `device`, by one thread at a time. Where the library is there
  /// and gives no handle, its error: what another kernel computed in its stead would have other
  /// bits than on machines where it works.
  template <typename Plan>
  auto with(base::Device device, const Plan& plan) -> decltype(plan(*Handle().get())) {
    const base::MutexLock lock(mutex_);
    const auto index = static_cast<std::size_t>(device.index);
    while (handles_.size() <= index) handles_.push_back(std::make_unique<Handle>());
    const auto handle = handles_[index]->get();
    if (!handle.ok()) return handle.status();
    return plan(*handle);
  }

 private:
  base::Mutex mutex_;
  std::vector<std::unique_ptr<Handle>> handles_ TROUPE_GUARDED_BY(mutex_);
};

}  // namespace troupe::ops
