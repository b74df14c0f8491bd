// SPDX-License-Identifier: Apache-2.0
// Drawings of symbols for people. Pure functions, any thread. ExecutorReport (executor.h) says how
// much memory a symbol takes.
#pragma once

#include <map>
#include <string>

#include "symbol/symbol.h"

namespace troupe::symbol {

/// The graph as graphviz dot text; shapes on the edges where `known` decides them.
std::string to_dot(const Symbol& symbol, const std::map<std::string, base::Shape>& known = {});

}  // namespace troupe::symbol
