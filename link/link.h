// SPDX-License-Identifier: Apache-2.0
// Link: a two-way channel of envelopes between two processes, over one control and any number of
// data connections. Each envelope arrives exactly once and messages of one slice in order, or the
// link goes down and says so. LinkSet (link_set.h) makes links and owns their I/O thread; send()
// may be called from any thread and never waits; handlers are called on the I/O thread.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/buffer.h"
#include "base/status.h"
#include "schemas/messages.h"
#include "trust/identity.h"

namespace troupe::link {

/// The name of people's ends; no agent has one with a space.
inline constexpr std::string_view kCommandName = "troupe job";

/// When the certificate of a peer ends that needs none.
inline constexpr std::int64_t kNoEnd = std::numeric_limits<std::int64_t>::max();

/// One end of a link, as it introduces itself and as errors name it.
struct LinkEnd {
  schemas::ActorId actor;
  std::string name;  ///< of the machine or user; may be empty
  std::string job;   ///< id of the job; empty between agents, people and the coordinator
  std::uint64_t generation = 0;
  /// "device server 2 (alpha)"; agents and people have no number: "agent 'alpha'", "troupe job".
  std::string to_string() const;
};

/// Counters of one link since it was made. Bytes are those of whole frames.
struct LinkFigures {
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t frames_sent = 0;
  std::uint64_t frames_received = 0;
  std::uint64_t frames_resent = 0;
  std::uint64_t duplicates = 0;    ///< received again and dropped
  std::uint64_t resumes = 0;       ///< cuts that were healed
  std::uint64_t queued_bytes = 0;  ///< waiting or unacknowledged now
  LinkFigures& operator+=(const LinkFigures& other);
  friend bool operator==(const LinkFigures&, const LinkFigures&) = default;
};

/// What a link tells its owner, on the I/O thread: be quick, never wait. The link holds it until
/// on_down has returned.
class LinkHandler {
 public:
  virtual ~LinkHandler() = default;
  /// Both ends have greeted each other; once, before any envelope.
  virtual void on_up() {}
  /// May the peer send this envelope (still without its payload)? Asked first, before a place for
  /// its payload; that its job and generation are the link's own is known by then. An error takes
  /// the link down. Default: it may.
  virtual base::Status allow(const schemas::Envelope& envelope) {
    static_cast<void>(envelope);
    return {};
  }
  /// Names the place that the payload of `envelope` (still without it) is read into: exactly
  /// `bytes` bytes of host memory. Default: from the pool of the LinkSet. What stands there is
  /// garbage until on_envelope hands it over; it may be asked for again if the connection is cut.
  /// An error takes the link down.
  virtual base::Result<base::Buffer> place_payload(const schemas::Envelope& envelope,
                                                   std::size_t bytes, base::BufferPool& pool);
  /// An envelope of the peer.
  virtual void on_envelope(schemas::Envelope envelope) = 0;
  /// A connection was cut without a Goodbye. on_resumed or on_down follows within
  /// limits.silence_dead_ms; nothing is lost meanwhile. An owner that knows better calls abort().
  virtual void on_interrupted(const base::Status& reason) { static_cast<void>(reason); }
  virtual void on_resumed() {}
  /// The queue has become shorter, after has_room() has said no.
  virtual void on_drained() {}
  /// The last call. ok: a Goodbye of either side. Else: unavailable (nobody there, cut and not
  /// healed), deadline_exceeded (silence, or nothing acknowledged), data_loss (the peer broke the
  /// protocol), version_mismatch, the peer's refusal, the reason of allow() or abort().
  virtual void on_down(const base::Status& reason) = 0;
};

/// A handler of the control plane, whose messages have no payloads: one that has ends the link with
/// data_loss before it costs memory.
class ControlHandler : public LinkHandler {
 public:
  base::Result<base::Buffer> place_payload(const schemas::Envelope& envelope, std::size_t bytes,
                                           base::BufferPool& pool) final;
};

/// See the top of the file. Any thread.
class Link {
 public:
  virtual ~Link() = default;
  /// Queues an envelope; its payload stays referenced until the peer has it. Slices of a higher
  /// priority overtake others. An empty queue takes any. Errors: resource_exhausted
  /// (limits.send_queue_*), invalid_argument (too large), or the link's end.
  virtual base::Status send(schemas::Envelope envelope, std::int32_t priority = 0) = 0;
  /// True when the queue takes any envelope, or the link is down. False: on_drained() follows. What
  /// others send meanwhile may take the room.
  virtual bool has_room() = 0;
  /// Sends what is queued, then a Goodbye, then goes down with ok; after limits.goodbye_ms it goes
  /// down anyway and says what was left. No further sends.
  virtual void close(std::string text) = 0;
  /// Goes down at once with `reason`: the peer is known to be dead, or at fault.
  virtual void abort(base::Status reason) = 0;
  /// The other end; of an adopted link only known when it is up.
  virtual LinkEnd peer() const = 0;
  /// Whose certificate the peer has shown when the link was made; none: it needs none.
  virtual std::optional<trust::Identity> holder() const = 0;
  /// When the certificates end that the peer has shown on the newest connection that it has dialed,
  /// Unix seconds; kNoEnd: it needs none, or this end dials.
  virtual std::int64_t holder_until() const = 0;
  /// HOST:PORT of the other end; empty over a pair of sockets.
  virtual std::string address() const = 0;
  virtual LinkFigures stats() const = 0;
};

}  // namespace troupe::link
