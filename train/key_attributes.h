// SPDX-License-Identifier: Apache-2.0
// What a variable of a symbol says about its key, in the attributes that MXNet writes: how its
// first values are made, what multiplies its learning rate and decay. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "base/status.h"
#include "schemas/job_spec.h"
#include "symbol/graph.h"

namespace troupe::train {

/// Absent: the variable does not say it.
struct KeyAttributes {
  std::optional<schemas::InitializerSpec> initializer;  ///< __init__
  std::optional<double> lr_mult;                        ///< __lr_mult__
  std::optional<double> wd_mult;                        ///< __wd_mult__
};

/// Longest text of __init__.
inline constexpr std::size_t kInitializerBytesMax = 4'096;

/// invalid_argument naming variable, attribute and value.
base::Result<KeyAttributes> read_key_attributes(const symbol::GraphNode& variable);

/// The initialiser of MXNet's form of text: a name ("zeros") or JSON of name and arguments
/// (["xavier", {"magnitude": 2}]). Known: zero, one, constant, uniform, normal, xavier, msraprelu,
/// with MXNet's defaults for what is left out. invalid_argument for anything else, and for more
/// than kInitializerBytesMax bytes.
base::Result<schemas::InitializerSpec> parse_initializer(std::string_view text);

}  // namespace troupe::train
