// SPDX-License-Identifier: Apache-2.0
// Packing of an arena: offsets for pieces of memory that are needed for a while each, so that those
// needed at the same time do not overlap and the arena is hardly larger than it must be. Pure
// functions, any thread.
#pragma once

#include <cstddef>
#include <vector>

namespace troupe::symbol {

/// Bytes that are needed while the nodes [first, last] of a schedule run.
struct Piece {
  std::size_t bytes = 0;
  std::size_t first = 0;
  std::size_t last = 0;
  std::size_t offset = 0;

  std::size_t end() const { return offset + bytes; }
};

/// What is alive while a node runs.
struct LiveSet {
  std::size_t node = 0;
  std::size_t bytes = 0;
};

/// The largest, of the first node that has it: no arena for these pieces is smaller.
LiveSet largest_live_set(const std::vector<Piece>& pieces);

/// Gives every piece its offset and returns the bytes of the arena. The same pieces get the same
/// offsets everywhere. Offsets are sums of sizes, so they are aligned as the sizes are.
std::size_t pack(std::vector<Piece>& pieces);

}  // namespace troupe::symbol
