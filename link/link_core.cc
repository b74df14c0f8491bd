// SPDX-License-Identifier: Apache-2.0
// Traffic of a link: from send() through the lanes' queues to the socket, and from the socket to
// the handler, with acknowledgements both ways.
#include "link/link_core.h"

#include <fmt/core.h>

#include <algorithm>
#include <asio/post.hpp>

#include "base/credit.h"
#include "schemas/codec.h"

namespace troupe::link {
namespace {

using base::Errc;
using base::MutexLock;
using base::Result;
using base::Status;
using schemas::Envelope;

/// One gather write takes frames up to either bound: enough to fill a socket, little enough that an
/// urgent slice does not wait long.
constexpr std::size_t kBatchFrames = 16;
constexpr std::size_t kBatchBytes = 262'144;
/// Let go and not acknowledged: whichever comes first sends an acknowledgement of its own.
constexpr std::uint64_t kAckBytes = 524'288;
constexpr std::uint64_t kAckFrames = 64;
constexpr std::chrono::milliseconds kAckDelay{5};

/// Which lane carries a slice, out of lanes 1 ... lanes - 1.
std::size_t lane_for(const schemas::SliceId& slice, std::size_t lanes) {
  const std::uint64_t name = std::uint64_t{slice.key} << 32 | slice.slice;
  constexpr std::uint64_t kSpread = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio
  return 1 + (name * kSpread >> 32) % (lanes - 1);
}

}  // namespace

std::string LinkEnd::to_string() const {
  if (name.empty()) return actor.to_string();
  if (name == kCommandName) return name;
  if (actor.role == schemas::Role::agent) return fmt::format("agent '{}'", name);
  return fmt::format("{} ({})", actor.to_string(), name);
}

Result<base::Buffer> LinkHandler::place_payload(const Envelope&, std::size_t bytes,
                                                base::BufferPool& pool) {
  return pool.allocate(bytes, "received payloads");
}

Result<base::Buffer> ControlHandler::place_payload(const Envelope& envelope, std::size_t bytes,
                                                   base::BufferPool&) {
  if (bytes == 0) return base::Buffer{};
  return base::error(Errc::data_loss, "[link] a {} with a payload of {} bytes",
                     schemas::message_name(envelope.message.index()), bytes);
}

LinkCore::LinkCore(std::shared_ptr<LinkContext> context, Plan plan)
    : context_(std::move(context)), plan_(std::move(plan)), peer_(plan_.peer) {
  for (std::size_t i = 0; i < plan_.lanes; ++i) {
    lanes_.emplace_back(context_->io, windows_of(context_->limits));
  }
  heard_ms_ = now_ms();
  // Who has proved the secret is one of the job's, perhaps busy with many others.
  const bool proved = plan_.origin == Origin::accepted && plan_.secret;
  const base::Limits& limits = context_->limits;
  open_until_ms_ =
      heard_ms_ + static_cast<std::int64_t>(proved ? limits.start_ms : limits.handshake_ms);
  unheard_ = plan_.origin == Origin::accepted && !plan_.secret;
}

/// Receipts may outlive the link.
std::shared_ptr<LaneReceipts> LinkCore::make_receipts(std::size_t index) {
  return std::make_shared<LaneReceipts>(kAckBytes, kAckFrames, [weak = weak_from_this(), index] {
    if (const auto self = weak.lock()) self->on_taken(index);
  });
}

// ---- any thread ----

Status LinkCore::send(Envelope envelope, std::int32_t priority) {
  if (belongs_to_links(envelope.message)) {
    return base::error(Errc::invalid_argument, "[link] {} is sent by links only",
                       schemas::message_name(envelope.message.index()));
  }
  // A pair of sockets is never under TLS.
  const bool sealed = context_->secured && plan_.origin != Origin::adopted;
  TROUPE_TRY_ASSIGN(auto frame, make_frame(std::move(envelope), context_->limits,
                                           sealed ? Checksum::none : Checksum::said));
  frame->priority = priority;
  const std::uint64_t bytes = frame->bytes();
  MutexLock lock(mutex_);
  TROUPE_TRY(end_);
  if (!fits(bytes)) {
    return base::error(Errc::resource_exhausted,
                       "[link] {} bytes in {} messages wait for {}: the queue is full",
                       queued_bytes_, queued_messages_, peer_.to_string());
  }
  queued_bytes_ += bytes;
  ++queued_messages_;
  inbox_.push_back(std::move(frame));
  if (inbox_.size() == 1) post([self = shared_from_this()] { self->drain(); });
  return {};
}

bool LinkCore::fits(std::uint64_t bytes) const {
  const base::Limits& limits = context_->limits;
  return queued_messages_ == 0 || (queued_bytes_ + bytes <= limits.send_queue_bytes_max &&
                                   queued_messages_ < limits.send_queue_messages_max);
}

bool LinkCore::has_room() {
  const base::Limits& limits = context_->limits;
  MutexLock lock(mutex_);
  if (!end_.ok()) return true;
  room_wanted_ =
      !fits(kFrameHeadBytes + std::max(limits.control_header_bytes_max,
                                       limits.data_header_bytes_max + limits.payload_bytes_max));
  return !room_wanted_;
}

void LinkCore::post(std::function<void()> work) {
  if (!gone_) asio::post(context_->io, std::move(work));
}

void LinkCore::close(std::string text) {
  MutexLock lock(mutex_);
  if (end_.ok()) end_ = base::error(Errc::cancelled, "[link] to {} is closed", peer_.to_string());
  post([self = shared_from_this(), text = std::move(text)] {
    if (self->is_down() || self->closing_) return;
    self->drain();
    self->closing_ = true;
    self->context_->hurry();
    self->goodbye_text_ = text;
    self->close_until_ms_ =
        self->now_ms() + static_cast<std::int64_t>(self->context_->limits.goodbye_ms);
    self->say_goodbye_when_idle();
  });
}

void LinkCore::abort(Status reason) {
  MutexLock lock(mutex_);
  post([self = shared_from_this(), reason = std::move(reason)] { self->go_down(reason); });
}

LinkEnd LinkCore::peer() const {
  MutexLock lock(mutex_);
  return peer_;
}

LinkFigures& LinkFigures::operator+=(const LinkFigures& other) {
  bytes_sent += other.bytes_sent;
  bytes_received += other.bytes_received;
  frames_sent += other.frames_sent;
  frames_received += other.frames_received;
  frames_resent += other.frames_resent;
  duplicates += other.duplicates;
  resumes += other.resumes;
  queued_bytes += other.queued_bytes;
  return *this;
}

LinkFigures LinkCore::stats() const {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  LinkFigures stats;
  stats.bytes_sent = counters_.bytes_sent.load(kRelaxed);
  stats.bytes_received = counters_.bytes_received.load(kRelaxed);
  stats.frames_sent = counters_.frames_sent.load(kRelaxed);
  stats.frames_received = counters_.frames_received.load(kRelaxed);
  stats.frames_resent = counters_.frames_resent.load(kRelaxed);
  stats.duplicates = counters_.duplicates.load(kRelaxed);
  stats.resumes = counters_.resumes.load(kRelaxed);
  MutexLock lock(mutex_);
  stats.queued_bytes = queued_bytes_;
  return stats;
}

// ---- sending ----

void LinkCore::drain() {
  std::vector<OutgoingPtr> messages;
  {
    MutexLock lock(mutex_);
    messages.swap(inbox_);
  }
  if (is_down()) return;
  for (OutgoingPtr& message : messages) {
    const bool on_control = !message->slice || lanes_.size() == 1;
    Lane& lane = lanes_[on_control ? 0 : lane_for(*message->slice, lanes_.size())];
    // What is in flight from now on has its first progress now.
    if (!lane.queue.in_flight()) lane.progress_ms = now_ms();
    lane.queue.push(std::move(message));
  }
  pump_all();
}

void LinkCore::pump_all() {
  if (state_ != State::up) return;
  for (Lane& lane : lanes_) pump(lane);
}

void LinkCore::pump(Lane& lane) {
  if (!lane.open || lane.connection->writing()) return;
  std::vector<OutgoingPtr> frames(lane.urgent.begin(), lane.urgent.end());
  lane.urgent.clear();
  std::size_t bytes = 0;
  while (state_ == State::up && frames.size() < kBatchFrames && bytes < kBatchBytes) {
    OutgoingPtr next = lane.queue.next();
    if (next == nullptr) break;
    bytes += next->bytes();
    frames.push_back(std::move(next));
  }
  if (frames.empty()) {
    if (!lane.ack_due) return;
    frames.push_back(make_bare_ack());
  }
  lane.ack_due = false;
  for (const OutgoingPtr& frame : frames) counters_.bytes_sent += frame->bytes();
  counters_.frames_sent += frames.size();
  lane.spoken_ms = now_ms();
  lane.connection->write(std::move(frames), lane.receipts->acknowledged());
}

void LinkCore::on_written(Connection& connection) {
  Lane& lane = lanes_[lane_of(connection)];
  write_proof(lane);
  pump(lane);
  // Behind a Goodbye nothing is left to say.
  if (goodbye_sent_ && &lane == &lanes_.front() && !connection.writing()) connection.finish();
}

Status LinkCore::acknowledge(Lane& lane, std::uint64_t sequence) {
  TROUPE_TRY_ASSIGN(const auto freed, lane.queue.acknowledge(sequence));
  std::uint64_t resent = 0;
  for (const Lane& each : lanes_) resent += each.queue.resent();
  counters_.frames_resent = resent;
  if (freed.messages == 0) return {};
  faults_ = 0;
  bool room_wanted = false;
  {
    MutexLock lock(mutex_);
    queued_bytes_ -= freed.bytes;
    queued_messages_ -= freed.messages;
    room_wanted = std::exchange(room_wanted_, false);
  }
  pump(lane);
  if (room_wanted) handler_->on_drained();
  if (closing_) say_goodbye_when_idle();
  return {};
}

// ---- receiving ----

std::size_t LinkCore::lane_of(const Connection& connection) const {
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    if (lanes_[i].connection.get() == &connection) return i;
  }
  TROUPE_CHECK(false, "a connection that is of no lane");
}

/// Remembers that the next fault cannot be cured by sending again.
Status LinkCore::fatal(Status reason) {
  fatal_ = true;
  return reason;
}

void LinkCore::on_progress(Connection& connection, std::size_t received) {
  const std::int64_t now = now_ms();
  lanes_[lane_of(connection)].progress_ms = now;
  if (received == 0) return;
  heard_ms_ = now;
  counters_.bytes_received += received;
}

/// An envelope of the peer's: of this link's job and generation, and such as the owner allows.
Result<Envelope> LinkCore::open_envelope(const FrameHead& head, std::span<const std::byte> header) {
  auto envelope = open_frame(head, header);
  if (!envelope.ok()) return fatal(envelope.status());
  const LinkEnd& self = plan_.self;
  if (envelope->job != self.job || envelope->generation != self.generation) {
    return fatal(
        base::error(Errc::data_loss,
                    "[link] a {} of job '{}' generation {} on a link of job '{}' generation {}",
                    schemas::message_name(head.type), envelope->job, envelope->generation, self.job,
                    self.generation));
  }
  if (belongs_to_links(envelope->message)) return envelope;
  const Status allowed = handler_->allow(*envelope);
  if (!allowed.ok()) return fatal(allowed);
  return envelope;
}

Result<base::Buffer> LinkCore::place_payload(Connection& connection, const FrameHead& head,
                                             std::span<const std::byte> header) {
  Lane& lane = lanes_[lane_of(connection)];
  if (head.sequence != 0 && head.sequence <= lane.received) return base::Buffer{};
  TROUPE_TRY(check_credit(lane, head));
  TROUPE_TRY_ASSIGN(lane.arriving, open_envelope(head, header));
  auto place = handler_->place_payload(*lane.arriving, head.payload_bytes, context_->pool);
  if (!place.ok()) return fatal(place.status());
  TROUPE_CHECK(place->size() == head.payload_bytes, "the place for a payload has another size");
  return place;
}

Status LinkCore::on_frame(Connection& connection, const FrameHead& head,
                          std::span<const std::byte> header, base::Buffer payload) {
  const std::size_t index = lane_of(connection);
  Lane& lane = lanes_[index];
  if (!lane.open) return on_greeting(index, head, header);
  counters_.frames_received += 1;
  TROUPE_TRY(acknowledge(lane, head.acknowledged));
  if (is_down() || head.type == kBareAck) return {};
  return deliver(lane, head, header, std::move(payload));
}

Status LinkCore::deliver(Lane& lane, const FrameHead& head, std::span<const std::byte> header,
                         base::Buffer payload) {
  if (head.sequence != 0 && head.sequence <= lane.received) {
    counters_.duplicates += 1;
    return {};
  }
  if (head.sequence > lane.received + 1) {
    return base::error(Errc::data_loss, "[link] frame {} follows frame {}", head.sequence,
                       lane.received);
  }
  Envelope envelope;
  if (lane.arriving) {
    envelope = *std::move(lane.arriving);
    lane.arriving.reset();
  } else {
    TROUPE_TRY_ASSIGN(envelope, open_envelope(head, header));
  }
  if (head.sequence == 0) return on_own_message(envelope.message);
  if (belongs_to_links(envelope.message)) {
    return fatal(base::error(Errc::data_loss, "[link] a {} with a sequence number",
                             schemas::message_name(head.type)));
  }
  TROUPE_TRY(check_credit(lane, head));
  lane.received = head.sequence;
  unheard_ = false;
  faults_ = 0;
  envelope.receipt = lane.receipts->issue(kFrameHeadBytes + header.size() + payload.size());
  envelope.payload = std::move(payload);
  handler_->on_envelope(std::move(envelope));
  if (!is_down()) owe_acknowledgement(lane);
  return {};
}

/// A sender keeps to its windows.
Status LinkCore::check_credit(const Lane& lane, const FrameHead& head) {
  const std::uint64_t most = base::connection_credit(context_->limits, kFrameHeadBytes);
  const std::uint64_t held = lane.receipts->held_bytes();
  const std::uint64_t bytes = kFrameHeadBytes + head.header_bytes + head.payload_bytes;
  if (held + bytes <= most) return {};
  return fatal(base::error(Errc::data_loss,
                           "[link] {} bytes came behind {} that nobody has taken yet: the windows "
                           "are {}",
                           bytes, held, most));
}

Status LinkCore::on_own_message(const schemas::Message& message) {
  if (const auto* ping = std::get_if<schemas::Ping>(&message)) {
    // One answer waits at most, however fast a peer asks.
    if (lanes_[0].urgent.empty()) {
      lanes_[0].urgent.push_back(make_own_frame(plan_.self, schemas::Pong{ping->number}));
      pump(lanes_[0]);
    }
    return {};
  }
  if (std::holds_alternative<schemas::Pong>(message)) return {};
  if (std::holds_alternative<schemas::Goodbye>(message)) {
    go_down({});
    return {};
  }
  return fatal(base::error(Errc::data_loss, "[link] a {} without a sequence number",
                           schemas::message_name(message.index())));
}

/// What has been let go is acknowledged when it is much, and else soon; any frame that leaves
/// earlier carries it.
void LinkCore::owe_acknowledgement(Lane& lane) {
  if (lane.receipts->ack_due()) {
    lane.ack_due = true;
    pump(lane);
  }
  arm_ack_timer(lane);
}

void LinkCore::arm_ack_timer(Lane& lane) {
  if (lane.ack_armed) return;
  lane.ack_armed = true;
  lane.ack_timer.expires_after(kAckDelay);
  lane.ack_timer.async_wait([self = shared_from_this(), &lane](const asio::error_code&) {
    lane.ack_armed = false;
    // Whoever takes what is held still lets us know. A lane that is cut arms it when it is whole.
    if (self->is_down() || !lane.open || !lane.receipts->owed_or_hasten()) return;
    lane.ack_due = true;
    self->pump(lane);
    self->arm_ack_timer(lane);
  });
}

/// Any thread.
void LinkCore::on_taken(std::size_t index) {
  const MutexLock lock(mutex_);
  post([self = shared_from_this(), index] {
    if (self->is_down()) return;
    self->owe_acknowledgement(self->lanes_[index]);
  });
}

}  // namespace troupe::link
