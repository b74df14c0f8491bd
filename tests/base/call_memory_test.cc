// SPDX-License-Identifier: Apache-2.0
// Calls with memory set aside: no allocator is asked while it lasts, and whatever outlives a call
// stays whole.
#include "base/call_memory.h"

#include <memory>
#include <new>
#include <thread>
#include <unordered_map>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/count_allocations.h"

namespace troupe::base {
namespace {

using tests::CountAllocations;

TEST_CASE("a map within a call asks no allocator", "[call_memory]") {
  std::uint64_t asked = 0;
  std::size_t sum = 0;
  {
    const CallMemory memory;
    const CountAllocations count;
    std::unordered_map<int, std::size_t> map;
    for (int i = 0; i < 20; ++i) map[i] = static_cast<std::size_t>(i);
    for (const auto& [key, value] : map) sum += value;
    asked = count.so_far().calls;
  }
  CHECK(sum == 190);
  CHECK(asked == 0);
#ifdef TROUPE_COUNTS_ALLOCATIONS
  const CountAllocations count;
  const std::unordered_map<int, int> outside = {{1, 1}, {2, 2}};
  CHECK(count.so_far().calls > 0);
#endif
}

TEST_CASE("what does not fit comes from the heap", "[call_memory]") {
  const CallMemory memory;
  std::vector<std::unique_ptr<std::vector<int>>> many;
  for (int i = 0; i < 200; ++i) many.push_back(std::make_unique<std::vector<int>>(100, i));
  for (int i = 0; i < 200; ++i) {
    CHECK(*many[static_cast<std::size_t>(i)] == std::vector<int>(100, i));
  }
}

TEST_CASE("what outlives its call stays whole and dies on any thread", "[call_memory]") {
  // More calls at once than there are blocks, nested and on several threads.
  constexpr int kThreads = 4;
  constexpr int kCalls = 100;
  std::vector<std::vector<std::unique_ptr<std::vector<int>>>> kept(kThreads);
  for (auto& list : kept) list.reserve(kCalls);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&kept, t] {
      for (int i = 0; i < kCalls; ++i) {
        const CallMemory memory;
        const auto gone = std::make_unique<int>(i);
        const CallMemory inner;
        kept[static_cast<std::size_t>(t)].push_back(
            std::make_unique<std::vector<int>>(10, t * kCalls + i));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < kThreads; ++t) {
    for (int i = 0; i < kCalls; ++i) {
      const auto& values = *kept[static_cast<std::size_t>(t)][static_cast<std::size_t>(i)];
      CHECK(values == std::vector<int>(10, t * kCalls + i));
    }
  }
  kept.clear();
}

TEST_CASE("a thread may have its own until its end", "[call_memory]") {
  std::thread([] {
    CallMemory::keep_on_this_thread();
    const CountAllocations count;
    int last = 0;
    // Far more than a block, but never much at once.
    for (int i = 0; i < 10'000; ++i) last = std::vector<int>(100, i).back();
    const std::uint64_t asked = count.so_far().calls;
    CHECK(last == 9'999);
    CHECK(asked == 0);
  }).join();
}

}  // namespace
}  // namespace troupe::base
