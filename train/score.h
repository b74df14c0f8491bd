// SPDX-License-Identifier: Apache-2.0
// Metrics as pairs (sum, weight): they are added along the tree of ranks and divided only for
// people. Operators compute them; reading waits. One thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "ndarray/ndarray.h"
#include "schemas/messages.h"

namespace troupe::train {

/// Metrics by name.
using MetricValues = std::map<std::string, schemas::MetricPair>;

/// Classification metrics of one batch, kept on the device until they are read.
class BatchMetrics {
 public:
  /// Pushes the operators over probabilities (n, classes) and labels (n,) of class numbers.
  static base::Result<BatchMetrics> compute(const ndarray::NDArray& probabilities,
                                            const ndarray::NDArray& labels);
  /// Waits. "cross_entropy": natural logarithm, summed over samples; "accuracy": samples whose
  /// largest probability is the label's; both weighed by samples.
  base::Result<MetricValues> read() const;

 private:
  std::vector<ndarray::NDArray> cross_entropy_,
      accuracy_;  // (sum, weight), 0-d f64; empty: nothing
};

}  // namespace troupe::train
