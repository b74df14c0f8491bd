// SPDX-License-Identifier: Apache-2.0
// termios, and the escape sequences that every terminal but a dumb one has.
#include "apps/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <thread>

namespace troupe::apps {

FullScreen::FullScreen(Console& console) : console_(console) {
  if (::isatty(STDIN_FILENO) == 1 && ::tcgetattr(STDIN_FILENO, &before_) == 0) {
    termios ours = before_;
    ours.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    ours.c_cc[VMIN] = 0;
    ours.c_cc[VTIME] = 0;
    ours.c_cc[VSUSP] = _POSIX_VDISABLE;  // who is stopped cannot put the terminal back
    keys_ = ::tcsetattr(STDIN_FILENO, TCSANOW, &ours) == 0;
  }
  console_.data("\033[?1049h\033[?25l");  // another screen, no cursor
}

FullScreen::~FullScreen() {
  console_.data("\033[?25h\033[?1049l");
  if (keys_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

TerminalSize FullScreen::size() const {
  winsize size{};
  TerminalSize found;
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return found;
  if (size.ws_col > 0) found.columns = size.ws_col;
  if (size.ws_row > 0) found.rows = size.ws_row;
  return found;
}

void FullScreen::draw(const std::vector<std::string>& lines) {
  // Erased before it is written: behind a full line the cursor stands on its last sign.
  std::string text = "\033[H";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    text.append(i == 0 ? "" : "\r\n").append(i + 1 == lines.size() ? "\033[J" : "\033[K");
    text += lines[i];
  }
  console_.data(text);
}

std::optional<char> FullScreen::key(std::chrono::milliseconds wait) {
  if (!keys_) {
    std::this_thread::sleep_for(wait);
    return std::nullopt;
  }
  pollfd ready{STDIN_FILENO, POLLIN, 0};
  if (::poll(&ready, 1, static_cast<int>(wait.count())) <= 0) return std::nullopt;
  char key = 0;
  if (::read(STDIN_FILENO, &key, 1) == 1) return key;
  keys_ = false;  // hung up: no key will come
  ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  return std::nullopt;
}

}  // namespace troupe::apps
