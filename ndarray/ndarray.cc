// SPDX-License-Identifier: Apache-2.0
// Arrays: chunks and their release, views, copies through the engine.
#include "ndarray/ndarray.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "ndarray/run_kernel.h"

namespace troupe::ndarray {

using base::Errc;

namespace {

// So few are moved, and so many given back to the pool, before another thread would have taken the
// work over.
constexpr std::size_t kBriefCopyBytes = 16384, kBriefReleaseBytes = std::size_t{1} << 20;
constexpr engine::Lane kRebindLane{{}, engine::LaneKind::priority};
// Kernels are the last users of most arrays: their thread is awake, and no other one need be woken.
constexpr engine::Lane kReleaseLane{{}, engine::LaneKind::compute};
constexpr int kReleasePriority = std::numeric_limits<int>::max() / 2;  // before the next kernel

/// For shapes that check_array() has passed.
std::size_t bytes_of(const base::Shape& shape, base::DType dtype) {
  return static_cast<std::size_t>(shape.elements()) * base::dtype_size(dtype);
}

base::Status check_array(const base::Shape& shape, base::DType dtype) {
  TROUPE_TRY(base::check_shape(shape).with_context(
      [&] { return fmt::format("an array of dtype {}", base::dtype_name(dtype)); }));
  if (shape.complete()) return {};
  return base::error(Errc::invalid_argument, "an array needs a complete shape, got {}",
                     shape.to_string());
}

/// A chunk whose last handle pushes its end behind all work on it. When the engine is gone, so is
/// all work.
std::shared_ptr<Chunk> make_chunk(Runtime& runtime, base::Buffer buffer, bool shared) {
  const bool brief = buffer.size() <= kBriefReleaseBytes;
  const std::size_t bytes = buffer.size();
  auto* chunk =
      new Chunk{runtime, std::move(buffer), runtime.engine.new_variable("array"), shared, bytes};
  return {chunk, [brief](Chunk* last) {
            std::unique_ptr<Chunk> held(last);
            const engine::Variable variable = last->variable;
            if (!variable.engine_stands()) return;
            last->runtime.engine.push({.name = "release array",
                                       .writes = {&variable, 1},
                                       .lane = kReleaseLane,
                                       .priority = kReleasePriority,
                                       .brief = brief},
                                      [held = std::move(held)](engine::RunContext&) mutable {
                                        held.reset();
                                        return base::Status();
                                      });
          }};
}

/// Queues a copy on `stream`; without one it is done on return.
base::Status copy_bytes(base::Stream* stream, std::byte* to, const std::byte* from,
                        std::size_t bytes) {
  if (stream != nullptr) return stream->copy(to, from, bytes);
  if (bytes > 0) std::memmove(to, from, bytes);
  return {};
}

base::Status clear_bytes(base::Stream* stream, std::byte* to, std::size_t bytes) {
  if (stream != nullptr) return stream->clear(to, bytes);
  if (bytes > 0) std::memset(to, 0, bytes);
  return {};
}

/// Where bytes go between two devices: the host's threads copy only between places of the host.
/// The two ways between host and device are two lanes, so that neither waits behind the other;
/// within a device bytes are moved so fast that they go where its kernels are.
engine::Lane copy_lane(base::Device to, base::Device from) {
  if (!uses_stream(to)) return {from, engine::LaneKind::copy};
  if (!uses_stream(from)) return {to, engine::LaneKind::priority};
  return {to, to == from ? engine::LaneKind::compute : engine::LaneKind::copy};
}

/// Pushes work(to, stream), which fills all of `to`; `operation` says what it reads and holds. The
/// stream is that of the operation's lane; null: the work is done when the function returns.
template <typename Work>
void push_write(const NDArray& to, engine::Operation operation, Work work) {
  const engine::Variable written[] = {to.variable()};
  const auto& reads = operation.reads;
  const bool content =
      !to.whole() || std::find(reads.begin(), reads.end(), written[0]) != reads.end();
  (content ? operation.writes : operation.overwrites) = written;
  // A part of an array may have to copy the whole of it first.
  operation.brief = operation.brief || (to.whole() && to.bytes() <= kBriefCopyBytes);
  push_on_lane(to.runtime().engine, operation,
               [to, content, work = std::move(work)](engine::RunContext& context) {
                 TROUPE_TRY(to.make_writable(content, context.stream));
                 return work(to, context.stream);
               });
}

}  // namespace

NDArray NDArray::failed(base::Status error) {
  TROUPE_CHECK(!error.ok(), "a failed array needs an error");
  NDArray array;
  array.error_ = std::move(error);
  return array;
}

base::Result<NDArray> NDArray::empty(Runtime& runtime, const base::Shape& shape, base::DType dtype,
                                     base::Device device, std::string_view holder) {
  TROUPE_TRY(check_array(shape, dtype));
  const std::size_t bytes = bytes_of(shape, dtype);
  TROUPE_TRY_ASSIGN(base::Buffer buffer,
                    runtime.storage.pool(device).allocate(std::max<std::size_t>(bytes, 1), holder));
  return from_buffer(runtime, buffer.slice(0, bytes), shape, dtype);
}

base::Result<NDArray> NDArray::zeros(Runtime& runtime, const base::Shape& shape, base::DType dtype,
                                     base::Device device) {
  TROUPE_TRY_ASSIGN(NDArray array, empty(runtime, shape, dtype, device));
  if (uses_stream(device)) {
    TROUPE_TRY(array.clear());
  } else {  // nobody else knows the array yet, so no operation is needed
    TROUPE_TRY(clear_bytes(nullptr, array.data(), array.bytes()));
  }
  return array;
}

NDArray NDArray::from_buffer(Runtime& runtime, base::Buffer buffer, const base::Shape& shape,
                             base::DType dtype, bool shared) {
  if (base::Status status = check_array(shape, dtype); !status.ok()) return failed(status);
  const std::size_t bytes = bytes_of(shape, dtype);
  TROUPE_CHECK(buffer.size() >= bytes, "a buffer smaller than its array");
  NDArray array;
  array.device_ = buffer.device();
  array.whole_ = buffer.size() == bytes;
  array.chunk_ = make_chunk(runtime, std::move(buffer), shared);
  array.shape_ = shape;
  array.dtype_ = dtype;
  return array;
}

base::Result<NDArray> NDArray::from_bytes(Runtime& runtime, const base::Shape& shape,
                                          base::DType dtype, std::span<const std::byte> bytes,
                                          base::Device device) {
  TROUPE_TRY_ASSIGN(NDArray array, empty(runtime, shape, dtype, device));
  if (bytes.size() != array.bytes()) {
    return base::error(Errc::invalid_argument, "{} bytes do not fill {} of {}", bytes.size(),
                       shape.to_string(), base::dtype_name(dtype));
  }
  if (!uses_stream(device)) {
    TROUPE_TRY(copy_bytes(nullptr, array.data(), bytes.data(), bytes.size()));
    return array;
  }
  TROUPE_TRY_ASSIGN(base::Buffer pinned,
                    runtime.storage.pinned_pool().allocate(std::max<std::size_t>(bytes.size(), 1),
                                                           "copies to devices"));
  TROUPE_TRY(copy_bytes(nullptr, pinned.data(), bytes.data(), bytes.size()));
  TROUPE_TRY(array.copy_from(pinned.slice(0, bytes.size())));
  return array;
}

Runtime& NDArray::runtime() const {
  TROUPE_CHECK(chunk_ != nullptr, "runtime() of a failed array or an empty handle");
  return chunk_->runtime;
}

const engine::Variable& NDArray::variable() const {
  static const engine::Variable none;
  return chunk_ != nullptr ? chunk_->variable : none;
}

base::Status NDArray::check_usable() const {
  TROUPE_TRY(error_);
  if (!chunk_) return base::error(Errc::failed_precondition, "an empty handle has no array");
  if (chunk_->variable.engine_stands()) return {};
  return base::error(Errc::failed_precondition, "the engine of this array of {} {} has ended",
                     base::dtype_name(dtype_), shape_.to_string());
}

std::size_t NDArray::bytes() const {
  return bytes_of(shape_, dtype_);
}

NDArray NDArray::window(std::size_t offset, const base::Shape& shape) const {
  NDArray view = *this;
  view.whole_ = whole_ && shape.elements() == shape_.elements();
  view.offset_ = offset_ + offset;
  view.shape_ = shape;
  return view;
}

NDArray NDArray::slice(std::int64_t begin, std::int64_t end) const {
  if (!error_.ok()) return *this;
  if (shape_.rank() == 0 || begin < 0 || begin > end || end > shape_[0]) {
    return failed(base::error(Errc::invalid_argument, "rows [{}, {}) are out of range for shape {}",
                              begin, end, shape_.to_string()));
  }
  base::Shape rows = shape_;
  rows.set(0, end - begin);
  const auto row = static_cast<std::size_t>(shape_.elements(1, shape_.rank()));
  return window(static_cast<std::size_t>(begin) * row * base::dtype_size(dtype_), rows);
}

NDArray NDArray::at(std::int64_t index) const {
  NDArray row = slice(index, index + 1);
  if (!row.error_.ok()) return row;
  return row.window(0, base::Shape(row.shape_.dims().subspan(1)));
}

NDArray NDArray::reshape(const base::Shape& shape) const {
  if (!error_.ok()) return *this;
  if (base::Status status = check_array(shape, dtype_); !status.ok()) return failed(status);
  if (shape.elements() != shape_.elements()) {
    return failed(base::error(Errc::invalid_argument, "shape {} cannot become {}",
                              shape_.to_string(), shape.to_string()));
  }
  return window(0, shape);
}

NDArray NDArray::copy(base::Device device) const {
  if (base::Status status = check_usable(); !status.ok()) return failed(status);
  base::Result<NDArray> made = empty(runtime(), shape_, dtype_, device);
  if (!made.ok()) return failed(made.status());
  const base::Status status = made->copy_from(*this);
  return status.ok() ? *made : failed(status);
}

base::Status NDArray::copy_from(const NDArray& source) const {
  TROUPE_TRY(check_usable());
  TROUPE_TRY(source.check_usable());
  if (!runtime().engine.owns(source.variable())) {
    return base::error(Errc::invalid_argument, "cannot copy an array of another engine into {} {}",
                       base::dtype_name(dtype_), shape_.to_string());
  }
  if (source.dtype_ != dtype_ || source.shape_ != shape_) {
    return base::error(Errc::invalid_argument, "cannot copy {} {} into {} {}",
                       base::dtype_name(source.dtype_), source.shape_.to_string(),
                       base::dtype_name(dtype_), shape_.to_string());
  }
  // Streams copy in any order.
  const bool overlap = source.chunk_ == chunk_ && offset_ < source.offset_ + bytes() &&
                       source.offset_ < offset_ + bytes();
  if (overlap && uses_stream(device_)) {
    const NDArray apart = source.copy(device_);
    TROUPE_TRY(apart.status());
    return copy_from(apart);
  }
  const engine::Variable reads[] = {source.variable()};
  push_write(*this,
             {.name = "copy array", .reads = reads, .lane = copy_lane(device_, source.device_)},
             [source](const NDArray& to, base::Stream* stream) {
               return copy_bytes(stream, to.data(), source.data(), to.bytes());
             });
  return {};
}

base::Status NDArray::copy_from(base::Buffer host_bytes) const {
  TROUPE_TRY(check_usable());
  if (host_bytes.size() != bytes() || !host_bytes.device().host_memory()) {
    return base::error(Errc::invalid_argument, "{} host bytes do not fill {} of {}",
                       host_bytes.size(), shape_.to_string(), base::dtype_name(dtype_));
  }
  // What a stream reads must stay until its work is done, which an array's bytes do.
  if (uses_stream(device_)) {
    return copy_from(from_buffer(runtime(), std::move(host_bytes), shape_, dtype_, true));
  }
  push_write(*this,
             {.name = "copy from host", .lane = copy_lane(device_, {}), .bytes = host_bytes.size()},
             [from = std::move(host_bytes)](const NDArray& to, base::Stream* stream) {
               return copy_bytes(stream, to.data(), from.data(), from.size());
             });
  return {};
}

base::Status NDArray::clear() const {
  TROUPE_TRY(check_usable());
  push_write(*this, {.name = "clear array", .lane = copy_lane(device_, {})},
             [](const NDArray& to, base::Stream* stream) {
               return clear_bytes(stream, to.data(), to.bytes());
             });
  return {};
}

base::Status NDArray::wait() const {
  TROUPE_TRY(check_usable());
  return runtime().engine.wait(variable());
}

base::Status NDArray::read(std::span<std::byte> destination) const {
  TROUPE_TRY(check_usable());
  if (destination.size() != bytes()) {
    return base::error(Errc::invalid_argument, "{} bytes cannot take {} of {}", destination.size(),
                       shape_.to_string(), base::dtype_name(dtype_));
  }
  // A reader among the engine's operations: later writers wait until the copy is done.
  engine::Engine& engine = runtime().engine;
  const engine::Variable done = engine.new_variable("read array");
  const engine::Variable reads[] = {variable()};
  push_on_lane(engine,
               {.name = "read array",
                .reads = reads,
                .writes = {&done, 1},
                .lane = copy_lane({}, device_),
                .brief = true},  // the caller waits for it
               [from = *this, to = destination.data()](engine::RunContext& context) {
                 return copy_bytes(context.stream, to, from.data(), from.bytes());
               });
  return engine.wait(done);
}

base::Status NDArray::write(std::span<const std::byte> source) const {
  TROUPE_TRY(check_usable());
  if (source.size() != bytes()) {
    return base::error(Errc::invalid_argument, "{} bytes do not fill {} of {}", source.size(),
                       shape_.to_string(), base::dtype_name(dtype_));
  }
  // The caller waits for it.
  push_write(*this, {.name = "write array", .lane = copy_lane(device_, {}), .brief = true},
             [from = source.data()](const NDArray& to, base::Stream* stream) {
               return copy_bytes(stream, to.data(), from, to.bytes());
             });
  return wait();
}

base::Status NDArray::check_read(base::DType dtype) const {
  TROUPE_TRY(check_usable());
  if (dtype == dtype_) return {};
  return base::error(Errc::invalid_argument, "an array of {} cannot be read as {}",
                     base::dtype_name(dtype_), base::dtype_name(dtype));
}

base::Status NDArray::rebind(base::Buffer buffer, bool shared) const {
  TROUPE_TRY(check_usable());
  if (buffer.size() != chunk_->bytes || buffer.device() != device_) {
    return base::error(
        Errc::invalid_argument,
        "{} bytes of {} cannot become those of an array that has {} of {}{}", buffer.size(),
        buffer.device().to_string(), chunk_->bytes, device_.to_string(),
        offset_ > 0 || bytes() < chunk_->bytes ? ", the whole of which this is a slice of" : "");
  }
  const engine::Variable writes[] = {variable()};
  const bool brief = buffer.size() <= kBriefReleaseBytes;  // as large as the one that goes
  runtime().engine.push(
      {.name = "rebind array", .lane = kRebindLane, .overwrites = writes, .brief = brief},
      [to = *this, made = std::move(buffer), shared](engine::RunContext&) mutable {
        to.set_buffer(std::move(made), shared);
        return base::Status();
      });
  return {};
}

base::TensorView NDArray::view() const {
  return {data(), dtype_, shape_, base::Layout::dense(), device_};
}

base::Buffer NDArray::buffer() const {
  return chunk_->buffer.slice(offset_, bytes());
}

void NDArray::set_buffer(base::Buffer buffer, bool shared) const {
  TROUPE_CHECK(buffer.size() == chunk_->buffer.size() && buffer.device() == device_,
               "an array's new buffer must have its size and device");
  chunk_->buffer = std::move(buffer);
  chunk_->shared = shared;
}

base::Status NDArray::make_writable(bool content, base::Stream* stream) const {
  if (!chunk_->shared) return {};
  base::Buffer old = chunk_->buffer;
  TROUPE_TRY_ASSIGN(base::Buffer own,
                    runtime().storage.pool(device_).allocate(old.size(), "copy on write"));
  if (content || !whole_) TROUPE_TRY(copy_bytes(stream, own.data(), old.data(), old.size()));
  set_buffer(std::move(own), false);
  if (stream == nullptr) return {};
  // What was issued before this may still read the old bytes.
  const engine::Variable variable = chunk_->variable;
  runtime().engine.push(
      {"release shared bytes", {}, {&variable, 1}, kReleaseLane, kReleasePriority},
      [held = std::move(old)](engine::RunContext&) mutable {
        held = {};
        return base::Status();
      });
  return {};
}

}  // namespace troupe::ndarray
