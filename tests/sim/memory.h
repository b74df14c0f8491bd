// SPDX-License-Identifier: Apache-2.0
// Memory: the simulator's buffers. Each knows, outside the state machines' reach, what its numbers
// were made of, so that the checker need not believe anybody. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "schemas/messages.h"

namespace troupe::sim {

/// What the numbers of one slice-sized block come from.
struct Origin {
  /// Gradients and sums: the (rank, step) pairs added up, as often as they were added, sorted.
  std::vector<schemas::Contribution> parts;
  /// Weights and slots: per rank the lowest step not contained. Empty for gradients.
  std::vector<std::uint64_t> applied;
  bool released = false;       ///< a gradient whose owner has been told that nobody reads it
  std::uint64_t checksum = 0;  ///< of the bytes when they were published; 0: not
};

/// All blocks of one simulation.
class Memory {
 public:
  Memory() : live_(std::make_shared<Table>()) {}
  /// A block of zeros that is forgotten when the last handle drops.
  base::Buffer allocate(std::size_t bytes);
  /// The origin of a block, or of the part of one that starts at the same byte.
  Origin& origin(const base::Buffer& buffer);
  /// Registers the part of a block that starts at `part`'s first byte; forget() it explicitly.
  void mark(const base::Buffer& part) { (*live_)[part.data()]; }
  void forget(const base::Buffer& part) { live_->erase(part.data()); }
  std::size_t live() const { return live_->size(); }
  std::size_t peak() const { return peak_; }

  static std::uint64_t checksum(const base::Buffer& buffer);

 private:
  using Table = std::map<const std::byte*, Origin>;
  std::shared_ptr<Table> live_;  // outlives the simulation as long as blocks do
  std::size_t peak_ = 0;
};

}  // namespace troupe::sim
