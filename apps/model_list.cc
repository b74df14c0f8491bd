// SPDX-License-Identifier: Apache-2.0
// Built-in networks with their sizes, by inference of shapes alone.
#include "apps/model_list.h"

#include <fmt/ranges.h>

#include "base/units.h"
#include "symbol/networks/networks.h"
#include "symbol/work.h"

namespace troupe::apps {
namespace {

base::Result<ModelLine> describe(const ops::OpTable& table, const symbol::NetworkInfo& network) {
  ModelLine line;
  line.name = network.name;
  line.input = network.sample;
  line.classes = network.classes;
  line.dropout = network.dropout;
  TROUPE_TRY_ASSIGN(const symbol::Symbol net, symbol::make_network(table, network.name));
  std::vector<std::int64_t> extents = {1};
  extents.insert(extents.end(), network.sample.dims().begin(), network.sample.dims().end());
  const std::map<std::string, base::Shape> known = {{"data", base::Shape(extents)}};
  TROUPE_TRY_ASSIGN(const symbol::Work work, symbol::forward_work(net, known));
  line.multiply_adds = work.multiply_adds;
  TROUPE_TRY_ASSIGN(const symbol::InferredShapes shapes, net.infer_shapes(known));
  const std::vector<std::string> names = net.list_arguments();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == "data" || names[i] == "softmax_label") continue;
    line.parameters += static_cast<std::uint64_t>(shapes.arguments[i].elements());
  }
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
    text += fmt::format("{:<16} {:<12} {:>7} {:>11} {:>16}\n", model.name,
                        fmt::format("{}", fmt::join(model.input.dims(), ",")), model.classes,
                        base::format_count(model.parameters),
                        base::format_count(static_cast<std::uint64_t>(model.multiply_adds)));
  }
  return text;
}

Json json_of(const std::vector<ModelLine>& models) {
  Json list = Json::array();
  for (const ModelLine& model : models) {
    list.push_back({{"name", model.name},
                    {"input_shape", json_of(model.input)},
                    {"classes", model.classes},
                    {"dropout", model.dropout},
                    {"parameters", model.parameters},
                    {"multiply_adds", model.multiply_adds}});
  }
  return {{"models", std::move(list)}};
}

}  // namespace troupe::apps
