// SPDX-License-Identifier: Apache-2.0
// Pages are read-only, so they may be anywhere.
#include "apps/metrics_options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>

#include "apps/verbs.h"
#include "base/log.h"

namespace troupe::apps {
namespace {

base::Result<http::Guard> open_guard(const http::GuardFiles& files, const std::string& option) {
  auto guard = http::Guard::open(files);
  return guard.ok() ? std::move(guard) : guard.status().with_context(option);
}

}  // namespace

base::Result<base::Address> MetricsOptions::place() const {
  auto found = base::parse_address_within(address, base::Reach::network);
  return found.ok() ? std::move(found) : found.status().with_context("--metrics");
}

base::Result<http::Guard> MetricsOptions::guard(const base::Address& place) const {
  TROUPE_TRY_ASSIGN(http::Guard opened, open_guard({files.tls, {}}, "--metrics-tls"));
  TROUPE_TRY_ASSIGN(const http::Guard other, open_guard({{}, files.token}, "--metrics-token"));
  opened.token = other.token;
  if (!place.loopback() && (opened.tls == nullptr || !opened.token)) {
    base::log_warn(
        "--metrics {}: without --metrics-tls and --metrics-token whoever reaches it reads it",
        place.to_string());
  }
  return opened;
}

std::string pages_host(const base::Address& pages, const base::Address& listen) {
  if (!pages.wildcard()) return pages.host;
  if (!listen.wildcard()) return listen.host;
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

CLI::Option* add_metrics_options(CLI::App& verb, MetricsOptions& options, const std::string& what) {
  CLI::Option* address = add_address_option(verb, "--metrics", options.address, what);
  add_guard_options(verb, options.files);
  return address;
}

void add_guard_options(CLI::App& verb, http::GuardFiles& files) {
  verb.add_option("--metrics-tls", files.tls,
                  "Pages under TLS: a private key and its certificates, PEM, mode 0600")
      ->type_name("FILE");
  verb.add_option("--metrics-token", files.token,
                  "A word that requests for pages need as bearer token, mode 0600; not /healthz")
      ->type_name("FILE");
}

}  // namespace troupe::apps
