// SPDX-License-Identifier: Apache-2.0
// Head codec and incremental decoder of frames.
#include "link/frame.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/hash.h"
#include "schemas/codec.h"

namespace troupe::link {
namespace {

using base::Errc;
using base::Status;

static_assert(std::endian::native == std::endian::little, "heads are copied as they are");

// Places in the head.
constexpr std::size_t kVersionAt = 4;
constexpr std::size_t kTypeAt = 6;
constexpr std::size_t kJobHashAt = 8;
constexpr std::size_t kGenerationAt = 16;
constexpr std::size_t kViewAt = 24;
constexpr std::size_t kSequenceAt = 32;
constexpr std::size_t kAcknowledgedAt = 40;
constexpr std::size_t kHeaderBytesAt = 48;
constexpr std::size_t kPayloadBytesAt = 52;
constexpr std::size_t kPayloadChecksumAt = 56;
constexpr std::size_t kHeaderChecksumAt = 60;
/// Magic, version and type: enough to refuse a stranger.
constexpr std::size_t kPreambleBytes = 8;
/// What a refusal in TLS begins with.
constexpr std::size_t kAlertBytes = 2;
/// What a connection keeps for the next header; rare larger ones are given back.
constexpr std::size_t kKeptHeaderBytes = 65'536;

using HeadBytes = std::array<std::byte, kFrameHeadBytes>;

template <typename Number>
void put(HeadBytes& out, std::size_t at, Number number) {
  std::memcpy(out.data() + at, &number, sizeof number);
}

template <typename Number>
void get(const HeadBytes& in, std::size_t at, Number& number) {
  std::memcpy(&number, in.data() + at, sizeof number);
}

std::uint32_t checksum_of(const HeadBytes& head, std::span<const std::byte> header) {
  return base::crc32c(header, base::crc32c(std::span(head).first(kHeaderChecksumAt)));
}

FrameHead decode_head(const HeadBytes& in) {
  FrameHead head;
  get(in, kVersionAt, head.version);
  get(in, kTypeAt, head.type);
  get(in, kJobHashAt, head.job_hash);
  get(in, kGenerationAt, head.generation);
  get(in, kViewAt, head.view);
  get(in, kSequenceAt, head.sequence);
  get(in, kAcknowledgedAt, head.acknowledged);
  get(in, kHeaderBytesAt, head.header_bytes);
  get(in, kPayloadBytesAt, head.payload_bytes);
  get(in, kPayloadChecksumAt, head.payload_checksum);
  return head;
}

}  // namespace

HeadBytes encode_frame_head(const FrameHead& head, std::span<const std::byte> header) {
  HeadBytes out{};
  put(out, 0, kFrameMagic);
  put(out, kVersionAt, head.version);
  put(out, kTypeAt, head.type);
  put(out, kJobHashAt, head.job_hash);
  put(out, kGenerationAt, head.generation);
  put(out, kViewAt, head.view);
  put(out, kSequenceAt, head.sequence);
  put(out, kAcknowledgedAt, head.acknowledged);
  put(out, kHeaderBytesAt, head.header_bytes);
  put(out, kPayloadBytesAt, head.payload_bytes);
  put(out, kPayloadChecksumAt, head.payload_checksum);
  put(out, kHeaderChecksumAt, checksum_of(out, header));
  return out;
}

std::string_view name_http(std::string_view first) {
  if (first == "HTTP") return "an HTTP server answers there, nothing of Troupe's";
  if (first == "GET " || first == "HEAD" || first == "POST" || first == "PUT ") {
    return "an HTTP request; this port is for Troupe's links";
  }
  return "";
}

bool HeaderBudget::take(std::uint64_t bytes) {
  if (bytes > bytes_max_ - taken_ || (all_ && !all_->take(bytes))) return false;
  taken_ += bytes;
  return true;
}

void HeaderBudget::give_back(std::uint64_t bytes) {
  taken_ -= bytes;
  if (all_) all_->give_back(bytes);
}

FrameDecoder::FrameDecoder(FrameLimits limits, FrameReceiver& receiver)
    : limits_(limits), receiver_(receiver) {}

FrameDecoder::~FrameDecoder() {
  let_go();
}

void FrameDecoder::set_budget(std::shared_ptr<HeaderBudget> budget) {
  let_go();
  budget_ = std::move(budget);
}

Status FrameDecoder::hold(std::uint64_t bytes) {
  constexpr std::uint64_t kFreeHeaderBytes = 65'536;
  if (budget_ == nullptr || head_.header_bytes <= kFreeHeaderBytes) return {};
  if (!budget_->take(bytes)) {
    return base::error(Errc::resource_exhausted,
                       "[frame] too many large headers of this peer have come in part");
  }
  held_ += bytes;
  return {};
}

void FrameDecoder::let_go() {
  if (budget_) budget_->give_back(std::exchange(held_, 0));
}

Status FrameDecoder::feed(std::span<const std::byte> bytes) {
  while (fault_.ok() && !bytes.empty()) fault_ = take(bytes);
  return fault_;
}

std::span<std::byte> FrameDecoder::direct() const {
  if (!fault_.ok() || part_ != Part::payload || payload_.empty()) return {};
  return {payload_.data() + done_, head_.payload_bytes - done_};
}

Status FrameDecoder::filled(std::size_t bytes) {
  TROUPE_CHECK(bytes <= direct().size(), "more bytes filled than were missing");
  if (bytes == 0) return fault_;
  done_ += bytes;
  fault_ = advance();
  return fault_;
}

std::size_t FrameDecoder::part_bytes() const {
  switch (part_) {
    case Part::head:
      return kFrameHeadBytes;
    case Part::header:
      return head_.header_bytes;
    case Part::payload:
      return head_.payload_bytes;
  }
  return 0;
}

/// Moves the bytes that belong to the present part. A header takes memory as it comes: its length
/// is only announced.
Status FrameDecoder::take(std::span<const std::byte>& bytes) {
  const std::size_t count = std::min(bytes.size(), part_bytes() - done_);
  if (part_ == Part::header) {
    TROUPE_TRY(hold(count));
    header_.insert(header_.end(), bytes.begin(),
                   bytes.begin() + static_cast<std::ptrdiff_t>(count));
  } else if (part_ == Part::head || !payload_.empty()) {
    std::byte* place = part_ == Part::head ? head_bytes_.data() : payload_.data();
    std::memcpy(place + done_, bytes.data(), count);
  }
  bytes = bytes.subspan(count);
  done_ += count;
  return advance();
}

/// Ends every part that is complete, empty ones included.
Status FrameDecoder::advance() {
  if (part_ == Part::head) {
    if (done_ >= kAlertBytes) TROUPE_TRY(check_alert());
    if (done_ >= kPreambleBytes) TROUPE_TRY(check_preamble());
    if (done_ < kFrameHeadBytes) return {};
    TROUPE_TRY(finish_head());
  }
  if (part_ == Part::header) {
    if (done_ < head_.header_bytes) return {};
    TROUPE_TRY(finish_header());
  }
  if (done_ < head_.payload_bytes) return {};
  return finish_payload();
}

/// The last words of a port that speaks TLS are shorter than a preamble.
Status FrameDecoder::check_alert() const {
  const std::string_view first(reinterpret_cast<const char*>(head_bytes_.data()), kAlertBytes);
  if (first != "\x15\x03") return {};
  return base::error(Errc::permission_denied,
                     "[frame] that port speaks TLS; --identity FILE is missing");
}

Status FrameDecoder::check_preamble() const {
  std::uint32_t magic = 0;
  std::uint16_t version = 0;
  get(head_bytes_, 0, magic);
  get(head_bytes_, kVersionAt, version);
  const std::string_view first(reinterpret_cast<const char*>(head_bytes_.data()), sizeof magic);
  if (const std::string_view http = name_http(first); !http.empty()) {
    return base::error(Errc::data_loss, "[frame] {}", http);
  }
  if (first.starts_with("\x16\x03")) {
    return base::error(Errc::data_loss,
                       "[frame] a greeting of TLS; this port speaks without it, on the loopback");
  }
  if (magic != kFrameMagic) {
    return base::error(Errc::data_loss, "[frame] begins with {:#010x}, not with Troupe's mark",
                       magic);
  }
  if (version != schemas::kProtocolVersion) {
    return base::error(Errc::version_mismatch,
                       "[frame] the peer speaks protocol version {}, this program {}", version,
                       schemas::kProtocolVersion);
  }
  return {};
}

Status FrameDecoder::finish_head() {
  head_ = decode_head(head_bytes_);
  get(head_bytes_, kHeaderChecksumAt, header_checksum_);
  const bool bare = head_.type == kBareAck;
  if (!bare && head_.type >= schemas::kMessageTypes) {
    return base::error(Errc::data_loss, "[frame] has the unknown type {}", head_.type);
  }
  const std::size_t header_max =
      bare ? 0 : std::min(limits_.header_bytes_max, schemas::header_bytes_max(head_.type));
  const std::size_t payload_max = bare ? 0 : limits_.payload_bytes_max;
  const std::string_view name = bare ? "acknowledgement" : schemas::message_name(head_.type);
  if (head_.header_bytes > header_max) {
    return base::error(Errc::data_loss, "[frame] {} with a header of {} bytes; the limit is {}",
                       name, head_.header_bytes, header_max);
  }
  if (head_.payload_bytes > payload_max) {
    return base::error(Errc::data_loss, "[frame] {} with a payload of {} bytes; the limit is {}",
                       name, head_.payload_bytes, payload_max);
  }
  header_.clear();
  part_ = Part::header;
  done_ = 0;
  return {};
}

Status FrameDecoder::finish_header() {
  if (checksum_of(head_bytes_, header_) != header_checksum_) {
    return base::error(Errc::data_loss, "[frame] the header's checksum does not fit its bytes");
  }
  payload_ = {};
  if (head_.payload_bytes > 0) {
    TROUPE_TRY_ASSIGN(payload_, receiver_.place_payload(head_, header_));
    TROUPE_CHECK(payload_.empty() || payload_.size() == head_.payload_bytes,
                 "the place for a payload has another size");
  }
  part_ = Part::payload;
  done_ = 0;
  return {};
}

Status FrameDecoder::finish_payload() {
  const std::span<const std::byte> bytes(payload_.data(), payload_.size());
  if (!sealed_ && !payload_.empty() && base::crc32c(bytes) != head_.payload_checksum) {
    return base::error(Errc::data_loss, "[frame] the payload's checksum does not fit its bytes");
  }
  part_ = Part::head;
  done_ = 0;
  const Status status = receiver_.on_frame(head_, header_, std::move(payload_));
  if (header_.capacity() > kKeptHeaderBytes) header_ = {};
  let_go();
  return status;
}

}  // namespace troupe::link
