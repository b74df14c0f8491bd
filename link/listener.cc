// SPDX-License-Identifier: Apache-2.0
// Accepting and greeting.
#include "link/listener.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "base/crowd.h"
#include "base/listening.h"
#include "link/handshake.h"

namespace troupe::link {

using base::Address;
using base::Errc;
using base::Result;
using base::Status;

namespace {

/// On a port of IPv6 and IPv4 whoever calls by IPv4 has its own number all the same.
std::string number_of(const asio::ip::address& peer) {
  if (!peer.is_v6() || !peer.to_v6().is_v4_mapped()) return peer.to_string();
  return asio::ip::make_address_v4(asio::ip::v4_mapped, peer.to_v6()).to_string();
}

}  // namespace

/// A connection whose Hello or proof has not come, or that is being refused.
class Listener::Pending final : public Connection::Owner,
                                public std::enable_shared_from_this<Pending> {
 public:
  Pending(Listener& listener, std::shared_ptr<Connection> connection, const Address& peer,
          std::int64_t deadline_ms)
      : listener_(listener), crowd_(base::crowd_of(peer.host)), deadline_ms_(deadline_ms) {
    greeted_.connection = std::move(connection);
    greeted_.address = peer.to_string();
  }
  const std::string& crowd() const { return crowd_; }
  /// It has said something.
  bool heard() const { return received_ > 0; }

  void start() { greeted_.connection->start(*this); }
  void close() { greeted_.connection->close(); }
  /// Gives up on a peer that has not greeted; one that was refused knows why.
  void give_up(std::string_view why) {
    if (stage_ != Stage::refused) note(fmt::format("{}, {} bytes came", why, received_));
    close();
  }
  bool late(std::int64_t now_ms) const { return now_ms >= deadline_ms_; }

  Result<base::Buffer> place_payload(Connection&, const FrameHead&,
                                     std::span<const std::byte>) override {
    return base::error(Errc::data_loss, "[listener] a payload before the greeting");
  }

  Status on_frame(Connection&, const FrameHead& head, std::span<const std::byte> header,
                  base::Buffer) override {
    if (stage_ == Stage::refused) return {};
    const bool expected =
        (stage_ == Stage::hello && head.type == schemas::type_of<schemas::Hello>()) ||
        (stage_ == Stage::proof && head.type == schemas::type_of<schemas::Proof>());
    if (!expected) {
      return base::error(Errc::data_loss, "[listener] a {} before the greeting",
                         schemas::message_name(head.type));
    }
    TROUPE_TRY_ASSIGN(const auto envelope, open_frame(head, header));
    if (stage_ == Stage::proof) {
      proof_ = std::get<schemas::Proof>(envelope.message).proof;
      stage_ = Stage::decision;
    } else {
      greeted_.hello = std::get<schemas::Hello>(envelope.message);
      greeted_.acknowledged = head.acknowledged;
      stage_ = listener_.secret_ ? Stage::proof : Stage::decision;
      if (stage_ == Stage::proof) challenge();
    }
    go_on();
    return {};
  }

  void on_progress(Connection&, std::size_t received) override { received_ += received; }
  void on_written(Connection&) override { go_on(); }

  void on_fault(Connection&, const Status& reason) override {
    // A peer of another version learns why; a stranger's bytes get no answer.
    if (reason.code() == Errc::version_mismatch && stage_ != Stage::refused) {
      refuse(reason, reason);
      return go_on();
    }
    if (reason.code() != Errc::unavailable) {
      note(reason.text());
    } else if (stage_ != Stage::refused && received_ > 0) {
      note(fmt::format("it went after {} bytes of its greeting", received_));
    }
    const auto self = shared_from_this();
    close();
    listener_.remove(this);
  }

 private:
  enum class Stage : std::uint8_t {
    hello,     // waited for
    proof,     // waited for
    decision,  // as soon as what was written has left
    decided,   // the connection is another's
    refused    // the peer is told why
  };

  /// Whoever the peer is, right or wrong: it learns nothing of this end before its proof.
  void challenge() {
    challenge_ = base::random_secret();
    write(schemas::Challenge{challenge_});
  }

  /// One frame is written at a time, however fast the peer sends.
  void go_on() {
    const auto self = shared_from_this();
    if (greeted_.connection->writing()) return;
    if (stage_ == Stage::decision) decide();
    if (stage_ != Stage::refused || greeted_.connection->writing()) return;
    if (refusal_) {
      write(*std::exchange(refusal_, std::nullopt));
    } else {
      greeted_.connection->finish();
    }
  }

  void decide() {
    const Status proved = check_proof();
    if (!proved.ok()) {
      return refuse(proved, base::error(Errc::permission_denied,
                                        "[link] the Hello does not prove the job's secret"));
    }
    const Status status = listener_.admit_(greeted_);
    if (!status.ok()) return refuse(status, status);
    stage_ = Stage::decided;
    listener_.remove(this);  // the connection is the link's now
  }

  /// Makes this end's own proof, too.
  Status check_proof() {
    if (!listener_.secret_) return {};
    const Introduction introduction{greeted_.hello, listener_.self_.actor, challenge_};
    const auto expected = make_proof(*listener_.secret_, Side::dialing, introduction);
    if (base::equal_in_constant_time(expected, proof_)) {
      greeted_.reply.proof = make_proof(*listener_.secret_, Side::accepting, introduction);
      return {};
    }
    const schemas::Hello& hello = greeted_.hello;
    return base::error(Errc::permission_denied,
                       "it says that it is {} of job '{}' generation {} and does not prove it",
                       end_of(hello).to_string(), hello.job, hello.generation);
  }

  /// `why` for the log, `told` for the peer.
  void refuse(const Status& why, const Status& told) {
    stage_ = Stage::refused;
    note(why.text());
    refusal_.emplace();
    refusal_->code = told.code();
    refusal_->text = told.text();
  }

  void write(schemas::Message message) {
    const LinkEnd self = listener_.secret_ ? LinkEnd{} : listener_.self_;
    greeted_.connection->write({make_own_frame(self, std::move(message))}, 0);
  }

  void note(std::string_view why) { listener_.note(greeted_.address, why); }

  Listener& listener_;
  const std::string crowd_;
  Greeted greeted_;
  const std::int64_t deadline_ms_;
  Stage stage_ = Stage::hello;
  base::Secret challenge_{};
  base::Sha256Digest proof_{};
  std::optional<schemas::HelloReply> refusal_;  ///< not yet written
  std::size_t received_ = 0;
};

Listener::Listener(std::shared_ptr<LinkContext> context, LinkEnd self,
                   std::optional<base::Secret> secret, Admit admit)
    : context_(std::move(context)),
      self_(std::move(self)),
      secret_(secret),
      admit_(std::move(admit)),
      acceptor_(context_->io) {}

Result<Address> Listener::open(const Address& address) {
  asio::error_code error;
  const auto ip = asio::ip::make_address(address.host, error);
  const asio::ip::tcp::endpoint endpoint(ip, address.port);
  if (!error) acceptor_.open(endpoint.protocol(), error);
  if (!error) {
    ::fcntl(acceptor_.native_handle(), F_SETFD, FD_CLOEXEC);
    acceptor_.set_option(asio::socket_base::reuse_address(true), error);
  }
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    return base::error(base::errc_of_listening(error.value()),
                       "[listener] {} cannot listen on {}: {}", self_.to_string(),
                       address.to_string(), error.message());
  }
  return Address{address.host, acceptor_.local_endpoint(error).port()};
}

void Listener::accept() {
  acceptor_.async_accept(
      [self = shared_from_this()](const asio::error_code& error, asio::ip::tcp::socket socket) {
        if (!self->acceptor_.is_open()) return;
        if (error) {
          // Out of descriptors or memory: existing links go on, new ones wait for the next tick.
          self->paused_ = true;
          self->log_.warn(self->context_->clock.now_ms(),
                          fmt::format("accepting connections failed: {}", error.message()));
          return;
        }
        asio::error_code gone;  // then the peer has no address any more
        const auto peer = socket.remote_endpoint(gone);
        self->add(std::move(socket), Address{number_of(peer.address()), peer.port()});
        self->accept();
      });
}

/// Of those who have not greeted one gives way, and first of all one that has said nothing.
void Listener::make_room() {
  const std::size_t room = context_->limits.pending_connections_max;
  if (pending_.size() < room) return;
  std::vector<base::Waiting> waiting;
  for (const auto& pending : pending_) {
    waiting.push_back({pending->crowd(), pending->heard() ? 1U : 0U});
  }
  const auto victim = base::who_gives_way(waiting, room);
  if (!victim) return;
  const auto it = std::next(pending_.begin(), static_cast<std::ptrdiff_t>(*victim));
  (*it)->give_up(fmt::format("{} connections wait to greet", pending_.size()));
  pending_.erase(it);
}

void Listener::add(Socket socket, const Address& peer) {
  make_room();
  prepare_socket(socket, context_->limits);
  auto connection =
      std::make_shared<Connection>(context_->make_carrier(std::move(socket), TlsEnd::accepting),
                                   greeting_limits(context_->limits));
  const std::int64_t deadline_ms =
      context_->clock.now_ms() + static_cast<std::int64_t>(context_->limits.handshake_ms);
  pending_.push_back(std::make_shared<Pending>(*this, std::move(connection), peer, deadline_ms));
  pending_.back()->start();
}

void Listener::note(const std::string& peer, std::string_view why) {
  log_.warn(context_->clock.now_ms(),
            fmt::format("{} turned away {}: {}", self_.to_string(), peer, why));
}

void Listener::remove(const Pending* pending) {
  pending_.remove_if([pending](const auto& each) { return each.get() == pending; });
}

void Listener::tick(std::int64_t now_ms) {
  while (!pending_.empty() && pending_.front()->late(now_ms)) {
    pending_.front()->give_up(
        fmt::format("no greeting within {} ms", context_->limits.handshake_ms));
    pending_.pop_front();
  }
  if (!paused_) return;
  paused_ = false;
  accept();
}

void Listener::close() {
  asio::error_code ignored;
  acceptor_.close(ignored);
  for (const auto& pending : pending_) pending->close();
  pending_.clear();
}

}  // namespace troupe::link
