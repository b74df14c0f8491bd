// SPDX-License-Identifier: Apache-2.0
// Descriptions of symbols for people: memory estimate and drawing. Pure functions, any thread.
#pragma once

#include <map>
#include <span>
#include <string>

#include "symbol/symbol.h"

namespace troupe::symbol {

/// Bytes that binding would take, estimated from dense tensors without scratch.
struct MemoryEstimate {
  std::size_t argument_bytes = 0;  ///< arguments and auxiliary states
  std::size_t output_bytes = 0;    ///< outputs and gradients
  std::size_t unshared_bytes = 0;  ///< values between, each in its own memory
  std::size_t planned_bytes = 0;   ///< values between, planned
  std::size_t parameters = 0;      ///< elements of the arguments in `wrt`
};

/// For prediction (`wrt` empty) or training with gradients of `wrt`.
base::Result<MemoryEstimate> estimate_memory(const ops::OpTable& table, const Symbol& symbol,
                                             const std::map<std::string, base::Shape>& known,
                                             std::span<const std::string> wrt = {});

/// The graph as graphviz dot text; shapes on the edges where `known` decides them.
std::string to_dot(const Symbol& symbol, const std::map<std::string, base::Shape>& known = {});

}  // namespace troupe::symbol
