// SPDX-License-Identifier: Apache-2.0
// Memory, streams and events of the first GPU. Not run where there is none.
#include "gpu/stream.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "base/graph_stream.h"
#include "gpu/inventory.h"
#include "gpu/memory.h"
#include "tests/support/catch.h"

namespace troupe::gpu {
namespace {

const base::Device kFirst{base::DeviceKind::cuda, 0};

/// True, said with the reason, where tests of a device cannot run.
bool without_device() {
  if (check_device(kFirst).ok()) return false;
  WARN("skipped: " << check_device(kFirst).text());
  return true;
}

TEST_CASE("bytes go to a device, between its places and back in stream order", "[gpu][device]") {
  if (without_device()) return;
  constexpr std::size_t kBytes = 1 << 20;
  std::byte* const host = allocate_pinned(kBytes).value();
  std::byte* const first = allocate(kFirst, kBytes).value();
  std::byte* const second = allocate(kFirst, kBytes).value();
  CHECK(reinterpret_cast<std::uintptr_t>(first) % 256 == 0);
  const auto stream = make_stream(kFirst, StreamPriority::normal).value();
  const auto other = make_stream(kFirst, StreamPriority::high).value();
  stream->attach();
  CHECK(stream->device() == kFirst);
  CHECK(stream->native() != nullptr);
  for (std::size_t i = 0; i < kBytes; ++i) host[i] = static_cast<std::byte>(i * 7);
  REQUIRE(fill(kFirst, second, std::byte{0xff}, kBytes).ok());
  REQUIRE(stream->copy(first, host, kBytes).ok());
  const auto copied = stream->record();
  other->wait_for(copied);
  REQUIRE(other->copy(second, first, kBytes / 2).ok());
  REQUIRE(other->clear(first, kBytes).ok());
  std::vector<std::byte> back(kBytes), cleared(kBytes, std::byte{1});
  REQUIRE(other->copy(back.data(), second, kBytes).ok());
  REQUIRE(other->copy(cleared.data(), first, kBytes).ok());
  const auto done = other->record();
  REQUIRE(done->wait_on_host().ok());
  CHECK(done->passed());
  CHECK(copied->passed());
  CHECK(std::memcmp(back.data(), host, kBytes / 2) == 0);
  CHECK(back[kBytes - 1] == std::byte{0xff});
  CHECK(cleared == std::vector<std::byte>(kBytes));
  release(kFirst, second);
  release(kFirst, first);
  release_pinned(host);
}

TEST_CASE("timed events know what lies between them", "[gpu][device]") {
  if (without_device()) return;
  constexpr std::size_t kBytes = 64 << 20;
  std::byte* const block = allocate(kFirst, kBytes).value();
  const auto stream = make_stream(kFirst, StreamPriority::normal).value();
  stream->attach();
  const auto begin = stream->record_timed();
  REQUIRE(stream->clear(block, kBytes).ok());
  const auto end = stream->record_timed();
  REQUIRE(end->wait_on_host().ok());
  CHECK(end->ns_since(*begin).value() > 0);
  CHECK(begin->ns_since(*begin).value() == 0);
  CHECK_FALSE(stream->record()->ns_since(*begin).ok());  // one without a time
  release(kFirst, block);
}

TEST_CASE("a graph runs at each launch what was written down, and not before", "[gpu][device]") {
  if (without_device()) return;
  constexpr std::size_t kBytes = 4096;
  std::byte* const host = allocate_pinned(kBytes).value();
  std::byte* const from = allocate(kFirst, kBytes).value();
  std::byte* const to = allocate(kFirst, kBytes).value();
  const auto made = make_stream(kFirst, StreamPriority::normal).value();
  auto* const stream = dynamic_cast<base::GraphStream*>(made.get());
  REQUIRE(stream != nullptr);
  stream->attach();
  const auto first_byte = [&] {
    REQUIRE(stream->copy(host, to, kBytes).ok());
    REQUIRE(stream->record()->wait_on_host().ok());
    return host[0];
  };
  REQUIRE(fill(kFirst, from, std::byte{1}, kBytes).ok());
  REQUIRE(fill(kFirst, to, std::byte{9}, kBytes).ok());
  REQUIRE(stream->begin_graph().ok());
  REQUIRE(stream->clear(to, kBytes).ok());
  REQUIRE(stream->copy(to, from, kBytes / 2).ok());
  std::shared_ptr<base::StreamGraph> graph = stream->end_graph().value();
  CHECK(first_byte() == std::byte{9});
  for (const std::byte value : {std::byte{2}, std::byte{3}}) {
    REQUIRE(fill(kFirst, from, value, kBytes).ok());
    REQUIRE(stream->launch(graph).ok());
    CHECK(first_byte() == value);
    CHECK(host[kBytes - 1] == std::byte{0});
  }
  REQUIRE(fill(kFirst, from, std::byte{4}, kBytes).ok());
  REQUIRE(stream->launch(graph).ok());
  graph.reset();  // it may still run
  CHECK(first_byte() == std::byte{4});

  // What a capture forbids ends it, and the stream goes on.
  REQUIRE(stream->begin_graph().ok());
  if (auto block = allocate(kFirst, kBytes); block.ok()) release(kFirst, *block);
  static_cast<void>(stream->end_graph());
  REQUIRE(fill(kFirst, from, std::byte{5}, kBytes).ok());
  REQUIRE(stream->copy(to, from, kBytes).ok());
  CHECK(first_byte() == std::byte{5});
  release(kFirst, to);
  release(kFirst, from);
  release_pinned(host);
}

TEST_CASE("a device without room answers that, and goes on", "[gpu][device]") {
  if (without_device()) return;
  CHECK(total_bytes(kFirst) >= free_bytes(kFirst));
  const auto huge = allocate(kFirst, total_bytes(kFirst) + 1);
  CHECK(huge.status().code() == base::Errc::resource_exhausted);
  CHECK_THAT(huge.status().text(), Catch::Contains("cuda:0"));
  std::byte* const small = allocate(kFirst, 1).value();
  release(kFirst, small);
}

TEST_CASE("events outlive their stream and are used again", "[gpu][device]") {
  if (without_device()) return;
  std::shared_ptr<base::Event> late;
  {
    const auto stream = make_stream(kFirst, StreamPriority::normal).value();
    stream->attach();
    for (int i = 0; i < 100; ++i) CHECK(stream->record()->wait_on_host().ok());
    late = stream->record();
  }
  CHECK(late->wait_on_host().ok());
  CHECK(late->passed());
}

}  // namespace
}  // namespace troupe::gpu
