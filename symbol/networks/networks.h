// SPDX-License-Identifier: Apache-2.0
// The built-in networks, as symbols with inputs "data" and "softmax_label". Pure functions, any
// thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "symbol/symbol.h"

namespace troupe::symbol {

/// What a job file may say about a built-in network.
struct NetworkOptions {
  std::int64_t classes = 10;
  double dropout = 0.3;      ///< probability, of networks that have dropout
  std::optional<bool> bias;  ///< convolutions with a bias; absent: as the network is defined
};

/// "lenet", "mlp", "tiny-bn".
std::vector<std::string> network_names();
/// A built-in network that ends in softmax_output; not_found lists the names.
base::Result<Symbol> make_network(const ops::OpTable& table, std::string_view name,
                                  const NetworkOptions& options = {});

}  // namespace troupe::symbol
