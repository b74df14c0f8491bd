// SPDX-License-Identifier: Apache-2.0
// Views: values that have their bytes in common, because an operator only gives a value another
// shape, cuts it apart or joins it (ops::View). They make a group, which has one piece of memory.
// Pure functions, any thread.
// Private to this folder.
#pragma once

#include <cstddef>
#include <vector>

#include "symbol/plan_memory.h"
#include "symbol/value_numbers.h"

namespace troupe::symbol {

/// Which bytes each value has within its group. A value that shares none is a group of its own.
class ViewGroups {
 public:
  /// The views of the request that may be; without `parts` only those of whole values. None of
  /// values whose memory is not the plan's, which parts of a batch write, or of optional nodes;
  /// none where the request's mode puts nothing in place, and none that begins inside a line.
  ViewGroups(const PlanRequest& request, const ValueNumbers& numbers, bool parts);

  /// Groups are named by the number of one of their values.
  std::size_t group(std::size_t value) const { return places_[value].group; }
  /// Where the value begins in its group.
  std::size_t offset(std::size_t value) const { return places_[value].offset; }
  /// The bytes of a group.
  std::size_t bytes(std::size_t group) const { return bytes_[group]; }
  /// The value has all bytes of its group.
  bool is_whole(std::size_t value) const {
    return offset(value) == 0 && bytes_[value] == bytes_[group(value)];
  }
  /// Some value is a part of its group.
  bool any_parts() const { return any_parts_; }

 private:
  struct Place {
    std::size_t group = 0;
    std::size_t offset = 0;
  };

  void link(const PlanRequest& request, const ValueNumbers& numbers, const NodeView& of);
  /// The group of `lower`, of which that is the whole, becomes `offset` bytes of the one of
  /// `upper`.
  void put(std::size_t lower, std::size_t upper, std::size_t offset);
  /// Follows a value's places until one is a group's own.
  Place find(std::size_t value) const;

  const bool parts_;
  std::vector<Place> places_;       // per value; while views are linked, of a chain
  std::vector<std::size_t> bytes_;  // per value; groups have those of the value that names them
  bool any_parts_ = false;
};

/// The views of a node, whose kernel is chosen.
void add_views(std::size_t node, const NodePlan& plan, std::vector<NodeView>& views);

}  // namespace troupe::symbol
