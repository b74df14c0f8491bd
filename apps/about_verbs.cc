// SPDX-License-Identifier: Apache-2.0
// troupe version, troupe metrics: what this program is and what it counts.
#include <CLI/CLI.hpp>
#include <memory>

#include "apps/json_text.h"
#include "apps/verbs.h"
#include "monitoring/families.h"

namespace troupe::apps {
namespace {

Json json_of_families() {
  Json list = Json::array();
  for (const monitoring::Family& family : monitoring::families()) {
    Json labels = Json::array();
    for (std::size_t i = 0; i < family.label_count(); ++i) labels.push_back(family.labels[i]);
    list.push_back({{"name", family.name},
                    {"type", monitoring::metric_type_name(family.type)},
                    {"labels", std::move(labels)},
                    {"help", family.help}});
  }
  return {{"metrics", std::move(list)}};
}

std::string text_of_families() {
  std::string text;
  for (const monitoring::Family& family : monitoring::families()) {
    std::string labels;
    for (std::size_t i = 0; i < family.label_count(); ++i) {
      labels.append(i == 0 ? "{" : ",").append(family.labels[i]);
    }
    if (!labels.empty()) labels += "}";
    text += fmt::format("{}{} {} {}\n", family.name, labels,
                        monitoring::metric_type_name(family.type), family.help);
  }
  return text;
}

}  // namespace

void add_about_verbs(CLI::App& app, Context& context) {
  CLI::App* metrics = app.add_subcommand(
      "metrics", describe("List the metrics: name, labels, type, meaning", {"troupe metrics"}));
  const auto json = std::make_shared<bool>(false);
  add_json_flag(*metrics, *json);
  set_action(metrics, context, [&context, json] {
    context.console.data(*json ? json_text(json_of_families()) : text_of_families());
    return ExitCode::ok;
  });

  CLI::App* version = app.add_subcommand("version", "Print the version");
  add_json_flag(*version, *json);
  set_action(version, context, [&context, json] {
    const Json document = {{"program", "troupe"}, {"version", program_version()}};
    context.console.data(*json ? json_text(document) : version_text() + "\n");
    return ExitCode::ok;
  });
}

}  // namespace troupe::apps
