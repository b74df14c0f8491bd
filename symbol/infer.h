// SPDX-License-Identifier: Apache-2.0
// Inference of shapes and dtypes over flat graphs, in both directions. Pure functions, any thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"
#include "base/status.h"
#include "symbol/graph.h"

namespace troupe::symbol {

/// One entry per value, in the order of ValueNumbers.
using ValueShapes = std::vector<base::Shape>;
using ValueDTypes = std::vector<base::DType>;

/// Shapes of all values from those of the variables named in `known` and the variables' __shape__.
/// Values may stay incomplete. Errors name node, operator and shapes.
base::Result<ValueShapes> infer_shapes(const Graph& graph,
                                       const std::map<std::string, base::Shape>& known);
/// An error naming the variables whose shapes are not complete.
base::Status check_complete(const Graph& graph, const ValueShapes& shapes);
/// Dtypes of all values; what nothing decides is `otherwise`.
base::Result<ValueDTypes> infer_dtypes(const Graph& graph,
                                       const std::map<std::string, base::DType>& known,
                                       base::DType otherwise = base::DType::f32);

}  // namespace troupe::symbol
