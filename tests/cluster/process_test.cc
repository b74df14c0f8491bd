// SPDX-License-Identifier: Apache-2.0
// The agent's children: how they start, what they inherit, how they end, and that none is left.
#include "cluster/process.h"

#include <dirent.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "tests/support/catch.h"
#include "tests/support/test_folder.h"

namespace troupe::cluster {
namespace {

using base::Errc;
using base::Result;
using base::Status;

constexpr int kWaitMs = 20'000;

/// The steady clock, which leaps where a test says so: nobody has run meanwhile.
class LeapingClock final : public base::Clock {
 public:
  std::int64_t now_ns() const override { return steady_.now_ns() + leap_.now_ns(); }
  void leap_ms(std::int64_t ms) { leap_.advance_ms(ms); }

 private:
  base::SteadyClock steady_;
  base::ManualClock leap_;
};

/// Starts one child and serves the supervisor until things happen.
struct Fixture {
  LeapingClock clock;
  ProcessSupervisor supervisor{clock};
  std::optional<Result<ChildProcess>> started;
  std::optional<ProcessExit> exit;

  ~Fixture() {
    if (started && started->ok()) ::close((*started)->socket);
  }
  void start(std::vector<std::string> command, std::vector<std::string> environment = {}) {
    supervisor.start(
        {"the child", std::move(command), std::move(environment)},
        [this](Result<ChildProcess> child) { started = std::move(child); },
        [this](const ProcessExit& e) { exit = e; });
    serve([this] { return started.has_value(); });
  }
  void shell(const std::string& script) { start({"/bin/sh", "-c", script}); }
  template <typename Condition>
  void serve(Condition condition) {
    const base::SteadyClock clock;
    const std::int64_t until = clock.now_ms() + kWaitMs;
    while (!condition() && clock.now_ms() < until) supervisor.run_once(100);
    REQUIRE(condition());
  }
  ProcessExit wait_exit() {
    serve([this] { return exit.has_value(); });
    return *exit;
  }
  /// What the child writes to its socket, up to `end`.
  std::string read(const std::string& end) {
    std::string text;
    while (text.find(end) == std::string::npos) {
      pollfd ready{(*started)->socket, POLLIN, 0};
      REQUIRE(::poll(&ready, 1, kWaitMs) == 1);
      char piece[4096];
      const auto got = ::read((*started)->socket, piece, sizeof piece);
      REQUIRE(got > 0);
      text.append(piece, static_cast<std::size_t>(got));
    }
    return text;
  }
};

/// True when the process is gone, or only waits to be reaped by somebody else.
bool ended(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string number;
  std::string name;
  std::string state;
  if (!(stat >> number >> name >> state)) return true;
  return state == "Z" || state == "X";
}

bool ends_in_time(pid_t pid) {
  for (int i = 0; i < kWaitMs / 5 && !ended(pid); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return ended(pid);
}

TEST_CASE("the end of a child is described", "[process]") {
  Fixture fixture;
  SECTION("success") {
    fixture.shell("exit 0");
    const ProcessExit exit = fixture.wait_exit();
    CHECK(exit.how == "exit 0");
    CHECK(exit.clean);
    CHECK(exit.id == (*fixture.started)->id);
  }
  SECTION("failure") {
    fixture.shell("exit 3");
    CHECK(fixture.wait_exit().how == "exit 3");
    CHECK_FALSE(fixture.exit->clean);
  }
  SECTION("a signal") {
    fixture.shell("kill -9 $$");
    CHECK(fixture.wait_exit().how == "signal 9");
    CHECK_FALSE(fixture.exit->clean);
  }
}

TEST_CASE("a program that was started with SIGCHLD ignored learns how its children end",
          "[process]") {
  struct sigaction ignored {};
  struct sigaction before {};
  ignored.sa_handler = SIG_IGN;
  REQUIRE(::sigaction(SIGCHLD, &ignored, &before) == 0);
  {
    Fixture fixture;
    fixture.shell("exit 3");
    CHECK(fixture.wait_exit().how == "exit 3");
  }
  REQUIRE(::sigaction(SIGCHLD, &before, nullptr) == 0);
}

TEST_CASE("a child that somebody else has reaped has ended", "[process]") {
  Fixture fixture;
  fixture.shell("read line <&3; exit 0");
  REQUIRE(::write((*fixture.started)->socket, "\n", 1) == 1);
  REQUIRE(::waitpid((*fixture.started)->pid, nullptr, 0) == (*fixture.started)->pid);
  CHECK(fixture.wait_exit().how == "unknown status");
  CHECK_FALSE(fixture.exit->clean);
}

TEST_CASE("a program that cannot be run is an error, not a child", "[process]") {
  Fixture fixture;
  fixture.start({"/no/such/program"});
  const Status status = fixture.started->status();
  CHECK(status.code() == Errc::not_found);
  CHECK(status.text() ==
        "[process] the child (/no/such/program) cannot be started: No such file or directory");
  fixture.supervisor.run_once(0);
  CHECK_FALSE(fixture.exit.has_value());
}

TEST_CASE("a child has a socket to its agent and nothing else that is open", "[process]") {
  const int extra = ::dup(STDIN_FILENO);  // inheritable on purpose
  Fixture fixture;
  fixture.shell("ls /proc/self/fd >&3; echo end >&3; read line <&3; exit $line");
  std::string listed = fixture.read("end\n");
  // ls itself has one more descriptor open: the folder.
  CHECK(listed == "0\n1\n2\n3\n4\nend\n");
  REQUIRE(::write((*fixture.started)->socket, "5\n", 2) == 2);
  CHECK(fixture.wait_exit().how == "exit 5");
  ::close(extra);
}

TEST_CASE("OpenMP's variables do not reach a child but for how teams wait, others do",
          "[process]") {
  ::setenv("OMP_NUM_THREADS", "2", 1);
  ::setenv("GOMP_CPU_AFFINITY", "0", 1);
  ::setenv("KMP_AFFINITY", "none", 1);
  ::setenv("OMP_WAIT_POLICY", "passive", 1);
  ::setenv("TROUPE_TEST_A", "old", 1);
  ::setenv("TROUPE_TEST_B", "kept", 1);
  Fixture fixture;
  fixture.start({"/bin/sh", "-c", "env >&3; echo end >&3"}, {"TROUPE_TEST_A=new"});
  const std::string text = fixture.read("end\n");
  for (const char* name : {"OMP_NUM_THREADS", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"}) {
    CHECK(text.find(name) == std::string::npos);
    ::unsetenv(name);
  }
  CHECK(text.find("OMP_WAIT_POLICY=passive\n") != std::string::npos);
  ::unsetenv("OMP_WAIT_POLICY");
  CHECK(text.find("TROUPE_TEST_A=new\n") != std::string::npos);
  CHECK(text.find("TROUPE_TEST_A=old") == std::string::npos);
  CHECK(text.find("TROUPE_TEST_B=kept\n") != std::string::npos);
}

TEST_CASE("stop asks first and kills after the grace", "[process]") {
  Fixture fixture;
  SECTION("a child that obeys") {
    fixture.shell("trap 'exit 7' TERM; echo ready >&3; while :; do sleep 0.01; done");
    fixture.read("ready");
    fixture.supervisor.stop((*fixture.started)->id, kWaitMs);
    CHECK(fixture.wait_exit().how == "exit 7");
  }
  SECTION("a child that does not") {
    fixture.shell("trap '' TERM; echo ready >&3; while :; do sleep 0.01; done");
    fixture.read("ready");
    fixture.supervisor.stop((*fixture.started)->id, 50);
    CHECK(fixture.wait_exit().how == "signal 9");
  }
  SECTION("a pause of everybody is no grace") {
    fixture.shell("trap 'sleep 0.1; exit 7' TERM; echo ready >&3; while :; do sleep 0.01; done");
    fixture.read("ready");
    fixture.supervisor.stop((*fixture.started)->id, kWaitMs);
    fixture.supervisor.run_once(0);  // it is asked
    fixture.clock.leap_ms(10 * kWaitMs);
    CHECK(fixture.wait_exit().how == "exit 7");
  }
  SECTION("no grace") {
    fixture.shell("echo ready >&3; while :; do sleep 0.01; done");
    fixture.read("ready");
    fixture.supervisor.stop((*fixture.started)->id, 0);
    CHECK(fixture.wait_exit().how == "signal 9");
    fixture.supervisor.stop((*fixture.started)->id, 0);  // long gone
    fixture.supervisor.run_once(0);
  }
}

TEST_CASE("a child's own children end with it", "[process]") {
  Fixture fixture;
  fixture.shell("sleep 1000 & echo $! >&3; echo end >&3; exit 0");
  const pid_t grandchild = std::stoi(fixture.read("end"));
  REQUIRE(grandchild > 1);
  CHECK(fixture.wait_exit().how == "exit 0");
  CHECK(ends_in_time(grandchild));
}

TEST_CASE("a supervisor leaves no child behind", "[process]") {
  pid_t pid = -1;
  {
    Fixture fixture;
    fixture.shell("trap '' TERM; while :; do sleep 0.01; done");
    pid = (*fixture.started)->pid;
    CHECK_FALSE(ended(pid));
  }
  CHECK(ended(pid));
}

TEST_CASE("children die with their agent", "[process]") {
  int report[2];
  REQUIRE(::pipe(report) == 0);
  const pid_t agent = ::fork();
  REQUIRE(agent >= 0);
  if (agent == 0) {
    Fixture fixture;
    fixture.shell("while :; do sleep 0.01; done");
    const pid_t child = (*fixture.started)->pid;
    (void)!::write(report[1], &child, sizeof child);
    ::pause();
    ::_exit(0);
  }
  pid_t child = -1;
  REQUIRE(::read(report[0], &child, sizeof child) == sizeof child);
  CHECK_FALSE(ended(child));
  REQUIRE(::kill(agent, SIGKILL) == 0);
  REQUIRE(::waitpid(agent, nullptr, 0) == agent);
  CHECK(ends_in_time(child));
  ::close(report[0]);
  ::close(report[1]);
}

TEST_CASE("other threads may ask", "[process]") {
  Fixture fixture;
  std::thread other([&] {
    fixture.supervisor.start(
        {"the child", {"/bin/sh", "-c", "exit 0"}, {}},
        [&](Result<ChildProcess> child) { fixture.started = std::move(child); },
        [&](const ProcessExit& exit) { fixture.exit = exit; });
  });
  fixture.wait_exit();
  other.join();
  CHECK(fixture.exit->how == "exit 0");
}

TEST_CASE("a child that hangs before it is its program is not waited for", "[process]") {
  std::array<int, 2> report{};
  REQUIRE(::pipe(report.data()) == 0);
  CHECK(wait_for_report(report[0], 50) == ETIMEDOUT);
  const int error = EACCES;
  REQUIRE(::write(report[1], &error, sizeof error) == sizeof error);
  CHECK(wait_for_report(report[0], kWaitMs) == EACCES);
  ::close(report[1]);
  CHECK(wait_for_report(report[0], kWaitMs) == 0);
  ::close(report[0]);
}

}  // namespace
}  // namespace troupe::cluster
