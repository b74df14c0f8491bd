// SPDX-License-Identifier: Apache-2.0
// Connection: a carrier that speaks frames. It reads payloads straight into
// the places its owner names and writes frames from the owners' buffers. Only the I/O thread; its
// owner outlives it or has called close().
// Private to this folder.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "link/carrier.h"
#include "link/frame.h"
#include "link/lane_queue.h"

namespace troupe::link {

/// See the top of the file.
class Connection final : public std::enable_shared_from_this<Connection>, private FrameReceiver {
 public:
  /// Who is served. Calls stop with close().
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual base::Result<base::Buffer> place_payload(Connection& connection, const FrameHead& head,
                                                     std::span<const std::byte> header) = 0;
    virtual base::Status on_frame(Connection& connection, const FrameHead& head,
                                  std::span<const std::byte> header, base::Buffer payload) = 0;
    /// Bytes have come (called before their frames) or, with 0, some of a write() have left.
    virtual void on_progress(Connection& connection, std::size_t received) = 0;
    /// The last write() is done; the next may follow.
    virtual void on_written(Connection& connection) = 0;
    /// The peer closed (unavailable), the bytes were wrong (the decoder's error), or on_frame or
    /// place_payload failed (their error). Nothing is read any more; what the owner writes may
    /// still arrive. Called once, and once more after finish().
    virtual void on_fault(Connection& connection, const base::Status& reason) = 0;
  };

  Connection(std::shared_ptr<Carrier> carrier, FrameLimits limits);

  /// Begins to read for `owner`.
  void start(Owner& owner);
  void set_owner(Owner& owner) { owner_ = &owner; }
  void set_limits(FrameLimits limits) { decoder_.set_limits(limits); }
  void set_budget(std::shared_ptr<HeaderBudget> budget) { decoder_.set_budget(std::move(budget)); }
  /// Bounds what waits below, so that priorities count for the rest.
  void keep_unsent_low() { carrier_->bound_unsent(); }
  /// Who the peer has proved to be; null: nothing was asked.
  const Tls::Peer* peer() const { return carrier_->peer(); }

  /// True until on_written; no write() meanwhile.
  bool writing() const { return !batch_.empty(); }
  /// Sends the frames in this order, each with `acknowledged` in its head.
  void write(std::vector<OutgoingPtr> frames, std::uint64_t acknowledged);
  /// Ends the sending direction behind what was written and drops what still comes, so that the
  /// peer can read our last words; on_fault tells when it has closed.
  void finish();
  /// Closes the carrier; the owner hears nothing more.
  void close();

 private:
  base::Result<base::Buffer> place_payload(const FrameHead& head,
                                           std::span<const std::byte> header) override;
  base::Status on_frame(const FrameHead& head, std::span<const std::byte> header,
                        base::Buffer payload) override;
  void read();
  void take(std::size_t bytes);
  void fault(const base::Status& reason);

  struct Frame {
    std::array<std::byte, kFrameHeadBytes> head;
    OutgoingPtr message;
  };

  const std::shared_ptr<Carrier> carrier_;
  Owner* owner_ = nullptr;
  FrameDecoder decoder_;
  bool reading_ = false;
  bool dropping_ = false;
  std::size_t direct_ = 0;  ///< bytes of the read under way that go straight into a payload
  std::vector<std::byte> staging_;
  std::vector<Frame> batch_;
};

}  // namespace troupe::link
