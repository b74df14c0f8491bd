// SPDX-License-Identifier: Apache-2.0
// Child processes of an agent. One supervisor runs on the program's main thread and is the only one
// that forks there, since a parent-death signal follows the forking thread; any thread may ask it.
// A child is the leader of its own process group, dies with the agent, and finds a socket to the
// agent at a fixed descriptor.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/awake_clock.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"

namespace troupe::cluster {

/// Where a child finds its end of the socket pair (stream, for LinkSet::adopt).
inline constexpr int kAgentSocket = 3;

/// What to run.
struct ProcessSpec {
  std::string name;                      ///< for errors: "host process of machine 2"
  std::vector<std::string> command;      ///< path of the program, then its arguments
  std::vector<std::string> environment;  ///< NAME=VALUE, beside the agent's own, less OpenMP's
};

/// A running child.
struct ChildProcess {
  std::uint64_t id = 0;  ///< the supervisor's number for it; never used again
  pid_t pid = -1;
  int socket = -1;  ///< the agent's end; the receiver owns it
};

/// How a child ended.
struct ProcessExit {
  std::uint64_t id = 0;
  std::string how;     ///< "exit 0", "signal 9" and perhaps why, "unknown status"
  bool clean = false;  ///< exit 0
};

/// Waits for the report of a child that is becoming its program: the errno that it has written to
/// the pipe `report`; 0 when the pipe has ended, which is the program's beginning; ETIMEDOUT when
/// neither comes: it hangs, as on a dead file system.
int wait_for_report(int report, int wait_ms);

/// See the top of the file.
class ProcessSupervisor {
 public:
  using Started = std::function<void(base::Result<ChildProcess>)>;
  using Exited = std::function<void(const ProcessExit&)>;

  /// CHECKs that it is on the program's main thread. Where SIGCHLD is ignored it gets its default
  /// action back, for the whole process: else the ends of children could not be told. `clock`
  /// outlives it.
  explicit ProcessSupervisor(const base::Clock& clock);
  /// Kills and reaps what is left. Main thread.
  ~ProcessSupervisor();
  ProcessSupervisor(const ProcessSupervisor&) = delete;
  ProcessSupervisor& operator=(const ProcessSupervisor&) = delete;

  /// Starts a child. Both functions are called by run_once() on the main thread: `started` once,
  /// with an error when the program cannot be run; after success `exited` once. Any thread.
  void start(ProcessSpec spec, Started started, Exited exited);
  /// SIGTERM to the child's group now, SIGKILL after `grace_ms` (0: at once) in which this process
  /// runs: while it stands still, so do its children. A child that has ended is left alone. Any
  /// thread.
  void stop(std::uint64_t id, std::uint64_t grace_ms);

  /// Serves for at most `wait_ms`, or until something was done. Main thread.
  void run_once(std::int64_t wait_ms);

 private:
  struct Child {
    std::string name;
    pid_t pid = -1;
    int pid_descriptor = -1;      ///< readable when it has ended; -1 where the kernel has none
    std::int64_t kill_at_ms = 0;  ///< 0: never
    bool killed = false;          ///< by this supervisor
    Exited exited;
  };
  struct Forked {
    pid_t pid = -1;
    int socket = -1;
  };

  void do_later(std::function<void()> work);
  void do_commands();
  void do_start(const ProcessSpec& spec, const Started& started, Exited exited);
  void do_stop(std::uint64_t id, std::uint64_t grace_ms);
  void reap();
  void kill_overdue();
  void wait_for_events(std::int64_t wait_ms);
  std::string describe(const Child& child, int code, int status);
  base::Result<Forked> fork_child(const ProcessSpec& spec);

  base::AwakeClock clock_;
  int wake_ = -1;  ///< eventfd
  std::uint64_t ids_ = 0;
  std::map<std::uint64_t, Child> children_;
  std::vector<pid_t> never_begun_;  ///< killed before they were their program; to be reaped
  std::uint64_t memory_kills_ = 0;  ///< out_of_memory_kills() when last looked at
  base::Mutex mutex_;
  std::vector<std::function<void()>> commands_ TROUPE_GUARDED_BY(mutex_);
};

}  // namespace troupe::cluster
