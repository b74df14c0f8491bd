// SPDX-License-Identifier: Apache-2.0
// What is done with files of checkpoints in the background.
#include "cluster/checkpoint_files.h"

#include <fmt/core.h>

#include <future>

#include "base/log.h"
#include "tests/support/catch.h"

namespace troupe::cluster {
namespace {

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
