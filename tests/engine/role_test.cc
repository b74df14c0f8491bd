// SPDX-License-Identifier: Apache-2.0
// Programmer errors end the process: each case runs in a child process and must die of an abort.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "tests/engine/support.h"
#include "tests/support/catch.h"

namespace troupe::engine {
namespace {

using base::Status;

/// True when `body` aborts. Called while this process has one thread.
bool aborts(const std::function<void()>& body) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);
    if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(2);
    alarm(30);
    body();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

TEST_CASE("waiting on an engine or actor thread is a programmer error") {
  const bool threaded = GENERATE(true, false);
  CHECK(aborts([&] {
    Fixture f(threaded);
    const Variable x = f.variable("x");
    f.push("waits", {}, {x}, [&](RunContext&) { return f.engine->wait(x); });
    static_cast<void>(f.engine->wait_all());
  }));
  CHECK(aborts([&] {
    Fixture f(threaded);
    mark_actor_thread();
    static_cast<void>(f.engine->wait_all());
  }));
  CHECK_FALSE(aborts([&] {
    Fixture f(threaded);
    static_cast<void>(f.engine->wait_all());
  }));
}

TEST_CASE("variables of another engine and missing streams are programmer errors") {
  CHECK(aborts([] {
    Fixture f(false);
    Fixture other(false);
    f.push("op", {}, {other.variable("x")}, [](RunContext&) { return Status(); });
  }));
  CHECK(aborts([] {
    Fixture f(false);
    f.push_stream("op", {}, {f.variable("x")}, [](RunContext&) { return Status(); });
  }));
  CHECK(aborts([] {
    Fixture f(false);
    f.push_stream(
        "op", {}, {}, [](RunContext&) { return Status(); }, kCompute);
  }));
}

}  // namespace
}  // namespace troupe::engine
