// SPDX-License-Identifier: Apache-2.0
// main() of `troupe`: a clean environment first, then the command.
#include <unistd.h>

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

}  // namespace

int main(int count, char** arguments) {
  restart_without_openmp_variables(arguments);
  const troupe::base::Environment environment = troupe::base::read_environment();
  troupe::apps::Console console(std::cout, std::cerr,
                                troupe::apps::standard_error_options(environment.no_color));
  troupe::apps::Context context(console, environment);
  const std::vector<std::string> words(arguments + 1, arguments + count);
  return static_cast<int>(troupe::apps::run_program(words, context));
}
