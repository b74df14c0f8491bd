// SPDX-License-Identifier: Apache-2.0
// Arithmetic operators on arrays, as calls of the operator table.
#include <fmt/core.h>

#include <span>
#include <utility>

#include "ndarray/invoke.h"

namespace troupe::ndarray {

namespace {

/// An error unless `a` can tell what to run on.
base::Status check_operand(std::string_view op, const NDArray& a) {
  TROUPE_TRY(a.status());
  if (!a) return base::error(base::Errc::invalid_argument, "[{}] got an empty handle", op);
  return a.check_usable();
}

NDArray binary(std::string_view op, const NDArray& a, const NDArray& b) {
  for (const NDArray* operand : {&a, &b}) {
    const base::Status status = check_operand(op, *operand);
    if (!status.ok()) return NDArray::failed(status);
  }
  return call_pair(a.runtime(), op, a, b);
}

/// `a` and a number, which is input `index`.
NDArray with_number(std::string_view op, const NDArray& a, double value, std::size_t index) {
  const base::Status status = check_operand(op, a);
  if (!status.ok()) return NDArray::failed(status);
  InvokeOptions options;
  options.number = {value, index};
  return call(a.runtime(), op, {a}, {}, options);
}

NDArray& assign(std::string_view op, NDArray& a, const std::vector<NDArray>& inputs,
                std::optional<NumberInput> number = {}) {
  base::Status status = check_operand(op, a);
  if (status.ok()) {
    InvokeOptions options;
    options.number = number;
    options.outputs = {a};
    status = call(a.runtime(), op, inputs, {}, options).status();
  }
  if (!status.ok()) a = NDArray::failed(status);
  return a;
}

/// a += b.array() * factor in one pass or, where that is not done, `op` of a and the product.
NDArray& add_scaled(std::string_view op, NDArray& a, Scaled&& b, double factor) {
  const NDArray& other = b.array();
  const bool alike = a && other && a.shape() == other.shape() && a.dtype() == other.dtype();
  if (!alike) return assign(op, a, {a, std::move(b)});
  return assign("add_scaled", a, {a, other}, NumberInput{factor, 2});
}

}  // namespace

NDArray Scaled::value() && {
  return with_number("multiply", array_, factor_, 1);
}

NDArray operator+(const NDArray& a, const NDArray& b) {
  return binary("add", a, b);
}
NDArray operator-(const NDArray& a, const NDArray& b) {
  return binary("subtract", a, b);
}
NDArray operator*(const NDArray& a, const NDArray& b) {
  return binary("multiply", a, b);
}
NDArray operator/(const NDArray& a, const NDArray& b) {
  return binary("divide", a, b);
}
NDArray operator+(const NDArray& a, double b) {
  return with_number("add", a, b, 1);
}
NDArray operator-(const NDArray& a, double b) {
  return with_number("subtract", a, b, 1);
}
Scaled operator*(const NDArray& a, double b) {
  return {a, b};
}
NDArray operator/(const NDArray& a, double b) {
  return with_number("divide", a, b, 1);
}
NDArray operator+(double a, const NDArray& b) {
  return b + a;
}
NDArray operator-(double a, const NDArray& b) {
  return with_number("subtract", b, a, 0);
}
Scaled operator*(double a, const NDArray& b) {
  return {b, a};
}
NDArray operator/(double a, const NDArray& b) {
  return with_number("divide", b, a, 0);
}

NDArray operator-(const NDArray& a) {
  const base::Status status = check_operand("negate", a);
  return status.ok() ? call(a.runtime(), "negate", {a}) : NDArray::failed(status);
}

NDArray& operator+=(NDArray& a, const NDArray& b) {
  return assign("add", a, {a, b});
}
NDArray& operator-=(NDArray& a, const NDArray& b) {
  return assign("subtract", a, {a, b});
}
NDArray& operator*=(NDArray& a, const NDArray& b) {
  return assign("multiply", a, {a, b});
}
NDArray& operator/=(NDArray& a, const NDArray& b) {
  return assign("divide", a, {a, b});
}
NDArray& operator+=(NDArray& a, Scaled&& b) {
  return add_scaled("add", a, std::move(b), b.factor());
}
NDArray& operator-=(NDArray& a, Scaled&& b) {
  return add_scaled("subtract", a, std::move(b), -b.factor());
}
NDArray& operator+=(NDArray& a, double b) {
  return assign("add", a, {a}, NumberInput{b, 1});
}
NDArray& operator-=(NDArray& a, double b) {
  return assign("subtract", a, {a}, NumberInput{b, 1});
}
NDArray& operator*=(NDArray& a, double b) {
  return assign("multiply", a, {a}, NumberInput{b, 1});
}
NDArray& operator/=(NDArray& a, double b) {
  return assign("divide", a, {a}, NumberInput{b, 1});
}

}  // namespace troupe::ndarray
