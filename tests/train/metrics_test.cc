// SPDX-License-Identifier: Apache-2.0
// The figures of ranks, seen by Prometheus while a job runs.
#include "train/metrics.h"

#include "base/clock.h"
#include "tests/support/catch.h"
#include "tests/support/job_files.h"
#include "tests/support/late_ranks.h"
#include "tests/support/test_runtime.h"
#include "train/local_run.h"

namespace troupe::train {
namespace {

using Catch::Contains;

/// Scrapes at every report.
class Scraper final : public JobObserver {
 public:
  explicit Scraper(const monitoring::Metrics& metrics) : metrics_(metrics) {}
  void progress(const control::StepProgress&) override { last_ = metrics_.exposition(); }
  void scored(const control::EpochScore&) override { last_ = metrics_.exposition(); }
  void checkpointed(std::uint64_t, const std::string&) override {}
  const std::string& last() const { return last_; }

 private:
  const monitoring::Metrics& metrics_;
  std::string last_;
};

TEST_CASE("every rank shows its steps, data, engine and memory while it runs", "[metrics]") {
  const TestFolder folder("train-metrics-test");
  write_test_records(folder.path() / "train.rec", 160, 8);
  write_test_records(folder.path() / "test.rec", 40, 8);
  const auto job = open_job(test_job(folder.path(), "tiny-bn"), tests::test_operators());
  REQUIRE(job.ok());
  monitoring::Metrics metrics;
  Scraper scraper(metrics);
  base::SteadyClock clock;
  LocalRunOptions options;
  options.metrics = &metrics;
  const base::Status status =
      run_local(job.value(), tests::test_operators(), clock, scraper, options);
  INFO(status.text());
  REQUIRE(status.ok());
  for (const char* rank : {"0", "1", "2", "3"}) {
    const std::string label = std::string("{rank=\"") + rank + "\"} ";
    CHECK_THAT(scraper.last(), Contains("troupe_worker_steps_total" + label + "10\n"));
    CHECK_THAT(scraper.last(), Contains("troupe_worker_samples_total" + label + "80\n"));
    CHECK_THAT(scraper.last(), Contains("troupe_worker_global_step" + label + "10\n"));
    CHECK_THAT(scraper.last(), Contains("troupe_worker_last_step_timestamp_seconds" + label));
    CHECK_THAT(metrics.exposition(), Contains("troupe_worker_step_seconds_count" + label + "10\n"));
    CHECK_THAT(
        scraper.last(),
        Contains(std::string("troupe_memory_used_bytes{device=\"cpu:0\",pool=\"rank") + rank));
    CHECK_THAT(scraper.last(),
               Contains(std::string("troupe_engine_ops_total{engine=\"rank") + rank));
  }
  CHECK_THAT(scraper.last(), Contains("troupe_data_records_total{source=\"train\"} 320\n"));
  CHECK_THAT(metrics.exposition(),
             Contains("troupe_data_batch_seconds_count{source=\"train\"} 40\n"));
  CHECK_THAT(scraper.last(), !Contains("result=\"failed\"} 1"));
  CHECK_THAT(scraper.last(), !Contains("troupe_worker_device_info"));  // all on the CPUs
  CHECK_THAT(metrics.exposition(), !Contains("troupe_worker_steps_total"));
}

TEST_CASE("a rank that computes beside its host shows where", "[metrics]") {
  const TestFolder folder("train-metrics-late");
  write_test_records(folder.path() / "train.rec", 160, 8);
  write_test_records(folder.path() / "test.rec", 40, 8);
  const auto job = open_job(test_job(folder.path(), "tiny-bn"), tests::test_operators());
  REQUIRE(job.ok());
  monitoring::Metrics metrics;
  Scraper scraper(metrics);
  base::SteadyClock clock;
  const tests::LateRanks late(job.value()->spec.ranks(), 3);
  LocalRunOptions options;
  options.metrics = &metrics;
  REQUIRE(run_local(job.value(), tests::test_operators(), clock, scraper, late.on_device(options))
              .ok());
  for (const std::string labels :
       {"rank=\"0\",device=\"delayed:0\"", "rank=\"2\",device=\"delayed:2\"",
        "rank=\"3\",device=\"delayed:0\""}) {
    CHECK_THAT(scraper.last(), Contains("troupe_worker_device_info{" + labels + ",uuid=\"\"} 1\n"));
  }
}

}  // namespace
}  // namespace troupe::train
