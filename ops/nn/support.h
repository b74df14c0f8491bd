// SPDX-License-Identifier: Apache-2.0
// Small tools of the network operators' definitions and reference kernels: checked refinement of
// shapes, fixed-lane dot products, dispatch by dtype. Pure functions, any thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/op.h"

namespace troupe::ops {

/// Joins what is known of `shape` with what its users expect; an error names `what` and both.
inline base::Status refine(std::string_view what, base::Shape& shape, const base::Shape& expected) {
  auto merged = base::merge_shapes(shape, expected);
  if (!merged.ok()) {
    return base::error(base::Errc::invalid_argument, "{} has shape {} where {} is expected", what,
                       shape.to_string(), expected.to_string());
  }
  TROUPE_TRY(base::check_shape(*merged).with_context(what));
  shape = *merged;
  return {};
}

/// Makes all of them one floating dtype, as far as one is known.
inline base::Status unify_floating(std::initializer_list<std::optional<base::DType>*> dtypes) {
  std::vector<std::optional<base::DType>> all;
  for (const auto* dtype : dtypes) all.push_back(*dtype);
  std::vector<std::optional<base::DType>> none;
  TROUPE_TRY(infer_same_dtype({}, all, none));
  auto result = all.begin();
  for (auto* dtype : dtypes) *dtype = *result++;
  return {};
}

/// Sets the dtype of `what`; an error when it is another one already.
inline base::Status fix_dtype(std::string_view what, std::optional<base::DType>& dtype,
                              base::DType expected) {
  if (dtype && *dtype != expected) {
    return base::error(base::Errc::invalid_argument, "{} has dtype {} where {} is expected", what,
                       base::dtype_name(*dtype), base::dtype_name(expected));
  }
  dtype = expected;
  return {};
}

/// Sum over i < n of a[i] * b[i] in f64, by eight fixed lanes whatever the instruction set.
template <typename T>
double dot(const T* a, const T* b, std::int64_t n) {
  std::array<double, 8> lanes{};
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (std::size_t lane = 0; lane < 8; ++lane) {
      const auto at = i + static_cast<std::int64_t>(lane);
      lanes[lane] += static_cast<double>(a[at]) * static_cast<double>(b[at]);
    }
  }
  for (; i < n; ++i) lanes[0] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
         ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

/// y[i] += factor * x[i].
template <typename T>
void add_scaled(T* y, T factor, const T* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] += factor * x[i];
}

/// MXNet's attributes that choose among its libraries' kernels.
inline std::vector<IgnoredAttribute> library_choices() {
  return {{"workspace"},      {"cudnn_off"},           {"cudnn_tune"},
          {"cudnn_algo_fwd"}, {"cudnn_algo_bwd_data"}, {"cudnn_algo_bwd_filter"},
          {"mkldnn_off"}};
}

/// `list` and, when `present`, `name` behind it: inputs or outputs with an optional bias.
inline std::vector<std::string> with_optional(std::vector<std::string> list, std::string name,
                                              bool present) {
  if (present) list.push_back(std::move(name));
  return list;
}

/// `axis` counted from the front; an error names it and the shape.
inline base::Result<int> resolve_axis(std::int64_t axis, const base::Shape& shape) {
  const std::int64_t resolved = axis < 0 ? axis + shape.rank() : axis;
  if (resolved < 0 || resolved >= shape.rank()) {
    return base::error(base::Errc::invalid_argument, "axis {} is out of range for shape {}", axis,
                       shape.to_string());
  }
  return static_cast<int>(resolved);
}

}  // namespace troupe::ops
