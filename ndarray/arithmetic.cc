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
  return call(a.runtime(), op, {a, b});
}

/// A 0-d array of a's dtype beside `a`. A number that is an operand is no part of a kernel's key:
/// one kernel serves `a * x` for every x.
NDArray number(std::string_view op, const NDArray& a, double value) {
  base::Status status = check_operand(op, a);
  if (!status.ok()) return NDArray::failed(status);
  NDArray made;
  status = ops::with_floating(a.dtype(), [&](auto zero) -> base::Status {
    const auto narrowed = static_cast<decltype(zero)>(value);
    TROUPE_TRY_ASSIGN(
        made, NDArray::from(a.runtime(), base::Shape(), std::span(&narrowed, 1), a.device()));
    return {};
  });
  return status.ok() ? made
                     : NDArray::failed(status.with_context(fmt::format("[{}] its number", op)));
}

NDArray& assign(std::string_view op, NDArray& a, std::vector<NDArray> inputs) {
  base::Status status = check_operand(op, a);
  if (status.ok()) {
    InvokeOptions options;
    options.outputs = {a};
    status = call(a.runtime(), op, inputs, {}, options).status();
  }
  if (!status.ok()) a = NDArray::failed(status);
  return a;
}

}  // namespace

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
  return binary("add", a, number("add", a, b));
}
NDArray operator-(const NDArray& a, double b) {
  return binary("subtract", a, number("subtract", a, b));
}
NDArray operator*(const NDArray& a, double b) {
  return binary("multiply", a, number("multiply", a, b));
}
NDArray operator/(const NDArray& a, double b) {
  return binary("divide", a, number("divide", a, b));
}
NDArray operator+(double a, const NDArray& b) {
  return b + a;
}
NDArray operator-(double a, const NDArray& b) {
  return binary("subtract", number("subtract", b, a), b);
}
NDArray operator*(double a, const NDArray& b) {
  return b * a;
}
NDArray operator/(double a, const NDArray& b) {
  return binary("divide", number("divide", b, a), b);
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
NDArray& operator+=(NDArray& a, double b) {
  return assign("add", a, {a, number("add", a, b)});
}
NDArray& operator-=(NDArray& a, double b) {
  return assign("subtract", a, {a, number("subtract", a, b)});
}
NDArray& operator*=(NDArray& a, double b) {
  return assign("multiply", a, {a, number("multiply", a, b)});
}
NDArray& operator/=(NDArray& a, double b) {
  return assign("divide", a, {a, number("divide", a, b)});
}

}  // namespace troupe::ndarray
