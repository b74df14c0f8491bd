// SPDX-License-Identifier: Apache-2.0
// Recomputation: the backward pass of a training graph computes forward values once more that the
// forward pass would have to keep for it (Chen et al. 2016). A clone runs its original's kernel on
// the same numbers, or another that gives the same bits (OpDef::recomputation), right before the
// first node that reads it. Whatever the policy, hidden outputs that nobody reads are left out
// (OpDef::keeps_hidden). Pure function; any thread that may lead the team.
#pragma once

#include <cstddef>

#include "symbol/layouts.h"
#include "symbol/memory_mode.h"

namespace troupe::symbol {

/// A training graph whose backward pass recomputes, and what that takes.
struct Recomputed {
  PreparedGraph prepared;
  int clones = 0;           ///< nodes that compute something once more
  double seconds = 0;       ///< that these take, by the kernels' rules (ops/roofline.h)
  double step_seconds = 0;  ///< that all others take, by the same
};

/// What is recomputed, and how values share memory, which says what that gains.
struct RecomputeOptions {
  Recompute policy = Recompute::none;
  std::size_t budget = 0;  ///< bytes, of Recompute::budget
  MemoryMode memory = MemoryMode::both;
};

/// `prepared` with clones. Its memory is variables, heads, and an arena for all the rest; the arena
/// is what shrinks. Operators that draw are never run twice, and none is where one assigns
/// (passes.h). The same graph gets the same clones everywhere. resource_exhausted when nothing that
/// was tried fits into the budget: names the smallest plan and the largest values in it.
base::Result<Recomputed> recompute(const ops::OpTable& table, PreparedGraph prepared,
                                   const RecomputeOptions& options);

}  // namespace troupe::symbol
