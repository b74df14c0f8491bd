// SPDX-License-Identifier: Apache-2.0
// Frames of envelopes and of the link itself.
#include "link/link_frames.h"

#include <algorithm>

#include "base/hash.h"
#include "schemas/codec.h"

namespace troupe::link {

using base::Errc;
using base::Result;
using schemas::Envelope;

Result<OutgoingPtr> make_frame(Envelope envelope, const base::Limits& limits, Checksum checksum) {
  auto frame = std::make_shared<Outgoing>();
  TROUPE_TRY_ASSIGN(frame->header, schemas::encode_envelope(envelope));
  frame->slice = schemas::slice_of(envelope.message);
  frame->traffic = traffic_of(envelope.message);
  const std::string_view name = schemas::message_name(envelope.message.index());
  const std::uint64_t header_max =
      frame->slice ? limits.data_header_bytes_max : limits.control_header_bytes_max;
  if (frame->header.size() > header_max) {
    return base::error(Errc::invalid_argument,
                       "[link] a {} with a header of {} bytes; the limit is {}", name,
                       frame->header.size(), header_max);
  }
  if (envelope.payload.size() > limits.payload_bytes_max) {
    return base::error(Errc::invalid_argument,
                       "[link] a {} with a payload of {} bytes; the limit is {}", name,
                       envelope.payload.size(), limits.payload_bytes_max);
  }
  TROUPE_CHECK(envelope.payload.empty() || envelope.payload.device().host_memory(),
               "a payload in device memory on a link");
  frame->payload = std::move(envelope.payload);
  FrameHead& head = frame->head;
  head.type = static_cast<std::uint16_t>(envelope.message.index());
  head.job_hash = base::hash64(envelope.job);
  head.generation = envelope.generation;
  head.view = envelope.view;
  head.header_bytes = static_cast<std::uint32_t>(frame->header.size());
  head.payload_bytes = static_cast<std::uint32_t>(frame->payload.size());
  if (checksum == Checksum::said) {
    head.payload_checksum = base::crc32c({frame->payload.data(), frame->payload.size()});
  }
  return frame;
}

OutgoingPtr make_own_frame(const LinkEnd& self, schemas::Message message) {
  Envelope envelope;
  envelope.job = self.job;
  envelope.generation = self.generation;
  envelope.from = self.actor;
  envelope.message = std::move(message);
  auto frame = make_frame(std::move(envelope), base::Limits{}, Checksum::none);  // no payload
  TROUPE_CHECK(frame.ok(), frame.status().to_string());
  return *std::move(frame);
}

OutgoingPtr make_bare_ack() {
  auto frame = std::make_shared<Outgoing>();
  frame->head.type = kBareAck;
  return frame;
}

Result<Envelope> open_frame(const FrameHead& head, std::span<const std::byte> header) {
  TROUPE_TRY_ASSIGN(auto envelope, schemas::decode_envelope(header));
  const bool agrees = envelope.message.index() == head.type &&
                      base::hash64(envelope.job) == head.job_hash &&
                      envelope.generation == head.generation && envelope.view == head.view;
  if (!agrees) {
    return base::error(Errc::data_loss, "[frame] head and header of a {} contradict each other",
                       schemas::message_name(envelope.message.index()));
  }
  return envelope;
}

FrameLimits greeting_limits(const base::Limits& limits) {
  return {limits.hello_bytes_max, 0};
}

FrameLimits lane_limits(const base::Limits& limits, std::size_t lane) {
  return {lane == 0 ? limits.control_header_bytes_max : limits.data_header_bytes_max,
          limits.payload_bytes_max};
}

bool belongs_to_links(const schemas::Message& message) {
  switch (message.index()) {
    case schemas::type_of<schemas::Hello>():
    case schemas::type_of<schemas::HelloReply>():
    case schemas::type_of<schemas::Ping>():
    case schemas::type_of<schemas::Pong>():
    case schemas::type_of<schemas::Goodbye>():
    case schemas::type_of<schemas::Challenge>():
    case schemas::type_of<schemas::Proof>():
      return true;
    default:
      return false;
  }
}

LinkEnd end_of(const schemas::Hello& hello) {
  return {hello.actor, hello.name, hello.job, hello.generation};
}

}  // namespace troupe::link
