// SPDX-License-Identifier: Apache-2.0
// The built-in networks, as symbols with inputs "data" and "softmax_label". Pure functions, any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "symbol/symbol.h"

namespace troupe::symbol {

/// What a job file may say about a built-in network; what is absent is as the network is defined.
struct NetworkOptions {
  std::optional<std::int64_t> classes;
  std::optional<double> dropout;  ///< probability; of a network without dropout only 0
  std::optional<bool> bias;       ///< convolutions with a bias
};

/// A built-in network as it is defined.
struct NetworkInfo {
  std::string_view name;
  base::Shape sample;  ///< (channels, height, width) of the images it was made for
  std::int64_t classes = 0;
  double dropout = 0.0;  ///< probability; 0: none
};

/// All of them, the small ones first.
const std::vector<NetworkInfo>& networks();
std::vector<std::string> network_names();
/// nullptr: there is none of this name.
const NetworkInfo* find_network(std::string_view name);

/// Why the network cannot have this dropout; ok: it can.
base::Status check_dropout(const NetworkInfo& network, double dropout);

/// A built-in network that ends in softmax_output; not_found lists the names.
base::Result<Symbol> make_network(const ops::OpTable& table, std::string_view name,
                                  const NetworkOptions& options = {});

}  // namespace troupe::symbol
