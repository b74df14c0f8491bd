// SPDX-License-Identifier: Apache-2.0
// How much a network computes and holds. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ops/kernel.h"
#include "symbol/symbol.h"

namespace troupe::symbol {

/// Operations.
struct Work {
  double flops = 0;          ///< multiply-adds count as 2
  double multiply_adds = 0;  ///< of products and convolutions
};

/// Of one call.
Work call_work(const ops::OpCall& call);

/// How large a network is.
struct NetworkSize {
  std::uint64_t parameters = 0;  ///< elements of what is learned (Symbol::list_parameters)
  Work forward;                  ///< of a forward pass
};

/// With these shapes of arguments. Errors are those of inference, or name what is not known.
base::Result<NetworkSize> network_size(const Symbol& symbol,
                                       const std::map<std::string, base::Shape>& known);

}  // namespace troupe::symbol
