// SPDX-License-Identifier: Apache-2.0
// Counting of variable handles; the last one hands the state back to its core.
#include "engine/variable.h"

#include "engine/core.h"
#include "engine/state.h"

namespace troupe::engine {

Variable::Variable(VariableState* state) : state_(state) {}

Variable::Variable(const Variable& other) : state_(other.state_) {
  if (state_ != nullptr) state_->handles.fetch_add(1, std::memory_order_relaxed);
}

Variable::~Variable() {
  if (state_ == nullptr) return;
  if (state_->handles.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    state_->core->drop_variable(state_);
  }
}

std::uint64_t Variable::version() const {
  return state_ == nullptr ? 0 : state_->version.load(std::memory_order_relaxed);
}

bool Variable::has_error() const {
  return state_ != nullptr && state_->core->has_error(state_);
}

bool Variable::engine_stands() const {
  return state_ != nullptr && state_->core->open();
}

}  // namespace troupe::engine
