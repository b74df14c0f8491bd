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

ops::Attributes label_attributes(const symbol::Symbol& symbol) {
  const symbol::Graph graph = symbol.graph();
  const auto reading_of = [](const symbol::GraphNode& node) {
    ops::Attributes attributes;
    for (const auto& [name, value] : node.params.to_attributes()) {
      if (name == "use_ignore" || name == "ignore_label") attributes[name] = value;
    }
    return attributes;
  };
  ops::Attributes found = reading_of(graph.node(graph.heads.front()));
  // The loss may be another output: Group([BlockGrad(softmax), softmax_cross_entropy]).
  for (std::size_t i = 0; found.empty() && i < graph.nodes.size(); ++i) {
    found = reading_of(graph.nodes[i]);
  }
  return found;
}

base::Result<BatchMetrics> BatchMetrics::compute(const ndarray::NDArray& probabilities,
                                                 const ndarray::NDArray& labels,
                                                 const ops::Attributes& reading) {
  const base::Shape& shape = probabilities.shape();
  if (shape.rank() < 2) {
    return base::error(base::Errc::invalid_argument,
                       "loss and accuracy are read from the first output, which must be (samples, "
                       "classes), and has shape {}",
                       shape.to_string());
  }
  const base::Shape rows{shape[0], shape.elements(1, shape.rank())};
  const std::array inputs = {shape.rank() == 2 ? probabilities : probabilities.reshape(rows),
                             labels};
  ndarray::Runtime& runtime = probabilities.runtime();
  BatchMetrics metrics;
  TROUPE_TRY_ASSIGN(metrics.cross_entropy_,
                    ndarray::invoke(runtime, "cross_entropy_sum", inputs, reading));
  TROUPE_TRY_ASSIGN(metrics.accuracy_, ndarray::invoke(runtime, "accuracy_count", inputs, reading));
  return metrics;
}

base::Result<MetricValues> BatchMetrics::read() const {
  MetricValues values;
  if (cross_entropy_.empty()) return values;
  TROUPE_TRY_ASSIGN(values["cross_entropy"], read_pair(cross_entropy_));
  TROUPE_TRY_ASSIGN(values["accuracy"], read_pair(accuracy_));
  std::erase_if(values, [](const auto& value) { return value.second.weight == 0.0; });
  return values;
}

}  // namespace troupe::train
