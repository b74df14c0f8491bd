// SPDX-License-Identifier: Apache-2.0
// The built-in networks.
#include "symbol/networks/networks.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/suggest.h"
#include "symbol/networks/layers.h"

namespace troupe::symbol {

namespace {

using base::Errc;
using base::Shape;

struct Network {
  NetworkInfo info;
  Symbol (*make)(Layers&);
};

/// What networks without dropout layers have.
constexpr double kNone = 0.0;

template <ResidualForm form, bool bottleneck, int... units>
Network residual(std::string_view name) {
  return {{name, Shape{3, 224, 224}, 1000, kNone}, [](Layers& layers) {
            return resnet(layers, {{units...}, bottleneck, form});
          }};
}

template <ResidualForm form, int units, std::int64_t widening = 1>
Network small_residual(std::string_view name) {
  return {{name, Shape{3, 32, 32}, 10, kNone}, [](Layers& layers) {
            return small_resnet(layers, {units, widening, form});
          }};
}

std::vector<Network> define() {
  constexpr auto kV1 = ResidualForm::v1, kV15 = ResidualForm::v1_5, kV2 = ResidualForm::v2;
  const Shape digit{1, 28, 28}, photograph{3, 224, 224};
  return {
      {{"mlp", digit, 10, kNone}, mlp},
      {{"lenet", digit, 10, kNone}, lenet},
      {{"tiny-bn", digit, 10, 0.3}, tiny_bn},
      small_residual<kV1, 3>("resnet20"),
      small_residual<kV1, 9>("resnet56"),
      small_residual<kV1, 18>("resnet110"),
      small_residual<kV2, 1, 2>("wide-resnet10-2"),
      small_residual<kV2, 1, 4>("wide-resnet10-4"),
      small_residual<kV2, 2, 4>("wide-resnet16-4"),
      small_residual<kV2, 4, 10>("wide-resnet28-10"),
      {{"alexnet", photograph, 1000, 0.5}, alexnet},
      {{"overfeat", Shape{3, 231, 231}, 1000, 0.5}, overfeat},
      {{"vgg-a", photograph, 1000, 0.5},
       [](Layers& l) {
         return vgg(l, {1, 1, 2, 2, 2});
       }},
      {{"vgg16", photograph, 1000, 0.5},
       [](Layers& l) {
         return vgg(l, {2, 2, 3, 3, 3});
       }},
      {{"vgg19", photograph, 1000, 0.5},
       [](Layers& l) {
         return vgg(l, {2, 2, 4, 4, 4});
       }},
      {{"googlenet", photograph, 1000, kNone}, googlenet},
      {{"inception-bn", photograph, 1000, kNone}, inception_bn},
      residual<kV1, false, 2, 2, 2, 2>("resnet18"),
      residual<kV1, false, 3, 4, 6, 3>("resnet34"),
      residual<kV1, true, 3, 4, 6, 3>("resnet50"),
      residual<kV1, true, 3, 4, 23, 3>("resnet101"),
      residual<kV1, true, 3, 8, 36, 3>("resnet152"),
      residual<kV1, true, 3, 24, 36, 3>("resnet200"),
      residual<kV15, true, 3, 4, 6, 3>("resnet50-v1.5"),
      residual<kV15, true, 3, 4, 23, 3>("resnet101-v1.5"),
      residual<kV15, true, 3, 8, 36, 3>("resnet152-v1.5"),
      residual<kV2, false, 2, 2, 2, 2>("resnet18-v2"),
      residual<kV2, false, 3, 4, 6, 3>("resnet34-v2"),
      residual<kV2, true, 3, 4, 6, 3>("resnet50-v2"),
      residual<kV2, true, 3, 4, 23, 3>("resnet101-v2"),
      residual<kV2, true, 3, 8, 36, 3>("resnet152-v2"),
      residual<kV2, true, 3, 24, 36, 3>("resnet200-v2"),
      {{"mobilenet-v2", photograph, 1000, kNone}, mobilenet_v2},
  };
}

const std::vector<Network>& definitions() {
  static const std::vector<Network> all = define();
  return all;
}

}  // namespace

const std::vector<NetworkInfo>& networks() {
  static const std::vector<NetworkInfo> all = [] {
    std::vector<NetworkInfo> infos;
    for (const Network& network : definitions()) infos.push_back(network.info);
    return infos;
  }();
  return all;
}

std::vector<std::string> network_names() {
  std::vector<std::string> names;
  for (const NetworkInfo& network : networks()) names.emplace_back(network.name);
  return names;
}

const NetworkInfo* find_network(std::string_view name) {
  const auto found = std::ranges::find(networks(), name, &NetworkInfo::name);
  return found == networks().end() ? nullptr : &*found;
}

base::Status check_dropout(const NetworkInfo& network, double dropout) {
  if (!(dropout >= 0 && dropout < 1)) {
    return base::error(Errc::invalid_argument, "network '{}' dropout {} is not in [0, 1)",
                       network.name, dropout);
  }
  if (dropout == 0 || network.dropout != kNone) return {};
  return base::error(Errc::invalid_argument, "network '{}' has no dropout, so it cannot be {}",
                     network.name, dropout);
}

base::Result<Symbol> make_network(const ops::OpTable& table, std::string_view name,
                                  const NetworkOptions& options) {
  const auto& all = definitions();
  const auto found =
      std::ranges::find(all, name, [](const Network& network) { return network.info.name; });
  if (found == all.end()) {
    const std::vector<std::string> known = network_names();
    const std::string meant = base::did_you_mean(name, known);
    return base::error(Errc::not_found, "no built-in network '{}'{}", name,
                       meant.empty() ? fmt::format("; there are {}", fmt::join(known, ", "))
                                     : meant + " ('troupe model list' has them all)");
  }
  const std::int64_t classes = options.classes.value_or(found->info.classes);
  const double dropout = options.dropout.value_or(found->info.dropout);
  if (classes < 1) {
    return base::error(Errc::invalid_argument, "network '{}' needs at least 1 class, got {}", name,
                       classes);
  }
  TROUPE_TRY(check_dropout(found->info, dropout));
  Layers layers(table, classes, dropout, options.bias);
  return layers.loss(found->make(layers));
}

}  // namespace troupe::symbol
