// SPDX-License-Identifier: Apache-2.0
// Node: one shared node of symbols, for symbol.cc. Immutable once a symbol holds it; its destructor
// takes inputs out of nodes that nobody else holds, and does so without recursion.
// Private to this folder.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "symbol/symbol.h"

namespace troupe::symbol {

/// A variable or a call, with handles on its inputs. See GraphNode for the fields.
class Node {
 public:
  Node() = default;
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// All of `source` except its inputs.
  void take(GraphNode source) {
    name = std::move(source.name);
    op = source.op;
    params = std::move(source.params);
    extra = std::move(source.extra);
    outputs = source.outputs;
  }

  std::string name;
  const ops::OpDef* op = nullptr;
  ops::Params params;
  ops::Attributes extra;
  mutable std::vector<Symbol::Entry> inputs;
  int outputs = 1;
};

}  // namespace troupe::symbol
