// SPDX-License-Identifier: Apache-2.0
// Imperative calls: any operator of the table by name, and arithmetic on arrays. Calls check
// shapes and prepare the kernel at once, push the work, and return; results arrive by the engine.
// Functions that return NDArray give a failed array on bad arguments (NDArray::status).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "ndarray/ndarray.h"
#include "ndarray/random_generator.h"
#include "ops/params.h"

namespace troupe::ndarray {

/// An input that is a number: no array, and no part of a prepared kernel's key.
struct NumberInput {
  double value = 0.0;
  std::size_t index = 0;  ///< among the operator's inputs
};

/// How a call runs and where its results go.
struct InvokeOptions {
  /// A number as one more input, without axes and of the first input's dtype.
  std::optional<NumberInput> number = {};
  /// Where results go; empty: new arrays. As many as visible outputs.
  std::vector<NDArray> outputs = {};
  ops::WriteMode mode = ops::WriteMode::write;
  RandomGenerator* generator = nullptr;  ///< compulsory for operators that draw
  base::Device device = {};              ///< of operators without inputs
  int priority = 0;
  bool reference_only = false;
};

/// Runs `op` (name or alias). Errors name the operator, shapes or attributes.
base::Result<std::vector<NDArray>> invoke(Runtime& runtime, std::string_view op,
                                          std::span<const NDArray> inputs,
                                          const ops::Attributes& attributes = {},
                                          const InvokeOptions& options = {});
/// invoke() for the first output; failures come back as a failed array.
NDArray call(Runtime& runtime, std::string_view op, const std::vector<NDArray>& inputs,
             const ops::Attributes& attributes = {}, const InvokeOptions& options = {});

/// call() of two arrays, without attributes.
NDArray call_pair(Runtime& runtime, std::string_view op, const NDArray& a, const NDArray& b);

/// `array * factor` that nobody has computed. += and -= add it to an array of its shape in one
/// pass; everything else gets an array of it. It is meant as a temporary alone and cannot be
/// copied: write `NDArray x = a * 0.1`, not `auto x`. A later use would see what the array is then.
class Scaled {
 public:
  Scaled(NDArray array, double factor) : array_(std::move(array)), factor_(factor) {}
  Scaled(const Scaled&) = delete;
  Scaled& operator=(const Scaled&) = delete;

  const NDArray& array() const { return array_; }
  double factor() const { return factor_; }
  /// Pushes the product; a failed array as operator* of two arrays would give it.
  operator NDArray() && { return std::move(*this).value(); }  // NOLINT: implicit by design
  NDArray value() &&;

 private:
  NDArray array_;
  double factor_;
};

NDArray operator+(const NDArray& a, const NDArray& b);
NDArray operator-(const NDArray& a, const NDArray& b);
NDArray operator*(const NDArray& a, const NDArray& b);
NDArray operator/(const NDArray& a, const NDArray& b);
NDArray operator+(const NDArray& a, double b);
NDArray operator-(const NDArray& a, double b);
Scaled operator*(const NDArray& a, double b);
NDArray operator/(const NDArray& a, double b);
NDArray operator+(double a, const NDArray& b);
NDArray operator-(double a, const NDArray& b);
Scaled operator*(double a, const NDArray& b);
NDArray operator/(double a, const NDArray& b);
NDArray operator-(const NDArray& a);

/// In place, through the array's own tag. A failure makes `a` a failed array and leaves the
/// elements as they were.
NDArray& operator+=(NDArray& a, const NDArray& b);
NDArray& operator-=(NDArray& a, const NDArray& b);
NDArray& operator*=(NDArray& a, const NDArray& b);
NDArray& operator/=(NDArray& a, const NDArray& b);
NDArray& operator+=(NDArray& a, Scaled&& b);
NDArray& operator-=(NDArray& a, Scaled&& b);
NDArray& operator+=(NDArray& a, double b);
NDArray& operator-=(NDArray& a, double b);
NDArray& operator*=(NDArray& a, double b);
NDArray& operator/=(NDArray& a, double b);

}  // namespace troupe::ndarray
