// SPDX-License-Identifier: Apache-2.0
// Stream and Event: in-order work queues of devices as engine lanes and kernels see them.
// A stream belongs to one engine lane; only that lane's thread issues on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/device.h"
#include "base/status.h"

namespace troupe::base {

/// A point in a stream's work. Copies of the pointer may be kept and waited on by any thread.
class Event {
 public:
  virtual ~Event() = default;
  /// True once the work before the event is done.
  virtual bool passed() const = 0;
  /// Blocks the calling host thread until the event has passed; the first error of the work before
  /// it.
  virtual Status wait_on_host() const = 0;
  /// Nanoseconds from `earlier` to this, both of one stream's record_timed() and passed; the first
  /// error of the work before them; an error for what record() gave.
  virtual Result<std::int64_t> ns_since(const Event& earlier) const {
    static_cast<void>(earlier);
    return error(Errc::failed_precondition, "the event was recorded without its time");
  }
};

/// Work runs in issue order, after issue has returned.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual Device device() const = 0;
  /// The library's stream (cudaStream_t), or null for streams that run host closures.
  virtual void* native() const { return nullptr; }
  /// The calling thread is the one that will issue; called by its lane before anything else.
  virtual void attach() {}
  /// Queues a host closure behind the work issued so far; what it throws is an error like one that
  /// it returns. CHECKs for streams that have a native().
  virtual void enqueue_host(std::function<Status()> work) = 0;
  /// Debugging streams of host closures fill `output` with NaN patterns in stream order, ahead of
  /// the next closure: who reads it too early sees NaN. For outputs that the closure overwrites
  /// whole; other streams ignore it.
  virtual void poison(std::span<std::byte> output) { static_cast<void>(output); }
  /// Queues a copy of bytes between places that do not overlap, of the host or of any device. On a
  /// device's stream, memory of the host that is not pinned is copied before this returns.
  virtual Status copy(std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  /// Queues setting bytes to zero.
  virtual Status clear(std::byte* to, std::size_t bytes) = 0;
  virtual std::shared_ptr<Event> record() = 0;
  /// As record(); the event knows when it passed. Costs more, for who takes times. Null: the stream
  /// knows no times.
  virtual std::shared_ptr<Event> record_timed() { return nullptr; }
  /// Later work of this stream waits for `event` on the device, not on the host.
  virtual void wait_for(const std::shared_ptr<Event>& event) = 0;
};

}  // namespace troupe::base
