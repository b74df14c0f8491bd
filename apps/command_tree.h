// SPDX-License-Identifier: Apache-2.0
// The command line as data: every verb with its options, arguments and texts, read from CLI11's
// own tree. Completion scripts and manual pages are made from it, so they know what the parser
// knows. Plain values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace troupe::apps {

/// What stands behind an option, or in the place of an argument.
enum class WordKind : std::uint8_t {
  none,   ///< a flag
  text,   ///< anything that only the caller knows
  file,   ///< a path
  folder  ///< a path of a folder
};

/// An option, or with no names an argument.
struct OptionInfo {
  std::vector<std::string> names;  ///< "-q", "--quiet": short ones first
  std::string label;               ///< "FILE.json", "JOB.toml"; empty for a flag
  WordKind kind = WordKind::none;
  std::string meaning;
  std::string default_text;  ///< empty: none is told
  bool required = false;
  bool repeats = false;  ///< may be given more than once
};

/// A verb, a family of verbs, or the program.
struct VerbInfo {
  std::string name;  ///< "pack"; the program's for the program
  std::string path;  ///< "data pack"; empty for the program
  std::string summary;
  std::vector<std::string> examples;
  std::vector<OptionInfo> options;    ///< its own; those of the program go with every verb
  std::vector<OptionInfo> arguments;  ///< in order
  std::vector<VerbInfo> verbs;        ///< in order; without what only programs call
};

/// The tree below `app`, which is the program.
VerbInfo describe_program(const CLI::App& app);

/// The program's verbs and all verbs below them, parents first; without the program itself.
std::vector<const VerbInfo*> all_verbs(const VerbInfo& program);

}  // namespace troupe::apps
