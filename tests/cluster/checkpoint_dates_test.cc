// SPDX-License-Identifier: Apache-2.0
// Dates of checkpoints over a pause, a new checkpoint and a job that is forgotten.
#include "cluster/checkpoint_dates.h"

#include <vector>

#include "tests/support/catch.h"

namespace troupe::cluster {
namespace {

std::vector<control::ScrapedJob> job_with(std::uint64_t checkpointed_ms) {
  std::vector<control::ScrapedJob> jobs(1);
  jobs[0].info.id = "a";
  jobs[0].checkpointed_ms = checkpointed_ms;
  return jobs;
}

TEST_CASE("a checkpoint keeps its date over pauses, and the next one has the right one") {
  CheckpointDates dates;
  dates.look(job_with(0), 5'000, 1'000.0);
  CHECK_FALSE(dates.of("a").has_value());
  dates.look(job_with(8'000), 10'000, 1'005.0);
  CHECK(dates.of("a") == 1'003.0);
  // The machine pauses for an hour; the state's clock does not see it.
  dates.look(job_with(8'000), 11'000, 4'606.0);
  CHECK(dates.of("a") == 1'003.0);
  dates.look(job_with(12'000), 12'500, 4'607.5);
  CHECK(dates.of("a") == 4'607.0);
  dates.look({}, 13'000, 4'608.0);
  CHECK_FALSE(dates.of("a").has_value());
}

}  // namespace
}  // namespace troupe::cluster
