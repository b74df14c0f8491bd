// SPDX-License-Identifier: Apache-2.0
// Completion scripts: shells take them, bash completes real lines with them, and they know what the
// parser knows.
#include "apps/completion.h"

#include <fmt/core.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "apps/program.h"
#include "tests/support/catch.h"
#include "tests/support/test_folder.h"

namespace troupe::apps {
namespace {

using Words = std::vector<std::string>;
using Names = std::set<std::string>;

std::string run(const Words& words) {
  std::ostringstream out, err;
  Console console(out, err);
  Context context(console, {});
  CHECK(run_program(words, context) == ExitCode::ok);
  CHECK(err.str().empty());
  return out.str();
}

/// What a command prints, its messages included, and whether it ended well.
std::pair<bool, std::string> shell(const std::string& command) {
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text;
  std::array<char, 4096> part{};
  while (const std::size_t got = std::fread(part.data(), 1, part.size(), pipe)) {
    text.append(part.data(), got);
  }
  return {::pclose(pipe) == 0, text};
}

std::string in_quotes(const std::string& text) {
  return "'" + std::regex_replace(text, std::regex("'"), "'\\''") + "'";
}

/// bash with the script, in a folder that has files.
class Bash {
 public:
  Bash() {
    std::ofstream(folder_.path() / "script") << run({"completion", "bash"});
    for (const char* file : {"job one.toml", "job2.toml", "net.json"}) {
      std::ofstream(folder_.path() / file) << "\n";
    }
    std::filesystem::create_directory(folder_.path() / "jobs");
  }
  /// What it offers behind these words, the last of which is begun.
  Names offers(const Words& words) const {
    std::string list;
    for (const std::string& word : words) list += " " + in_quotes(word);
    const auto [ended_well, text] = shell(
        fmt::format("cd {} && bash -uc {}", in_quotes(folder_.path().string()),
                    in_quotes(fmt::format("source ./script; COMP_WORDS=(troupe{}); COMP_CWORD={}; "
                                          "_troupe; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
                                          list, words.size()))));
    INFO(text);
    CHECK(ended_well);
    Names names;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty()) names.insert(line);
    }
    return names;
  }

 private:
  TestFolder folder_{"completion"};
};

TEST_CASE("shells accept their scripts", "[completion]") {
  const TestFolder folder("completion");
  for (const std::string name : {"bash", "zsh", "fish"}) {
    const std::string script = run({"completion", name});
    CHECK(script.find("troupe completion " + name) != std::string::npos);
    if (!shell("command -v " + name).first) {
      WARN(name << " is not installed: nobody has read its script here");
      continue;
    }
    const auto path = folder.path() / name;
    std::ofstream(path) << script;
    const auto [taken, said] = shell(name + " -n " + in_quotes(path.string()));
    INFO(said);
    CHECK(taken);
    CHECK(said.empty());
  }
}

TEST_CASE("bash completes verbs, options and files", "[completion]") {
  const Bash bash;
  CHECK(bash.offers({"da"}) == Names{"data"});
  CHECK(bash.offers({"data", "pack", ""}) == Names{"fashion-mnist", "generated", "idx", "images"});
  CHECK(bash.offers({"help", "checkp"}) == Names{"checkpoint"});
  CHECK(bash.offers({"-q", "job", "st"}) == Names{"status", "stop"});
  CHECK(bash.offers({"int"}).empty());  // what agents start is nobody's word
  CHECK(bash.offers({"model", "inspect", "--ba"}) == Names{"--batch"});
  CHECK(bash.offers({"model", "inspect", "--qui"}) == Names{"--quiet"});
  CHECK(bash.offers({"data", "--dec"}).empty());  // an option of `data check`
  // Paths, and only folders where only a folder will do.
  CHECK(bash.offers({"run", "job"}) == Names{"job one.toml", "job2.toml", "jobs"});
  CHECK(bash.offers({"run", "job2.toml", "--trace", "n"}) == Names{"net.json"});
  CHECK(bash.offers({"run", "--trace", "=", "n"}) == Names{"net.json"});
  CHECK(bash.offers({"run", "--trace", "="}).size() == 5);
  CHECK(bash.offers({"data", "pack", "idx", "--out", "jo"}) == Names{"jobs"});
  CHECK(bash.offers({"job", "status", "jo"}).empty());  // the id of a job is no path
  // bash cuts words at ':' and '='.
  CHECK(bash.offers({"--coordinator", "127.0.0.1", ":", "7700", "job", "li"}) == Names{"list"});
  CHECK(bash.offers({"--coordinator", "127.0.0.1", ":", "77"}).empty());
  CHECK(bash.offers({"--coordinator", "127.0.0.1", ":"}).empty());
  CHECK(bash.offers({"run", "--set", "data.batch", "=", "64", "--tr"}) == Names{"--trace"});
  CHECK(bash.offers({"run", "--set", "=", "data.batch", "=", "64", "--tr"}) == Names{"--trace"});
}

/// All matches of the expression's group.
Names found(const std::string& text, const std::string& expression) {
  Names names;
  const std::regex pattern(expression);
  for (auto at = std::sregex_iterator(text.begin(), text.end(), pattern);
       at != std::sregex_iterator(); ++at) {
    names.insert((*at)[1]);
  }
  return names;
}

TEST_CASE("scripts have the options of the help, of every verb", "[completion]") {
  const std::string script = run({"completion", "bash"});
  const std::string zsh = run({"completion", "zsh"});
  const std::string fish = run({"completion", "fish"});
  const Names global = found(run({"help"}), "\n  (?:-., ?)?(--[a-z0-9-]+)");
  CHECK(global.count("--coordinator") == 1);
  const std::regex cases(
      "    \"([a-z -]*)\"\\)\n      verbs=\"[^\"]*\"\n      options=\"([^\"]*)\"");
  std::size_t verbs = 0;
  for (auto at = std::sregex_iterator(script.begin(), script.end(), cases);
       at != std::sregex_iterator(); ++at, ++verbs) {
    const std::string path = (*at)[1];
    INFO(path);
    Words help = {"help"};
    std::istringstream words(path);
    for (std::string word; words >> word;) help.push_back(word);
    Names expected = found(run(help), "\n  (?:-., ?)?(--[a-z0-9-]+)");
    expected.insert(global.begin(), global.end());
    CHECK(found(" " + (*at)[2].str(), " (--[a-z0-9-]+)") == expected);
    for (const std::string& option : expected) {
      CHECK(zsh.find(option + "[") != std::string::npos);
      CHECK(fish.find(" -l " + option.substr(2) + " ") != std::string::npos);
    }
    if (path.empty()) continue;
    CHECK(zsh.find("_troupe_" + std::regex_replace(path, std::regex(" "), "_") + "() {") !=
          std::string::npos);
    CHECK(fish.find("'" + path + "'") != std::string::npos);
  }
  CHECK(verbs > 25);
  CHECK(script.find("internal") == std::string::npos);
}

TEST_CASE("texts of the help are quoted for each shell", "[completion]") {
  VerbInfo program;
  program.name = "t";
  program.options = {
      {{"-a", "--all"}, "A:B", WordKind::text, "it's [all]: \\ $x", "", false, false}};
  program.verbs.resize(1);
  program.verbs[0].name = program.verbs[0].path = "go";
  program.verbs[0].summary = "It's \"go\": \\now";
  CHECK(zsh_completion(program).find("'(-a --all)--all[it'\\''s \\[all\\]\\: \\\\ $x]:A\\:B: '") !=
        std::string::npos);
  CHECK(zsh_completion(program).find("'go:It'\\''s \"go\"\\: \\\\now'") != std::string::npos);
  CHECK(fish_completion(program).find("-d 'it\\'s [all]: \\\\ $x'") != std::string::npos);
  CHECK(bash_completion(program).find("texts=\" --all -a \"") != std::string::npos);
}

}  // namespace
}  // namespace troupe::apps
