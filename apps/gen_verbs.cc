// SPDX-License-Identifier: Apache-2.0
// troupe gen: files that make Prometheus and Grafana watch a cluster; beside them the verbs of
// gen_places_verbs.cc and the manual. Two files or more need a folder.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <vector>

#include "apps/gen_files.h"
#include "apps/verbs.h"
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

/// How Prometheus asks for pages; of a job, and of the list of targets below it.
std::string access_lines(const GenOptions& options, const std::string& indent) {
  std::string lines;
  if (!options.metrics_ca.empty()) {
    lines += fmt::format("{}tls_config:\n{}  ca_file: {}\n", indent, indent, options.metrics_ca);
  }
  if (!options.metrics_token.empty()) {
    lines += fmt::format("{}authorization:\n{}  credentials_file: {}\n", indent, indent,
                         options.metrics_token);
  }
  return lines;
}

ExitCode gen_prometheus(const GenOptions& options, Context& context) {
  constexpr std::string_view kJob = "  - job_name: troupe\n";
  constexpr std::string_view kLast = "        refresh_interval: 15s\n";
  std::vector<MadeFile> files = files_of(watching_files(), "prometheus.yml");
  std::string& text = files.front().text;
  const std::string scheme = options.metrics_ca.empty() ? "" : "    scheme: https\n";
  text = replaced(text, kJob, std::string(kJob) + scheme + access_lines(options, "    "));
  text = replaced(text, kLast, std::string(kLast) + access_lines(options, "        "));
  if (!scheme.empty()) text = replaced(text, "http://", "https://");
  text = replaced(text, kMetrics, options.metrics);
  return write_made(files, options.target, context);
}

/// Grafana reads the dashboards from where they are written now.
ExitCode gen_grafana(const GenOptions& options, Context& context) {
  std::error_code code;
  const std::filesystem::path folder = std::filesystem::absolute(options.target.out, code);
  if (code) {
    return context.fail(base::error(base::errc_of_errno(code.value()), "{}: {}",
                                    options.target.out.string(), code.message()));
  }
  std::vector<MadeFile> files = files_of(watching_files(), "provisioning/");
  for (MadeFile& file : files) {
    file.text = replaced(file.text, kPrometheus, options.prometheus);
    file.text = replaced(file.text, kDashboards, (folder / "dashboards").string());
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
