// SPDX-License-Identifier: Apache-2.0
// What a decoder of frames takes of memory, which sanitizers do not let count: no more than has
// come.
#include <cstddef>
#include <span>
#include <vector>

#include "link/frame.h"
#include "schemas/messages.h"
#include "tests/support/catch.h"
#include "tests/support/count_allocations.h"

namespace troupe::link {
namespace {

/// Keeps nothing.
class Nobody final : public FrameReceiver {
  base::Result<base::Buffer> place_payload(const FrameHead&, std::span<const std::byte>) override {
    return base::Buffer{};
  }
  base::Status on_frame(const FrameHead&, std::span<const std::byte>, base::Buffer) override {
    return {};
  }
};

TEST_CASE("a header takes memory as it comes, not as it is announced", "[frame]") {
  constexpr std::size_t kAnnounced = 4'194'304;
  Nobody nobody;
  FrameDecoder decoder({kAnnounced, 0}, nobody);
  FrameHead head;
  head.type = static_cast<std::uint16_t>(schemas::type_of<schemas::JobSubmit>());
  head.header_bytes = kAnnounced;
  const std::vector<std::byte> announced(kAnnounced);
  const auto bytes = encode_frame_head(head, announced);
  const std::span<const std::byte> header(announced);
  const tests::CountAllocations allocations;
  REQUIRE(decoder.feed(bytes).ok());
  CHECK(allocations.so_far().largest_bytes < 10'000);
  REQUIRE(decoder.feed(header.first(100'000)).ok());
  CHECK(allocations.so_far().largest_bytes <= 200'000);
  REQUIRE(decoder.feed(header.subspan(100'000)).ok());
  CHECK(decoder.at_border());
}

}  // namespace
}  // namespace troupe::link
