// SPDX-License-Identifier: Apache-2.0
// LinkCore: the one implementation of Link. A lane is one connection with its sending and receiving
// side; lane 0 is control. All but send(), close(), abort(), peer() and stats() belongs to the I/O
// thread.
// Private to this folder.
#pragma once

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/address.h"
#include "base/awake_clock.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/mutex.h"
#include "base/resolver.h"
#include "link/connection.h"
#include "link/lane_queue.h"
#include "link/lane_receipts.h"
#include "link/link.h"
#include "link/link_frames.h"
#include "link/tls_carrier.h"

namespace troupe::link {

using Endpoint = asio::generic::stream_protocol::endpoint;

/// The I/O thread looks at its clock so often.
inline std::int64_t tick_ms(const base::Limits& limits) {
  constexpr std::int64_t kLeast = 5;
  constexpr std::int64_t kMost = 100;
  return std::clamp(static_cast<std::int64_t>(limits.ping_ms / 10), kLeast, kMost);
}
/// While nothing has happened since the last tick the next one is so much later.
inline constexpr std::int64_t kQuietTicks = 5;

/// What all links of a set share.
struct LinkContext {
  LinkContext(const base::Limits& l, base::BufferPool& p, std::shared_ptr<const Tls> t,
              base::Resolver::LookUp look_up)
      : limits(l),
        pool(p),
        resolver(std::move(look_up)),
        secured(t != nullptr),
        tls(std::move(t)) {}
  asio::io_context io{1};
  base::Limits limits;
  base::BufferPool& pool;
  base::Resolver resolver;
  const bool secured;              ///< all connections but pairs of sockets speak TLS
  std::shared_ptr<const Tls> tls;  ///< for new ones, on the I/O thread; null: plain
  /// What speaks on a new connection between hosts.
  std::shared_ptr<Carrier> make_carrier(Socket socket, TlsEnd end) const {
    if (tls == nullptr) return make_plain_carrier(std::move(socket));
    return make_tls_carrier(std::move(socket), tls, end);
  }
  /// Whether who speaks on `connection` may be `end`, by its certificate and by what is revoked by
  /// now: the list may be newer than the handshake. Without TLS everybody is believed.
  base::Status check_peer(const Connection& connection, const LinkEnd& end) const;
  /// What large headers of one peer may take that a listener without a secret has let in: it is
  /// known by its certificate, and everybody with one may be there.
  std::shared_ptr<HeaderBudget> budget_of(const trust::Identity& holder);
  std::shared_ptr<HeaderBudget> all_headers = std::make_shared<HeaderBudget>(268'435'456);
  std::map<std::string, std::weak_ptr<HeaderBudget>> headers;  ///< by holder
  /// Ticks are to come soon: a link that rested has something to do. On the I/O thread.
  std::function<void()> hurry = [] {};
  base::SteadyClock steady;
  /// A peer's silence, and all other deadlines, count while this process runs.
  base::AwakeClock clock{steady, static_cast<std::uint64_t>(tick_ms(limits) * kQuietTicks),
                         base::own_pause_ms(limits.silence_dead_ms)};
};

/// Marks a new socket close-on-exec and sets TCP's options where it is TCP.
void prepare_socket(Socket& socket, const base::Limits& limits);

/// See the top of the file.
class LinkCore final : public Link,
                       public Connection::Owner,
                       public std::enable_shared_from_this<LinkCore> {
 public:
  /// How connections come about, hence who restores them.
  enum class Origin : std::uint8_t { dialed, accepted, adopted };
  struct Plan {
    Origin origin = Origin::dialed;
    LinkEnd self;
    LinkEnd peer;
    std::string address;  ///< of the peer; empty where it has none
    std::uint64_t token = 0;
    std::size_t lanes = 1;
    std::optional<base::Secret> secret;     ///< of the job; both ends have proved it or will
    std::optional<trust::Identity> holder;  ///< of an accepted peer's certificate
  };

  LinkCore(std::shared_ptr<LinkContext> context, Plan plan);

  // Link.
  base::Status send(schemas::Envelope envelope, std::int32_t priority) override;
  bool has_room() override;
  void close(std::string text) override;
  void abort(base::Status reason) override;
  LinkEnd peer() const override;
  std::optional<trust::Identity> holder() const override { return plan_.holder; }
  std::int64_t holder_until() const override { return holder_until_; }
  std::string address() const override { return plan_.address; }
  LinkFigures stats() const override;

  // For LinkSet, on the I/O thread.
  void set_handler(std::shared_ptr<LinkHandler> handler) { handler_ = std::move(handler); }
  /// Begins to dial; goes on trying for `wait_ms`.
  void dial(base::Address address, std::uint64_t wait_ms);
  /// Greets over an adopted connection, or waits there for the peer's greeting.
  void adopt(std::shared_ptr<Connection> connection, bool speak);
  /// Takes a connection whose Hello was accepted and answers it with `reply`. `acknowledged`: of
  /// the Hello's frame. Error: the peer acknowledges what was never sent.
  base::Status attach(std::size_t lane, std::shared_ptr<Connection> connection,
                      std::uint64_t acknowledged, schemas::HelloReply reply);
  void tick(std::int64_t now_ms);
  /// Goes down where a certificate of the peer is revoked by now.
  void check_revoked();
  /// Cuts the connections that this end has dialed, which it then dials again.
  void dial_anew();
  void go_down(const base::Status& reason);
  bool is_down() const { return state_ == State::down; }
  /// Up and whole: nothing is due before the next ping.
  bool rests() const { return state_ == State::up && !interrupted_ && !closing_; }
  const Plan& plan() const { return plan_; }

 private:
  enum class State : std::uint8_t { opening, up, down };

  struct Lane {
    Lane(asio::io_context& io, Windows windows) : queue(windows), ack_timer(io) {}
    std::shared_ptr<Connection> connection;
    bool open = false;                ///< greeted
    bool looking = false;             ///< the peer's name is being looked up
    std::deque<Endpoint> targets;     ///< to be dialed, one after the other, until one answers
    Endpoint target;                  ///< that is being dialed, or was last
    std::string misses;               ///< what dialing those before it said
    base::Errc miss{};                ///< and the last one's code
    bool refused = false;             ///< by all targets so far: nobody listens there
    std::shared_ptr<Socket> dialing;  ///< being connected
    std::int64_t deadline_ms = 0;     ///< of looking, dialing or greeting
    std::int64_t dial_at_ms = 0;      ///< when neither connected nor dialing nor looking
    unsigned attempts = 0;            ///< dialing, since it was last open
    LaneQueue queue;
    std::deque<OutgoingPtr> urgent;          ///< the link's own frames, without sequence numbers
    std::uint64_t received = 0;              ///< sequence number up to which all has come
    std::shared_ptr<LaneReceipts> receipts;  ///< from when it is first open
    bool ack_due = false;
    bool ack_armed = false;
    asio::steady_timer ack_timer;
    std::optional<schemas::Envelope> arriving;  ///< its payload is being read
    std::int64_t progress_ms = 0;               ///< last byte of progress of what is in flight
    std::int64_t spoken_ms = 0;                 ///< when it last gave frames away
    // While a dialed connection is greeted.
    std::optional<schemas::Hello> hello;         ///< said, not yet challenged
    OutgoingPtr proof;                           ///< waits until the Hello is written
    std::optional<base::Sha256Digest> expected;  ///< what the listener has to prove

    /// What the peer may be told: all that came with it has been let go.
    std::uint64_t taken() const { return receipts ? receipts->taken() : 0; }
  };

  // Connection::Owner.
  base::Result<base::Buffer> place_payload(Connection& connection, const FrameHead& head,
                                           std::span<const std::byte> header) override;
  base::Status on_frame(Connection& connection, const FrameHead& head,
                        std::span<const std::byte> header, base::Buffer payload) override;
  void on_progress(Connection& connection, std::size_t received) override;
  void on_written(Connection& connection) override;
  void on_fault(Connection& connection, const base::Status& reason) override;

  // Traffic: link_core.cc.
  void post(std::function<void()> work) TROUPE_REQUIRES(mutex_);
  std::size_t lane_of(const Connection& connection) const;
  void drain();
  bool fits(std::uint64_t bytes) const TROUPE_REQUIRES(mutex_);
  void pump(Lane& lane);
  void pump_all();
  base::Result<schemas::Envelope> open_envelope(const FrameHead& head,
                                                std::span<const std::byte> header);
  base::Status deliver(Lane& lane, const FrameHead& head, std::span<const std::byte> header,
                       base::Buffer payload);
  base::Status on_own_message(const schemas::Message& message);
  base::Status acknowledge(Lane& lane, std::uint64_t sequence);
  std::shared_ptr<LaneReceipts> make_receipts(std::size_t index);
  void owe_acknowledgement(Lane& lane);
  void arm_ack_timer(Lane& lane);
  void on_taken(std::size_t index);
  base::Status check_credit(const Lane& lane, const FrameHead& head);
  base::Status fatal(base::Status reason);

  // Life: link_life.cc.
  void dial_lane(std::size_t index);
  void on_looked_up(const base::Result<base::HostNumbers>& numbers);
  void found(std::size_t index, const base::Result<base::HostNumbers>& numbers);
  void dial_next(std::size_t index);
  void on_dialed(std::size_t index, const base::Status& status, bool refused);
  void greet(std::size_t index, std::shared_ptr<Connection> connection);
  base::Status on_greeting(std::size_t index, const FrameHead& head,
                           std::span<const std::byte> header);
  base::Status on_challenge(Lane& lane, const schemas::Challenge& challenge);
  void write_proof(Lane& lane);
  base::Status check_listener(const Connection& connection) const;
  base::Status on_reply(std::size_t index, const schemas::HelloReply& reply,
                        std::uint64_t acknowledged);
  base::Status on_hello(const schemas::Hello& hello, std::uint64_t acknowledged);
  void open_lane(std::size_t index);
  void drop_lane(Lane& lane);
  void lane_failed(std::size_t index, const base::Status& reason, bool hopeless);
  void interrupted(std::size_t index, const base::Status& reason, bool hopeless);
  std::int64_t retry_pause_ms(unsigned attempts) const;
  void tick_lane(std::size_t index, std::int64_t now_ms);
  void tick_up(std::int64_t now_ms);
  void say_goodbye_when_idle();
  base::Status lost(const base::Status& reason) const;
  std::int64_t now_ms() const { return context_->clock.now_ms(); }

  std::shared_ptr<LinkContext> context_;  ///< sockets and timers need it to the end
  Plan plan_;
  std::shared_ptr<LinkHandler> handler_;
  State state_ = State::opening;
  std::deque<Lane> lanes_;
  base::Address address_;             ///< that is dialed
  bool looking_ = false;              ///< the answer for its name has not come yet
  std::optional<Endpoint> answered_;  ///< of those behind the name, the one that last did
  std::int64_t open_until_ms_ = 0;    ///< opening must have ended
  bool unheard_ = false;              ///< accepted without a secret, and nothing said but Hello yet
  bool interrupted_ = false;
  std::int64_t heal_until_ms_ = 0;
  base::Status cut_reason_;
  unsigned faults_ = 0;  ///< wrong bytes since the last progress
  bool fatal_ = false;   ///< a fault that sending again cannot cure
  std::int64_t heard_ms_ = 0;
  std::int64_t pinged_ms_ = 0;
  std::int64_t asked_ms_ = 0;  // since when pings are unanswered
  std::uint64_t pings_ = 0;
  bool closing_ = false;
  bool goodbye_sent_ = false;
  std::string goodbye_text_;
  std::int64_t close_until_ms_ = 0;

  mutable base::Mutex mutex_;
  std::vector<OutgoingPtr> inbox_ TROUPE_GUARDED_BY(mutex_);
  std::uint64_t queued_bytes_ TROUPE_GUARDED_BY(mutex_) = 0;
  std::uint64_t queued_messages_ TROUPE_GUARDED_BY(mutex_) = 0;
  bool room_wanted_ TROUPE_GUARDED_BY(mutex_) = false;  ///< has_room() has said no
  base::Status end_ TROUPE_GUARDED_BY(mutex_);          ///< what send() answers once it is not ok
  bool gone_ TROUPE_GUARDED_BY(mutex_) = false;         ///< down: nothing more is posted
  LinkEnd peer_ TROUPE_GUARDED_BY(mutex_);

  std::atomic<std::int64_t> holder_until_{kNoEnd};

  struct Counters {
    std::atomic<std::uint64_t> bytes_sent{0};
    std::atomic<std::uint64_t> bytes_received{0};
    std::atomic<std::uint64_t> frames_sent{0};
    std::atomic<std::uint64_t> frames_received{0};
    std::atomic<std::uint64_t> frames_resent{0};
    std::atomic<std::uint64_t> duplicates{0};
    std::atomic<std::uint64_t> resumes{0};
  } counters_;
};

}  // namespace troupe::link
