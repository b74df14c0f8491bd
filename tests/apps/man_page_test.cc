// SPDX-License-Identifier: Apache-2.0
// Manual pages: one for each verb, without a warning of man's, with what the help says.
#include "apps/man_page.h"

#include <fmt/core.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "apps/exit_code.h"
#include "apps/program.h"
#include "tests/apps/run_words.h"
#include "tests/support/catch.h"
#include "tests/support/test_folder.h"

namespace troupe::apps {
namespace {

using Catch::Contains;
using Catch::Matchers::StartsWith;
using Words = std::vector<std::string>;

/// What a command prints.
std::string shell(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text;
  std::array<char, 4096> part{};
  while (const std::size_t got = std::fread(part.data(), 1, part.size(), pipe)) {
    text.append(part.data(), got);
  }
  ::pclose(pipe);
  return text;
}

TEST_CASE("gen man writes a page for each verb, the same at every call", "[man]") {
  const TestFolder folder("man");
  const auto out = folder.path() / "deep" / "man1";
  const Run first = run({"gen", "man", "-o", out.string()});
  CHECK(first.code == 0);
  CHECK(first.err.empty());
  std::set<std::string> listed, there;
  std::istringstream lines(first.out);
  for (std::string line; std::getline(lines, line);) listed.insert(line);
  for (const auto& entry : std::filesystem::directory_iterator(out)) {
    there.insert(entry.path().string());
  }
  CHECK(listed == there);
  for (const char* name : {"troupe.1", "troupe-run.1", "troupe-job.1", "troupe-data.1",
                           "troupe-gen.1", "troupe-completion.1", "troupe-agent.1"}) {
    CHECK(there.count((out / name).string()) == 1);
  }
  CHECK(there.count((out / "troupe-internal.1").string()) == 0);
  const std::string before = text_of(out / "troupe-data.1");
  CHECK(run({"gen", "man", "--out", out.string()}).out == first.out);
  CHECK(text_of(out / "troupe-data.1") == before);
  for (const ExitCodeInfo& row : exit_code_table()) {
    CHECK_THAT(before, Contains(fmt::format("\n\\fB{}\\fR\n", static_cast<int>(row.code))));
  }
}

TEST_CASE("options stand under OPTIONS, variables under ENVIRONMENT", "[man]") {
  const TestFolder folder("man");
  REQUIRE(run({"gen", "man", "-o", folder.path().string()}).code == 0);
  for (const char* name : {"troupe.1", "troupe-agent.1", "troupe-job.1"}) {
    const std::string page = text_of(folder.path() / name);
    const std::size_t options = page.find("\n.SH OPTIONS\n");
    const std::size_t variables = page.find("\n.SH ENVIRONMENT\n");
    REQUIRE(options < variables);
    REQUIRE(variables != std::string::npos);
    CHECK(page.find("\n\\fB\\-\\-") > options);  // the first item that is an option
    CHECK(page.find("\n\\fB\\-\\-", variables) == std::string::npos);
    CHECK(page.find("\n\\fBTROUPE_TOKEN_FILE\\fR\n") > variables);
  }
}

TEST_CASE("pages have no fault that man sees, and show what the help shows", "[man]") {
  const TestFolder folder("man");
  CHECK(run({"gen", "man", "-o", folder.path().string()}).code == 0);
  if (shell("command -v man groff").empty()) {
    WARN("man is not installed: nobody has read the pages here");
    return;
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    INFO(entry.path());
    CHECK(shell("man --warnings -E UTF-8 -l -Tutf8 -Z " + entry.path().string() +
                " 2>&1 >/dev/null") == "");
  }
  const std::string page = shell("MANWIDTH=200 GROFF_NO_SGR=1 man -E UTF-8 -l " +
                                 (folder.path() / "troupe-data.1").string() + " | col -b");
  for (const char* text :
       {"troupe-data - Make, index and check record files", "troupe data pack idx --out DIR",
        "troupe data check [options] FILE.rec", "--test-labels FILE", "--keep-encoded",
        "troupe data check train.rec --decode", "--coordinator HOST:PORT", "EXIT STATUS",
        "143    stopped by SIGTERM."}) {
    CHECK_THAT(page, Contains(text));
  }
}

TEST_CASE("signs that mean something to roff stay what they are", "[man]") {
  VerbInfo program;
  program.name = "t";
  program.summary = "It's `x` ~ ^ \\ -";
  program.options = {{{"--dot"}, "", WordKind::none, ".dot starts this", "", true, true}};
  const std::string page = man_pages(program, "1.0").at(0).text;
  CHECK_THAT(page, Contains("It\\(aqs \\(gax\\(ga \\(ti \\(ha \\e \\-"));
  CHECK_THAT(page, Contains("\n\\&.dot starts this.\nRequired.\nMay be given several times.\n"));
}

TEST_CASE("a folder that cannot be is an error with its name", "[man]") {
  const TestFolder folder("man");
  std::ofstream(folder.path() / "file") << "x";
  const Run bad = run({"gen", "man", "-o", (folder.path() / "file" / "man").string()});
  CHECK(bad.code != 0);
  CHECK(bad.out.empty());
  CHECK_THAT(bad.err, StartsWith("error: --out " + (folder.path() / "file" / "man").string()));
  CHECK(run({"gen", "man"}).code == 2);
}

}  // namespace
}  // namespace troupe::apps
