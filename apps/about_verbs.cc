// SPDX-License-Identifier: Apache-2.0
// troupe version, troupe metrics: what this program is and what it counts.
#include <CLI/CLI.hpp>

#include "apps/verbs.h"
#include "monitoring/families.h"

namespace troupe::apps {
namespace {

ExitCode list_metrics(Context& context) {
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
  context.console.data(text);
  return ExitCode::ok;
}

}  // namespace

void add_about_verbs(CLI::App& app, Context& context) {
  CLI::App* metrics = app.add_subcommand(
      "metrics",
      describe("List the metrics: name, labels, type, meaning", {"troupe metrics --list"}));
  metrics->add_flag("--list")->description("One family a line")->required();
  set_action(metrics, context, [&context] { return list_metrics(context); });

  CLI::App* version = app.add_subcommand("version", "Print the version");
  set_action(version, context, [&context] {
    context.console.data(version_text() + "\n");
    return ExitCode::ok;
  });
}

}  // namespace troupe::apps
