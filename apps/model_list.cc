// SPDX-License-Identifier: Apache-2.0
// Built-in networks with their sizes, by inference of shapes alone.
#include "apps/model_list.h"

#include <fmt/ranges.h>

#include "base/units.h"
#include "symbol/networks/networks.h"

namespace troupe::apps {
namespace {

base::Result<ModelLine> describe(const ops::OpTable& table, const symbol::NetworkInfo& network) {
  ModelLine line;
  line.network = network;
  TROUPE_TRY_ASSIGN(const symbol::Symbol net, symbol::make_network(table, network.name));
  std::vector<std::int64_t> extents = {1};
  extents.insert(extents.end(), network.sample.dims().begin(), network.sample.dims().end());
  TROUPE_TRY_ASSIGN(line.size, symbol::network_size(net, {{"data", base::Shape(extents)}}));
  return line;
}

}  // namespace

base::Result<std::vector<ModelLine>> list_models() {
  const ops::OpTable table = ops::OpTable::build();
  std::vector<ModelLine> models;
  for (const symbol::NetworkInfo& network : symbol::networks()) {
    TROUPE_TRY_ASSIGN(models.emplace_back(), describe(table, network));
  }
  return models;
}

std::string model_table(const std::vector<ModelLine>& models) {
  std::string text = fmt::format("{:<16} {:<12} {:>7} {:>11} {:>16}\n", "NETWORK", "INPUT",
                                 "CLASSES", "PARAMETERS", "MULTIPLY-ADDS");
  for (const ModelLine& model : models) {
    text += fmt::format(
        "{:<16} {:<12} {:>7} {:>11} {:>16}\n", model.network.name,
        fmt::format("{}", fmt::join(model.network.sample.dims(), ",")), model.network.classes,
        base::format_count(model.size.parameters),
        base::format_count(static_cast<std::uint64_t>(model.size.forward.multiply_adds)));
  }
  return text;
}

Json json_of(const std::vector<ModelLine>& models) {
  Json list = Json::array();
  for (const ModelLine& model : models) {
    list.push_back({{"name", model.network.name},
                    {"input_shape", json_of(model.network.sample)},
                    {"classes", model.network.classes},
                    {"dropout", model.network.dropout},
                    {"parameters", model.size.parameters},
                    {"multiply_adds", model.size.forward.multiply_adds}});
  }
  return {{"models", std::move(list)}};
}

}  // namespace troupe::apps
