// SPDX-License-Identifier: Apache-2.0
// The address, and a client for it.
#include "apps/coordinator_call.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "apps/host_text.h"
#include "apps/verbs.h"
#include "base/clock.h"
#include "base/units.h"
#include "cluster/certificate_age.h"
#include "cluster/identity_file.h"
#include "cluster/remote_agent.h"
#include "trust/token.h"

namespace troupe::apps {

void add_grace_option(CLI::App& verb, std::string& grace) {
  verb.add_option("--grace", grace, "How long a lost coordinator is waited for (10m)")
      ->check(check_duration)
      ->type_name("TIME");
}

base::Result<std::string> shown_token(const Context& context) {
  if (context.token_file.empty()) return std::string();
  auto token = trust::read_token(context.token_file);
  if (!token.ok()) return token.status().with_context(context.token_source());
  return token;
}

std::string program_words(const Context& context) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./:@%+,";
  const base::Environment& variables = context.environment;
  std::string text = "troupe";
  const auto add = [&text, kPlain](std::string_view option, const std::string& value,
                                   const std::string& variable) {
    if (value == variable) return;
    const bool plain = !value.empty() && value.find_first_not_of(kPlain) == std::string::npos;
    text.append(" ").append(option).append(" ").append(plain ? value : cluster::quote_word(value));
  };
  add("--coordinator", context.coordinator, variables.coordinator);
  add("--identity", context.identity, variables.identity);
  add("--token", context.token_file, variables.token_file);
  return text;
}

ExitCode call_coordinator(const CoordinatorCall& call, Context& context,
                          const std::function<ExitCode(cluster::JobClient&)>& action) {
  if (context.coordinator.empty()) {
    context.console.error("which coordinator? --coordinator HOST:PORT or TROUPE_COORDINATOR");
    return ExitCode::bad_usage;
  }
  // An option has been checked; this may be the environment's.
  if (const std::string fault = check_address(context.coordinator); !fault.empty()) {
    context.console.error(fmt::format("{}: {}", context.coordinator_source(), fault));
    return ExitCode::bad_usage;
  }
  if (context.identity.empty() && !on_loopback(context.coordinator)) {
    return context.fail(base::error(
        base::Errc::permission_denied,
        "{} {}: --identity FILE (or TROUPE_IDENTITY) is missing: a coordinator beyond the loopback "
        "wants a certificate",
        context.coordinator_source(), context.coordinator));
  }
  cluster::JobClientOptions options;
  if (!context.identity.empty()) {
    const auto identity = cluster::IdentityFile::open(context.identity, trust::Role::person);
    if (!identity.ok())
      return context.fail(identity.status().with_context(context.identity_source()));
    options.tls = (*identity)->tls();
    const auto ended = cluster::check_certificate(identity->get(), base::unix_seconds());
    if (!ended.ok()) return context.fail(ended.with_context(context.identity_source()));
  }
  auto token = shown_token(context);
  if (!token.ok()) return context.fail(token.status());
  options.token = *std::move(token);
  options.address = context.coordinator;
  if (!call.grace.empty()) {
    options.limits.coordinator_grace_ms = base::parse_duration_ms(call.grace).value();  // checked
  }
  options.stop = call.stop;
  options.on_lost = call.on_lost;
  if (!options.on_lost) {
    options.on_lost = [&context](const base::Status& why, std::uint64_t left_ms) {
      context.console.note(fmt::format("{}; tries again for {} s", why.text(), left_ms / 1'000));
    };
  }
  const auto client = cluster::JobClient::connect(std::move(options));
  return client.ok() ? action(**client) : context.fail(client.status());
}

}  // namespace troupe::apps
