// SPDX-License-Identifier: Apache-2.0
// A job's series: what is known is shown with its unit, what is not has no series.
#include "actors/job_metrics.h"

#include <map>

#include "tests/support/catch.h"

namespace troupe::actors {
namespace {

/// Values by "family/label/label".
class Recorded final : public monitoring::Scrape {
 public:
  void value(const monitoring::Family& family, monitoring::LabelValues labels,
             double value) override {
    std::string series(family.name);
    for (const std::string_view label : labels) series.append("/").append(label);
    values[series] += value;
  }
  std::map<std::string, double> values;
};

TEST_CASE("a job that has only been admitted shows its samples", "[job_metrics]") {
  Recorded recorded;
  JobSeries job;
  job.job = std::string("x");
  show_job(job, recorded);
  CHECK(recorded.values == std::map<std::string, double>{{"troupe_job_samples_total/x", 0.0}});
}

TEST_CASE("a job that trains shows all that is known of it", "[job_metrics]") {
  Recorded recorded;
  show_job({"x", 640, 10, 40, 0.5, 0.75, 1e9, {2, 7}, 0.5, 3, true}, recorded);
  CHECK(recorded.values ==
        std::map<std::string, double>{{"troupe_job_samples_total/x", 640.0},
                                      {"troupe_job_step/x", 10.0},
                                      {"troupe_job_progress_ratio/x", 0.25},
                                      {"troupe_job_loss/x/train", 0.5},
                                      {"troupe_job_accuracy_ratio/x/test", 0.75},
                                      {"troupe_job_last_checkpoint_timestamp_seconds/x", 1e9},
                                      {"troupe_job_goodput_ratio/x", 0.5},
                                      {"troupe_job_resumes_total/x", 3.0},
                                      {"troupe_job_failed/x", 1.0},
                                      {"troupe_job_missing_ranks/x/2", 1.0},
                                      {"troupe_job_missing_ranks/x/7", 1.0}});
}

TEST_CASE("steps without a known end have no ratio", "[job_metrics]") {
  Recorded recorded;
  show_job({"x", 0, 10, 0, {}, {}, {}, {}, {}, {}, false}, recorded);
  CHECK(recorded.values.contains("troupe_job_step/x"));
  CHECK(recorded.values.at("troupe_job_failed/x") == 0.0);
  CHECK_FALSE(recorded.values.contains("troupe_job_progress_ratio/x"));
}

}  // namespace
}  // namespace troupe::actors
