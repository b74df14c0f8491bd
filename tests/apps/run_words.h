// SPDX-License-Identifier: Apache-2.0
// Test support: the program with its words, in this process, and files that it has written.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "apps/program.h"
#include "tests/support/catch.h"

namespace troupe::apps {

/// How a command ended.
struct Run {
  int code;
  std::string out;
  std::string err;
};

inline Run run(const std::vector<std::string>& words) {
  std::ostringstream out, err;
  Console console(out, err);
  Context context(console, {});
  const ExitCode code = run_program(words, context);
  return {static_cast<int>(code), out.str(), err.str()};
}

/// A file's bytes.
inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  INFO(path);
  REQUIRE(file.is_open());
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace troupe::apps
