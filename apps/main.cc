// SPDX-License-Identifier: Apache-2.0
// main() of `troupe`: a clean environment first, then the command. What ends the process from a
// thread of a library, or for want of memory, still says why.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "apps/program.h"
#include "base/call_memory.h"
#include "base/environment.h"
#include "base/log.h"
#include "ops/jit/disk_cache.h"

namespace {

/// OpenMP's runtime has read its variables before main, and some of them make prepared kernels
/// hang: the program starts once more without them, and without those that change arithmetic.
/// Returns when there are none, or on failure.
void restart_without_steering(char** arguments) {
  const std::vector<std::string> found = troupe::base::steering_variables();
  if (found.empty()) return;
  std::string names;
  for (const std::string& entry : found) {
    names.append(" ").append(entry, 0, entry.find('='));
  }
  troupe::base::log_info("restarting without{}: threads and arithmetic come from the job file",
                         names);
  std::vector<std::string> kept = troupe::base::environment_without_steering();
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

/// A process of a large job has a connection for each of the others, and a shell's soft limit is
/// often 1,024 files.
void raise_open_files() {
  constexpr rlim_t kMost = rlim_t{1} << 20;
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  const rlim_t most = std::min(files.rlim_max, kMost);
  if (files.rlim_cur >= most) return;
  files.rlim_cur = most;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &files));
}

/// Only async-signal-safe calls.
[[noreturn]] void end_without_resources(std::string_view line) {
  static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));
  _exit(static_cast<int>(troupe::apps::ExitCode::no_resources));
}

/// A stack that cannot grow and a library that does not look at what malloc gives end in a fault;
/// one that looks may abort.
/// Without memory that is no defect of the program. Only async-signal-safe calls.
void end_on_fault(int signal) {
  if (troupe::apps::memory_used_up()) end_without_resources("error: out of memory\n");
  std::signal(signal, SIG_DFL);
  ::raise(signal);  // comes when this has returned, also where somebody has sent the signal
}

/// A stack that is used up cannot carry the handler: the main thread, whose stack grows, has
/// another one for it.
void catch_faults() {
  constexpr std::size_t kStackBytes = 65'536;
  stack_t stack{};
  stack.ss_size = kStackBytes;
  stack.ss_sp =
      ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack.ss_sp == MAP_FAILED || ::sigaltstack(&stack, nullptr) != 0) return;
  struct sigaction action {};
  action.sa_handler = end_on_fault;
  action.sa_flags = SA_ONSTACK;
  ::sigaction(SIGSEGV, &action, nullptr);
  ::sigaction(SIGBUS, &action, nullptr);
  ::sigaction(SIGABRT, &action, nullptr);
}

/// Only main's end may end the process by exit(). A library that calls it from another thread, as
/// OpenMP's runtime does where it gets no memory and no thread, has written why; the destructors of
/// globals must not run beside the other threads, which still use them.
std::atomic<bool> main_has_ended = false;

void end_on_foreign_exit() {
  if (main_has_ended) return;
  end_without_resources("error: a library ended the program and has said why\n");
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
  raise_open_files();
  static_cast<void>(std::atexit(end_on_foreign_exit));
  std::set_new_handler(troupe::apps::fail_allocation);
  std::set_terminate(end_with_reason);
#if !TROUPE_FOREIGN_NEW
  catch_faults();  // sanitizers have handlers of their own
#endif
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond a limit on file sizes fails like any other
  restart_without_steering(arguments);
  const troupe::base::Environment environment = troupe::base::read_environment();
  troupe::base::order_gpus_by_bus();
  troupe::ops::jit::set_kernel_cache(environment.kernel_cache);
  troupe::apps::Console console(std::cout, std::cerr, troupe::apps::console_options(environment));
  troupe::apps::Context context(console, environment);
  const std::vector<std::string> words(arguments + 1, arguments + count);
  const auto code = troupe::apps::run_program(words, context);
  main_has_ended = true;
  return static_cast<int>(code);
}
