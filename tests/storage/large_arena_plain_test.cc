// SPDX-License-Identifier: Apache-2.0
// An arena of more address space than sanitizers leave.
#include <cstddef>

#include "storage/storage.h"
#include "tests/support/catch.h"

namespace troupe::storage {
namespace {

using base::Errc;

const base::Device kCpu{};
constexpr std::size_t kMiB = 1u << 20;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("an arena may be larger than the machine where nobody writes it") {
  constexpr std::size_t kTebibyte = std::size_t{1} << 40;
  Storage storage({.limit_bytes = kMiB, .arena_limit_bytes = 2 * kTebibyte});
  {
    const auto arena = storage.allocate_arena(base::Device{}, kTebibyte, "plan");
    REQUIRE(arena.ok());
    CHECK(arena->data()[kTebibyte - 1] == std::byte{0});
    // The others keep to their limit, which the arena does not use up.
    CHECK(storage.pool(kCpu).allocate(kMiB, "array").value().size() == kMiB);
    CHECK_FALSE(storage.pool(kCpu).allocate(kMiB + 1, "array").ok());
    const base::Status second = storage.allocate_arena(kCpu, kTebibyte + 64, "plan").status();
    CHECK(second.code() == Errc::resource_exhausted);
    CHECK_THAT(second.text(), Catch::Contains("limit of 2.0 TiB"));
    CHECK(storage.statistics(kCpu).reserved_bytes == kTebibyte);  // the cache was given back
  }
  CHECK(storage.allocate_arena(kCpu, 2 * kTebibyte, "plan").ok());
  CHECK(available_host_bytes() > 0);
  CHECK(available_host_bytes() < kTebibyte * 1024);
}
#endif

}  // namespace
}  // namespace troupe::storage
