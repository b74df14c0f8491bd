// SPDX-License-Identifier: Apache-2.0
// Frames read from a carrier and written to it.
#include "link/connection.h"

#include <utility>

namespace troupe::link {
namespace {

using base::Errc;
using base::Status;

/// Heads and headers are read in pieces of this size; of a payload at most this much is copied.
constexpr std::size_t kStagingBytes = 32'768;

}  // namespace

Connection::Connection(std::shared_ptr<Carrier> carrier, FrameLimits limits)
    : carrier_(std::move(carrier)), decoder_(limits, *this), staging_(kStagingBytes) {
  if (carrier_->seals()) decoder_.trust_payloads();
}

void Connection::start(Owner& owner) {
  owner_ = &owner;
  read();
}

void Connection::read() {
  // The rest of a payload goes to its place; what comes behind it begins the next frame.
  const auto direct = dropping_ ? std::span<std::byte>{} : decoder_.direct();
  direct_ = direct.size();
  reading_ = true;
  carrier_->receive(direct, staging_,
                    [self = shared_from_this()](const Status& status, std::size_t bytes) {
                      self->reading_ = false;
                      if (self->owner_ == nullptr) return;
                      if (!status.ok()) return self->fault(status);
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
  std::vector<std::span<const std::byte>> pieces;
  pieces.reserve(3 * frames.size());
  for (OutgoingPtr& message : frames) {
    const auto header = std::as_bytes(std::span(message->header));
    FrameHead head = message->head;
    head.acknowledged = acknowledged;
    batch_.push_back({encode_frame_head(head, header), std::move(message)});
    const Frame& frame = batch_.back();
    pieces.emplace_back(frame.head);
    if (!header.empty()) pieces.push_back(header);
    const base::Buffer& payload = frame.message->payload;
    if (!payload.empty()) pieces.emplace_back(payload.data(), payload.size());
  }
  const auto self = shared_from_this();
  carrier_->send(
      std::move(pieces),
      [self] {
        if (self->owner_ != nullptr) self->owner_->on_progress(*self, 0);
        return self->owner_ != nullptr;
      },
      [self](const Status& status) {
        self->batch_.clear();
        // A broken carrier is reported by the reading side, after what has come.
        if (status.ok() && self->owner_ != nullptr) self->owner_->on_written(*self);
      });
}

void Connection::finish() {
  dropping_ = true;
  carrier_->finish();
  if (!reading_) read();
}

void Connection::close() {
  owner_ = nullptr;
  carrier_->close();
}

}  // namespace troupe::link
