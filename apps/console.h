// SPDX-License-Identifier: Apache-2.0
// Where a command writes: data to standard output, messages to standard error, colour and moving
// lines only where a person looks. One thread.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

#include "base/environment.h"
#include "base/status.h"

namespace troupe::apps {

/// What is known about standard error, and whether a person looks at standard output.
struct ConsoleOptions {
  bool terminal = false;  ///< standard error is a terminal that can rewrite a line
  bool color = false;
  int width = 80;             ///< columns of the terminal
  bool out_terminal = false;  ///< standard output is a terminal that can rewrite a line
};

/// The two streams of a command.
class Console {
 public:
  Console(std::ostream& out, std::ostream& err, ConsoleOptions options = {})
      : out_(out), err_(err), options_(options) {}

  /// Data: what a script reads. Written as it is; whoever makes tables and lines for people of it
  /// has passed them through base::printable.
  void data(std::string_view text);
  /// One line of data for people; control characters in it become '?'.
  void line(std::string_view line);
  /// One line for people; control characters in it become '?'.
  void note(std::string_view line);
  /// note(), unless only warnings and errors are wanted.
  void info(std::string_view line);
  /// "error: LINE".
  void error(std::string_view line);
  /// Replaces the status line of a terminal; nothing elsewhere, or when only warnings are wanted.
  void status_line(std::string_view line);
  /// Leaves the status line standing.
  void end_status_line();

  /// False when data could not be written: a full disk, a closed pipe.
  bool data_written() const { return out_.good(); }
  const ConsoleOptions& options() const { return options_; }
  void set_color(bool color) { options_.color = color; }
  void set_quiet(bool quiet) { quiet_ = quiet; }

 private:
  void clear_status_line();

  std::ostream& out_;
  std::ostream& err_;
  ConsoleOptions options_;
  bool quiet_ = false;
  bool status_shown_ = false;
};

/// The options for the process's streams.
ConsoleOptions console_options(const base::Environment& environment);

}  // namespace troupe::apps
