// SPDX-License-Identifier: Apache-2.0
// Scripts that complete the program's command line in shells, made from its tree of verbs. Plain
// functions; any thread.
#pragma once

#include <string>

#include "apps/command_tree.h"

namespace troupe::apps {

/// For bash 4.4 and later; needs nothing of the package bash-completion.
std::string bash_completion(const VerbInfo& program);
/// For zsh with compinit; may also be a file `_troupe` of $fpath.
std::string zsh_completion(const VerbInfo& program);
/// For fish 3 and later.
std::string fish_completion(const VerbInfo& program);

}  // namespace troupe::apps
