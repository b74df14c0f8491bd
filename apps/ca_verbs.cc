// SPDX-License-Identifier: Apache-2.0
// troupe ca: a cluster's own authority, which signs for its coordinator, agents and people.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>

#include "apps/coordinator_call.h"
#include "apps/json_text.h"
#include "apps/lifetime.h"
#include "apps/verbs.h"
#include "base/clock.h"
#include "base/units.h"
#include "trust/authority.h"

namespace troupe::apps {
namespace {

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
  bool json = false;
};
using OptionsPtr = std::shared_ptr<Options>;

/// From now on for `time`, which check_duration() has seen.
trust::Validity validity_of(const std::string& time) {
  const auto ms = base::parse_duration_ms(time).value();
  return trust::valid_for(base::unix_seconds(), static_cast<std::int64_t>(ms / 1'000));
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

/// True when the file holds this certificate, also where an error was told of writing it.
bool is_in(const std::filesystem::path& file, const trust::Credentials& made) {
  const auto there = trust::read_credentials(file);
  return there.ok() && there->info.serial == made.info.serial;
}

/// Writes what was signed and says until when it is valid. What cannot be written is not signed.
ExitCode hand_out(trust::Authority& authority, const base::Result<trust::Credentials>& made,
                  const std::filesystem::path& file, const char* cure, Context& context) {
  if (!made.ok()) return context.fail(made.status());
  const base::Status written = trust::write_credentials(file, *made);
  if (!written.ok()) {
    const bool useless = !is_in(file, *made);
    if (!useless || authority.forget(made->info.serial).ok()) return context.fail(written);
    return context.fail(base::Status(
        written.code(), fmt::format("{}; certificate {} stays in the authority's book: {}",
                                    written.text(), made->info.serial, cure)));
  }
  const std::int64_t end = trust::read_certificate(made->authority)->validity.until;
  if (made->info.validity.until == end) {
    context.console.note("it is valid as long as the authority itself, no longer");
  }
  context.console.line(fmt::format("{}: {}, certificate {}, until {}", file.string(),
                                   made->info.identity.to_string(), made->info.serial,
                                   base::format_date(made->info.validity.until)));
  return ExitCode::ok;
}

/// What to do where the file is there: one whose certificate was revoked is not renewed.
base::Status taken(const std::filesystem::path& file, const trust::Authority& authority) {
  const auto old = trust::read_credentials(file);
  bool revoked = false;
  for (const trust::Issued& each : authority.issued()) {
    revoked |= old.ok() && each.serial == old->info.serial && each.withdrawn != 0;
  }
  return base::error(base::Errc::already_exists, "{}: exists; {}", file.string(),
                     revoked ? "its certificate was revoked: move it away, or name another --out"
                             : "troupe ca renew replaces it");
}

ExitCode issue(const Options& options, Context& context) {
  auto authority = trust::Authority::open(options.folder);
  if (!authority.ok()) return context.fail(authority.status());
  std::error_code unknown;
  if (std::filesystem::exists(options.file, unknown)) {
    return context.fail(taken(options.file, *authority));
  }
  const auto made = authority->issue(trust::parse_role(options.role).value(), options.name,
                                     validity_of(options.time), base::unix_seconds());
  return hand_out(*authority, made, options.file, "troupe ca revoke before it is issued again",
                  context);
}

ExitCode renew(const Options& options, Context& context) {
  auto authority = trust::Authority::open(options.folder);
  if (!authority.ok()) return context.fail(authority.status());
  const auto old = trust::read_credentials(options.file);
  if (!old.ok()) return context.fail(old.status());
  const auto made = authority->renew(*old, validity_of(options.time), base::unix_seconds());
  return hand_out(*authority, made, options.file, "renew it again", context);
}

ExitCode revoke(const Options& options, Context& context) {
  auto authority = trust::Authority::open(options.folder);
  if (!authority.ok()) return context.fail(authority.status());
  const base::Status status = authority->revoke(trust::parse_role(options.role).value(),
                                                options.name, base::unix_seconds());
  if (!status.ok()) return context.fail(status);
  context.console.note(
      fmt::format("next: troupe ca tell {}, so that the coordinator and all agents know",
                  options.folder.string()));
  return ExitCode::ok;
}

ExitCode tell(const Options& options, Context& context) {
  const auto authority = trust::Authority::open(options.folder);
  if (!authority.ok()) return context.fail(authority.status());
  return call_coordinator({}, context, [&](cluster::JobClient& client) {
    const base::Status told = client.deny(authority->deny_list());
    if (told.code() == base::Errc::permission_denied) {
      return context.fail(base::Status(
          told.code(), told.text() + "; a token that may: troupe token make STATE NAME --rights "
                                     "admin --out FILE, on the coordinator's machine"));
    }
    if (!told.ok()) return context.fail(told);
    const std::int64_t now = base::unix_seconds();
    const auto revoked = std::count_if(
        authority->issued().begin(), authority->issued().end(), [now](const trust::Issued& each) {
          return each.withdrawn != 0 && !trust::ended(each.validity, now);
        });
    context.console.line(fmt::format(
        "the coordinator knows {}",
        base::format_counted(static_cast<std::uint64_t>(revoked), "revoked certificate")));
    return ExitCode::ok;
  });
}

ExitCode list(const Options& options, Context& context) {
  const auto authority = trust::Authority::open(options.folder);
  if (!authority.ok()) return context.fail(authority.status());
  std::string text = fmt::format("{:<12} {:<16} {:<9} {:<21} {}\n", "ROLE", "NAME", "STATE",
                                 "UNTIL", "CERTIFICATE");
  Json rows = Json::array();
  const std::int64_t now = base::unix_seconds();
  for (const trust::Issued& each : authority->issued()) {
    const std::string until = base::format_date(each.validity.until);
    const std::string_view state = trust::state_name(each.validity, each.withdrawn, now);
    text += fmt::format("{:<12} {:<16} {:<9} {:<21} {}\n", trust::role_name(each.identity.role),
                        each.identity.name, state, until, each.serial);
    rows.push_back({{"role", trust::role_name(each.identity.role)},
                    {"name", each.identity.name},
                    {"state", state},
                    {"until", until},
                    {"serial", each.serial}});
  }
  const Json document = {{"cluster", authority->cluster()}, {"certificates", std::move(rows)}};
  context.console.data(options.json ? json_text(document) : text);
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
  verb.add_option("NAME", options.name, "The name of the coordinator, machine or person")
      ->required()
      ->type_name("")
      ->check(check_name);
}

void add_time(CLI::App& verb, Options& options) {
  verb.add_option("--for", options.time, "How long it is valid")
      ->capture_default_str()
      ->type_name("TIME")
      ->check(check_lifetime);
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
             describe("Replace a file by one with a new key that is valid longer",
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
  verb = add(*family, context, "list", describe("List what was signed", {"troupe ca list ca"}),
             options, list);
  add_json_flag(*verb, options->json);

  options = options_for(kMachineTime);
  add(*family, context, "tell",
      describe("Hand what is revoked to the coordinator, which passes it on",
               {"troupe ca tell ca --coordinator node0:7700"}),
      options, tell);
}

}  // namespace troupe::apps
