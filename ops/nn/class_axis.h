// SPDX-License-Identifier: Apache-2.0
// Classes along one axis and the labels that choose among them: shapes, reading labels of any
// number type, softmax of one row. Pure functions, any thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "ops/nn/support.h"

namespace troupe::ops {

/// A tensor as (outer, classes, inner); there is one label per (outer, inner).
struct ClassAxis {
  std::int64_t outer = 1, classes = 0, inner = 1;

  std::int64_t rows() const { return outer * inner; }
  /// Offset of the first class of row `row`; its classes are `inner` apart.
  std::int64_t row_offset(std::int64_t row) const {
    return row / inner * classes * inner + row % inner;
  }
};

inline ClassAxis class_axis(const base::Shape& shape, int axis) {
  return {shape.elements(0, axis), shape[axis], shape.elements(axis + 1, shape.rank())};
}

/// Labels of `shape` without `axis`.
inline base::Shape without_axis(const base::Shape& shape, int axis) {
  base::Shape result;
  for (int each = 0; each < shape.rank(); ++each) {
    if (each != axis) result.push_back(shape[each]);
  }
  return result;
}

/// Parameters by which rows of one label are left out.
inline std::vector<ParamDef> ignore_params() {
  return {
      {.name = "use_ignore",
       .type = ParamType::boolean,
       .initial = false,
       .doc = "True: rows whose label is `ignore_label` count nothing."},
      {.name = "ignore_label",
       .type = ParamType::real,
       .initial = -1.0,
       .doc = "The label that `use_ignore` leaves out."},
  };
}

/// The labels of one call: integers, kept in any of f32, f64, i64, i32, u8.
class Labels {
 public:
  Labels(const base::TensorView& view, const Params& p) : view_(view) {
    // What is no 64-bit integer is no label either.
    const double ignore = p.real("ignore_label");
    if (p.boolean("use_ignore") && ignore > -0x1.0p63 && ignore < 0x1.0p63) {
      ignore_ = static_cast<std::int64_t>(ignore);
    }
  }

  /// An error naming the first label that is no class and not ignored.
  base::Status check(std::int64_t classes) const {
    for (std::int64_t row = 0; row < view_.elements(); ++row) {
      const std::int64_t label = raw(row);
      if ((label >= 0 && label < classes) || ignored(label)) continue;
      if (label == kBetween && base::is_floating(view_.dtype)) {
        return base::error(base::Errc::invalid_argument,
                           "label {} at position {} is none of the {} classes", real(row), row,
                           classes);
      }
      return base::error(base::Errc::invalid_argument,
                         "label {} at position {} is out of range for {} classes", label, row,
                         classes);
    }
    return {};
  }
  /// The class of a row; nullopt when it is left out.
  std::optional<std::int64_t> at(std::int64_t row) const {
    const std::int64_t label = raw(row);
    if (ignored(label)) return std::nullopt;
    return label;
  }

 private:
  /// Of a row whose number is no integer of moderate size: no class, and not ignored.
  static constexpr std::int64_t kBetween = INT64_MIN;

  bool ignored(std::int64_t label) const { return label == ignore_; }
  std::int64_t raw(std::int64_t row) const {
    switch (view_.dtype) {
      case base::DType::f32:
      case base::DType::f64:
        return integer(real(row));
      case base::DType::i64:
        return view_.as<std::int64_t>()[row];
      case base::DType::i32:
        return view_.as<std::int32_t>()[row];
      default:
        return view_.as<std::uint8_t>()[row];
    }
  }
  /// Of floating labels.
  double real(std::int64_t row) const {
    return view_.dtype == base::DType::f32 ? static_cast<double>(view_.as<float>()[row])
                                           : view_.as<double>()[row];
  }
  static std::int64_t integer(double value) {
    const bool moderate = value > -0x1.0p52 && value < 0x1.0p52;
    return moderate && value == std::floor(value) ? static_cast<std::int64_t>(value) : kBetween;
  }

  base::TensorView view_;
  std::optional<std::int64_t> ignore_;  // absent: no row is left out
};

/// An error unless labels may have this dtype.
inline base::Status check_label_dtype(const std::optional<base::DType>& dtype) {
  using base::DType;
  if (!dtype || *dtype == DType::f32 || *dtype == DType::f64 || *dtype == DType::i64 ||
      *dtype == DType::i32 || *dtype == DType::u8) {
    return {};
  }
  return base::error(base::Errc::invalid_argument,
                     "label has dtype {}; it must be f32, f64, i64, i32 or u8",
                     base::dtype_name(*dtype));
}

/// Inference of (data, label) and one output of data's dtype.
inline base::Status infer_labelled_dtypes(const Params&,
                                          std::vector<std::optional<base::DType>>& in,
                                          std::vector<std::optional<base::DType>>& out) {
  TROUPE_TRY(check_label_dtype(in[1]));
  return unify_floating({&in[0], &out[0]});
}

/// What softmax subtracts and divides by: exp(x - peak) / sum.
struct SoftmaxRow {
  double peak = 0.0, sum = 0.0;
};

/// Of the `classes` values in[0], in[step], ...; accumulated in f64.
template <typename T>
SoftmaxRow measure_softmax(const T* in, std::int64_t classes, std::int64_t step) {
  if (classes == 0) return {};
  T peak = in[0];
  for (std::int64_t k = 1; k < classes; ++k) peak = std::max(peak, in[k * step]);
  SoftmaxRow row{static_cast<double>(peak), 0.0};
  for (std::int64_t k = 0; k < classes; ++k) {
    row.sum += std::exp(static_cast<double>(in[k * step]) - row.peak);
  }
  return row;
}

/// Softmax of every row; `out` may be `in`.
template <typename T>
void softmax_rows(const KernelContext& c, const ClassAxis& v, const T* in, T* out) {
  c.parallel(v.rows(), [&](std::int64_t row) {
    const std::int64_t base = v.row_offset(row);
    const SoftmaxRow measured = measure_softmax(in + base, v.classes, v.inner);
    for (std::int64_t k = 0; k < v.classes; ++k) {
      const std::int64_t at = base + k * v.inner;
      out[at] =
          static_cast<T>(std::exp(static_cast<double>(in[at]) - measured.peak) / measured.sum);
    }
  });
}

}  // namespace troupe::ops
