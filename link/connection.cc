// SPDX-License-Identifier: Apache-2.0
// Scatter reads and gather writes of frames.
#include "link/connection.h"

#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <asio/buffer.hpp>
#include <asio/write.hpp>

namespace troupe::link {
namespace {

using base::Errc;
using base::Status;

/// Heads and headers are read in pieces of this size; of a payload at most this much is copied.
constexpr std::size_t kStagingBytes = 32'768;
/// One system call writes at most this much.
constexpr std::size_t kWriteBytes = 4'194'304;
constexpr int kUnsentBytes = 262'144;

}  // namespace

Connection::Connection(Socket socket, FrameLimits limits)
    : socket_(std::move(socket)), decoder_(limits, *this), staging_(kStagingBytes) {}

void Connection::start(Owner& owner) {
  owner_ = &owner;
  read();
}

void Connection::keep_unsent_low() {
  // Fails harmlessly where the socket is no TCP socket.
  ::setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytes,
               sizeof kUnsentBytes);
}

void Connection::read() {
  // The rest of a payload goes to its place; what comes behind it begins the next frame.
  const auto direct = dropping_ ? std::span<std::byte>{} : decoder_.direct();
  direct_ = direct.size();
  reading_ = true;
  const std::array<asio::mutable_buffer, 2> places = {asio::buffer(direct.data(), direct.size()),
                                                      asio::buffer(staging_)};
  socket_.async_read_some(
      places, [self = shared_from_this()](const asio::error_code& error, std::size_t bytes) {
        self->reading_ = false;
        if (self->owner_ == nullptr) return;
        if (error) {
          const std::string why = error == asio::error::eof ? "connection closed" : error.message();
          return self->fault(Status(Errc::unavailable, why));
        }
        self->take(bytes);
      });
}

void Connection::take(std::size_t bytes) {
  if (!dropping_) {
    owner_->on_progress(*this, bytes);
    const std::size_t placed = std::min(bytes, direct_);
    Status status = decoder_.filled(placed);
    if (status.ok()) status = decoder_.feed(std::span(staging_).first(bytes - placed));
    if (owner_ == nullptr) return;
    if (!status.ok()) return fault(status);
  }
  read();
}

void Connection::fault(const Status& reason) {
  const auto self = shared_from_this();  // the owner may drop us
  owner_->on_fault(*this, reason);
}

base::Result<base::Buffer> Connection::place_payload(const FrameHead& head,
                                                     std::span<const std::byte> header) {
  if (owner_ == nullptr) return base::error(Errc::cancelled, "connection closed here");
  return owner_->place_payload(*this, head, header);
}

Status Connection::on_frame(const FrameHead& head, std::span<const std::byte> header,
                            base::Buffer payload) {
  if (owner_ == nullptr) return base::error(Errc::cancelled, "connection closed here");
  if (dropping_) return {};
  return owner_->on_frame(*this, head, header, std::move(payload));
}

void Connection::write(std::vector<OutgoingPtr> frames, std::uint64_t acknowledged) {
  TROUPE_CHECK(batch_.empty(), "a write while another is under way");
  batch_.reserve(frames.size());
  std::vector<asio::const_buffer> pieces;
  pieces.reserve(3 * frames.size());
  for (OutgoingPtr& message : frames) {
    const auto header = std::as_bytes(std::span(message->header));
    FrameHead head = message->head;
    head.acknowledged = acknowledged;
    batch_.push_back({encode_frame_head(head, header), std::move(message)});
    const Frame& frame = batch_.back();
    pieces.push_back(asio::buffer(frame.head));
    if (!header.empty()) pieces.push_back(asio::buffer(header.data(), header.size()));
    const base::Buffer& payload = frame.message->payload;
    if (!payload.empty()) pieces.push_back(asio::buffer(payload.data(), payload.size()));
  }
  // Asked before each system call: how many bytes it may take.
  const auto progress = [self = shared_from_this()](const asio::error_code& error, std::size_t) {
    if (error || self->owner_ == nullptr) return std::size_t{0};
    self->owner_->on_progress(*self, 0);
    return kWriteBytes;
  };
  asio::async_write(socket_, std::move(pieces), progress,
                    [self = shared_from_this()](const asio::error_code& error, std::size_t) {
                      self->batch_.clear();
                      // A broken connection is reported by the read side, after what has come.
                      if (!error && self->owner_ != nullptr) self->owner_->on_written(*self);
                    });
}

void Connection::finish() {
  dropping_ = true;
  asio::error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  if (!reading_) read();
}

void Connection::close() {
  owner_ = nullptr;
  asio::error_code ignored;
  socket_.close(ignored);
}

}  // namespace troupe::link
