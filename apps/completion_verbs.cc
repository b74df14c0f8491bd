// SPDX-License-Identifier: Apache-2.0
// troupe completion: scripts for shells.
#include <CLI/CLI.hpp>

#include "apps/completion.h"
#include "apps/verbs.h"

namespace troupe::apps {

void add_completion_verbs(CLI::App& app, Context& context) {
  CLI::App* family =
      add_family(app, "completion",
                 describe("Print a script that completes commands in a shell",
                          {"source <(troupe completion bash)", "troupe completion fish | source"}));
  const auto add = [&](const char* shell, const std::string& description,
                       std::string (*script)(const VerbInfo&)) {
    CLI::App* verb = family->add_subcommand(shell, description);
    set_action(verb, context, [&app, &context, script] {
      context.console.data(script(describe_program(app)));
      return ExitCode::ok;
    });
  };
  add("bash", describe("For bash 4.4 and later", {"source <(troupe completion bash)"}),
      bash_completion);
  add("zsh", describe("For zsh, after compinit", {"source <(troupe completion zsh)"}),
      zsh_completion);
  add("fish", describe("For fish 3 and later", {"troupe completion fish | source"}),
      fish_completion);
}

}  // namespace troupe::apps
