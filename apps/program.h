// SPDX-License-Identifier: Apache-2.0
// The `troupe` command: its command line, its verbs and how it ends. One thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/config_file.h"
#include "apps/console.h"
#include "apps/exit_code.h"
#include "base/environment.h"
#include "base/log.h"

namespace troupe::apps {

/// What every verb gets, and where the verb chosen leaves its action.
struct Context {
  Context(Console& streams, base::Environment variables)
      : console(streams), environment(std::move(variables)) {}

  Console& console;
  base::Environment environment;
  std::string coordinator;           ///< --coordinator, else TROUPE_COORDINATOR; may be empty
  std::string identity;              ///< --identity, else TROUPE_IDENTITY; may be empty
  std::string token_file;            ///< --token, else TROUPE_TOKEN_FILE; may be empty
  bool quiet = false;                ///< warnings and errors only
  bool verbose = false;              ///< debug messages too
  bool no_color = false;             ///< --no-color
  std::function<ExitCode()> action;  ///< set while the command line is parsed

  /// Where the coordinator's address, the identity and the token come from, for errors: the option,
  /// or the variable that stands for it.
  std::string_view coordinator_source() const;
  std::string_view identity_source() const;
  std::string_view token_source() const;
  /// What -q, -v and TROUPE_LOG_LEVEL ask for.
  base::LogLevel log_level() const;
  /// Writes an operating error and gives its exit code.
  ExitCode fail(const base::Status& status);
  /// Writes what is wrong with a file, a line for each error, then their number.
  ExitCode fail_all(const std::vector<ConfigError>& errors, std::string_view consequence);
  /// Shows warnings, one a line.
  void warn_all(const std::vector<ConfigError>& warnings);
};

/// Runs a command line (without the program's name). Never throws.
ExitCode run_program(const std::vector<std::string>& arguments, Context& context);

/// The program's version, "0.1.0".
std::string program_version();
/// "troupe 0.1.0".
std::string version_text();

}  // namespace troupe::apps
