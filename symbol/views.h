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

/// Which values of a request have their bytes in common.
enum class ViewKind {
  whole,  ///< those that have as many bytes
  any,    ///< also those that are a range of another one
};

/// Which bytes each value has within its group. A value that shares none is a group of its own.
/// There are no views
/// - where the request's mode puts nothing in place,
/// - of values whose memory is not the plan's,
/// - that optional nodes make,
/// - of values that parts of a batch write, but for wholes of what is read behind these parts,
/// - that begin inside a line of 64 bytes.
class ViewGroups {
 public:
  ViewGroups(const PlanRequest& request, const ValueNumbers& numbers, ViewKind kind);

  /// Groups are named by the number of one of their values, which has all their bytes.
  std::size_t group(std::size_t value) const { return places_[value].group; }
  /// Where the value begins in its group.
  std::size_t offset(std::size_t value) const { return places_[value].offset; }
  /// The bytes of a group.
  std::size_t bytes(std::size_t group) const { return bytes_[group]; }
  /// The value has all bytes of its group.
  bool is_whole(std::size_t value) const {
    return offset(value) == 0 && bytes_[value] == bytes_[group(value)];
  }
  /// Some value is less than its group.
  bool any_ranges() const { return any_ranges_; }

 private:
  struct Place {
    std::size_t group = 0;
    std::size_t offset = 0;
  };

  void link(const PlanRequest& request, const ValueNumbers& numbers, const NodeView& of);
  /// Value `lower` names its group. That is placed in the group of `upper`, `offset` bytes behind
  /// the begin of `upper`.
  void put(std::size_t lower, std::size_t upper, std::size_t offset);
  /// The value's place; those that were passed on the way know theirs from now on.
  Place find(std::size_t value);

  const ViewKind kind_;
  std::vector<Place> places_;       // per value; while views are linked: in a value of its group
  std::vector<std::size_t> bytes_;  // per value
  bool any_ranges_ = false;
};

/// Adds the views of a node, whose kernel is chosen.
void add_views(std::size_t node, const NodePlan& plan, std::vector<NodeView>& views);

}  // namespace troupe::symbol
