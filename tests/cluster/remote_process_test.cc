// SPDX-License-Identifier: Apache-2.0
// Processes that read, write, end and are killed.
#include "cluster/remote_process.h"

#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/support/catch.h"

namespace troupe::cluster {
namespace {

using Catch::Contains;

/// All output until the end.
std::string output_of(RemoteProcess& process) {
  std::string text;
  bool ended = false;
  for (int i = 0; i < 6'000 && !ended; ++i) {
    ended = process.end().has_value();
    text += process.output();
    if (!ended) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  REQUIRE(ended);
  return text;
}

TEST_CASE("input goes in, both outputs come out, the end is told", "[hosts]") {
  const auto process =
      RemoteProcess::start({"sh", "-c", "cat; echo error >&2; exit 3"}, "hello\n").value();
  CHECK_FALSE(process->end().has_value());  // its input is open
  process->close_input();
  CHECK(output_of(*process) == "hello\nerror\n");
  CHECK(process->end() == "exit 3");
  CHECK(process->end() == "exit 3");
}

TEST_CASE("a process has a session of its own and no signal blocked", "[hosts]") {
  const std::string command = "cut -d\" \" -f6 /proc/$$/stat; echo $$";
  const auto process = RemoteProcess::start({"sh", "-c", command}, "").value();
  const std::string text = output_of(*process);
  const std::string session = std::to_string(std::stol(text));
  CHECK(session != std::to_string(::getsid(0)));
  CHECK_THAT(text, Contains("\n" + session + "\n"));
  // Not by the shell, which blocks signals while it starts something.
  const auto mask = RemoteProcess::start({"grep", "SigBlk", "/proc/self/status"}, "").value();
  CHECK_THAT(output_of(*mask), Contains("SigBlk:\t0000000000000000"));
}

TEST_CASE("signals are told, and who ends at once takes no input", "[hosts]") {
  const auto process = RemoteProcess::start({"sleep", "600"}, "").value();
  process->terminate();
  output_of(*process);
  CHECK(process->end() == "signal 15");
  const std::string input(1'000, 'x');
  for (int i = 0; i < 20; ++i) {
    const auto ending = RemoteProcess::start({"false"}, input);
    REQUIRE(ending.ok());
    output_of(**ending);
    CHECK((*ending)->end() == "exit 1");
  }
}

TEST_CASE("what is no program is an error, and so is too much input", "[hosts]") {
  const auto none = RemoteProcess::start({"no-such-program-here"}, "");
  CHECK(none.status().code() == base::Errc::not_found);
  CHECK_THAT(none.status().text(), Contains("no-such-program-here cannot be started"));
  const auto full = RemoteProcess::start({"sleep", "600"}, std::string(64 << 20, 'x'));
  CHECK_THAT(full.status().text(), Contains("sleep takes no input"));
}

}  // namespace
}  // namespace troupe::cluster
