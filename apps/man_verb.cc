// SPDX-License-Identifier: Apache-2.0
// troupe gen man: the manual pages as files.
#include <CLI/CLI.hpp>
#include <memory>

#include "apps/gen_files.h"
#include "apps/man_page.h"
#include "apps/verbs.h"

namespace troupe::apps {
namespace {

ExitCode write_manual(const CLI::App& app, const GenTarget& target, Context& context) {
  std::vector<MadeFile> files;
  for (ManPage& page : man_pages(describe_program(app), program_version())) {
    files.push_back({std::move(page.file), std::move(page.text)});
  }
  return write_made(files, target, context);
}

}  // namespace

void add_man_verb(CLI::App& app, CLI::App& family, Context& context) {
  CLI::App* verb = family.add_subcommand(
      "man", describe("Write manual pages made from the help; prints their paths",
                      {"troupe gen man -o man1 && man -l man1/troupe-run.1"}));
  const auto target = std::make_shared<GenTarget>();
  add_target(verb, *target)->required();
  set_action(verb, context,
             [&app, &context, target] { return write_manual(app, *target, context); });
}

}  // namespace troupe::apps
