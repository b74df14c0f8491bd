// SPDX-License-Identifier: Apache-2.0
// The networks that benchmark programs know by name: the built-in ones, and deep-mlp, whose steps
// are mostly issuing operations. One thread.
#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "bench/report.h"
#include "symbol/networks/networks.h"
#include "symbol/symbol.h"

namespace troupe::bench {

inline constexpr int kDeepLayers = 20, kDeepUnits = 64;

/// A network and what a batch of it looks like.
struct MeasuredNetwork {
  symbol::Symbol net;
  base::Shape data;  ///< (samples, ...)
  std::int64_t classes = 0;
};

/// Fully connected layers with ReLU, all of them of 64 units.
inline symbol::Symbol deep_mlp(const ops::OpTable& table) {
  symbol::Composer c(table);
  symbol::Symbol x = c.variable("data");
  for (int i = 1; i <= kDeepLayers; ++i) {
    x = c.call("fully_connected", fmt::format("fc{}", i), {x},
               {{"num_hidden", std::to_string(kDeepUnits)}});
    x = c.call("activation", fmt::format("relu{}", i), {x}, {{"act_type", "relu"}});
  }
  return must(c.finish(c.call("softmax_output", "softmax", {x})));
}

/// Ends the program when there is none of this name. Without dropout: no peer has its
/// draws.
inline MeasuredNetwork measured_network(const ops::OpTable& table, const std::string& name,
                                        std::int64_t batch) {
  if (name == "deep-mlp") return {deep_mlp(table), base::Shape{batch, kDeepUnits}, kDeepUnits};
  symbol::Symbol net = must(symbol::make_network(table, name, {.dropout = 0.0}));
  const symbol::NetworkInfo& info = *symbol::find_network(name);
  return {std::move(net), base::Shape{batch, info.sample[0], info.sample[1], info.sample[2]},
          info.classes};
}

}  // namespace troupe::bench
