// SPDX-License-Identifier: Apache-2.0
// How a command looks at a cluster's job until it has ended, and how it says so. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "apps/program.h"
#include "cluster/job_client.h"

namespace troupe::apps {

/// What people are told between two looks at a job; `before` without a number: there was none.
/// already_exists: it is another job by now, which has the same id.
base::Result<std::vector<std::string>> news_of(const schemas::JobInfo& before,
                                               const schemas::JobInfo& now);

/// Whether the job had succeeded before somebody submitted it again `since_ms` ago.
bool had_succeeded(const schemas::JobInfo& job, std::uint64_t since_ms);

/// Looks at the job again and again and shows how it does. `goes_on` is asked after each look with
/// what is known by then; false ends the watch. `seen`: what is known of the job. Ok: it has ended
/// (`seen` says how), or `goes_on` said false; else the error of the question that has failed, or
/// of news_of().
base::Status watch_job(cluster::JobClient& client, const std::string& id,
                       const std::function<bool(const schemas::JobInfo&)>& goes_on,
                       schemas::JobInfo& seen, Context& context);

/// The end of a job for people, scripts and the exit code.
ExitCode finish_job(const schemas::JobInfo& job, bool json, Context& context);

}  // namespace troupe::apps
