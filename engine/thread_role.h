// SPDX-License-Identifier: Apache-2.0
// What kind of work the calling thread does, so that waiting on the wrong thread is caught at once
// instead of hanging. One thread-local value per thread.
#pragma once

#include <cstdint>

namespace troupe::engine {

/// Whose thread it is: this decides what the thread may wait for.
enum class ThreadRole : std::uint8_t {
  outside,  ///< programs and tests; may wait
  engine,   ///< runs operations; must never wait for one
  actor,    ///< runs actors; must never wait for an operation
};

/// The calling thread's role.
ThreadRole thread_role();

/// Gives the calling thread a role for a scope.
class ThreadRoleScope {
 public:
  explicit ThreadRoleScope(ThreadRole role);
  ~ThreadRoleScope();
  ThreadRoleScope(const ThreadRoleScope&) = delete;
  ThreadRoleScope& operator=(const ThreadRoleScope&) = delete;

 private:
  ThreadRole before_;
};

}  // namespace troupe::engine
