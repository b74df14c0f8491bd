// SPDX-License-Identifier: Apache-2.0
// Accepting and greeting.
#include "link/listener.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>

namespace troupe::link {

using base::Address;
using base::Errc;
using base::Result;
using base::Status;

/// A connection whose Hello has not come, or that is being refused.
class Listener::Pending final : public Connection::Owner,
                                public std::enable_shared_from_this<Pending> {
 public:
  Pending(Listener& listener, std::shared_ptr<Connection> connection, std::string peer,
          std::int64_t deadline_ms)
      : listener_(listener),
        connection_(std::move(connection)),
        peer_(std::move(peer)),
        deadline_ms_(deadline_ms) {}

  void start() { connection_->start(*this); }
  void close() { connection_->close(); }
  /// Gives up on a peer that has not greeted; one that was refused knows why.
  void give_up(std::string_view why) {
    if (!refused_) listener_.note(peer_, fmt::format("{}, {} bytes came", why, received_));
    close();
  }
  bool late(std::int64_t now_ms) const { return now_ms >= deadline_ms_; }

  Result<base::Buffer> place_payload(Connection&, const FrameHead&,
                                     std::span<const std::byte>) override {
    return base::error(Errc::data_loss, "[listener] a payload before the greeting");
  }

  Status on_frame(Connection&, const FrameHead& head, std::span<const std::byte> header,
                  base::Buffer) override {
    if (refused_) return {};
    if (head.type != schemas::type_of<schemas::Hello>()) {
      return base::error(Errc::data_loss, "[listener] a frame before the greeting");
    }
    TROUPE_TRY_ASSIGN(const auto envelope, open_frame(head, header));
    const auto& hello = std::get<schemas::Hello>(envelope.message);
    const auto self = shared_from_this();
    const Status status = listener_.admit_(connection_, hello, head.acknowledged);
    if (status.ok()) {
      listener_.remove(this);  // the connection is the link's now
    } else {
      refuse(status);
    }
    return {};
  }

  void on_progress(Connection&, std::size_t received) override { received_ += received; }
  void on_written(Connection&) override { connection_->finish(); }

  void on_fault(Connection&, const Status& reason) override {
    // A peer of another version learns why; a stranger's bytes get no answer.
    if (reason.code() == Errc::version_mismatch && !refused_) return refuse(reason);
    if (reason.code() != Errc::unavailable) {
      listener_.note(peer_, reason.text());
    } else if (!refused_ && received_ > 0) {
      listener_.note(peer_, fmt::format("it went after {} bytes of its Hello", received_));
    }
    const auto self = shared_from_this();
    connection_->close();
    listener_.remove(this);
  }

 private:
  void refuse(const Status& reason) {
    refused_ = true;
    listener_.note(peer_, reason.text());
    schemas::HelloReply reply;
    reply.code = reason.code();
    reply.text = reason.text();
    connection_->write({make_own_frame(listener_.self_, std::move(reply))}, 0);
  }

  Listener& listener_;
  std::shared_ptr<Connection> connection_;
  const std::string peer_;
  std::int64_t deadline_ms_;
  std::size_t received_ = 0;
  bool refused_ = false;
};

Listener::Listener(std::shared_ptr<LinkContext> context, LinkEnd self, Admit admit)
    : context_(std::move(context)),
      self_(std::move(self)),
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
    const bool in_use = error == asio::error::address_in_use;
    return base::error(in_use ? Errc::resource_exhausted : Errc::unavailable,
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
        self->add(std::move(socket), Address{peer.address().to_string(), peer.port()}.to_string());
        self->accept();
      });
}

void Listener::add(Socket socket, std::string peer) {
  // Honest peers greet within milliseconds, so whoever has waited longest gives way.
  if (pending_.size() >= context_->limits.pending_connections_max) {
    pending_.front()->give_up(fmt::format("{} connections wait to greet", pending_.size()));
    pending_.pop_front();
  }
  prepare_socket(socket, context_->limits);
  auto connection =
      std::make_shared<Connection>(std::move(socket), greeting_limits(context_->limits));
  const std::int64_t deadline_ms =
      context_->clock.now_ms() + static_cast<std::int64_t>(context_->limits.handshake_ms);
  pending_.push_back(
      std::make_shared<Pending>(*this, std::move(connection), std::move(peer), deadline_ms));
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
