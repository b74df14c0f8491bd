// SPDX-License-Identifier: Apache-2.0
// Arithmetic operators on arrays, as calls of the operator table.
#include <utility>

#include "ndarray/invoke.h"

namespace troupe::ndarray {

namespace {

/// The first of the operands that can tell a runtime, or an error.
NDArray binary(std::string_view op, const NDArray& a, const NDArray& b) {
  for (const NDArray* operand : {&a, &b}) {
    if (!operand->status().ok()) return *operand;
    if (!*operand) {
      return NDArray::failed(
          base::error(base::Errc::invalid_argument, "[{}] got an empty handle", op));
    }
  }
  return call(a.runtime(), op, {a, b});
}

NDArray with_scalar(std::string_view op, const NDArray& a, double scalar) {
  if (!a.status().ok()) return a;
  if (!a) {
    return NDArray::failed(
        base::error(base::Errc::invalid_argument, "[{}] got an empty handle", op));
  }
  return call(a.runtime(), op, {a}, {{"scalar", ops::to_attribute(scalar)}});
}

NDArray& assign(std::string_view op, NDArray& a, std::vector<NDArray> inputs,
                const ops::Attributes& attributes = {}) {
  if (!a.status().ok()) return a;
  if (!a) {
    a = NDArray::failed(base::error(base::Errc::invalid_argument, "[{}] got an empty handle", op));
    return a;
  }
  InvokeOptions options;
  options.outputs = {a};
  const NDArray result = call(a.runtime(), op, inputs, attributes, options);
  if (!result.status().ok()) a = result;
  return a;
}

NDArray& assign_scalar(std::string_view op, NDArray& a, double scalar) {
  return assign(op, a, {a}, {{"scalar", ops::to_attribute(scalar)}});
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
  return with_scalar("add_scalar", a, b);
}
NDArray operator-(const NDArray& a, double b) {
  return with_scalar("subtract_scalar", a, b);
}
NDArray operator*(const NDArray& a, double b) {
  return with_scalar("multiply_scalar", a, b);
}
NDArray operator/(const NDArray& a, double b) {
  return with_scalar("divide_scalar", a, b);
}
NDArray operator+(double a, const NDArray& b) {
  return b + a;
}
NDArray operator-(double a, const NDArray& b) {
  return with_scalar("reverse_subtract_scalar", b, a);
}
NDArray operator*(double a, const NDArray& b) {
  return b * a;
}
NDArray operator/(double a, const NDArray& b) {
  return with_scalar("reverse_divide_scalar", b, a);
}

NDArray operator-(const NDArray& a) {
  if (!a.status().ok()) return a;
  if (!a) {
    return NDArray::failed(
        base::error(base::Errc::invalid_argument, "[negate] got an empty handle"));
  }
  return call(a.runtime(), "negate", {a});
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
  return assign_scalar("add_scalar", a, b);
}
NDArray& operator-=(NDArray& a, double b) {
  return assign_scalar("subtract_scalar", a, b);
}
NDArray& operator*=(NDArray& a, double b) {
  return assign_scalar("multiply_scalar", a, b);
}
NDArray& operator/=(NDArray& a, double b) {
  return assign_scalar("divide_scalar", a, b);
}

}  // namespace troupe::ndarray
