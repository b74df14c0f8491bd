// SPDX-License-Identifier: Apache-2.0
// NDArray: a handle on a dense tensor that the engine's operations fill and use. Calls return at
// once; wait(), read() and to_string() wait (never call those on an engine or actor thread).
// Handles are values: copies and views share bytes and variable. One handle belongs to one thread
// at a time; different handles of one array may be used by different threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/dtype.h"
#include "base/shape.h"
#include "base/status.h"
#include "base/tensor_view.h"
#include "ndarray/runtime.h"

namespace troupe::ndarray {

/// Bytes and their tag. Only operations that hold the variable's tag look inside; when the last
/// handle goes, an operation that writes the variable destroys the chunk, so its bytes are never
/// reused under running work.
struct Chunk {
  Runtime runtime;
  base::Buffer buffer;
  engine::Variable variable;
  /// The buffer is somebody else's too, a batch for example: it is copied before anyone writes.
  bool shared = false;
  std::size_t bytes = 0;  ///< of any buffer that it has; any thread may ask
};

/// Shape, dtype, device, slice of a chunk.
class NDArray {
 public:
  /// No array; only assignment, `operator bool` and status() are meaningful.
  NDArray() = default;
  /// An array that stands for a failed call: status() and wait() give `error`.
  static NDArray failed(base::Status error);

  /// Memory with unspecified content. `holder` (static text) names it in memory statistics.
  /// invalid_argument names a shape that is incomplete or has too many axes or elements.
  static base::Result<NDArray> empty(Runtime& runtime, const base::Shape& shape,
                                     base::DType dtype = base::DType::f32, base::Device device = {},
                                     std::string_view holder = "ndarray");
  /// All elements zero.
  static base::Result<NDArray> zeros(Runtime& runtime, const base::Shape& shape,
                                     base::DType dtype = base::DType::f32,
                                     base::Device device = {});
  /// Takes over a buffer of at least the shape's bytes. `shared`: see Chunk::shared. A failed array
  /// where empty() would give an error.
  static NDArray from_buffer(Runtime& runtime, base::Buffer buffer, const base::Shape& shape,
                             base::DType dtype, bool shared = false);
  /// A copy of host values, in row-major order, which are read before it returns; their number must
  /// fit the shape.
  template <typename T>
  static base::Result<NDArray> from(Runtime& runtime, const base::Shape& shape,
                                    std::span<const T> values, base::Device device = {}) {
    return from_bytes(runtime, shape, base::kDTypeOf<T>, std::as_bytes(values), device);
  }
  static base::Result<NDArray> from_bytes(Runtime& runtime, const base::Shape& shape,
                                          base::DType dtype, std::span<const std::byte> bytes,
                                          base::Device device = {});

  explicit operator bool() const { return chunk_ != nullptr; }
  /// Error of a failed call, or success. Errors of running operations come from wait().
  const base::Status& status() const { return error_; }
  const base::Shape& shape() const { return shape_; }
  base::DType dtype() const { return dtype_; }
  base::Device device() const { return device_; }
  std::int64_t elements() const { return shape_.elements(); }
  std::size_t bytes() const;
  /// What it was made with; CHECKs that there is an array.
  Runtime& runtime() const;
  /// The tag that operations on this array name; shared by all its views. Empty without an array.
  const engine::Variable& variable() const;
  /// Success when calls may use the array: its own error, failed_precondition for an empty handle
  /// and for an array that has outlived its engine.
  base::Status check_usable() const;
  /// True when both handles are exactly the same bytes.
  bool same_memory(const NDArray& other) const {
    return chunk_ == other.chunk_ && offset_ == other.offset_ && bytes() == other.bytes();
  }
  /// Bytes of the chunk before its first element.
  std::size_t offset() const { return offset_; }
  /// True when this handle spans all bytes that its chunk was made with.
  bool whole() const { return whole_; }

  /// View of rows [begin, end) of axis 0; a failed array when out of range.
  NDArray slice(std::int64_t begin, std::int64_t end) const;
  /// View of row `index` without axis 0.
  NDArray at(std::int64_t index) const;
  /// View of the same elements in another shape.
  NDArray reshape(const base::Shape& shape) const;
  /// New array with the same content, on `device`.
  NDArray copy(base::Device device) const;
  NDArray copy() const { return copy(device_); }
  /// Pushes this = source (same dtype and shape, any devices).
  base::Status copy_from(const NDArray& source) const;
  /// Pushes a copy of host bytes that the operation keeps alive.
  base::Status copy_from(base::Buffer host_bytes) const;
  /// Pushes the filling with zero bytes.
  base::Status clear() const;

  /// Waits for every write pushed so far; the array's error if it has one.
  base::Status wait() const;
  /// Waits and copies all elements to host memory of exactly bytes() bytes.
  base::Status read(std::span<std::byte> destination) const;
  /// Copies host memory of exactly bytes() bytes into the array and waits until that is done.
  base::Status write(std::span<const std::byte> source) const;
  /// Waits; the elements in row-major order. invalid_argument for another T.
  template <typename T>
  base::Result<std::vector<T>> to_vector() const;
  /// Waits; the only element of an array with one.
  template <typename T>
  base::Result<T> scalar() const;
  /// Waits; numbers in nested brackets, long axes shortened, then shape, dtype and device.
  std::string to_string() const;

  /// Pushes: this chunk's bytes become `buffer`, for example a store's next version. Another size
  /// or device than the chunk's is invalid_argument; of a slice the whole counts.
  base::Status rebind(base::Buffer buffer, bool shared) const;

  /// The chunk. Whoever pushes an operation while holding a handle may name the chunk by address in
  /// it: the chunk's end comes behind the operation in the variable's order.
  Chunk* chunk() const { return chunk_.get(); }

  // For operations that hold the tag of variable():

  /// Address, shape and dtype, as of now.
  base::TensorView view() const;
  /// Address of the first element, as of now.
  std::byte* data() const { return chunk_->buffer.data() + offset_; }
  /// The bytes of this slice, as of now; keeps them alive.
  base::Buffer buffer() const;
  /// Gives the chunk other bytes of the same size. Write tag.
  void set_buffer(base::Buffer buffer, bool shared) const;
  /// Before writing: replaces a shared buffer by an own copy. `content`: the old values matter.
  /// `stream`: that of the operation, which then copies; null: the copy is made on return.
  base::Status make_writable(bool content, base::Stream* stream) const;

 private:
  NDArray window(std::size_t offset, const base::Shape& shape) const;
  base::Status check_read(base::DType dtype) const;

  std::shared_ptr<Chunk> chunk_;
  base::Shape shape_;
  base::DType dtype_ = base::DType::f32;
  base::Device device_;
  std::size_t offset_ = 0;
  bool whole_ = true;
  base::Status error_;
};

template <typename T>
base::Result<std::vector<T>> NDArray::to_vector() const {
  TROUPE_TRY(check_read(base::kDTypeOf<T>));
  std::vector<T> values(static_cast<std::size_t>(elements()));
  TROUPE_TRY(read(std::as_writable_bytes(std::span(values))));
  return values;
}

template <typename T>
base::Result<T> NDArray::scalar() const {
  TROUPE_TRY(check_read(base::kDTypeOf<T>));
  if (elements() != 1) {
    return base::error(base::Errc::invalid_argument, "array of shape {} is not a scalar",
                       shape_.to_string());
  }
  T value{};
  TROUPE_TRY(read(std::as_writable_bytes(std::span(&value, 1))));
  return value;
}

}  // namespace troupe::ndarray
