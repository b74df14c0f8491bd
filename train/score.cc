// SPDX-License-Identifier: Apache-2.0
// Metrics by the operators cross_entropy_sum and accuracy_count.
#include "train/score.h"

#include <array>

#include "ndarray/invoke.h"

namespace troupe::train {
namespace {

base::Result<schemas::MetricPair> read_pair(const std::vector<ndarray::NDArray>& pair) {
  TROUPE_TRY_ASSIGN(const double sum, pair[0].scalar<double>());
  TROUPE_TRY_ASSIGN(const double weight, pair[1].scalar<double>());
  return schemas::MetricPair{sum, weight};
}

}  // namespace

base::Result<BatchMetrics> BatchMetrics::compute(const ndarray::NDArray& probabilities,
                                                 const ndarray::NDArray& labels) {
  const std::array inputs = {probabilities, labels};
  ndarray::Runtime& runtime = probabilities.runtime();
  BatchMetrics metrics;
  TROUPE_TRY_ASSIGN(metrics.cross_entropy_, ndarray::invoke(runtime, "cross_entropy_sum", inputs));
  TROUPE_TRY_ASSIGN(metrics.accuracy_, ndarray::invoke(runtime, "accuracy_count", inputs));
  return metrics;
}

base::Result<MetricValues> BatchMetrics::read() const {
  MetricValues values;
  if (cross_entropy_.empty()) return values;
  TROUPE_TRY_ASSIGN(values["cross_entropy"], read_pair(cross_entropy_));
  TROUPE_TRY_ASSIGN(values["accuracy"], read_pair(accuracy_));
  return values;
}

}  // namespace troupe::train
