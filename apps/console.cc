// SPDX-License-Identifier: Apache-2.0
// Writing of data and messages.
#include "apps/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <ostream>

#include "base/text.h"

namespace troupe::apps {

using base::printable;

void Console::data(std::string_view text) {
  clear_status_line();
  out_ << text << std::flush;
}

void Console::line(std::string_view line) {
  data(printable(line) + "\n");
}

void Console::note(std::string_view line) {
  clear_status_line();
  err_ << printable(line) << std::endl;
}

void Console::info(std::string_view line) {
  if (!quiet_) note(line);
}

void Console::error(std::string_view line) {
  clear_status_line();
  err_ << (options_.color ? "\033[1;31merror:\033[0m " : "error: ") << printable(line) << std::endl;
}

void Console::status_line(std::string_view line) {
  if (!options_.terminal || quiet_) return;
  const auto columns = static_cast<std::size_t>(options_.width > 1 ? options_.width - 1 : 1);
  err_ << "\r\033[K" << line.substr(0, columns) << std::flush;
  status_shown_ = true;
}

void Console::end_status_line() {
  if (status_shown_) err_ << std::endl;
  status_shown_ = false;
}

void Console::clear_status_line() {
  if (status_shown_) err_ << "\r\033[K";
  status_shown_ = false;
}

ConsoleOptions console_options(const base::Environment& environment) {
  ConsoleOptions options;
  options.terminal = isatty(STDERR_FILENO) == 1 && !environment.dumb_terminal;
  options.out_terminal = isatty(STDOUT_FILENO) == 1 && !environment.dumb_terminal;
  options.color = options.terminal && !environment.no_color;
  winsize size{};
  if (options.terminal && ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    options.width = size.ws_col;
  }
  return options;
}

}  // namespace troupe::apps
