// SPDX-License-Identifier: Apache-2.0
// How people's commands reach the coordinator that --coordinator or TROUPE_COORDINATOR names. One
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "apps/program.h"
#include "cluster/job_client.h"

namespace CLI {
class App;
}  // namespace CLI

namespace troupe::apps {

/// How a command asks.
struct CoordinatorCall {
  std::string grace;           ///< --grace, checked; empty: limits.coordinator_grace_ms
  std::function<bool()> stop;  ///< see cluster::JobClientOptions; may be empty
  /// The same; empty: a message says it.
  std::function<void(const base::Status& why, std::uint64_t left_ms)> on_lost;
};

/// The option --grace. `grace` outlives the parsing.
void add_grace_option(CLI::App& verb, std::string& grace);

/// The token that --token or TROUPE_TOKEN_FILE names; empty: none. Errors: those of
/// trust::read_token().
base::Result<std::string> shown_token(const Context& context);

/// The words after which `job wait ID` asks the same coordinator as the same person: what came by
/// options, quoted for a shell. What came by the environment is still there.
std::string program_words(const Context& context);

/// Makes a client and runs the action with it. Without an address, or with one that is none: bad
/// usage.
ExitCode call_coordinator(const CoordinatorCall& call, Context& context,
                          const std::function<ExitCode(cluster::JobClient&)>& action);

}  // namespace troupe::apps
