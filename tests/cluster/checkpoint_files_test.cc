// SPDX-License-Identifier: Apache-2.0
// A file that one of several machines has.
#include "cluster/checkpoint_files.h"

#include <fmt/core.h>

#include <future>

#include "base/log.h"
#include "tests/support/catch.h"

namespace troupe::cluster {
namespace {

using base::Errc;

/// A machine that has only this file, or fails so.
AskPiece place(const std::string& has, Errc code = Errc::not_found) {
  return [has, code](const std::string& file, std::uint64_t,
                     std::uint64_t) -> base::Result<schemas::FilePiece> {
    if (file == has) return schemas::FilePiece{0, Errc::ok, "", 1, has};
    return base::error(code, "{}: not here", file);
  };
}

TEST_CASE("a file comes from whoever has it, and a fault is told", "[checkpoint_files]") {
  const AskPiece any = any_of({place("a"), place("b"), place("c")});
  for (const std::string file : {"a", "b", "c"}) CHECK(any(file, 0, 1)->bytes == file);
  CHECK(any("d", 0, 1).status().code() == Errc::not_found);
  CHECK(any_of({place("a")})("a", 0, 1)->bytes == "a");
  CHECK(any_of({})("a", 0, 1).status().code() == Errc::not_found);
}

TEST_CASE("who cannot be asked holds up nobody who has the file", "[checkpoint_files]") {
  const AskPiece broken = any_of({place("a", Errc::unavailable), place("b"), place("c")});
  CHECK(broken("b", 0, 1)->bytes == "b");
  CHECK(broken("c", 0, 1)->bytes == "c");
  // It may have what none of the others has.
  CHECK(broken("d", 0, 1).status().code() == Errc::unavailable);
}

TEST_CASE("who had a file is asked first for more of it, who failed last", "[checkpoint_files]") {
  std::string asked;
  const auto told = [&asked](const std::string& name, AskPiece ask) -> AskPiece {
    return [&asked, name, ask = std::move(ask)](const std::string& file, std::uint64_t offset,
                                                std::uint64_t bytes) {
      asked += name;
      return ask(file, offset, bytes);
    };
  };
  const AskPiece any = any_of({told("1", place("x", Errc::unavailable)), told("2", place("y")),
                               told("3", place("a")), told("4", place("b"))});
  const auto order = [&](const std::string& file) {
    asked.clear();
    CHECK(any(file, 0, 1)->bytes == file);
    return asked;
  };
  CHECK(order("a") == "123");
  CHECK(order("a") == "3");
  CHECK(order("b") == "234");
  CHECK(order("b") == "4");
  CHECK(order("x") == "2341");
  CHECK(order("y") == "12");  // it is back
}

TEST_CASE("a removal for which there is no room is told", "[checkpoint_files]") {
  const auto warned = [] {
    return base::log_line_counts()[static_cast<std::size_t>(base::LogLevel::warn)];
  };
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  CheckpointFiles files;
  files.drop = [released](const schemas::DropCheckpoint&) {
    released.wait();
    return base::Status();
  };
  const std::uint64_t before = warned();
  {
    BackgroundCalls calls("a removal", 1, 5'000);
    for (int step = 0; step < 20; ++step) {
      drop_in_background(calls, files, {"/out", fmt::format("step-{}-g1", step), false});
    }
    CHECK(warned() > before + 10);
    release.set_value();
  }
}

}  // namespace
}  // namespace troupe::cluster
