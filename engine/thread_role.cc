// SPDX-License-Identifier: Apache-2.0
// Roles of threads, and the public questions about them.
#include "engine/thread_role.h"

#include <utility>

#include "engine/engine.h"

namespace troupe::engine {

namespace {
thread_local ThreadRole role_of_this_thread = ThreadRole::outside;
}

ThreadRole thread_role() {
  return role_of_this_thread;
}

ThreadRoleScope::ThreadRoleScope(ThreadRole role)
    : before_(std::exchange(role_of_this_thread, role)) {}

ThreadRoleScope::~ThreadRoleScope() {
  role_of_this_thread = before_;
}

void mark_actor_thread() {
  role_of_this_thread = ThreadRole::actor;
}

bool Engine::on_engine_thread() {
  return role_of_this_thread == ThreadRole::engine;
}

}  // namespace troupe::engine
