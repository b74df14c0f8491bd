// SPDX-License-Identifier: Apache-2.0
// Carrier: one stream of bytes between two processes, below a link's frames. While it is open, what
// is sent arrives whole and in order; then it promises nothing. It never numbers, acknowledges or
// sends again: that is the link's. The I/O thread only.
// Private to this folder.
#pragma once

#include <asio/generic/stream_protocol.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "link/tls.h"

namespace troupe::link {

using Socket = asio::generic::stream_protocol::socket;

/// See the top of the file. What it was given is called back later, never inside of receive() or
/// send(), and never after close().
class Carrier {
 public:
  /// `bytes` have come, at least one; or none will: unavailable, the peer closed or is gone;
  /// data_loss, it sent what this carrier does not speak; permission_denied, it is not believed.
  using Received = std::function<void(const base::Status& status, std::size_t bytes)>;
  /// Some bytes are about to leave or have left; false: the rest is not wanted any more.
  using Progress = std::function<bool()>;
  /// All bytes have left, and their memory is the caller's again; or the carrier is broken.
  using Sent = std::function<void(const base::Status& status)>;

  virtual ~Carrier() = default;
  /// Reads some bytes into `first`, then `second`. One call at a time.
  virtual void receive(std::span<std::byte> first, std::span<std::byte> second,
                       Received received) = 0;
  /// Sends all pieces, whose bytes stay as they are until `sent`. One call at a time.
  virtual void send(std::vector<std::span<const std::byte>> pieces, Progress progress,
                    Sent sent) = 0;
  /// Bounds what waits below this carrier, so that the order of later send()s counts.
  virtual void bound_unsent() = 0;
  /// The peer reads the end behind what was sent.
  virtual void finish() = 0;
  /// Ends both directions; nothing is called back any more.
  virtual void close() = 0;
  /// Who the peer has proved to be, once bytes have come; null: this carrier asks for no proof.
  virtual const Tls::Peer* peer() const = 0;
  /// True where what arrives is what was sent, or nothing: no checksums are needed above.
  virtual bool seals() const = 0;
};

/// Bytes as they are, on a connected socket.
std::shared_ptr<Carrier> make_plain_carrier(Socket socket);

}  // namespace troupe::link
