// SPDX-License-Identifier: Apache-2.0
// The plain carrier: Asio's scatter reads and gather writes.
#include "link/carrier.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <asio/buffer.hpp>
#include <asio/write.hpp>

namespace troupe::link {
namespace {

using base::Errc;
using base::Status;

/// One system call writes at most this much.
constexpr std::size_t kWriteBytes = 4'194'304;
constexpr int kUnsentBytes = 262'144;

Status status_of(const asio::error_code& error) {
  if (!error) return {};
  return Status(Errc::unavailable,
                error == asio::error::eof ? "connection closed" : error.message());
}

class PlainCarrier final : public Carrier, public std::enable_shared_from_this<PlainCarrier> {
 public:
  explicit PlainCarrier(Socket socket) : socket_(std::move(socket)) {}

  void receive(std::span<std::byte> first, std::span<std::byte> second,
               Received received) override {
    const std::array<asio::mutable_buffer, 2> places = {asio::buffer(first.data(), first.size()),
                                                        asio::buffer(second.data(), second.size())};
    socket_.async_read_some(places, [self = shared_from_this(), received = std::move(received)](
                                        const asio::error_code& error, std::size_t bytes) {
      if (self->open_) received(status_of(error), bytes);
    });
  }

  void send(std::vector<std::span<const std::byte>> pieces, Progress progress, Sent sent) override {
    std::vector<asio::const_buffer> buffers;
    buffers.reserve(pieces.size());
    for (const auto& piece : pieces) buffers.push_back(asio::buffer(piece.data(), piece.size()));
    // Asked before each system call: how many bytes it may take.
    auto condition = [self = shared_from_this(), progress = std::move(progress)](
                         const asio::error_code& error, std::size_t) {
      if (error || !self->open_ || !progress()) return std::size_t{0};
      return kWriteBytes;
    };
    // `sent` is kept where nothing is called back, too: it owns the bytes.
    asio::async_write(socket_, std::move(buffers), std::move(condition),
                      [self = shared_from_this(), sent = std::move(sent)](
                          const asio::error_code& error, std::size_t) {
                        if (self->open_) sent(status_of(error));
                      });
  }

  void bound_unsent() override {
    // Fails harmlessly where the socket is no TCP socket.
    ::setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytes,
                 sizeof kUnsentBytes);
  }

  void finish() override {
    asio::error_code ignored;
    socket_.shutdown(Socket::shutdown_send, ignored);
  }

  void close() override {
    open_ = false;
    asio::error_code ignored;
    socket_.close(ignored);
  }

  const Tls::Peer* peer() const override { return nullptr; }
  bool seals() const override { return false; }

 private:
  Socket socket_;
  bool open_ = true;
};

}  // namespace

std::shared_ptr<Carrier> make_plain_carrier(Socket socket) {
  return std::make_shared<PlainCarrier>(std::move(socket));
}

}  // namespace troupe::link
