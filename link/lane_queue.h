// SPDX-License-Identifier: Apache-2.0
// One lane's sending side: what waits, in which order it goes, what the peer has not acknowledged
// yet and must be sent again after a cut. Pure: no socket, no clock. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/buffer.h"
#include "base/limits.h"
#include "link/frame.h"

namespace troupe::link {

/// Kinds of traffic with windows of their own, so that none can block another.
enum class Traffic : std::uint8_t { push, reply, control };
inline constexpr std::size_t kTrafficKinds = 3;

/// Pushes and pulls climb, their answers descend, all else is control.
Traffic traffic_of(const schemas::Message& message);

/// A frame on its way: encoded header, and the owner's payload by handle.
struct Outgoing {
  FrameHead head;
  std::string header;
  base::Buffer payload;
  Traffic traffic = Traffic::control;
  std::optional<schemas::SliceId> slice;  ///< absent: one first-in-first-out row of its own
  std::int32_t priority = 0;              ///< higher goes first

  std::size_t bytes() const { return kFrameHeadBytes + header.size() + payload.size(); }
};
using OutgoingPtr = std::shared_ptr<Outgoing>;

/// Bytes that may be sent and unacknowledged, per kind.
using Windows = std::array<std::uint64_t, kTrafficKinds>;
Windows windows_of(const base::Limits& limits);

/// The queue of one lane. Messages of one slice leave in the order they came; among slices the
/// higher priority goes first, then the older; messages without a slice go before all slices. A
/// kind whose window is full waits alone. One message may always be in flight, however large.
class LaneQueue {
 public:
  explicit LaneQueue(Windows windows) : windows_(windows) {}

  void push(OutgoingPtr message);
  /// The next frame to write, with its sequence number, or null: nothing is left, or the windows
  /// are full. After rewind() first those that must go again.
  OutgoingPtr next();
  /// The peer has everything up to `sequence`. Returns what that frees, in bytes and messages.
  /// Error data_loss: a number that was never sent.
  struct Freed {
    std::uint64_t bytes = 0;
    std::uint64_t messages = 0;
  };
  base::Result<Freed> acknowledge(std::uint64_t sequence);
  /// A new connection: all that is unacknowledged is given out again, oldest first.
  void rewind() { resend_ = 0; }

  /// Nothing waits and nothing is unacknowledged.
  bool idle() const { return rows_.empty() && unacknowledged_.empty(); }
  bool in_flight() const { return !unacknowledged_.empty(); }
  std::uint64_t resent() const { return resent_; }
  Freed held() const;

 private:
  /// Order of a row among the rows whose first message is of one kind.
  struct Place {
    bool sliced = false;
    std::int64_t negative_priority = 0;
    std::uint64_t arrival = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  using RowKey = std::optional<schemas::SliceId>;
  struct Row {
    std::deque<OutgoingPtr> messages;
    Place place;
  };
  using Ready = std::map<Place, RowKey>;

  bool fits(Traffic traffic, std::size_t bytes) const;
  Ready& ready_for(const Row& row);
  OutgoingPtr take_row(const RowKey& key);

  Windows windows_;
  Windows in_flight_{};
  std::map<RowKey, Row> rows_;
  std::array<Ready, kTrafficKinds> ready_;  ///< by the kind of a row's first message
  std::uint64_t arrivals_ = 0;
  std::uint64_t sequence_ = 0;              ///< last one given out
  std::deque<OutgoingPtr> unacknowledged_;  ///< ascending sequence
  std::size_t resend_ = 0;                  ///< first of them not given to this connection
  std::uint64_t resent_ = 0;
};

}  // namespace troupe::link
