// SPDX-License-Identifier: Apache-2.0
// Teams of compute threads. The only file with an OpenMP pragma is parallel.cc.
// A lane's thread leads its team as long as it lives; kernels split work by shape alone and never
// see the team's size, so results do not depend on it.
#pragma once

#include <cstdint>

#include "base/function_ref.h"
#include "base/status.h"

namespace troupe::base {

/// Runs f(chunk) for every chunk in [0, chunks), on `team` threads, and returns when all are done.
/// `team` = 1 runs on the caller alone. The first exception of f goes on when the team is back.
/// Call from a lane's thread or a test only.
void parallel_chunks(int team, std::int64_t chunks, FunctionRef<void(std::int64_t)> f);

/// Calls `body` on the calling thread, which leads teams of `team` threads meanwhile; then the
/// thread has the OpenMP settings that it had before. What OMP_* variables say of dynamic teams,
/// their size, levels and limits does not count in `body`: a primitive that gets fewer threads than
/// it was made for never returns. LLVM's runtime, which clang++ links, keeps to OMP_THREAD_LIMIT:
/// beyond it thread_team() is 0. `body` must not throw.
void lead_team(int team, FunctionRef<void()> body);

/// Whether a thread that leads teams of several sizes in turn keeps their threads. LLVM's runtime
/// lets those go that the smaller one does not need.
bool teams_stay();

/// The team that the calling thread leads, or 0 when it would get none (inside a parallel region,
/// or as OMP_* want it): then no primitive may be prepared here.
int thread_team();

/// Starts `count` threads that do nothing and ends them. resource_exhausted when the system or a
/// limit has no room for them: better said before the libraries find out in the middle of a start.
Status check_room_for_threads(std::size_t count);

}  // namespace troupe::base
