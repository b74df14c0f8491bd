// SPDX-License-Identifier: Apache-2.0
// What is told between two looks at a job; the looks themselves: tests/integration/company_test.py.
#include "apps/job_watch.h"

#include <sstream>
#include <utility>

#include "tests/support/catch.h"

namespace troupe::apps {
namespace {

using schemas::JobInfo;
using schemas::JobPhase;

JobInfo look(JobPhase phase, std::uint64_t samples, std::uint64_t number = 4) {
  JobInfo job;
  job.id = std::string("x");
  job.phase = phase;
  job.samples = samples;
  job.number = number;
  return job;
}

TEST_CASE("a job that goes on elsewhere says from where", "[job_watch]") {
  JobInfo now = look(JobPhase::pending, 0);
  now.checkpoint = "/out/step-3-g1";
  now.text = "waits for 1 worker slot";
  CHECK(news_of(look(JobPhase::running, 30), now).value() ==
        std::vector<std::string>{"job x has left a machine and goes on from /out/step-3-g1",
                                 "job x waits for 1 worker slot"});
  CHECK(news_of(look(JobPhase::running, 30), look(JobPhase::running, 10)).value() ==
        std::vector<std::string>{"job x has left a machine and goes on from the beginning"});
  CHECK(news_of(look(JobPhase::running, 30), look(JobPhase::running, 40)).value().empty());
  CHECK(news_of(look(JobPhase::running, 30), look(JobPhase::stopped, 0)).value().empty());
  CHECK(news_of(JobInfo(), look(JobPhase::running, 40)).value().empty());  // the first look
}

TEST_CASE("another job of the same id is not the one that is watched", "[job_watch]") {
  for (const JobPhase phase : {JobPhase::pending, JobPhase::running, JobPhase::succeeded}) {
    const auto news = news_of(look(JobPhase::running, 30), look(phase, 0, 7));
    CHECK(news.status().code() == base::Errc::already_exists);
    CHECK(news.status().text() == "job x has ended, unseen, and another submission has its id now");
  }
}

TEST_CASE("a job that had succeeded before it was submitted again is known", "[job_watch]") {
  JobInfo job = look(JobPhase::succeeded, 30);
  job.age_ms = 60'000;
  CHECK(had_succeeded(job, 100));
  CHECK_FALSE(had_succeeded(job, 60'000));  // its answer came late: it is this submission
  job.age_ms = 600;
  CHECK_FALSE(had_succeeded(job, 100));  // a step of the coordinator's clock
  job.phase = JobPhase::running;
  job.age_ms = 60'000;
  CHECK_FALSE(had_succeeded(job, 100));
}

TEST_CASE("a job ends a command as it has ended itself", "[job_watch]") {
  const auto end_of = [](JobPhase phase, bool no_room) {
    std::ostringstream out, err;
    Console console(out, err);
    Context context(console, {});
    JobInfo job = look(phase, 0);
    job.no_room = no_room;
    job.text = "why";
    const ExitCode code = finish_job(job, false, context);
    return std::pair(code, err.str());
  };
  CHECK(end_of(JobPhase::succeeded, false) == std::pair(ExitCode::ok, std::string()));
  CHECK(end_of(JobPhase::stopped, false) ==
        std::pair(ExitCode::stopped, std::string("error: job x stopped: why\n")));
  CHECK(end_of(JobPhase::failed, false) ==
        std::pair(ExitCode::failed, std::string("error: job x failed: why\n")));
  CHECK(end_of(JobPhase::failed, true) ==
        std::pair(ExitCode::no_resources, std::string("error: job x failed: why\n")));
}

}  // namespace
}  // namespace troupe::apps
