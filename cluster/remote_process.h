// SPDX-License-Identifier: Apache-2.0
// RemoteProcess: an ssh that runs beside this program, in a session of its own: a terminal's Ctrl-C
// is not for it. Its input is this program's to close; when this program ends, it ends. One thread.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace troupe::cluster {

/// See the top of the file.
class RemoteProcess {
 public:
  /// Starts `words`, whose first is looked up on the PATH, and hands it `input`, which is short.
  /// not_found, unavailable: it cannot be started.
  static base::Result<std::unique_ptr<RemoteProcess>> start(const std::vector<std::string>& words,
                                                            std::string_view input);
  /// Kills what is left, and waits for it.
  ~RemoteProcess();
  RemoteProcess(const RemoteProcess&) = delete;
  RemoteProcess& operator=(const RemoteProcess&) = delete;

  /// What it has written to its standard output and error since the last call; never waits.
  std::string output();
  /// How it has ended: "exit 255", "signal 9"; nullopt while it runs. Never waits.
  const std::optional<std::string>& end();
  /// The end of its input.
  void close_input();
  /// The same, and SIGTERM to all of its session's processes that are still in its group.
  void terminate();

 private:
  RemoteProcess(pid_t pid, int input, int output) : pid_(pid), input_(input), output_(output) {}

  const pid_t pid_;
  int input_;   // a socket: writing to a dead ssh raises no signal
  int output_;  // a pipe
  std::optional<std::string> end_;
};

}  // namespace troupe::cluster
