// SPDX-License-Identifier: Apache-2.0
// Operators with any number of inputs: the parameter `num_args` says how many.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ops/op.h"

namespace troupe::ops {

/// Most inputs of a variadic operator.
inline constexpr int kVariadicInputsMax = 256;

/// Most tensors that vector kernels add in one pass.
inline constexpr int kSummedMost = 8;

/// The parameter `num_args`. Whoever composes fills it in where it is missing.
inline ParamDef num_args_param() {
  return {"num_args", ParamType::integer, std::nullopt, "Number of inputs.", 1, kVariadicInputsMax};
}

/// The list of `prefix`0, `prefix`1, ... for the call's num_args.
inline std::function<std::vector<std::string>(const Params&)> numbered_names(std::string prefix) {
  return [prefix = std::move(prefix)](const Params& params) {
    std::vector<std::string> list;
    for (std::int64_t i = 0; i < params.integer("num_args"); ++i) {
      list.push_back(prefix + std::to_string(i));
    }
    return list;
  };
}

/// "$0 + $1 + ...": the sum of `count` inputs, in their order, as part of a PointwiseTerm.
inline std::string sum_term(std::int64_t count) {
  std::string text = "$0";
  for (std::int64_t i = 1; i < count; ++i) text += " + $" + std::to_string(i);
  return text;
}

}  // namespace troupe::ops
