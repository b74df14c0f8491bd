// SPDX-License-Identifier: Apache-2.0
// Teams of compute threads. The only file with an OpenMP pragma is parallel.cc.
// A lane's thread sets its team once; kernels split work by shape alone and never see the team's
// size, so results do not depend on it.
#pragma once

#include <cstdint>

#include "base/function_ref.h"
#include "base/status.h"

namespace troupe::base {

/// Runs f(chunk) for every chunk in [0, chunks), on `team` threads, and returns when all are done.
/// `team` = 1 runs on the caller alone. The first exception of f goes on when the team is back.
/// Call from a lane's thread or a test only.
void parallel_chunks(int team, std::int64_t chunks, FunctionRef<void(std::int64_t)> f);

/// Prepares the calling thread to lead teams of `team` threads (OpenMP: dynamic off, team size
/// set).
void set_thread_team(int team);

/// The calling thread's team, or 0 when the OpenMP runtime would not give it one (thread limit,
/// dynamic teams, inside a parallel region): then no primitive may be prepared here.
int thread_team();

/// Starts `count` threads that do nothing and ends them. resource_exhausted when the system or a
/// limit has no room for them: better said before the libraries find out in the middle of a start.
Status check_room_for_threads(std::size_t count);

}  // namespace troupe::base
