// SPDX-License-Identifier: Apache-2.0
// Frames come out as they went in, however the bytes are cut; every flipped bit and every length
// beyond a limit is noticed, and nothing is allocated for it.
#include "link/frame.h"

#include <rapidcheck.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string>

#include "base/hash.h"
#include "schemas/codec.h"
#include "tests/support/catch.h"

namespace troupe::link {
namespace {

using base::Buffer;
using base::Errc;
using base::Result;
using base::Status;

struct Frame {
  FrameHead head;
  std::string header;
  std::string payload;
  friend bool operator==(const Frame&, const Frame&) = default;
};

class Collector final : public FrameReceiver {
 public:
  Result<Buffer> place_payload(const FrameHead& head, std::span<const std::byte>) override {
    ++placed;
    if (drop) return Buffer{};
    return base::make_host_buffer(head.payload_bytes);
  }
  Status on_frame(const FrameHead& head, std::span<const std::byte> header,
                  Buffer payload) override {
    frames.push_back({head,
                      std::string(reinterpret_cast<const char*>(header.data()), header.size()),
                      std::string(reinterpret_cast<const char*>(payload.data()), payload.size())});
    return {};
  }
  std::vector<Frame> frames;
  int placed = 0;
  bool drop = false;
};

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string encode(Frame& frame) {
  frame.head.header_bytes = static_cast<std::uint32_t>(frame.header.size());
  frame.head.payload_bytes = static_cast<std::uint32_t>(frame.payload.size());
  frame.head.payload_checksum = base::crc32c(bytes_of(frame.payload));
  const auto head = encode_frame_head(frame.head, bytes_of(frame.header));
  return std::string(reinterpret_cast<const char*>(head.data()), head.size()) + frame.header +
         frame.payload;
}

Frame small_frame() {
  Frame frame;
  frame.head.type = schemas::type_of<schemas::GradientPush>();
  frame.head.sequence = 7;
  frame.header = "header";
  frame.payload = "payload bytes";
  return frame;
}

constexpr FrameLimits kLimits{16'384, 1'048'576};

TEST_CASE("frames survive any cutting of the bytes, fed or filled in place", "[frame]") {
  CHECK(rc::check([](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<Frame> sent(1 + random() % 5);
    std::string stream;
    for (Frame& frame : sent) {
      frame.head.type = static_cast<std::uint16_t>(random() % 4);
      frame.head.job_hash = random();
      frame.head.generation = random();
      frame.head.view = random();
      frame.head.sequence = random();
      frame.head.acknowledged = random();
      frame.header.assign(random() % 300, static_cast<char>(random()));
      frame.payload.assign(random() % 3 * (random() % 5'000), static_cast<char>(random()));
      stream += encode(frame);
    }
    Collector collector;
    FrameDecoder decoder(kLimits, collector);
    for (std::size_t at = 0; at < stream.size();) {
      const std::size_t count =
          std::min<std::size_t>(stream.size() - at, 1 + random() % (random() % 2 ? 20 : 4'000));
      const auto direct = decoder.direct();
      const std::size_t placed = random() % 2 ? std::min(count, direct.size()) : 0;
      if (placed > 0) std::memcpy(direct.data(), stream.data() + at, placed);
      RC_ASSERT(decoder.filled(placed).ok());
      RC_ASSERT(decoder.feed(bytes_of(stream).subspan(at + placed, count - placed)).ok());
      at += count;
    }
    RC_ASSERT(decoder.at_border());
    RC_ASSERT(collector.frames == sent);
  }));
}

TEST_CASE("every flipped bit of a frame is noticed before it is delivered", "[frame]") {
  Frame frame = small_frame();
  const std::string good = encode(frame);
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    Collector collector;
    FrameDecoder decoder(kLimits, collector);
    // A longer length only shows when more bytes have come.
    (void)decoder.feed(bytes_of(bad)).ok();
    (void)decoder.feed(bytes_of(std::string(kLimits.payload_bytes_max + 70'000, '\0'))).ok();
    REQUIRE(collector.frames.empty());
    REQUIRE_FALSE(decoder.feed(bytes_of(good)).ok());
  }
}

TEST_CASE("random bytes are refused within the first eight", "[frame]") {
  CHECK(rc::check([](const std::vector<std::uint8_t>& bytes) {
    Collector collector;
    FrameDecoder decoder(kLimits, collector);
    const Status status = decoder.feed(std::as_bytes(std::span(bytes)));
    const bool alert = bytes.size() >= 2 && bytes[0] == 0x15 && bytes[1] == 0x03;
    RC_ASSERT(status.ok() == (bytes.size() < 8 && !alert));
    RC_ASSERT(collector.placed == 0);
  }));
}

TEST_CASE("bytes of HTTP are called by their name", "[frame]") {
  const auto text_for = [](const std::string& bytes) {
    Collector collector;
    FrameDecoder decoder(kLimits, collector);
    const Status status = decoder.feed(bytes_of(bytes));
    CHECK(status.code() == Errc::data_loss);
    return status.text();
  };
  CHECK_THAT(text_for("HTTP/1.1 400 Bad Request\r\n"), Catch::Contains("HTTP server"));
  for (const char* verb : {"GET", "HEAD", "POST"}) {
    CHECK_THAT(text_for(std::string(verb) + " /metrics HTTP/1.1\r\n"),
               Catch::Contains("HTTP request"));
  }
  CHECK_THAT(text_for("random bytes"), Catch::Contains("not with Troupe's mark"));
}

TEST_CASE("the refusal of a port that speaks TLS is said, short as it is", "[frame]") {
  Collector collector;
  FrameDecoder decoder(kLimits, collector);
  const Status status = decoder.feed(bytes_of(std::string("\x15\x03\x03\0\x02\x02\x46", 7)));
  CHECK(status.code() == Errc::permission_denied);
  CHECK(status.text() == "[frame] that port speaks TLS; --identity FILE is missing");
}

TEST_CASE("payloads of a carrier that seals them need no checksum, heads do", "[frame]") {
  Frame frame = small_frame();
  REQUIRE_FALSE(frame.payload.empty());
  std::string bytes = encode(frame);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  Collector collector;
  FrameDecoder plain(kLimits, collector);
  CHECK_FALSE(plain.feed(bytes_of(bytes)).ok());
  CHECK(collector.frames.empty());
  FrameDecoder sealed(kLimits, collector);
  sealed.trust_payloads();
  CHECK(sealed.feed(bytes_of(bytes)).ok());
  CHECK(collector.frames.size() == 1);
  bytes[40] = static_cast<char>(bytes[40] ^ 1);
  CHECK_FALSE(sealed.feed(bytes_of(bytes)).ok());
}

Status status_of(Frame frame, FrameLimits limits = kLimits) {
  Collector collector;
  FrameDecoder decoder(limits, collector);
  const std::string bytes = encode(frame);
  // Only the head: the length is judged before the bytes come.
  const Status status = decoder.feed(bytes_of(bytes).first(kFrameHeadBytes));
  CHECK(collector.placed == 0);
  return status;
}

TEST_CASE("lengths and types are judged from the head alone", "[frame]") {
  Frame frame = small_frame();
  CHECK(status_of(frame).ok());
  frame.header.resize(16'385);
  CHECK_THAT(status_of(frame).text(),
             Catch::Contains("GradientPush with a header of 16385 bytes; the limit is 16384"));
  // The type's own limit holds where the connection's is higher.
  CHECK_FALSE(status_of(frame, {4'194'304, 0}).ok());
  frame = small_frame();
  frame.payload.resize(1'048'577);
  CHECK_THAT(status_of(frame).text(), Catch::Contains("payload of 1048577 bytes"));
  frame = small_frame();
  frame.head.type = 99;
  CHECK_THAT(status_of(frame).text(), Catch::Contains("unknown type 99"));
  frame.head.type = kBareAck;
  CHECK_FALSE(status_of(frame).ok());
}

TEST_CASE("another version is refused with both numbers", "[frame]") {
  Frame frame = small_frame();
  frame.head.version = schemas::kProtocolVersion + 1;
  const Status status = status_of(frame);
  CHECK(status.code() == Errc::version_mismatch);
  CHECK_THAT(status.text(), Catch::Contains("protocol version 2, this program 1"));
}

TEST_CASE("a payload without a place is dropped and the next frame is read", "[frame]") {
  Frame frame = small_frame();
  Collector collector;
  collector.drop = true;
  FrameDecoder decoder(kLimits, collector);
  const std::string bytes = encode(frame);
  REQUIRE(decoder.feed(bytes_of(bytes + bytes)).ok());
  REQUIRE(collector.frames.size() == 2);
  CHECK(collector.frames[1].payload.empty());
  CHECK(collector.frames[1].header == "header");
}

TEST_CASE("a decoder keeps its first fault", "[frame]") {
  Collector collector;
  FrameDecoder decoder(kLimits, collector);
  Frame frame = small_frame();
  CHECK_FALSE(decoder.feed(bytes_of(std::string("GET / HTTP/1.1\r\n"))).ok());
  CHECK_FALSE(decoder.feed(bytes_of(encode(frame))).ok());
  CHECK(decoder.direct().empty());
  CHECK(collector.frames.empty());
}

TEST_CASE("large headers that come in part have a bound together, until they are whole",
          "[frame]") {
  Frame large;
  large.head.type = schemas::type_of<schemas::LaunchProcess>();
  large.header.assign(100'000, 'x');
  const std::string bytes = encode(large);
  const auto part = bytes_of(bytes).first(bytes.size() - 8);
  const auto rest = bytes_of(bytes).last(8);
  Collector taker;
  const FrameLimits limits{4'194'304, 0};
  const auto all = std::make_shared<HeaderBudget>(250'000);
  const auto mine = std::make_shared<HeaderBudget>(150'000, all);
  const auto other = std::make_shared<HeaderBudget>(150'000, all);
  const auto decoder_of = [&](const std::shared_ptr<HeaderBudget>& budget) {
    auto decoder = std::make_unique<FrameDecoder>(limits, taker);
    decoder->set_budget(budget);
    return decoder;
  };
  const auto first = decoder_of(mine);
  REQUIRE(first->feed(part).ok());
  CHECK(decoder_of(mine)->feed(part).code() == Errc::resource_exhausted);
  auto second = decoder_of(other);
  CHECK(second->feed(part).ok());
  CHECK(decoder_of(std::make_shared<HeaderBudget>(150'000, all))->feed(part).code() ==
        Errc::resource_exhausted);
  second.reset();  // what is closed gives back
  CHECK(first->feed(rest).ok());
  for (int i = 0; i < 5; ++i) {  // and so does what has come whole
    CHECK(first->feed(part).ok());
    CHECK(first->feed(rest).ok());
  }
  CHECK(taker.frames.size() == 6);
}

}  // namespace
}  // namespace troupe::link
