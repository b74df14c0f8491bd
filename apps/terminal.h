// SPDX-License-Identifier: Apache-2.0
// The terminal behind standard input and output, taken over while an object lives: keys come one by
// one and unseen, and the picture has a screen of its own. One thread.
#pragma once

#include <termios.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "apps/console.h"

namespace troupe::apps {

/// Size in characters.
struct TerminalSize {
  std::size_t columns = 80;
  std::size_t rows = 24;
  friend bool operator==(const TerminalSize&, const TerminalSize&) = default;
};

/// See the top of the file. Its end puts everything back as it was.
class FullScreen {
 public:
  explicit FullScreen(Console& console);
  ~FullScreen();
  FullScreen(const FullScreen&) = delete;
  FullScreen& operator=(const FullScreen&) = delete;

  /// As it is now; 80 x 24 where the terminal does not tell.
  TerminalSize size() const;
  /// Draws the lines in place of the last picture. They fit the screen.
  void draw(const std::vector<std::string>& lines);
  /// The next key, or nothing after `wait`. Without a terminal for input there are no keys.
  std::optional<char> key(std::chrono::milliseconds wait);

 private:
  Console& console_;
  bool keys_ = false;  // standard input is a terminal, in our mode
  termios before_{};
};

}  // namespace troupe::apps
