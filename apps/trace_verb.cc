// SPDX-License-Identifier: Apache-2.0
// troupe trace: where the time of a traced run went.
#include <CLI/CLI.hpp>
#include <memory>

#include "apps/json_text.h"
#include "apps/trace_report.h"
#include "apps/verbs.h"

namespace troupe::apps {
namespace {

struct TraceOptions {
  std::string path;
  std::string by = "op";
  std::size_t top = 20;
  bool json = false;
};

ExitCode show(const TraceOptions& options, Context& context) {
  const auto trace = read_trace(options.path);
  if (!trace.ok()) return context.fail(trace.status());
  const TraceReport report = report_of(*trace, trace_key(options.by));
  context.console.data(options.json ? json_text(json_of(report, options.path, options.top))
                                    : text_of(report, options.top));
  return ExitCode::ok;
}

}  // namespace

void add_trace_verb(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "trace", describe("Show where the time of a traced run went, how busy its lanes were, and "
                        "their gaps: pauses "
                        "of 10 us and more",
                        {"troupe run JOB.toml --trace trace.json --set train.max_steps=50",
                         "troupe trace trace.json", "troupe trace trace.json --by name --top 40",
                         "troupe trace trace.json --by kernel --json"}));
  const auto options = std::make_shared<TraceOptions>();
  verb->add_option("FILE", options->path, "What 'troupe run --trace FILE' has written")
      ->required()
      ->type_name("");
  verb->add_option("--by", options->by, "What makes a row of the table; default: op")
      ->check(CLI::IsMember({"op", "name", "kernel", "lane"}));
  set_range(verb->add_option("--top", options->top, "Rows of a table at most; 0: all; default: 20"),
            0, 1 << 20);
  add_json_flag(*verb, options->json);
  set_action(verb, context, [&context, options] { return show(*options, context); });
}

}  // namespace troupe::apps
