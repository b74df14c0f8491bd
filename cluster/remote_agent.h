// SPDX-License-Identifier: Apache-2.0
// What ssh is asked to do on a host of `troupe run --hosts`: a shell that takes an agent's
// identity, and the files of its pages, from its standard input, starts the agent, and leaves
// nothing behind. No secret is in the words. Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cluster/host_list.h"
#include "schemas/job_spec.h"

namespace troupe::cluster {

/// An agent that is to be started on a host.
struct RemoteAgent {
  RemoteHost host;
  std::string join;  ///< the coordinator's HOST:PORT
  std::string
      nearby;  ///< the coordinator's host: the agent's own, where ssh came over the loopback
  std::string program;   ///< troupe on the host
  std::string fallback;  ///< where there is no such program: another one; may be empty
  /// What the host's places are for: its first GPUs, one for each.
  schemas::WorkerDevice device = schemas::WorkerDevice::cpu;
  bool pages = false;    ///< others may read the agent's pages: they are not on its loopback
  bool verbose = false;  ///< logs debug messages; else warnings and errors
};

/// Words of a command line, as --ssh gives it: between spaces; quotes, double or single, keep
/// spaces. invalid_argument: a quote without an end, or no word at all.
base::Result<std::vector<std::string>> split_words(std::string_view text);

/// One word for a shell, whatever is in it.
std::string quote_word(std::string_view word);

/// The command for the host, one word for ssh. The agent ends with the standard input of the
/// command; the command ends with the agent, and by its exit code.
std::string remote_command(const RemoteAgent& agent);

/// Files that the agent reads, by what is in them.
struct RemoteFiles {
  std::string identity;     ///< PEM
  std::string pages_pem;    ///< --metrics-tls; empty: none
  std::string pages_token;  ///< --metrics-token; empty: none
};

/// What the command's standard input begins with. It then stays open while the agent is wanted.
std::string remote_input(const RemoteFiles& files);

}  // namespace troupe::cluster
