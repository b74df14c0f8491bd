// SPDX-License-Identifier: Apache-2.0
// troupe gen man: the manual pages as files.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <span>

#include "apps/json_text.h"
#include "apps/man_page.h"
#include "apps/verbs.h"
#include "base/file.h"

namespace troupe::apps {
namespace {

struct ManVerb {
  std::filesystem::path out;
  bool json = false;
};

base::Status write_pages(const std::filesystem::path& folder, const std::vector<ManPage>& pages) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) {
    return base::error(base::errc_of_errno(failed.value()), "--out {}: {}", folder.string(),
                       failed.message());
  }
  for (const ManPage& page : pages) {
    TROUPE_TRY(base::write_file_atomically(
        folder / page.file, std::as_bytes(std::span(page.text.data(), page.text.size()))));
  }
  return {};
}

ExitCode write_manual(const CLI::App& app, const ManVerb& options, Context& context) {
  const std::vector<ManPage> pages = man_pages(describe_program(app), program_version());
  const base::Status written = write_pages(options.out, pages);
  if (!written.ok()) return context.fail(written);
  std::string text;
  Json files = Json::array();
  for (const ManPage& page : pages) {
    const std::string path = (options.out / page.file).string();
    text += path + "\n";
    files.push_back(path);
  }
  const Json document = {{"files", std::move(files)}};
  context.console.data(options.json ? json_text(document) : text);
  return ExitCode::ok;
}

}  // namespace

void add_man_verb(CLI::App& app, CLI::App& family, Context& context) {
  CLI::App* verb = family.add_subcommand(
      "man", describe("Write manual pages made from the help; prints their paths",
                      {"troupe gen man -o man1 && man -l man1/troupe-run.1"}));
  const auto options = std::make_shared<ManVerb>();
  verb->add_option("-o,--out", options->out, "Folder for the pages; made if it is missing")
      ->required()
      ->type_name("DIR");
  add_json_flag(*verb, options->json);
  set_action(verb, context,
             [&app, &context, options] { return write_manual(app, *options, context); });
}

}  // namespace troupe::apps
