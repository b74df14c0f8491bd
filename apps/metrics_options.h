// SPDX-License-Identifier: Apache-2.0
// --metrics, --metrics-tls and --metrics-token: where a program's pages are, and who may read them.
// One thread.
#pragma once

#include <string>

#include "base/address.h"
#include "base/status.h"
#include "http/guard.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace troupe::apps {

/// What was written on the command line.
struct MetricsOptions {
  std::string address;
  http::GuardFiles files;

  /// Where the pages are. invalid_argument: the host is neither a number nor a name.
  base::Result<base::Address> place() const;
  /// Opens the files. Off the loopback it warns of what is missing for strangers to stay out.
  base::Result<http::Guard> guard(const base::Address& place) const;
};

/// Where Prometheus is sent for the pages of a coordinator that listens at `listen`: pages on all
/// addresses are found at its host, or by this machine's name.
std::string pages_host(const base::Address& pages, const base::Address& listen);

/// The three options; returns --metrics, whose meaning is `what`. `options` outlives the parsing.
CLI::Option* add_metrics_options(CLI::App& verb, MetricsOptions& options, const std::string& what);

/// The two files alone.
void add_guard_options(CLI::App& verb, http::GuardFiles& files);

}  // namespace troupe::apps
