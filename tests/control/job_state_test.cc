// SPDX-License-Identifier: Apache-2.0
// A job's silence at the coordinator: judged before training and after it, the servers' in between.
#include "control/job_state.h"

#include <catch2/catch.hpp>

namespace troupe::control {
namespace {

using schemas::ActorId;
using schemas::Role;

constexpr ActorId kRank{Role::worker, 0};
constexpr ActorId kServer{Role::parameter_server, 0};

JobRoster small_roster() {
  JobRoster roster;
  roster.placement.machine_of_rank = {0};
  roster.placement.machine_of_shard = {0};
  roster.placement.machines = {"a"};
  roster.limits.missing_log_ms = 100;
  roster.limits.stall_ms = 1'000;
  return roster;
}

/// The end among the effects; ok: none.
base::Status end_of(const std::vector<JobEffect>& effects) {
  for (const JobEffect& effect : effects) {
    if (const auto* end = std::get_if<JobEnded>(&effect)) return end->status;
  }
  return {};
}

TEST_CASE("a job whose ranks do not come is named, then ends") {
  JobState job(small_roster());
  job.begin(0);
  const auto warned = job.tick(100);
  REQUIRE(warned.size() == 1);
  CHECK(std::get<JobWarned>(warned[0]).text.find("waiting for worker 0") != std::string::npos);
  CHECK(job.missing_ranks() == std::vector<std::uint32_t>{0});
  CHECK(end_of(job.tick(1'000)).code() == base::Errc::deadline_exceeded);
}

TEST_CASE("ranks that train need not log: the servers judge their silence, the end is bounded") {
  JobState job(small_roster());
  job.begin(0);
  job.received(kRank, schemas::DatasetReport{});
  CHECK(job.tick(500).empty());
  CHECK(job.tick(1'000'000).empty());
  SECTION("the server does not end") {
    job.received(kRank, schemas::ActorDone{kRank, 5});
    CHECK(end_of(job.tick(1'000'999)).ok());
    const base::Status end = end_of(job.tick(1'001'000));
    CHECK(end.text().find("waiting for parameter server 0") != std::string::npos);
  }
  SECTION("the rank does not end") {
    job.received(kServer, schemas::ActorDone{kServer, 5});
    const base::Status end = end_of(job.tick(1'001'000));
    CHECK(end.text().find("waiting for worker 0") != std::string::npos);
  }
}

}  // namespace
}  // namespace troupe::control
