// SPDX-License-Identifier: Apache-2.0
// TensorView: what a kernel sees of a tensor. Owns nothing; valid while the owner's tag is held.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/device.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "base/shape.h"

namespace troupe::base {

/// Address, type, logical shape, memory layout and device of one tensor. Without gaps or strides.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;
  Layout layout;
  Device device;

  std::int64_t elements() const { return shape.elements(); }
  /// Bytes of the memory behind `data`, padding of blocked layouts included.
  std::int64_t bytes() const { return layout.buffer_bytes(shape, dtype_size(dtype)); }
  /// The elements as T; CHECKs the dtype.
  template <typename T>
  T* as() const {
    TROUPE_CHECK(kDTypeOf<T> == dtype, "tensor read as another dtype");
    return static_cast<T*>(data);
  }
  /// The elements as a T of their size, whatever they are; CHECKs the size.
  template <typename T>
  T* raw() const {
    TROUPE_CHECK(sizeof(T) == dtype_size(dtype), "tensor read in elements of another size");
    return static_cast<T*>(data);
  }
};

}  // namespace troupe::base
