// SPDX-License-Identifier: Apache-2.0
// Metrics as pairs (sum, weight): they are added along the tree of ranks and divided only for
// people. Operators compute them; reading waits. One thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "ndarray/ndarray.h"
#include "ops/params.h"
#include "schemas/messages.h"
#include "symbol/symbol.h"

namespace troupe::train {

/// Metrics by name.
using MetricValues = std::map<std::string, schemas::MetricPair>;

/// How the symbol's loss reads labels, for BatchMetrics::compute(): the parameters by which it
/// leaves samples out, if it has them; of several losses the first output's, or the first.
ops::Attributes label_attributes(const symbol::Symbol& symbol);

/// Classification metrics of one batch, kept on the device until they are read.
class BatchMetrics {
 public:
  /// Pushes the operators over probabilities and labels (n,) of class numbers. Probabilities are
  /// (n, classes), or (n, d1, ...), whose classes are all that follows n; others are an error.
  /// Samples that `reading` (see label_attributes) leaves out do not count.
  static base::Result<BatchMetrics> compute(const ndarray::NDArray& probabilities,
                                            const ndarray::NDArray& labels,
                                            const ops::Attributes& reading = {});
  /// Waits. "cross_entropy": natural logarithm, summed over samples; "accuracy": samples whose
  /// largest probability is the label's; both weighed by the samples that count.
  /// Where none counts there is no metric.
  base::Result<MetricValues> read() const;

 private:
  std::vector<ndarray::NDArray> cross_entropy_,
      accuracy_;  // (sum, weight), 0-d f64; empty: nothing
};

}  // namespace troupe::train
