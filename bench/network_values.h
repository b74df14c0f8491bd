// SPDX-License-Identifier: Apache-2.0
// First values of a network's arguments and states for benchmarks, by their names alone, so that
// peers start from the same. One thread.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/shape.h"
#include "bench/formula.h"
#include "bench/report.h"
#include "ndarray/ndarray.h"

namespace troupe::bench {

inline constexpr double kScale = 0.5;  // of batch normalisation: keeps sums of many units small
inline constexpr int kLabelStep = 7;

/// First values of an argument or state by its name; peers/convnets.py has the same rule.
inline std::vector<float> values_of(const std::string& name, const base::Shape& shape,
                                    std::int64_t classes) {
  const auto elements = static_cast<std::size_t>(shape.elements());
  if (name == "data") return stream(stream_of(name), elements, 1.0);
  if (name == "softmax_label") {
    std::vector<float> labels;
    for (std::int64_t i = 0; i < shape[0]; ++i) {
      labels.push_back(static_cast<float>(i * kLabelStep % classes));
    }
    return labels;
  }
  if (name.ends_with("_weight")) {
    const double fan_in = static_cast<double>(shape.elements()) / static_cast<double>(shape[0]);
    return stream(stream_of(name), elements, std::sqrt(6.0 / fan_in));
  }
  const double constant = name.ends_with("_gamma") ? kScale : name.ends_with("_var") ? 1.0 : 0.0;
  return std::vector<float>(elements, static_cast<float>(constant));
}

/// Writes them.
inline void fill(const ndarray::NDArray& array, const std::string& name, std::int64_t classes) {
  const std::vector<float> values = values_of(name, array.shape(), classes);
  must(array.write(std::as_bytes(std::span(values))));
}

}  // namespace troupe::bench
