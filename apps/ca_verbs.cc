// SPDX-License-Identifier: Apache-2.0
// troupe ca: a cluster's own authority, which signs for its coordinator, agents and people.
#include <CLI/CLI.hpp>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <memory>

#include "apps/verbs.h"
#include "base/units.h"
#include "trust/authority.h"

namespace troupe::apps {
namespace {

/// Clocks of machines differ; a certificate holds a little before it was made.
constexpr std::int64_t kSkewSeconds = 300;
constexpr const char* kAuthorityTime = "3650d";
constexpr const char* kMachineTime = "90d";

/// What the verbs of the family read.
struct Options {
  std::filesystem::path folder;
  std::string cluster;
  std::string role;
  std::string name;
  std::filesystem::path file;
  std::string time;
};
using OptionsPtr = std::shared_ptr<Options>;

std::int64_t unix_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// From now on for `time`, which check_duration() has seen.
trust::Validity validity_of(const std::string& time) {
  const std::int64_t now = unix_now();
  const auto ms = base::parse_duration_ms(time).value();
  return {now - kSkewSeconds, now + static_cast<std::int64_t>(ms / 1'000)};
}

/// "2026-11-22T10:31:56Z".
std::string date_text(std::int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

ExitCode init(const Options& options, Context& context) {
  const auto made =
      trust::Authority::create(options.folder, options.cluster, validity_of(options.time));
  if (!made.ok()) return context.fail(made.status());
  context.console.note(fmt::format("keep {} secret: it signs for cluster '{}'",
                                   (options.folder / "authority.pem").string(), options.cluster));
  context.console.note(
      fmt::format("next: troupe ca issue {} coordinator NAME --out FILE", options.folder.string()));
  return ExitCode::ok;
}

/// Writes what was signed and says until when it holds.
ExitCode hand_out(const base::Result<trust::Credentials>& made, const std::filesystem::path& file,
                  Context& context) {
  if (!made.ok()) return context.fail(made.status());
  const base::Status written = trust::write_credentials(file, *made);
  if (!written.ok()) return context.fail(written);
  context.console.data(fmt::format("{}: {}, certificate {}, until {}\n", file.string(),
                                   made->info.identity.to_string(), made->info.serial,
                                   date_text(made->info.validity.until)));
  return ExitCode::ok;
}

ExitCode issue(const Options& options, Context& context) {
  std::error_code unknown;
  if (std::filesystem::exists(options.file, unknown)) {
    return context.fail(base::error(base::Errc::already_exists,
                                    "{}: exists; troupe ca renew replaces it",
                                    options.file.string()));
  }
  auto authority = trust::Authority::open(options.folder);
  if (!authority.ok()) return context.fail(authority.status());
  return hand_out(authority->issue(trust::parse_role(options.role).value(), options.name,
                                   validity_of(options.time)),
                  options.file, context);
}

ExitCode renew(const Options& options, Context& context) {
  auto authority = trust::Authority::open(options.folder);
  if (!authority.ok()) return context.fail(authority.status());
  const auto old = trust::read_credentials(options.file);
  if (!old.ok()) return context.fail(old.status());
  return hand_out(authority->renew(*old, validity_of(options.time)), options.file, context);
}

ExitCode revoke(const Options& options, Context& context) {
  auto authority = trust::Authority::open(options.folder);
  if (!authority.ok()) return context.fail(authority.status());
  const base::Status status =
      authority->revoke(trust::parse_role(options.role).value(), options.name, unix_now());
  if (!status.ok()) return context.fail(status);
  context.console.note(
      fmt::format("{}: the list of what is revoked", (options.folder / "denied.pem").string()));
  return ExitCode::ok;
}

ExitCode list(const Options& options, Context& context) {
  const auto authority = trust::Authority::open(options.folder);
  if (!authority.ok()) return context.fail(authority.status());
  std::string text = fmt::format("{:<12} {:<16} {:<9} {:<21} {}\n", "ROLE", "NAME", "STATE",
                                 "UNTIL", "CERTIFICATE");
  const std::int64_t now = unix_now();
  for (const trust::Issued& each : authority->issued()) {
    const char* state = each.withdrawn != 0         ? "revoked"
                        : each.validity.until < now ? "expired"
                                                    : "valid";
    text += fmt::format("{:<12} {:<16} {:<9} {:<21} {}\n", trust::role_name(each.identity.role),
                        each.identity.name, state, date_text(each.validity.until), each.serial);
  }
  context.console.data(text);
  return ExitCode::ok;
}

/// A verb of the family whose first argument is the authority's folder.
CLI::App* add(CLI::App& family, Context& context, const char* name, const std::string& description,
              const OptionsPtr& options, ExitCode (*action)(const Options&, Context&)) {
  CLI::App* verb = family.add_subcommand(name, description);
  verb->add_option("DIR", options->folder, "The authority's folder")->required()->type_name("");
  set_action(verb, context, [&context, options, action] { return action(*options, context); });
  return verb;
}

void add_identity(CLI::App& verb, Options& options) {
  verb.add_option("ROLE", options.role, "coordinator, agent or person")
      ->required()
      ->type_name("")
      ->check(CLI::IsMember({"coordinator", "agent", "person"}));
  verb.add_option("NAME", options.name, "Of the coordinator, machine or person")
      ->required()
      ->type_name("")
      ->check(check_name);
}

void add_time(CLI::App& verb, Options& options) {
  verb.add_option("--for", options.time, "How long it holds")
      ->capture_default_str()
      ->type_name("TIME")
      ->check(check_duration);
}

OptionsPtr options_for(const char* time) {
  auto options = std::make_shared<Options>();
  options->time = time;
  return options;
}

}  // namespace

void add_ca_verbs(CLI::App& app, Context& context) {
  CLI::App* family = add_family(app, "ca", "Sign for the machines of a cluster");
  OptionsPtr options = options_for(kAuthorityTime);
  CLI::App* verb = add(*family, context, "init",
                       describe("Make a cluster's authority", {"troupe ca init ca --cluster lab"}),
                       options, init);
  verb->add_option("--cluster", options->cluster, "The cluster's name")
      ->required()
      ->type_name("NAME")
      ->check(check_name);
  add_time(*verb, *options);

  options = options_for(kMachineTime);
  verb = add(*family, context, "issue",
             describe("Make the one file that a coordinator, an agent or a person needs",
                      {"troupe ca issue ca coordinator main --out coordinator.pem",
                       "troupe ca issue ca agent node1 --out node1.pem --for 30d"}),
             options, issue);
  add_identity(*verb, *options);
  verb->add_option("--out", options->file, "The file to make, mode 0600")
      ->required()
      ->type_name("FILE");
  add_time(*verb, *options);

  options = options_for(kMachineTime);
  verb = add(*family, context, "renew",
             describe("Replace a file by one with a new key that holds longer",
                      {"troupe ca renew ca node1.pem"}),
             options, renew);
  verb->add_option("FILE", options->file, "As ca issue made it")->required()->type_name("");
  add_time(*verb, *options);

  options = options_for(kMachineTime);
  verb = add(*family, context, "revoke",
             describe("Withdraw all that a coordinator, an agent or a person has",
                      {"troupe ca revoke ca agent node1"}),
             options, revoke);
  add_identity(*verb, *options);

  options = options_for(kMachineTime);
  add(*family, context, "list", describe("List what was signed", {"troupe ca list ca"}), options,
      list);
}

}  // namespace troupe::apps
