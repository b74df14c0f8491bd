// SPDX-License-Identifier: Apache-2.0
// posix_spawn with a socket for the input and a pipe for the output.
#include "cluster/remote_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

namespace troupe::cluster {
namespace {

/// Closes both at the end, as far as they are still there.
struct Pair {
  std::array<int, 2> ends{-1, -1};
  Pair() = default;
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  ~Pair() {
    for (const int end : ends) {
      if (end >= 0) ::close(end);
    }
  }
};

/// The signals as a new program expects them, and a session of its own.
void set_up(posix_spawnattr_t& attributes) {
  sigset_t none;
  sigset_t all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
}

/// 0, or an errno.
int spawn(const std::vector<std::string>& words, int input, int output, pid_t& pid) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  set_up(attributes);
  const int error =
      ::posix_spawnp(&pid, arguments[0], &actions, &attributes, arguments.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace

base::Result<std::unique_ptr<RemoteProcess>> RemoteProcess::start(
    const std::vector<std::string>& words, std::string_view input) {
  const auto failed = [&words](int error) {
    return base::error(error == ENOENT ? base::Errc::not_found : base::Errc::unavailable,
                       "{} cannot be started: {}", words.front(), std::strerror(error));
  };
  Pair in;
  Pair out;
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in.ends.data()) != 0 ||
      ::pipe2(out.ends.data(), O_CLOEXEC) != 0 || ::fcntl(out.ends[0], F_SETFL, O_NONBLOCK) != 0) {
    return failed(errno);
  }
  pid_t pid = -1;
  if (const int error = spawn(words, in.ends[1], out.ends[1], pid); error != 0) {
    return failed(error);
  }
  std::unique_ptr<RemoteProcess> process(
      new RemoteProcess(pid, std::exchange(in.ends[0], -1), std::exchange(out.ends[0], -1)));
  // The other end is the child's alone from here on: one that is gone is told as EPIPE.
  ::close(std::exchange(in.ends[1], -1));
  const ssize_t sent =
      ::send(process->input_, input.data(), input.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  // Who ends at once says more by its end.
  const bool gone = sent < 0 && (errno == EPIPE || errno == ECONNRESET);
  if (!gone && sent != static_cast<ssize_t>(input.size())) {
    return base::error(base::Errc::unavailable, "{} takes no input", words.front());
  }
  return process;
}

RemoteProcess::~RemoteProcess() {
  close_input();
  ::close(output_);
  if (end_) return;
  ::kill(-pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

std::string RemoteProcess::output() {
  std::string text;
  std::array<char, 4'096> bytes{};
  // A host that writes without end does not keep the others waiting.
  constexpr std::size_t kBytesMax = 65'536;
  while (text.size() < kBytesMax) {
    const ssize_t got = ::read(output_, bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(bytes.data(), static_cast<std::size_t>(got));
  }
  return text;
}

const std::optional<std::string>& RemoteProcess::end() {
  if (end_) return end_;
  int status = 0;
  const pid_t reaped = ::waitpid(pid_, &status, WNOHANG);
  if (reaped == 0 || (reaped < 0 && errno == EINTR)) return end_;
  if (reaped < 0) {
    end_ = "unknown status";
  } else if (WIFEXITED(status)) {
    end_ = fmt::format("exit {}", WEXITSTATUS(status));
  } else {
    end_ = fmt::format("signal {}", WTERMSIG(status));
  }
  return end_;
}

void RemoteProcess::close_input() {
  if (input_ >= 0) ::close(std::exchange(input_, -1));
}

void RemoteProcess::terminate() {
  close_input();
  if (!end()) ::kill(-pid_, SIGTERM);
}

}  // namespace troupe::cluster
