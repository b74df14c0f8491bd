// SPDX-License-Identifier: Apache-2.0
// What a process of a job looks at before it says that it is ready. What its actors do then:
// tests/integration/company_test.py.
#include "actors/job_actors.h"

#include "schemas/codec.h"
#include "tests/support/catch.h"
#include "tests/support/job_files.h"

namespace troupe::actors {
namespace {

base::Status opened(const schemas::JobSpec& spec, const schemas::ActorId& actor) {
  schemas::LaunchProcess launch;
  launch.job = "job";
  launch.actor = actor;
  if (actor.role == schemas::Role::device_server) launch.ranks = {0, 1};
  launch.job_text = schemas::encode_job_spec(spec).value();
  base::SteadyClock clock;
  monitoring::Metrics metrics;
  return JobActors::open(launch, {}, clock, metrics).status();
}

TEST_CASE("a parameter server that could not write checkpoints does not begin", "[job_actors]") {
  const TestFolder folder("job-actors");
  train::write_test_records(folder.path() / "train.rec", 64, 12);
  train::write_test_records(folder.path() / "test.rec", 4, 12);
  schemas::JobSpec spec = train::test_job(folder.path(), "tiny-bn");
  const schemas::ActorId server{schemas::Role::parameter_server, 1};
  const schemas::ActorId host{schemas::Role::device_server, 0};
  CHECK(opened(spec, server).ok());
  // Nobody, not even root, makes files there.
  spec.checkpoint.dir = "/proc/self/task";
  const base::Status refused = opened(spec, server);
  CHECK_FALSE(refused.ok());
  CHECK_THAT(refused.text(), Catch::Contains("checkpoint.dir: /proc/self/task"));
  CHECK(opened(spec, host).ok());  // it writes none
}

}  // namespace
}  // namespace troupe::actors
