// SPDX-License-Identifier: Apache-2.0
// Pools: recycling, limits, arenas, statistics, errors, threads.
#include "storage/storage.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gpu/inventory.h"
#include "storage/size_class.h"
#include "tests/support/catch.h"

namespace troupe::storage {
namespace {

using base::Buffer;
using base::Errc;

const base::Device kCpu{};
constexpr std::size_t kMiB = 1u << 20;

Buffer get(Storage& storage, std::size_t bytes, std::string_view holder = "test") {
  return storage.pool(kCpu).allocate(bytes, holder).value();
}

TEST_CASE("size classes hold what they should with an eighth to spare") {
  for (std::size_t bytes = 0; bytes < 5000; ++bytes) {
    const std::size_t index = size_class(bytes);
    REQUIRE(size_class_bytes(index) >= bytes);
    REQUIRE((index == 0 || size_class_bytes(index - 1) < bytes));
  }
  for (std::size_t index = 0; index < kSizeClasses; ++index) {
    const std::size_t bytes = size_class_bytes(index);
    REQUIRE(bytes % kBlockAlignment == 0);
    REQUIRE(size_class(bytes) == index);
    if (index + 1 == kSizeClasses) break;
    REQUIRE(size_class(bytes + 1) == index + 1);
    if (bytes >= 512) REQUIRE((size_class_bytes(index + 1) - bytes) * 8 <= bytes);
  }
  CHECK(size_class(kRequestBytesMax) == kSizeClasses - 1);
}

TEST_CASE("buffers show the asked size, are aligned and are recycled") {
  Storage storage;
  const std::byte* first = nullptr;
  {
    const Buffer buffer = get(storage, 1000);
    CHECK(buffer.size() == 1000);
    CHECK(buffer.device() == kCpu);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64 == 0);
    first = buffer.data();
  }
  const Buffer again = get(storage, 990);
  CHECK(again.data() == first);
  CHECK(get(storage, 0).size() == 0);
  const PoolFigures statistics = storage.statistics(kCpu);
  CHECK(statistics.hits == 1);
  CHECK(statistics.misses == 2);
  CHECK(statistics.used_bytes == 1024);
  CHECK(statistics.peak_bytes == 1024 + 64);
  CHECK(statistics.reserved_bytes == 1024 + 64);
}

TEST_CASE("a slice keeps its block from being recycled") {
  Storage storage;
  Buffer slice = get(storage, 4096).slice(64, 64);
  const Buffer other = get(storage, 4096);
  CHECK(other.data() != slice.data() - 64);
  CHECK(storage.statistics(kCpu).used_bytes == 8192);
  slice = {};
  CHECK(storage.statistics(kCpu).used_bytes == 4096);
}

TEST_CASE("the cache is bounded and trimmed") {
  Storage storage({.cache_bytes_max = 3 * kMiB});
  std::vector<Buffer> many;
  for (int i = 0; i < 8; ++i) many.push_back(get(storage, kMiB));
  many.clear();
  CHECK(storage.statistics(kCpu).used_bytes == 0);
  CHECK(storage.statistics(kCpu).reserved_bytes == 3 * kMiB);
  storage.trim();
  CHECK(storage.statistics(kCpu).reserved_bytes == 0);
}

TEST_CASE("out of memory names device, wanted, held and the largest holders") {
  Storage storage({.limit_bytes = 8 * kMiB});
  const Buffer weights = get(storage, 4 * kMiB, "weights");
  const Buffer gradients = get(storage, 2 * kMiB, "gradients");
  const auto failed = storage.pool(kCpu).allocate(3 * kMiB, "scratch");
  REQUIRE_FALSE(failed.ok());
  CHECK(failed.status().code() == Errc::resource_exhausted);
  CHECK(failed.status().text() ==
        "[storage] cpu:0: out of memory: 'scratch' wanted 3.0 MiB; 6.0 MiB used, 6.0 MiB held of a "
        "limit of 8.0 MiB; largest holders: 'weights' 4.0 MiB, 'gradients' 2.0 MiB");
  CHECK(storage.statistics(kCpu).failures == 1);
  CHECK_FALSE(storage.pool(kCpu).allocate(~std::size_t{0}, "overflow").ok());
  CHECK_FALSE(storage.allocate_arena(kCpu, ~std::size_t{0}, "overflow").ok());
  CHECK(storage.pool(kCpu).allocate(2 * kMiB, "fits").ok());
}

TEST_CASE("cached blocks of other sizes give way before an allocation fails") {
  Storage storage({.limit_bytes = 8 * kMiB});
  { const Buffer cached = get(storage, 5 * kMiB); }
  CHECK(storage.statistics(kCpu).reserved_bytes == 5 * kMiB);
  const Buffer other = get(storage, 6 * kMiB);
  CHECK(storage.statistics(kCpu).reserved_bytes == 6 * kMiB);
}

/// What the system says of the memory at `data`, such as " rd wr mr mw me ac hg "; needs a kernel
/// with /proc/self/smaps.
std::string flags_of_mapping(const std::byte* data) {
  std::ifstream smaps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long long begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &begin, &end) == 2) {
      const auto place = reinterpret_cast<std::uintptr_t>(data);
      inside = begin <= place && place < end;
    } else if (inside && line.starts_with("VmFlags:")) {
      return line.substr(line.find(':') + 1) + " ";
    }
  }
  return "";
}

TEST_CASE("arenas are zero, exact and never cached") {
  const bool huge_pages = std::filesystem::exists("/sys/kernel/mm/transparent_hugepage/enabled");
  Storage storage({.fill_with_nan = true});
  for (const std::size_t bytes : {std::size_t{1000}, 5 * kMiB + 64}) {
    { const Buffer dirty = get(storage, bytes); }
    const auto arena = storage.allocate_arena(kCpu, bytes, "plan");
    REQUIRE(arena.ok());
    const auto values = arena->as<std::uint8_t>();
    CHECK(std::all_of(values.begin(), values.end(), [](std::uint8_t b) { return b == 0; }));
    CHECK(storage.statistics(kCpu).holders.at("plan") - bytes < 64);
    CHECK(storage.statistics(kCpu).hits == 0);
    if (bytes <= kMiB) continue;
    CHECK(reinterpret_cast<std::uintptr_t>(arena->data()) % (2 * kMiB) == 0);
    if (!huge_pages) {
      WARN("left out: this system has no transparent huge pages");
      continue;
    }
    CHECK_THAT(flags_of_mapping(arena->data()), Catch::Contains(" hg "));
  }
  storage.trim();
  CHECK(storage.statistics(kCpu).reserved_bytes == 0);
}

TEST_CASE("the debug fill shows reads of memory that nobody wrote") {
  Storage storage({.fill_with_nan = true});
  for (int round = 0; round < 2; ++round) {
    const Buffer buffer = get(storage, 64);
    for (const double value : buffer.as<double>()) CHECK(std::isnan(value));
    for (const float value : buffer.as<float>()) CHECK(std::isnan(value));
    std::memset(buffer.data(), 0, 64);
  }
  CHECK(storage.statistics(kCpu).hits == 1);
}

TEST_CASE("devices have pools of their own, one without memory answers an error") {
  Storage storage;
  const base::Device delayed{base::DeviceKind::delayed, 0};
  const base::Device cuda{base::DeviceKind::cuda, 0};
  const Buffer a = get(storage, 100);
  const Buffer b = storage.pool(delayed).allocate(100, "test").value();
  CHECK(b.device() == delayed);
  CHECK(storage.pool(delayed).device() == delayed);
  CHECK(storage.statistics(delayed).misses == 1);
  if (!gpu::inventory().problem.empty()) {
    const base::Status none = storage.pool(cuda).allocate(100, "test").status();
    CHECK(none.code() == Errc::failed_precondition);
    CHECK_THAT(none.text(), Catch::Contains("no device cuda:0"));
    CHECK_FALSE(storage.allocate_arena(cuda, 100, "test").ok());
  }
  CHECK(storage.devices() == std::vector{kCpu, cuda, delayed});
  CHECK(storage.statistics({base::DeviceKind::delayed, 5}).reserved_bytes == 0);
}

TEST_CASE("buffers may outlive their storage") {
  Buffer late;
  Buffer arena;
  {
    Storage storage;
    late = get(storage, 3 * kMiB);
    arena = storage.allocate_arena(kCpu, 100, "plan").value();
  }
  std::memset(late.data(), 1, late.size());
  std::memset(arena.data(), 1, arena.size());
}

TEST_CASE("more holders than are kept apart share one count") {
  Storage storage;
  std::vector<Buffer> all;
  for (int i = 0; i < 1500; ++i) all.push_back(get(storage, 64, fmt::format("holder {}", i)));
  const PoolFigures statistics = storage.statistics(kCpu);
  CHECK(statistics.holders.size() == 1024);
  CHECK(statistics.holders.at("others") == (1500 - 1023) * 64);
}

TEST_CASE("threads share a pool") {
  Storage storage({.cache_bytes_max = kMiB});
  base::BufferPool& pool = storage.pool(kCpu);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      std::vector<Buffer> kept(8);
      for (std::size_t i = 0; i < 2000; ++i) {
        Buffer buffer = pool.allocate(64 + (i * 97) % 5000, "thread").value();
        std::memset(buffer.data(), t, buffer.size());
        kept[i % kept.size()] = std::move(buffer);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const PoolFigures statistics = storage.statistics(kCpu);
  CHECK(statistics.used_bytes == 0);
  CHECK(statistics.holders.empty());
  CHECK(statistics.hits + statistics.misses == 8000);
  CHECK(statistics.reserved_bytes <= kMiB);
}

}  // namespace
}  // namespace troupe::storage
