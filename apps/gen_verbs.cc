// SPDX-License-Identifier: Apache-2.0
// troupe gen: files that make Prometheus and Grafana watch a cluster, and the manual. Two files or
// more need a folder; what is there with other content stays, unless it may be replaced.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <vector>

#include "apps/verbs.h"
#include "apps/watching_files.h"
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
  std::filesystem::path out;
  bool force = false;
};

/// A file that is to be written.
struct Made {
  std::string name;
  std::string text;
};

std::string replaced(std::string text, std::string_view old, std::string_view with) {
  for (std::size_t at = 0; (at = text.find(old, at)) != std::string::npos; at += with.size()) {
    text.replace(at, old.size(), with);
  }
  return text;
}

/// The files whose names begin so.
std::vector<Made> files_of(std::string_view beginning) {
  std::vector<Made> files;
  for (const WatchingFile& file : watching_files()) {
    if (!file.name.starts_with(beginning)) continue;
    files.push_back({std::string(file.name), std::string(file.text)});
  }
  return files;
}

base::Status check_free(const std::vector<Made>& files, const GenOptions& options) {
  if (options.force) return {};
  for (const Made& file : files) {
    const std::filesystem::path path = options.out / file.name;
    std::error_code unknown;
    if (!std::filesystem::exists(path, unknown)) continue;
    const auto there = base::read_text_file(path, file.text.size());
    if (there.ok() && *there == file.text) continue;
    return base::error(base::Errc::already_exists,
                       "{}: exists with other content; --force replaces it", path.string());
  }
  return {};
}

base::Status write_file(const std::filesystem::path& path, const std::string& text) {
  std::error_code code;
  std::filesystem::create_directories(path.parent_path(), code);
  if (code) {
    return base::error(base::errc_of_errno(code.value()), "{}: {}", path.parent_path().string(),
                       code.message());
  }
  return base::write_file_atomically(path, std::as_bytes(std::span(text)));
}

/// Nothing is written unless all may be.
base::Status write_files(const std::vector<Made>& files, const GenOptions& options,
                         Context& context) {
  TROUPE_TRY(check_free(files, options));
  for (const Made& file : files) {
    const std::filesystem::path path = options.out / file.name;
    TROUPE_TRY(write_file(path, file.text));
    context.console.data(path.string() + "\n");
  }
  return {};
}

ExitCode finish(const std::vector<Made>& files, const GenOptions& options, Context& context) {
  if (options.out.empty()) {
    context.console.data(files.front().text);
    return ExitCode::ok;
  }
  const base::Status status = write_files(files, options, context);
  return status.ok() ? ExitCode::ok : context.fail(status);
}

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
  std::vector<Made> files = files_of("prometheus.yml");
  std::string& text = files.front().text;
  const std::string scheme = options.metrics_ca.empty() ? "" : "    scheme: https\n";
  text = replaced(text, kJob, std::string(kJob) + scheme + access_lines(options, "    "));
  text = replaced(text, kLast, std::string(kLast) + access_lines(options, "        "));
  if (!scheme.empty()) text = replaced(text, "http://", "https://");
  text = replaced(text, kMetrics, options.metrics);
  return finish(files, options, context);
}

/// Grafana reads the dashboards from where they are written now.
ExitCode gen_grafana(const GenOptions& options, Context& context) {
  std::error_code code;
  const std::filesystem::path folder = std::filesystem::absolute(options.out, code);
  if (code) {
    return context.fail(base::error(base::errc_of_errno(code.value()), "{}: {}",
                                    options.out.string(), code.message()));
  }
  std::vector<Made> files = files_of("provisioning/");
  for (Made& file : files) {
    file.text = replaced(file.text, kPrometheus, options.prometheus);
    file.text = replaced(file.text, kDashboards, (folder / "dashboards").string());
  }
  for (Made& file : files_of("dashboards/")) files.push_back(std::move(file));
  return finish(files, options, context);
}

CLI::Option* add_target(CLI::App* verb, GenOptions& options) {
  verb->add_flag("--force", options.force, "Replace files that are there with other content");
  return verb->add_option("-o,--out", options.out, "Folder to write to")->type_name("DIR");
}

}  // namespace

void add_gen_verbs(CLI::App& app, Context& context) {
  CLI::App* family = add_family(app, "gen", "Write files for Prometheus, Grafana and man");
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
  add_target(prometheus, *options);
  set_action(prometheus, context,
             [&context, options] { return gen_prometheus(*options, context); });

  CLI::App* alerts = family->add_subcommand(
      "alerts",
      describe("Write alerts.yml: alerts and recording rules", {"troupe gen alerts -o watching"}));
  add_target(alerts, *options);
  set_action(alerts, context,
             [&context, options] { return finish(files_of("alerts.yml"), *options, context); });

  CLI::App* grafana = family->add_subcommand(
      "grafana", describe("Write the dashboards, and provisioning files that name them",
                          {"troupe gen grafana -o watching"}));
  add_address_option(*grafana, "--prometheus", options->prometheus, "Where Prometheus answers")
      ->capture_default_str();
  add_target(grafana, *options)->required();
  set_action(grafana, context, [&context, options] { return gen_grafana(*options, context); });

  add_man_verb(app, *family, context);
}

}  // namespace troupe::apps
