// SPDX-License-Identifier: Apache-2.0
// SlotStore: one object per type, owned by an engine lane; where kernels keep library handles
// (dnnl::stream, cudnnHandle_t). Used by the lane's thread only.
#pragma once

#include <memory>
#include <typeindex>
#include <unordered_map>
#include <utility>

namespace troupe::base {

/// Objects by type, made on first use, destroyed with the lane.
class SlotStore {
 public:
  template <typename T, typename... Args>
  T& get(Args&&... args) {
    std::shared_ptr<void>& slot = slots_[std::type_index(typeid(T))];
    if (!slot) slot = std::make_shared<T>(std::forward<Args>(args)...);
    return *static_cast<T*>(slot.get());
  }

 private:
  std::unordered_map<std::type_index, std::shared_ptr<void>> slots_;
};

}  // namespace troupe::base
