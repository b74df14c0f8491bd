// SPDX-License-Identifier: Apache-2.0
// What both ends of a link share: making and checking frames of envelopes, the Hello and its
// answer. Pure functions; any thread.
// Private to this folder.
#pragma once

#include <cstdint>
#include <span>

#include "base/limits.h"
#include "link/frame.h"
#include "link/lane_queue.h"
#include "link/link.h"

namespace troupe::link {

/// Whether a frame says what its payload's checksum is; no, where the carrier seals all bytes.
enum class Checksum : std::uint8_t { said, none };

/// The envelope as a frame without a sequence number. Errors: invalid_argument for a header or
/// payload beyond `limits`.
base::Result<OutgoingPtr> make_frame(schemas::Envelope envelope, const base::Limits& limits,
                                     Checksum checksum);

/// A frame of the link itself (Hello, HelloReply, Ping, Pong, Goodbye); these are always small.
OutgoingPtr make_own_frame(const LinkEnd& self, schemas::Message message);

/// A frame that carries only its head.
OutgoingPtr make_bare_ack();

/// The envelope of a received header. Errors: data_loss when it does not fit its frame's head.
base::Result<schemas::Envelope> open_frame(const FrameHead& head,
                                           std::span<const std::byte> header);

/// What a peer may send before and after it has been greeted, on this lane.
FrameLimits greeting_limits(const base::Limits& limits);
FrameLimits lane_limits(const base::Limits& limits, std::size_t lane);

/// True for the messages that links send themselves; owners may not.
bool belongs_to_links(const schemas::Message& message);

/// Who a Hello says its sender is.
LinkEnd end_of(const schemas::Hello& hello);

}  // namespace troupe::link
