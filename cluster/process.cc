// SPDX-License-Identifier: Apache-2.0
// fork, exec, prctl, reaping. Between fork and exec a child calls only what is safe there.
#include "cluster/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/control_group.h"
#include "base/descriptor.h"
#include "base/environment.h"

namespace troupe::cluster {
namespace {

using base::Errc;
using base::MutexLock;
using base::Result;
using base::Status;

/// Exit code of a child that could not become the program, as shells use it.
constexpr int kNoExec = 127;
/// Where the kernel has no descriptors for processes, they are asked this often.
constexpr std::int64_t kPollMs = 100;
/// While a child is to be killed the clock is looked at this often; who has not looked for longer
/// than this and the pause together has stood still.
constexpr std::int64_t kLookMs = 500;
constexpr std::int64_t kPauseMs = 1'500;
/// A program that is not there after this long hangs: its file system is dead.
constexpr int kExecMs = 5'000;
/// Longest wait for killed children at the end.
constexpr std::int64_t kLastReapMs = 5'000;
/// Of a child that somebody else has reaped.
constexpr const char* kUnknownEnd = "unknown status";

/// Everything the child needs, made before fork: afterwards it may not allocate.
struct ChildPlan {
  std::vector<char*> arguments;
  std::vector<char*> environment;
  int socket = -1;
  int null = -1;
  int report = -1;  ///< takes errno when exec fails
  pid_t parent = -1;
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

std::vector<std::string> child_environment(const std::vector<std::string>& extra) {
  std::vector<std::string> out = base::environment_without_steering();
  for (const std::string& entry : extra) {
    const std::string_view name = std::string_view(entry).substr(0, entry.find('=') + 1);
    std::erase_if(out,
                  [&](const std::string& old) { return old.compare(0, name.size(), name) == 0; });
    out.push_back(entry);
  }
  return out;
}

/// Only async-signal-safe calls. Does not return.
[[noreturn]] void become(const ChildPlan& plan) {
  // The agent may have died between fork and here: then nobody would send the signal.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != plan.parent) ::_exit(kNoExec);
  ::setpgid(0, 0);
  struct sigaction by_default {};
  by_default.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) ::sigaction(number, &by_default, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(plan.null, STDIN_FILENO);
  // dup2 onto itself would keep close-on-exec.
  if (plan.socket == kAgentSocket) {
    ::fcntl(kAgentSocket, F_SETFD, 0);
  } else {
    ::dup2(plan.socket, kAgentSocket);
  }
  // The report must outlive this until exec; all else that is open here belongs to the agent.
  ::syscall(SYS_close_range, kAgentSocket + 1, ~0U, 4U /* CLOSE_RANGE_CLOEXEC */);
  ::execve(plan.arguments[0], plan.arguments.data(), plan.environment.data());
  const int error = errno;
  (void)!::write(plan.report, &error, sizeof error);
  ::_exit(kNoExec);
}

/// An ignored SIGCHLD survives exec: whoever started this program may have left it so. The kernel
/// would then reap children itself, and nobody could ask how they ended.
void keep_ended_children() {
  struct sigaction action {};
  ::sigaction(SIGCHLD, nullptr, &action);
  if (action.sa_handler != SIG_IGN) return;
  action.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &action, nullptr);
}

std::uint64_t memory_kills_here() {
  return base::ControlGroup::of_this_process().out_of_memory_kills();
}

}  // namespace

int wait_for_report(int report, int wait_ms) {
  pollfd ready{report, POLLIN, 0};
  int polled = 0;
  do {
    polled = ::poll(&ready, 1, wait_ms);
  } while (polled < 0 && errno == EINTR);
  if (polled <= 0) return ETIMEDOUT;
  int error = 0;
  ssize_t got = 0;
  do {
    got = ::read(report, &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  return got == sizeof error ? error : 0;
}

/// SIGKILL tells nobody who sent it. When this supervisor did not, and the kernel has just killed
/// for want of memory, that was it.
std::string ProcessSupervisor::describe(const Child& child, int code, int status) {
  if (code == CLD_EXITED) return fmt::format("exit {}", status);
  if (status != SIGKILL || child.killed) return fmt::format("signal {}", status);
  const std::uint64_t before = std::exchange(memory_kills_, memory_kills_here());
  if (memory_kills_ <= before) return fmt::format("signal {}", status);
  return fmt::format("signal {}: the kernel ran out of memory", status);
}

ProcessSupervisor::ProcessSupervisor(const base::Clock& clock)
    : clock_(clock, kLookMs, kPauseMs), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  TROUPE_CHECK(::gettid() == ::getpid(), "processes are supervised on the main thread");
  TROUPE_CHECK(wake_ >= 0, "the system has no eventfd left");
  keep_ended_children();
}

ProcessSupervisor::~ProcessSupervisor() {
  for (auto& [id, child] : children_) {
    ::kill(-child.pid, SIGKILL);
    child.exited = nullptr;
  }
  const std::int64_t until_ms = clock_.now_ms() + kLastReapMs;
  while (!children_.empty() && clock_.now_ms() < until_ms) {
    wait_for_events(kPollMs);
    reap();
  }
  ::close(wake_);
}

// ---- any thread ----

void ProcessSupervisor::do_later(std::function<void()> work) {
  {
    MutexLock lock(mutex_);
    commands_.push_back(std::move(work));
  }
  const std::uint64_t one = 1;
  (void)!::write(wake_, &one, sizeof one);
}

void ProcessSupervisor::start(ProcessSpec spec, Started started, Exited exited) {
  do_later([this, spec = std::move(spec), started = std::move(started),
            exited = std::move(exited)] { do_start(spec, started, exited); });
}

void ProcessSupervisor::stop(std::uint64_t id, std::uint64_t grace_ms) {
  do_later([this, id, grace_ms] { do_stop(id, grace_ms); });
}

// ---- the main thread ----

void ProcessSupervisor::run_once(std::int64_t wait_ms) {
  wait_for_events(wait_ms);
  do_commands();
  kill_overdue();
  reap();
}

void ProcessSupervisor::wait_for_events(std::int64_t wait_ms) {
  std::vector<pollfd> events{{wake_, POLLIN, 0}};
  const auto wake_within = [&wait_ms](std::int64_t ms) {
    wait_ms = wait_ms < 0 ? ms : std::min(wait_ms, ms);
  };
  for (const auto& [id, child] : children_) {
    if (child.pid_descriptor >= 0) {
      events.push_back({child.pid_descriptor, POLLIN, 0});
    } else {
      wake_within(kPollMs);
    }
    if (child.kill_at_ms != 0) {
      wake_within(std::clamp<std::int64_t>(child.kill_at_ms - clock_.now_ms(), 0, kLookMs));
    }
  }
  ::poll(events.data(), events.size(), static_cast<int>(wait_ms));
  std::uint64_t count = 0;
  (void)!::read(wake_, &count, sizeof count);
}

void ProcessSupervisor::do_commands() {
  std::vector<std::function<void()>> commands;
  {
    MutexLock lock(mutex_);
    commands.swap(commands_);
  }
  for (const auto& command : commands) command();
}

void ProcessSupervisor::do_start(const ProcessSpec& spec, const Started& started, Exited exited) {
  const auto forked = fork_child(spec);
  if (!forked.ok()) return started(forked.status());
  const std::uint64_t id = ++ids_;
  Child child;
  child.name = spec.name;
  child.pid = forked->pid;
  child.pid_descriptor = static_cast<int>(::syscall(SYS_pidfd_open, forked->pid, 0));
  child.exited = std::move(exited);
  if (children_.empty()) memory_kills_ = memory_kills_here();
  children_.emplace(id, std::move(child));
  started(ChildProcess{id, forked->pid, forked->socket});
}

Result<ProcessSupervisor::Forked> ProcessSupervisor::fork_child(const ProcessSpec& spec) {
  const auto failed = [&spec](int error) {
    const std::string program = spec.command.empty() ? "no program" : spec.command.front();
    return base::error(error == ENOENT ? Errc::not_found : Errc::unavailable,
                       "[process] {} ({}) cannot be started: {}", spec.name, program,
                       std::strerror(error));
  };
  if (spec.command.empty()) return failed(ENOENT);
  std::array<int, 2> sockets{};
  std::array<int, 2> report{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0)
    return failed(errno);
  base::Descriptor ours(sockets[0]);
  base::Descriptor theirs(sockets[1]);
  if (::pipe2(report.data(), O_CLOEXEC) != 0) return failed(errno);
  base::Descriptor report_read(report[0]);
  base::Descriptor report_write(report[1]);
  const base::Descriptor null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (null.get() < 0) return failed(errno);

  const std::vector<std::string> environment = child_environment(spec.environment);
  const ChildPlan plan{pointers(spec.command), pointers(environment),
                       theirs.get(),           null.get(),
                       report_write.get(),     ::getpid()};
  const pid_t pid = ::fork();
  if (pid < 0) return failed(errno);
  if (pid == 0) become(plan);

  // Ends with nothing when exec has closed the other end.
  report_write.reset();
  const int error = wait_for_report(report_read.get(), kExecMs);
  if (error == 0) return Forked{pid, ours.release()};
  // One that hangs in the kernel dies when it leaves it: nobody waits for that.
  ::kill(pid, SIGKILL);
  never_begun_.push_back(pid);
  return failed(error);
}

void ProcessSupervisor::do_stop(std::uint64_t id, std::uint64_t grace_ms) {
  const auto it = children_.find(id);
  if (it == children_.end()) return;
  Child& child = it->second;
  const std::int64_t at_ms = clock_.now_ms() + static_cast<std::int64_t>(grace_ms);
  // A second wish may shorten the first one's grace, not lengthen it.
  if (child.kill_at_ms == 0 || at_ms < child.kill_at_ms) child.kill_at_ms = at_ms;
  if (grace_ms > 0) ::kill(-child.pid, SIGTERM);
}

void ProcessSupervisor::kill_overdue() {
  const std::int64_t now_ms = clock_.now_ms();
  for (auto& [id, child] : children_) {
    if (child.kill_at_ms == 0 || now_ms < child.kill_at_ms) continue;
    ::kill(-child.pid, SIGKILL);
    child.kill_at_ms = 0;
    child.killed = true;
  }
}

void ProcessSupervisor::reap() {
  std::erase_if(never_begun_, [](pid_t pid) { return ::waitpid(pid, nullptr, WNOHANG) != 0; });
  std::vector<std::pair<ProcessExit, Exited>> ended;
  for (auto it = children_.begin(); it != children_.end();) {
    auto& [id, child] = *it;
    siginfo_t info{};
    const int asked =
        ::waitid(P_PID, static_cast<id_t>(child.pid), &info, WEXITED | WNOHANG | WNOWAIT);
    const bool gone = asked != 0 && errno == ECHILD;
    if (!gone && (asked != 0 || info.si_pid == 0)) {
      ++it;
      continue;
    }
    // While the child is a zombie its group's number is not used again: end what it has left. The
    // number of one that somebody else has reaped may be a stranger's by now.
    if (!gone) {
      ::kill(-child.pid, SIGKILL);
      ::waitpid(child.pid, nullptr, 0);
    }
    if (child.pid_descriptor >= 0) ::close(child.pid_descriptor);
    const bool clean = !gone && info.si_code == CLD_EXITED && info.si_status == 0;
    ended.emplace_back(
        ProcessExit{id, gone ? kUnknownEnd : describe(child, info.si_code, info.si_status), clean},
        std::move(child.exited));
    it = children_.erase(it);
  }
  for (const auto& [exit, exited] : ended) {
    if (exited) exited(exit);
  }
}

}  // namespace troupe::cluster
