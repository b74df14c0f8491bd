// SPDX-License-Identifier: Apache-2.0
// troupe gen: files that make Prometheus and Grafana watch a cluster; beside them the verbs of
// gen_places_verbs.cc and the manual. Two files or more need a folder.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <vector>

#include "apps/gen_files.h"
#include "apps/json_text.h"
#include "apps/verbs.h"
#include "base/address.h"
#include "base/file.h"

namespace troupe::apps {
namespace {

// What the files of monitoring/ say, and commands replace.
constexpr std::string_view kMetrics = "127.0.0.1:7701";
constexpr std::string_view kPrometheus = "127.0.0.1:9090";
constexpr std::string_view kDashboards = "/etc/grafana/troupe/dashboards";

/// Options of all three.
struct GenOptions {
  std::string metrics{kMetrics};
  std::string metrics_ca;
  std::string metrics_token;
  std::string prometheus{kPrometheus};
  GenTarget target;
};

/// Prometheus looks for relative paths beside its own file, so it gets none. JSON's strings are
/// YAML's, whatever is in them.
base::Result<std::string> path_in_yaml(const std::string& path) {
  std::error_code code;
  const std::filesystem::path absolute = std::filesystem::absolute(path, code);
  if (!code) return Json(absolute.string()).dump(-1, ' ', false, Json::error_handler_t::replace);
  return base::error(base::errc_of_errno(code.value()), "{}: {}", path, code.message());
}

/// The files are Prometheus's, perhaps on another machine.
void warn_of_missing(const GenOptions& options, Context& context) {
  for (const auto& [option, path] : {std::pair("--metrics-ca", options.metrics_ca),
                                     std::pair("--metrics-token", options.metrics_token)}) {
    std::error_code unknown;
    if (path.empty() || std::filesystem::exists(path, unknown)) continue;
    context.console.note(
        fmt::format("warning: {} {}: there is no such file here; Prometheus needs it where it runs",
                    option, path));
  }
}

/// How Prometheus asks for pages; of a job, and of the list of targets below it.
base::Result<std::string> access_lines(const GenOptions& options, const std::string& indent) {
  std::string lines;
  if (!options.metrics_ca.empty()) {
    TROUPE_TRY_ASSIGN(const std::string file, path_in_yaml(options.metrics_ca));
    lines += fmt::format("{}tls_config:\n{}  ca_file: {}\n", indent, indent, file);
  }
  if (!options.metrics_token.empty()) {
    TROUPE_TRY_ASSIGN(const std::string file, path_in_yaml(options.metrics_token));
    // Prometheus 2.42, which is Debian 12's, has no default type for a list of targets.
    lines += fmt::format("{0}authorization:\n{0}  type: Bearer\n{0}  credentials_file: {1}\n",
                         indent, file);
  }
  return lines;
}

/// In YAML what is no address could be a key, or the end of a string.
bool is_address(const std::string& option, const std::string& text, Context& context) {
  const auto address = base::parse_address_within(text, base::Reach::network);
  if (!address.ok()) context.console.error(address.status().with_context(option).text());
  return address.ok();
}

ExitCode gen_prometheus(const GenOptions& options, Context& context) {
  if (!is_address("--metrics", options.metrics, context)) return ExitCode::bad_usage;
  constexpr std::string_view kJob = "  - job_name: troupe\n";
  constexpr std::string_view kLast = "        refresh_interval: 15s\n";
  std::vector<MadeFile> files = files_of(watching_files(), "prometheus.yml");
  std::string& text = files.front().text;
  const std::string scheme = options.metrics_ca.empty() ? "" : "    scheme: https\n";
  const auto job = access_lines(options, "    ");
  const auto targets = access_lines(options, "        ");
  if (!job.ok()) return context.fail(job.status());
  if (!targets.ok()) return context.fail(targets.status());
  warn_of_missing(options, context);
  text = replaced(text, kJob, std::string(kJob) + scheme + *job);
  text = replaced(text, kLast, std::string(kLast) + *targets);
  if (!scheme.empty()) text = replaced(text, "http://", "https://");
  text = replaced(text, kMetrics, options.metrics);
  return write_made(files, options.target, context);
}

/// Grafana reads the dashboards from where they are written now.
ExitCode gen_grafana(const GenOptions& options, Context& context) {
  if (!is_address("--prometheus", options.prometheus, context)) return ExitCode::bad_usage;
  const auto dashboards = path_in_yaml((options.target.out / "dashboards").string());
  if (!dashboards.ok()) return context.fail(dashboards.status());
  const std::string path = replaced(*dashboards, "$", "$$");  // else a variable begins there
  std::vector<MadeFile> files = files_of(watching_files(), "provisioning/");
  for (MadeFile& file : files) {
    file.text = replaced(file.text, kPrometheus, options.prometheus);
    file.text = replaced(file.text, kDashboards, path);
  }
  for (MadeFile& file : files_of(watching_files(), "dashboards/")) files.push_back(std::move(file));
  return write_made(files, options.target, context);
}

}  // namespace

void add_gen_verbs(CLI::App& app, Context& context) {
  CLI::App* family = add_family(
      app, "gen", "Write files for systemd, Slurm, Kubernetes, Prometheus, Grafana and man");
  const auto options = std::make_shared<GenOptions>();

  CLI::App* prometheus = family->add_subcommand(
      "prometheus", describe("Write prometheus.yml: it finds all processes, and reads alerts.yml",
                             {"troupe gen prometheus -o watching",
                              "troupe gen prometheus --metrics 127.0.0.1:7701"}));
  add_address_option(*prometheus, "--metrics", options->metrics,
                     "The coordinator's --metrics address")
      ->capture_default_str();
  prometheus
      ->add_option("--metrics-ca", options->metrics_ca,
                   "Pages are under TLS: the certificate that signs theirs, for Prometheus to read")
      ->type_name("FILE");
  prometheus
      ->add_option("--metrics-token", options->metrics_token,
                   "The file of the pages' token, for Prometheus to read")
      ->type_name("FILE");
  add_target(prometheus, options->target);
  set_action(prometheus, context,
             [&context, options] { return gen_prometheus(*options, context); });

  CLI::App* alerts = family->add_subcommand(
      "alerts",
      describe("Write alerts.yml: alerts and recording rules", {"troupe gen alerts -o watching"}));
  add_target(alerts, options->target);
  set_action(alerts, context, [&context, options] {
    return write_made(files_of(watching_files(), "alerts.yml"), options->target, context);
  });

  CLI::App* grafana = family->add_subcommand(
      "grafana", describe("Write the dashboards, and provisioning files that name them",
                          {"troupe gen grafana -o watching"}));
  add_address_option(*grafana, "--prometheus", options->prometheus, "Where Prometheus answers")
      ->capture_default_str();
  add_target(grafana, options->target)->required();
  set_action(grafana, context, [&context, options] { return gen_grafana(*options, context); });

  add_places_verbs(*family, context);
  add_man_verb(app, *family, context);
}

}  // namespace troupe::apps
