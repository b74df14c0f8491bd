// SPDX-License-Identifier: Apache-2.0
// Private to this folder.
// What the verbs of `troupe gen` share: files are made from those that the program holds, and
// written into a folder. What is there with other content stays, unless it may be replaced. One
// thread.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/built_in_files.h"
#include "apps/program.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace troupe::apps {

/// A file that is to be written.
struct MadeFile {
  std::string name;  ///< below the folder
  std::string text;
};

/// Where to.
struct GenTarget {
  std::filesystem::path out;  ///< empty: standard output, of the first file
  bool force = false;
};

/// `text` with every `old` replaced.
std::string replaced(std::string text, std::string_view old, std::string_view with);

/// Those of `files` whose names begin so.
std::vector<MadeFile> files_of(std::span<const BuiltInFile> files, std::string_view beginning);

/// --out and --force of `verb`; gives the first. `target` outlives the parsing.
CLI::Option* add_target(CLI::App* verb, GenTarget& target);

/// Writes and lists all files, or none: already_exists is an error with the file's name.
ExitCode write_made(const std::vector<MadeFile>& files, const GenTarget& target, Context& context);

}  // namespace troupe::apps
