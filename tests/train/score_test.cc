// SPDX-License-Identifier: Apache-2.0
// What counts in loss and accuracy: samples and classes as the network's own loss reads them.
#include "train/score.h"

#include <array>
#include <cmath>

#include "tests/support/catch.h"
#include "tests/support/job_files.h"
#include "tests/support/test_runtime.h"
#include "tests/support/whole_job.h"

namespace troupe::train {
namespace {

using ndarray::NDArray;

/// Two classes, and three samples, of which the last is right and the first is wrong.
constexpr std::array kProbabilities = {0.25F, 0.75F, 0.5F, 0.5F, 0.125F, 0.875F};

/// fc, then `behind` with `attributes` over its four numbers.
symbol::Symbol network(const std::string& behind, const ops::Attributes& attributes,
                       const std::string& shape = "") {
  symbol::Composer c(tests::test_operators());
  symbol::Symbol x = c.call("fully_connected", "fc", {c.variable("data")}, {{"num_hidden", "4"}});
  if (!shape.empty()) x = c.call("reshape", "shaped", {x}, {{"shape", shape}});
  return c.finish(c.call(behind, "loss", {x}, attributes)).value();
}

TEST_CASE("samples that the loss leaves out count in no figure", "[score]") {
  const ops::Attributes reading =
      label_attributes(network("softmax_output", {{"use_ignore", "True"}, {"ignore_label", "-1"}}));
  CHECK(reading.size() == 2);
  tests::TestRuntime test;
  const auto labels = NDArray::from<float>(test.runtime, {3}, std::array{0.0F, -1.0F, 1.0F});
  for (const base::Shape& shape : {base::Shape{3, 2}, base::Shape{3, 2, 1, 1}}) {
    INFO(shape.to_string());
    const auto probabilities = NDArray::from<float>(test.runtime, shape, kProbabilities);
    const auto values = BatchMetrics::compute(*probabilities, *labels, reading)->read();
    INFO(values.status().to_string());
    REQUIRE(values.ok());
    CHECK(values->at("accuracy") == schemas::MetricPair{1, 2});
    CHECK(values->at("cross_entropy").sum == Approx(-std::log(0.25) - std::log(0.875)));
    CHECK(values->at("cross_entropy").weight == 2);
    CHECK_FALSE(BatchMetrics::compute(*probabilities, *labels)->read().ok());
    const auto none = NDArray::from<float>(test.runtime, {3}, std::array{-1.0F, -1.0F, -1.0F});
    CHECK(BatchMetrics::compute(*probabilities, *none, reading)->read()->empty());
  }
  CHECK(label_attributes(network("softmax", {})).empty());
  CHECK(label_attributes(network("softmax_cross_entropy", {{"use_ignore", "True"}}))
            .at("use_ignore") == "True");
  const auto scalar = NDArray::from<float>(test.runtime, {}, std::array{0.5F});
  CHECK(BatchMetrics::compute(*scalar, *labels, reading).status().code() ==
        base::Errc::invalid_argument);
}

TEST_CASE("the loss may be another output than the one that is scored", "[score]") {
  symbol::Composer c(tests::test_operators());
  const symbol::Symbol fc =
      c.call("fully_connected", "fc", {c.variable("data")}, {{"num_hidden", "4"}});
  const symbol::Symbol seen = c.call("BlockGrad", "seen", {c.call("softmax", "p", {fc})});
  const symbol::Symbol loss = c.call("softmax_cross_entropy", "loss", {fc, c.variable("label")},
                                     {{"use_ignore", "True"}, {"ignore_label", "3"}});
  const std::vector<symbol::Symbol> outputs = {seen, loss};
  const auto reading = label_attributes(c.finish(symbol::Symbol::group(outputs)).value());
  CHECK(std::stod(reading.at("ignore_label")) == 3);
}

TEST_CASE("a job scores as its loss reads labels", "[score]") {
  const TestFolder folder("score-job");
  write_test_records(folder.path() / "train.rec", 40, 12);
  write_test_records(folder.path() / "test.rec", 40, 12);
  schemas::JobSpec spec = test_job(folder.path(), "");
  spec.train.epochs = 1;
  const auto scored = [&](const symbol::Symbol& symbol) {
    spec.model.symbol_json = symbol.to_json();
    const tests::JobOutcome outcome = tests::run_job(tests::test_operators(), spec);
    INFO(outcome.status.to_string());
    REQUIRE(outcome.status.ok());
    std::filesystem::remove_all(spec.checkpoint.dir);
    return outcome.seen.scores.at(0).samples;
  };
  CHECK(scored(network("softmax_output", {}, "(0, 4, 1, 1)")) == 40);
  const auto some = scored(network("softmax_output", {{"use_ignore", "1"}, {"ignore_label", "2"}}));
  CHECK(some > 0);
  CHECK(some < 40);
}

}  // namespace
}  // namespace troupe::train
