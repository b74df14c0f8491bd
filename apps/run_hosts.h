// SPDX-License-Identifier: Apache-2.0
// troupe run --hosts: a cluster for one job, its coordinator in this process, its agents on hosts
// that ssh reaches. One thread.
#pragma once

#include <string>

#include "apps/metrics_options.h"
#include "apps/program.h"
#include "schemas/job_spec.h"

namespace CLI {
class App;
}  // namespace CLI

namespace troupe::apps {

/// What was written on the command line.
struct HostsOptions {
  std::string hosts;  ///< see cluster::parse_host_list(); empty: no other hosts
  std::string ssh = "ssh -o BatchMode=yes";
  std::string remote_troupe;
  std::string advertise;
  std::string join_wait = "1m";
};

/// --hosts and the options that need it. `options` outlives the parsing.
void add_hosts_options(CLI::App& verb, HostsOptions& options);

/// Trains the job on the hosts; ends as `job submit --wait` does. `metrics`: where the
/// coordinator's pages are.
ExitCode run_on_hosts(const HostsOptions& options, const MetricsOptions& metrics,
                      schemas::JobSpec spec, bool json, Context& context);

}  // namespace troupe::apps
