// SPDX-License-Identifier: Apache-2.0
// The built-in networks.
#include "symbol/networks/networks.h"

#include <fmt/format.h>

namespace troupe::symbol {

namespace {

using base::Errc;

/// Layers that the networks share; `net` grows by one call per layer.
class Layers {
 public:
  explicit Layers(const ops::OpTable& table) : composer_(table), net_(composer_.variable("data")) {}

  Layers& convolution(const std::string& name, int filters, int kernel, int pad, bool bias) {
    return add("convolution", name,
               {{"kernel", fmt::format("({}, {})", kernel, kernel)},
                {"pad", fmt::format("({}, {})", pad, pad)},
                {"num_filter", std::to_string(filters)},
                {"no_bias", bias ? "False" : "True"}});
  }
  Layers& batch_norm(const std::string& name) {
    return add("batch_norm", name, {{"fix_gamma", "False"}, {"momentum", "0.9"}});
  }
  Layers& relu(const std::string& name) { return add("activation", name, {{"act_type", "relu"}}); }
  Layers& max_pool(const std::string& name) {
    return add("pooling", name, {{"kernel", "(2, 2)"}, {"stride", "(2, 2)"}, {"pool_type", "max"}});
  }
  Layers& flatten() { return add("flatten", "flatten", {}); }
  Layers& dropout(const std::string& name, double p) {
    return p == 0 ? *this : add("dropout", name, {{"p", fmt::format("{}", p)}});
  }
  Layers& dense(const std::string& name, std::int64_t hidden) {
    return add("fully_connected", name, {{"num_hidden", std::to_string(hidden)}});
  }
  base::Result<Symbol> loss() {
    add("softmax_output", "softmax", {});
    return composer_.finish(net_);
  }

 private:
  Layers& add(std::string_view op, const std::string& name, const ops::Attributes& attributes) {
    net_ = composer_.call(op, name, {net_}, attributes);
    return *this;
  }

  Composer composer_;
  Symbol net_;
};

/// 1x28x28: C20,5 ReLU MP2/2 C50,5 ReLU MP2/2 FC500 ReLU FC(classes).
base::Result<Symbol> lenet(const ops::OpTable& table, const NetworkOptions& options) {
  return Layers(table)
      .convolution("conv1", 20, 5, 0, options.bias.value_or(true))
      .relu("relu1")
      .max_pool("pool1")
      .convolution("conv2", 50, 5, 0, options.bias.value_or(true))
      .relu("relu2")
      .max_pool("pool2")
      .flatten()
      .dense("fc1", 500)
      .relu("relu3")
      .dense("fc2", options.classes)
      .loss();
}

/// FC128 ReLU FC64 ReLU FC(classes); the first layer flattens its input.
base::Result<Symbol> mlp(const ops::OpTable& table, const NetworkOptions& options) {
  return Layers(table)
      .dense("fc1", 128)
      .relu("relu1")
      .dense("fc2", 64)
      .relu("relu2")
      .dense("fc3", options.classes)
      .loss();
}

/// Small, with everything that makes reproducibility hard: batch statistics and random masks.
base::Result<Symbol> tiny_bn(const ops::OpTable& table, const NetworkOptions& options) {
  return Layers(table)
      .convolution("conv1", 8, 3, 1, options.bias.value_or(false))
      .batch_norm("bn1")
      .relu("relu1")
      .max_pool("pool1")
      .convolution("conv2", 16, 3, 1, options.bias.value_or(false))
      .batch_norm("bn2")
      .relu("relu2")
      .max_pool("pool2")
      .flatten()
      .dropout("drop1", options.dropout)
      .dense("fc1", options.classes)
      .loss();
}

struct Network {
  std::string_view name;
  base::Result<Symbol> (*make)(const ops::OpTable&, const NetworkOptions&);
};

constexpr Network kNetworks[] = {{"lenet", lenet}, {"mlp", mlp}, {"tiny-bn", tiny_bn}};

}  // namespace

std::vector<std::string> network_names() {
  std::vector<std::string> names;
  for (const Network& network : kNetworks) names.emplace_back(network.name);
  return names;
}

base::Result<Symbol> make_network(const ops::OpTable& table, std::string_view name,
                                  const NetworkOptions& options) {
  if (options.classes < 1) {
    return base::error(Errc::invalid_argument, "network '{}' needs at least 1 class, got {}", name,
                       options.classes);
  }
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    return base::error(Errc::invalid_argument, "network '{}' dropout {} is not in [0, 1)", name,
                       options.dropout);
  }
  for (const Network& network : kNetworks) {
    if (network.name == name) return network.make(table, options);
  }
  return base::error(Errc::not_found, "no built-in network '{}'; there are {}", name,
                     fmt::join(network_names(), ", "));
}

}  // namespace troupe::symbol
