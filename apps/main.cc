// SPDX-License-Identifier: Apache-2.0
// main() of `troupe`: a clean environment first, then the command. What ends the process from a
// thread of a library still says why.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "apps/program.h"
#include "base/environment.h"
#include "base/log.h"

namespace {

/// OpenMP's runtime has read its variables before main, and some of them make prepared kernels
/// hang: the program starts once more without them. Returns when there are none, or on failure.
void restart_without_openmp_variables(char** arguments) {
  const std::vector<std::string> found = troupe::base::openmp_variables();
  if (found.empty()) return;
  std::string names;
  for (const std::string& entry : found) {
    names.append(" ").append(entry, 0, entry.find('='));
  }
  troupe::base::log_info("restarting without{}: threads come from the job file", names);
  std::vector<std::string> kept = troupe::base::environment_without_openmp();
  std::vector<char*> environment;
  for (std::string& entry : kept) environment.push_back(entry.data());
  environment.push_back(nullptr);
  execve("/proc/self/exe", arguments, environment.data());
  troupe::base::log_error("cannot restart; unset{} first", names);
  _exit(static_cast<int>(troupe::apps::ExitCode::internal));
}

/// A file opened later must not take the number of a standard stream that the caller has closed.
/// Its use still fails: what is read from is open for writing, and the other way round.
void hold_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) != -1) continue;
    static_cast<void>(::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY));
  }
}

/// For std::terminate: exceptions that no one catches.
void end_with_reason() {
  const auto [code, text] = troupe::apps::current_exception_end();
  troupe::base::log_error("{}", text);
  _exit(static_cast<int>(code));
}

}  // namespace

int main(int count, char** arguments) {
  hold_closed_streams();
  std::set_terminate(end_with_reason);
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond a limit on file sizes fails like any other
  restart_without_openmp_variables(arguments);
  const troupe::base::Environment environment = troupe::base::read_environment();
  troupe::apps::Console console(std::cout, std::cerr,
                                troupe::apps::standard_error_options(environment));
  troupe::apps::Context context(console, environment);
  const std::vector<std::string> words(arguments + 1, arguments + count);
  return static_cast<int>(troupe::apps::run_program(words, context));
}
