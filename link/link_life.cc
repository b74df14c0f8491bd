// SPDX-License-Identifier: Apache-2.0
// Life of a link: dialing, greeting, being cut and healed, silence, Goodbye, the end.
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <asio/ip/tcp.hpp>
#include <cstring>
#include <utility>

#include "base/hash.h"
#include "link/claim.h"
#include "link/handshake.h"
#include "link/link_core.h"

namespace troupe::link {
namespace {

using base::Errc;
using base::MutexLock;
using base::Status;

/// Connections with wrong bytes in a row, without progress between them.
constexpr unsigned kFaultsMax = 8;
/// A cut link is dialed again at least so often before it is given up.
constexpr std::uint64_t kTriesLeast = 8;

/// Routers forget a connection that has been silent for minutes.
constexpr std::uint64_t kKeepAliveMostS = 30;

std::int64_t signed_ms(std::uint64_t ms) {
  return static_cast<std::int64_t>(ms);
}

/// What an error says of one address among several: "10.0.0.1: ".
std::string number_of(const Endpoint& target) {
  asio::ip::tcp::endpoint endpoint;
  std::memcpy(endpoint.data(), target.data(), target.size());
  endpoint.resize(target.size());
  return endpoint.address().to_string() + ": ";
}

}  // namespace

void prepare_socket(Socket& socket, const base::Limits& limits) {
  const int fd = socket.native_handle();
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  const auto set = [fd](int option, int value) {
    // Fails harmlessly where the socket is no TCP socket.
    ::setsockopt(fd, IPPROTO_TCP, option, &value, sizeof value);
  };
  set(TCP_NODELAY, 1);
  set(TCP_USER_TIMEOUT, static_cast<int>(limits.silence_dead_ms));
  // Only control connections ping. The system speaks on the others when they carry nothing, so that
  // routers and firewalls remember them, and one that is cut is known before it is needed.
  const std::uint64_t idle_s = limits.silence_dead_ms / 2'000;
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  set(TCP_KEEPIDLE, static_cast<int>(std::clamp(idle_s, std::uint64_t{1}, kKeepAliveMostS)));
  set(TCP_KEEPINTVL, 1);
}

Status LinkContext::check_peer(const Connection& connection, const LinkEnd& end) const {
  const Tls::Peer* peer = connection.peer();
  if (peer == nullptr) return {};
  TROUPE_TRY(check_claim(peer->identity, end));
  const Status status = tls->check_revoked(*peer);
  return status.ok() ? status : status.with_context("[link] " + peer->identity.to_string());
}

/// "[link] device server 2 (beta) lost parameter server 1 at 127.0.0.1:7000: connection closed".
Status LinkCore::lost(const Status& reason) const {
  const std::string_view verb = state_ == State::opening ? "cannot reach" : "lost";
  const std::string at = plan_.address.empty() ? "" : " at " + plan_.address;
  return reason.with_context(
      fmt::format("[link] {} {} {}{}", plan_.self.to_string(), verb, peer().to_string(), at));
}

void LinkCore::go_down(const Status& reason) {
  if (is_down()) return;
  {
    MutexLock lock(mutex_);
    end_ = reason.ok() ? base::error(Errc::cancelled, "[link] to {} is closed", peer_.to_string())
                       : reason;
    gone_ = true;
    inbox_.clear();
    queued_bytes_ = queued_messages_ = 0;
  }
  state_ = State::down;
  for (Lane& lane : lanes_) {
    drop_lane(lane);
    lane.ack_timer.cancel();
    lane.urgent.clear();
    lane.queue = LaneQueue(windows_of(context_->limits));
  }
  // The handler often holds this link: let go of it.
  const auto handler = std::move(handler_);
  if (handler != nullptr) handler->on_down(reason);
}

void LinkCore::drop_lane(Lane& lane) {
  if (lane.connection != nullptr) lane.connection->close();
  lane.connection = nullptr;
  asio::error_code ignored;
  if (lane.dialing != nullptr) lane.dialing->close(ignored);
  lane.dialing = nullptr;
  lane.looking = false;
  lane.targets.clear();
  lane.open = false;
  lane.arriving.reset();
  lane.hello.reset();
  lane.proof = nullptr;
  lane.expected.reset();
}

// ---- dialing and greeting ----

void LinkCore::dial(base::Address address, std::uint64_t wait_ms) {
  address_ = std::move(address);
  open_until_ms_ = now_ms() + signed_ms(wait_ms);
  dial_lane(0);
}

void LinkCore::dial_lane(std::size_t index) {
  Lane& lane = lanes_[index];
  ++lane.attempts;
  lane.misses = {};
  lane.refused = true;
  // All connections of a link have one process at their other end, whatever its name means.
  if (index > 0 && lanes_[0].open && answered_) {
    lane.targets = {*answered_};
    return dial_next(index);
  }
  if (base::is_number(address_.host)) return found(index, base::HostNumbers{address_.host});
  lane.looking = true;
  lane.deadline_ms = now_ms() + signed_ms(context_->limits.resolve_ms);
  if (std::exchange(looking_, true)) return;
  context_->resolver.ask(address_.host, [weak = weak_from_this()](const auto& numbers) {
    const auto self = weak.lock();
    if (self == nullptr) return;
    const MutexLock lock(self->mutex_);
    self->post([self, numbers] { self->on_looked_up(numbers); });
  });
}

void LinkCore::on_looked_up(const base::Result<base::HostNumbers>& numbers) {
  looking_ = false;
  for (std::size_t i = 0; i < lanes_.size() && !is_down(); ++i) {
    if (std::exchange(lanes_[i].looking, false)) found(i, numbers);
  }
}

/// What answered before is dialed first: it may be the only one that can be reached from here.
void LinkCore::found(std::size_t index, const base::Result<base::HostNumbers>& numbers) {
  if (!numbers.ok()) return lane_failed(index, numbers.status(), false);
  Lane& lane = lanes_[index];
  for (const std::string& number : *numbers) {
    asio::error_code unreadable;
    const auto ip = asio::ip::make_address(number, unreadable);
    if (!unreadable) lane.targets.emplace_back(asio::ip::tcp::endpoint(ip, address_.port));
  }
  std::stable_partition(lane.targets.begin(), lane.targets.end(),
                        [this](const Endpoint& each) { return answered_ && each == *answered_; });
  dial_next(index);
}

void LinkCore::dial_next(std::size_t index) {
  Lane& lane = lanes_[index];
  if (lane.targets.empty()) {
    return lane_failed(index, Status(lane.miss, lane.misses), lane.refused);
  }
  lane.target = std::move(lane.targets.front());
  lane.targets.pop_front();
  lane.deadline_ms = now_ms() + signed_ms(context_->limits.dial_ms);
  lane.dialing = std::make_shared<Socket>(context_->io);
  const auto tell = [self = shared_from_this(), index](const asio::error_code& error) {
    self->on_dialed(index, error ? Status(Errc::unavailable, error.message()) : Status(),
                    error == asio::error::connection_refused);
  };
  asio::error_code error;
  lane.dialing->open(lane.target.protocol(), error);
  if (error) return tell(error);
  prepare_socket(*lane.dialing, context_->limits);
  lane.dialing->async_connect(lane.target, [self = shared_from_this(), index, tell,
                                            socket = lane.dialing](const asio::error_code& failed) {
    if (self->lanes_[index].dialing == socket) tell(failed);
  });
}

void LinkCore::on_dialed(std::size_t index, const Status& status, bool refused) {
  Lane& lane = lanes_[index];
  if (!status.ok()) {
    asio::error_code ignored;
    lane.dialing->close(ignored);
    lane.dialing = nullptr;
    // Where the peer was, nobody listens any more; the others were never it.
    if (answered_ && lane.target == *answered_ && refused) {
      return lane_failed(index, status, true);
    }
    lane.refused = lane.refused && refused;
    if (!lane.misses.empty()) lane.misses += ", ";
    if (!base::is_number(address_.host)) lane.misses += number_of(lane.target);
    lane.misses += status.text();
    lane.miss = status.code();
    return dial_next(index);
  }
  greet(index, std::make_shared<Connection>(
                   context_->make_carrier(std::move(*lane.dialing), TlsEnd::dialing),
                   greeting_limits(context_->limits)));
}

void LinkCore::greet(std::size_t index, std::shared_ptr<Connection> connection) {
  Lane& lane = lanes_[index];
  lane.dialing = nullptr;
  lane.deadline_ms = now_ms() + signed_ms(context_->limits.handshake_ms);
  // When a job starts all greet all: who answers late is busy, not dead. The other end of a pair of
  // sockets is the agent, or its child, which may be starting.
  const bool known = plan_.secret || plan_.origin == Origin::adopted;
  if (known && state_ == State::opening) {
    lane.deadline_ms = std::max(lane.deadline_ms, open_until_ms_);
  }
  lane.connection = std::move(connection);
  lane.connection->start(*this);
  schemas::Hello hello;
  hello.job = plan_.self.job;
  hello.generation = plan_.self.generation;
  hello.actor = plan_.self.actor;
  hello.name = plan_.self.name;
  hello.channel = index == 0 ? schemas::Channel::control : schemas::Channel::data;
  hello.token = plan_.token;
  hello.lane = static_cast<std::uint32_t>(index);
  hello.lanes = static_cast<std::uint32_t>(lanes_.size());
  hello.resume = state_ == State::up;
  if (plan_.secret) {
    hello.nonce = base::random_secret();
    lane.hello = hello;
  }
  lane.connection->write({make_own_frame(plan_.self, std::move(hello))}, lane.taken());
}

void LinkCore::adopt(std::shared_ptr<Connection> connection, bool speak) {
  open_until_ms_ = now_ms() + signed_ms(context_->limits.start_ms);
  if (speak) return greet(0, std::move(connection));
  lanes_[0].deadline_ms = open_until_ms_;
  lanes_[0].connection = std::move(connection);
  lanes_[0].connection->start(*this);
}

/// The first frame on a connection that this end has dialed or adopted.
Status LinkCore::on_greeting(std::size_t index, const FrameHead& head,
                             std::span<const std::byte> header) {
  if (head.type == kBareAck) {
    return fatal(base::error(Errc::data_loss, "[link] an acknowledgement before the greeting"));
  }
  auto opened = open_frame(head, header);
  if (!opened.ok()) return fatal(opened.status());
  if (const auto* reply = std::get_if<schemas::HelloReply>(&opened->message)) {
    return on_reply(index, *reply, head.acknowledged);
  }
  if (const auto* challenge = std::get_if<schemas::Challenge>(&opened->message)) {
    return on_challenge(lanes_[index], *challenge);
  }
  const auto* hello = std::get_if<schemas::Hello>(&opened->message);
  if (hello != nullptr && plan_.origin == Origin::adopted) {
    return on_hello(*hello, head.acknowledged);
  }
  return fatal(base::error(Errc::data_loss, "[link] a {} before the greeting",
                           schemas::message_name(head.type)));
}

Status LinkCore::on_challenge(Lane& lane, const schemas::Challenge& challenge) {
  if (!lane.hello) return fatal(base::error(Errc::data_loss, "[link] a Challenge out of turn"));
  const Introduction introduction{*std::move(lane.hello), plan_.peer.actor, challenge.nonce};
  lane.hello.reset();
  lane.expected = make_proof(*plan_.secret, Side::accepting, introduction);
  const schemas::Proof proof{make_proof(*plan_.secret, Side::dialing, introduction)};
  lane.proof = make_own_frame(plan_.self, proof);
  write_proof(lane);
  return {};
}

/// Once the Hello is written.
void LinkCore::write_proof(Lane& lane) {
  if (lane.proof == nullptr || lane.connection->writing()) return;
  lane.connection->write({std::exchange(lane.proof, nullptr)}, lane.received);
}

/// A listener that proves nothing may sit on the port of one that has ended: it is nobody, and the
/// link goes on trying.
Status LinkCore::on_reply(std::size_t index, const schemas::HelloReply& reply,
                          std::uint64_t acknowledged) {
  if (reply.code == Errc::unavailable) return Status(reply.code, reply.text);
  if (reply.code != Errc::ok) return fatal(Status(reply.code, reply.text));
  const auto& expected = lanes_[index].expected;
  if (plan_.secret && !(expected && base::equal_in_constant_time(*expected, reply.proof))) {
    return base::error(Errc::permission_denied,
                       "[link] who listens there does not prove the job's secret");
  }
  TROUPE_TRY(check_listener(*lanes_[index].connection));
  TROUPE_TRY(acknowledge(lanes_[index], acknowledged));
  open_lane(index);
  return {};
}

/// Under TLS whoever listens must be whom this link is for.
Status LinkCore::check_listener(const Connection& connection) const {
  if (plan_.origin != Origin::dialed) return {};
  const LinkEnd wanted{plan_.peer.actor, plan_.peer.name, plan_.self.job, plan_.self.generation};
  return context_->check_peer(connection, wanted);
}

void LinkCore::check_revoked() {
  if (is_down() || context_->tls == nullptr) return;
  for (const Lane& lane : lanes_) {
    if (lane.connection == nullptr || lane.connection->peer() == nullptr) continue;
    const Status status = context_->tls->check_revoked(*lane.connection->peer());
    if (!status.ok()) return go_down(lost(status));
  }
}

void LinkCore::dial_anew() {
  if (plan_.origin != Origin::dialed) return;
  const Status why = base::error(Errc::unavailable, "this end has a new certificate to show");
  for (std::size_t i = 0; i < lanes_.size() && !is_down(); ++i) {
    if (lanes_[i].connection != nullptr) lane_failed(i, why, false);
  }
}

Status LinkCore::on_hello(const schemas::Hello& hello, std::uint64_t acknowledged) {
  if (hello.protocol != schemas::kProtocolVersion) {
    return fatal(base::error(Errc::version_mismatch,
                             "[link] {} speaks protocol version {}, this program {}",
                             end_of(hello).to_string(), hello.protocol, schemas::kProtocolVersion));
  }
  if (hello.lanes != 1 || hello.resume) {
    return fatal(base::error(Errc::data_loss, "[link] a Hello for another kind of link"));
  }
  {
    MutexLock lock(mutex_);
    peer_ = end_of(hello);
  }
  return attach(0, lanes_[0].connection, acknowledged, {});
}

Status LinkCore::attach(std::size_t index, std::shared_ptr<Connection> connection,
                        std::uint64_t acknowledged, schemas::HelloReply reply) {
  Lane& lane = lanes_[index];
  // The peer may notice a cut before this end does.
  if (lane.connection != connection) drop_lane(lane);
  TROUPE_TRY(acknowledge(lane, acknowledged));
  lane.connection = std::move(connection);
  lane.connection->set_owner(*this);
  if (lane.connection->peer() != nullptr) holder_until_ = lane.connection->peer()->until;
  lane.connection->write({make_own_frame(plan_.self, std::move(reply))}, lane.taken());
  open_lane(index);
  return {};
}

std::shared_ptr<HeaderBudget> LinkContext::budget_of(const trust::Identity& holder) {
  constexpr std::uint64_t kBytesMax = 16'777'216;
  std::erase_if(headers, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<HeaderBudget>& known = headers[holder.to_string()];
  auto budget = known.lock();
  if (budget == nullptr) {
    budget = std::make_shared<HeaderBudget>(kBytesMax, all_headers);
    known = budget;
  }
  return budget;
}

void LinkCore::open_lane(std::size_t index) {
  Lane& lane = lanes_[index];
  lane.open = true;
  if (index == 0) answered_ = lane.target;
  if (lane.receipts == nullptr) lane.receipts = make_receipts(index);
  lane.attempts = 0;
  lane.queue.rewind();
  lane.progress_ms = lane.spoken_ms = heard_ms_ = now_ms();
  arm_ack_timer(lane);
  lane.connection->set_limits(lane_limits(context_->limits, index));
  if (plan_.holder && !plan_.secret) {
    lane.connection->set_budget(context_->budget_of(*plan_.holder));
  }
  if (index > 0) lane.connection->keep_unsent_low();
  const bool all = std::all_of(lanes_.begin(), lanes_.end(), [](const Lane& l) { return l.open; });
  if (!all) {
    // The control connection makes the link known; now the others may come.
    if (plan_.origin == Origin::dialed && index == 0 && state_ == State::opening) {
      for (std::size_t other = 1; other < lanes_.size(); ++other) dial_lane(other);
    }
    if (state_ == State::up) pump(lane);
    return;
  }
  if (state_ == State::opening) {
    state_ = State::up;
    handler_->on_up();
  } else if (interrupted_) {
    interrupted_ = false;
    counters_.resumes += 1;
    handler_->on_resumed();
  }
  pump_all();
  if (closing_) say_goodbye_when_idle();
}

// ---- faults ----

void LinkCore::on_fault(Connection& connection, const Status& reason) {
  const std::size_t index = lane_of(connection);
  if (fatal_ || reason.code() == Errc::version_mismatch) return go_down(lost(reason));
  // Who shows wrong certificates is nobody, like a listener without the secret; where there is none
  // it is said at once.
  const bool opening = plan_.origin == Origin::dialed && state_ == State::opening;
  if (reason.code() == Errc::permission_denied && opening && !plan_.secret) {
    return go_down(lost(reason));
  }
  if (reason.code() == Errc::data_loss && ++faults_ >= kFaultsMax) return go_down(lost(reason));
  lane_failed(index, reason, false);
}

/// `hopeless`: nobody listens there.
void LinkCore::lane_failed(std::size_t index, const Status& reason, bool hopeless) {
  Lane& lane = lanes_[index];
  drop_lane(lane);
  if (state_ == State::up) return interrupted(index, reason, hopeless);
  // The peer dials again; tick() bounds how long that may take.
  if (plan_.origin == Origin::accepted) return;
  const std::int64_t again_ms = now_ms() + retry_pause_ms(lane.attempts);
  if (plan_.origin != Origin::dialed || again_ms > open_until_ms_) return go_down(lost(reason));
  lane.dial_at_ms = again_ms;
}

void LinkCore::interrupted(std::size_t index, const Status& reason, bool hopeless) {
  const bool nothing_owed =
      std::all_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.queue.idle(); });
  if (closing_ && nothing_owed) return go_down({});
  if (plan_.origin == Origin::adopted || hopeless) return go_down(lost(reason));
  if (!interrupted_) {
    interrupted_ = true;
    heal_until_ms_ = now_ms() + signed_ms(context_->limits.silence_dead_ms);
    cut_reason_ = lost(reason);
    context_->hurry();
    handler_->on_interrupted(cut_reason_);
  }
  lanes_[index].dial_at_ms = now_ms() + retry_pause_ms(lanes_[index].attempts);
}

/// Doubles from retry_first_ms to retry_most_ms; the upper half is spread, so that many links that
/// were cut together do not return together.
std::int64_t LinkCore::retry_pause_ms(unsigned attempts) const {
  constexpr unsigned kDoublingsMax = 20;
  const std::uint64_t doubled = context_->limits.retry_first_ms
                                << std::min(attempts, kDoublingsMax);
  // Also with a short patience there are several tries in it.
  const std::uint64_t most =
      std::min(context_->limits.retry_most_ms, context_->limits.silence_dead_ms / kTriesLeast + 1);
  const std::uint64_t pause = std::min(doubled, most);
  const std::uint64_t spread =
      base::hash64(std::to_string(attempts), plan_.token) % (pause / 2 + 1);
  return signed_ms(pause - spread);
}

// ---- time ----

void LinkCore::tick(std::int64_t now_ms) {
  for (std::size_t i = 0; i < lanes_.size() && !is_down(); ++i) tick_lane(i, now_ms);
  if (is_down()) return;
  if (closing_ && now_ms >= close_until_ms_) {
    std::uint64_t left = 0;
    for (const Lane& lane : lanes_) left += lane.queue.held().messages;
    if (left == 0) return go_down({});
    return go_down(
        lost(base::error(Errc::unavailable, "closed with {} messages unacknowledged", left)));
  }
  if (state_ == State::up) return tick_up(now_ms);
  if (plan_.origin != Origin::dialed && now_ms >= open_until_ms_) {
    go_down(lost(base::error(Errc::deadline_exceeded, "no greeting in time")));
  }
}

void LinkCore::tick_lane(std::size_t index, std::int64_t now_ms) {
  Lane& lane = lanes_[index];
  const base::Limits& limits = context_->limits;
  if (lane.open) {
    // A role may be slow to take what has come; the peer learns that the lane is whole.
    if (lane.receipts->held_bytes() > 0 && now_ms - lane.spoken_ms >= signed_ms(limits.ping_ms)) {
      lane.ack_due = true;
      pump(lane);
    }
    const std::int64_t quiet_ms = now_ms - lane.progress_ms;
    if (!lane.queue.in_flight() || quiet_ms < signed_ms(limits.progress_ms)) return;
    return lane_failed(
        index, base::error(Errc::deadline_exceeded, "no acknowledgement for {} ms", quiet_ms),
        false);
  }
  if (plan_.origin == Origin::accepted) return;
  if (lane.looking || lane.dialing != nullptr || lane.connection != nullptr) {
    if (now_ms < lane.deadline_ms) return;
    if (std::exchange(lane.looking, false)) {
      return found(index, context_->resolver.last(address_.host, limits.resolve_ms));
    }
    const Status late = base::error(Errc::deadline_exceeded, "no answer in time");
    if (lane.dialing != nullptr) return on_dialed(index, late, false);
    return lane_failed(index, late, false);
  }
  // Data connections wait until the control connection has made the link known.
  const bool its_turn = index == 0 || lanes_[0].open || state_ == State::up;
  if (plan_.origin == Origin::dialed && its_turn && now_ms >= lane.dial_at_ms) dial_lane(index);
}

void LinkCore::tick_up(std::int64_t now_ms) {
  const base::Limits& limits = context_->limits;
  if (interrupted_ && now_ms >= heal_until_ms_) return go_down(cut_reason_);
  if (unheard_ && now_ms >= open_until_ms_) {
    if (interrupted_) return go_down(cut_reason_);
    return go_down(lost(base::error(Errc::deadline_exceeded, "said nothing but Hello for {} ms",
                                    limits.handshake_ms)));
  }
  const std::int64_t silent_ms = now_ms - heard_ms_;
  if (silent_ms >= signed_ms(limits.silence_dead_ms)) {
    if (interrupted_) return go_down(cut_reason_);
    return go_down(lost(base::error(Errc::deadline_exceeded, "silent for {} ms", silent_ms)));
  }
  Lane& control = lanes_[0];
  // A firewall may have forgotten a connection that carries nothing: a new one may come through.
  const bool asked = pinged_ms_ > heard_ms_;
  if (asked && control.open && plan_.origin == Origin::dialed &&
      now_ms - asked_ms_ >= signed_ms(limits.progress_ms)) {
    return lane_failed(0, base::error(Errc::deadline_exceeded, "silent for {} ms", silent_ms),
                       false);
  }
  const bool due =
      silent_ms >= signed_ms(limits.ping_ms) && now_ms - pinged_ms_ >= signed_ms(limits.ping_ms);
  if (!due || !control.open || !control.urgent.empty()) return;
  if (!asked) asked_ms_ = now_ms;
  pinged_ms_ = now_ms;
  control.urgent.push_back(make_own_frame(plan_.self, schemas::Ping{++pings_}));
  pump(control);
}

void LinkCore::say_goodbye_when_idle() {
  if (state_ != State::up || goodbye_sent_ || is_down()) return;
  for (const Lane& lane : lanes_) {
    if (!lane.open || !lane.queue.idle()) return;
  }
  goodbye_sent_ = true;
  lanes_[0].urgent.push_back(make_own_frame(plan_.self, schemas::Goodbye{goodbye_text_}));
  pump(lanes_[0]);
}

}  // namespace troupe::link
