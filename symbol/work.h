// SPDX-License-Identifier: Apache-2.0
// How much a graph computes. Pure functions, any thread.
#pragma once

#include <map>
#include <string>

#include "symbol/infer.h"
#include "symbol/symbol.h"
#include "symbol/value_numbers.h"

namespace troupe::symbol {

/// Operations.
struct Work {
  double flops = 0;          ///< multiply-adds count as 2
  double multiply_adds = 0;  ///< of products and convolutions
};

/// Of node `index`, which is no variable; shapes are complete.
Work node_work(const Graph& graph, const ValueNumbers& numbers, const ValueShapes& shapes,
               std::size_t index);

/// Of a forward pass with these shapes. Errors are those of inference, or name what is not known.
base::Result<Work> forward_work(const Symbol& symbol,
                                const std::map<std::string, base::Shape>& known);

}  // namespace troupe::symbol
