// SPDX-License-Identifier: Apache-2.0
// Jobs' starts are looked up one by one, few wait, and a folder that hangs holds nobody up.
#include "cluster/start_finder.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

namespace troupe::cluster {
namespace {

actors::StartFound found_of(const actors::FindStart& find) {
  return {find.job, {}, 0, 1, 5, ""};
}

TEST_CASE("every job is looked up, in order") {
  constexpr int kJobs = 20;
  std::vector<std::string> jobs;
  std::promise<void> all;
  StartFinder finder(
      found_of,
      [&](const actors::StartFound& found) {
        jobs.push_back(found.job);
        if (jobs.size() == kJobs) all.set_value();
      },
      kJobs, 20'000);
  std::vector<std::string> asked;
  for (int job = 0; job < kJobs; ++job) {
    asked.push_back(std::to_string(job));
    CHECK(finder.add({asked.back(), {}}));
  }
  REQUIRE(all.get_future().wait_for(std::chrono::seconds(20)) == std::future_status::ready);
  CHECK(jobs == asked);
}

TEST_CASE("a look-up that hangs bounds the queue, and the end does not wait for it") {
  struct Folder {
    std::promise<void> entered;
    std::promise<void> answers;
    std::promise<void> left;
  };
  const auto folder = std::make_shared<Folder>();
  bool told = false;
  {
    StartFinder finder(
        [folder](const actors::FindStart& find) {
          folder->entered.set_value();
          folder->answers.get_future().wait();
          folder->left.set_value_at_thread_exit();
          return found_of(find);
        },
        [&told](const actors::StartFound&) { told = true; }, 2, 20);
    CHECK(finder.add({"hangs", {}}));
    folder->entered.get_future().wait();
    CHECK(finder.add({"waits", {}}));
    CHECK(finder.add({"waits too", {}}));
    CHECK_FALSE(finder.add({"one too many", {}}));
  }
  folder->answers.set_value();
  folder->left.get_future().wait();
  CHECK_FALSE(told);
}

}  // namespace
}  // namespace troupe::cluster
