// SPDX-License-Identifier: Apache-2.0
// What ranks report, added up: told once all are in, whoever lies or repeats.
#include "control/job_progress.h"

#include <fmt/core.h>

#include <string>

#include "tests/support/catch.h"

namespace troupe::control {
namespace {

schemas::ProgressReport progress(std::uint32_t rank, std::uint64_t step) {
  schemas::ProgressReport report;
  report.rank = rank;
  report.step = step;
  report.samples = 8;
  report.metrics["cross_entropy"] = {2.0, 8.0};
  return report;
}

schemas::EvaluationReport score(std::uint32_t rank, std::uint64_t epoch) {
  schemas::EvaluationReport report;
  report.rank = rank;
  report.epoch = epoch;
  report.samples = 4;
  report.correct = 3;
  return report;
}

TEST_CASE("a step is told with its sums once all ranks have reported it", "[job_progress]") {
  JobProgress ranks(2);
  CHECK_FALSE(ranks.add(progress(1, 5)));
  CHECK_FALSE(ranks.add(progress(1, 5)));  // again
  CHECK(ranks.missing() == std::vector<std::uint32_t>{0});
  const auto sum = ranks.add(progress(0, 5));
  REQUIRE(sum);
  CHECK(sum->samples == 16);
  CHECK(sum->metrics.at("cross_entropy") == schemas::MetricPair{4.0, 16.0});
  CHECK(ranks.missing().empty());
}

TEST_CASE("an epoch is told once, and none before it", "[job_progress]") {
  JobProgress ranks(2);
  CHECK_FALSE(ranks.add(score(0, 2)));
  CHECK(ranks.add(score(1, 2))->accuracy() == 0.75);
  for (const std::uint64_t epoch : {std::uint64_t{2}, std::uint64_t{1}}) {
    CHECK_FALSE(ranks.add(score(0, epoch)));
    CHECK_FALSE(ranks.add(score(1, epoch)));
  }
  CHECK_FALSE(ranks.add(score(0, 3)));
  CHECK(ranks.add(score(1, 3)));
}

TEST_CASE("of a report's metrics a few of short names count", "[job_progress]") {
  JobProgress ranks(1);
  schemas::ProgressReport report = progress(0, 1);
  for (int i = 0; i < 256; ++i) report.metrics[fmt::format("zz{}", i)] = {1.0, 1.0};
  report.metrics[std::string(4'000, 'a')] = {1.0, 1.0};
  const auto sum = ranks.add(report);
  REQUIRE(sum);
  CHECK(sum->metrics.size() == JobProgress::kMetricsMax);
  CHECK(sum->metrics.contains("cross_entropy"));
  CHECK(sum->metrics.rbegin()->first.size() < 8);
}

}  // namespace
}  // namespace troupe::control
