// SPDX-License-Identifier: Apache-2.0
// One axis of a tensor, channels or classes, for own kernels for GPUs. Plain values; any thread.
#pragma once

#include <cstdint>

#include "ops/nn/class_axis.h"
#include "ops/support/device_columns.h"
#include "ops/support/device_divide.h"
#include "ops/support/device_reduce.h"

namespace troupe::ops {

/// A tensor as (outer, extent, inner). Its rows are the (outer, inner). An extent of 0 counts as 1.
class DeviceAxis {
 public:
  DeviceAxis() = default;
  DeviceAxis(std::int64_t extent, std::int64_t inner) : by_extent_(extent), by_inner_(inner) {}

  TROUPE_HOST_DEVICE std::int64_t extent() const { return by_extent_.divisor(); }
  TROUPE_HOST_DEVICE std::int64_t inner() const { return by_inner_.divisor(); }
  /// Elements of the axis are neighbours in memory.
  TROUPE_HOST_DEVICE bool last() const { return inner() == 1; }

  /// Offset of element `index` of a row.
  TROUPE_HOST_DEVICE std::int64_t offset(std::int64_t row, std::int64_t index) const {
    if (last()) return row * extent() + index;
    const Divider::Digits at = by_inner_.digits(row);
    return (at.quotient * extent() + index) * inner() + at.remainder;
  }
  /// Which element of its row lies at an offset.
  TROUPE_HOST_DEVICE std::int64_t index(std::int64_t at) const {
    return by_extent_.remainder(by_inner_.quotient(at));
  }
  /// The row of what lies at an offset.
  TROUPE_HOST_DEVICE std::int64_t row(std::int64_t at) const {
    const Divider::Digits place = by_inner_.digits(at);
    return by_extent_.quotient(place.quotient) * inner() + place.remainder;
  }
  /// `size` neighbours in memory, from a multiple of `size` on, are all of one index or follow each
  /// other along the axis.
  bool packs(int size) const { return (last() ? extent() : inner()) % size == 0; }

 private:
  Divider by_extent_, by_inner_;
};

inline DeviceAxis device_axis(const ClassAxis& v) {
  return {v.classes, v.inner};
}

/// A reduction of the `rows` elements that data of T has at each index of the axis, for a reducer
/// that takes packs of indices and runs of rows.
template <typename T>
DeviceReduction reduce_each_index(const DeviceAxis& axis, std::int64_t indices, std::int64_t rows) {
  constexpr int kPack = DevicePack<T>::kSize;
  const bool aside = axis.last() && indices > 1;
  if (!axis.last() && axis.inner() % kPack == 0) return reduction_by_runs(indices, rows, kPack);
  return device_reduction(indices, rows, aside, indices % kPack == 0 ? kPack : 1);
}

/// An F for for_each_of_axis() where all of a pack is of one index.
template <typename F>
struct PacksOfOneIndex {
  DeviceAxis axis;
  F f;
  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const { f(i); }
  TROUPE_HOST_DEVICE void pack(std::int64_t i) const {
    f.pack(f.template keep<0>(axis.index(i)), i, f.load(i));
  }
};

/// f for all `count` elements of a tensor, by packs of T where the axis lets it and they may lie
/// wherever f reads and writes (`aligned`). F is a plain struct with
///   operator()(i)          element i
///   keep<Step>(index)      what belongs to a pack whose k-th element has index + k * Step
///   load(i), a Loaded      what it reads of the pack from element i on
///   pack(kept, i, loaded)  that pack
/// all of them TROUPE_HOST_DEVICE and const.
template <typename T, typename F>
base::Status for_each_of_axis(const KernelContext& context, std::int64_t count,
                              const DeviceAxis& axis, bool aligned, const F& f) {
  if (!aligned || !axis.packs(DevicePack<T>::kSize)) return for_each_index(context, count, f);
  if (axis.last()) return for_each_column<T>(context, count / axis.extent(), axis.extent(), f);
  return for_each_pack<T>(context, count, true, PacksOfOneIndex<F>{axis, f});
}

}  // namespace troupe::ops
