// SPDX-License-Identifier: Apache-2.0
// The pass delay_rectifiers: the maximum of a window and the concatenation of values are the same
// before and behind a rectifier (relu), so a rectifier goes behind max pooling and concat that
// alone read it. Training then keeps, for the rectifier's gradient, pooled values instead of a
// whole image, and the concatenation instead of its parts too. Pure function, any thread.
#pragma once

#include "symbol/graph.h"
#include "symbol/infer.h"

namespace troupe::symbol {

/// The same values at the heads, to the bit, and the same gradients but for the order in which
/// three or more contributions to one are added. `shapes` are those of the graph's values; where
/// they are not complete, nothing moves, nor where an operator assigns (passes.h). A rectifier that
/// goes behind a concat takes the place of those of all its inputs, under the name of the first.
Graph delay_rectifiers(const Graph& graph, const ValueShapes& shapes);

}  // namespace troupe::symbol
