// SPDX-License-Identifier: Apache-2.0
// Planned scratch is all the scratch: once warm, a training step calls no allocator. Inside oneDNN
// two calls remain that its users cannot plan: the argument table of execute(), a few hundred
// bytes, and the packing buffer of its own gemm; the test bounds them. The C library's allocator is
// wrapped to count; sanitizers bring their own, so the count is left out there.
#include <atomic>
#include <cerrno>

#include "tests/symbol/bound.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__GLIBC__)
#define TROUPE_COUNTS_ALLOCATIONS 1
#endif

namespace {

std::atomic<std::uint64_t> allocations{0};
std::atomic<std::size_t> largest{0};

void count(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  std::size_t seen = largest.load(std::memory_order_relaxed);
  while (bytes > seen && !largest.compare_exchange_weak(seen, bytes)) {
  }
}

}  // namespace

#ifdef TROUPE_COUNTS_ALLOCATIONS

extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* old, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);

void* malloc(std::size_t size) {
  count(size);
  return __libc_malloc(size);
}
void* calloc(std::size_t number, std::size_t size) {
  count(number * size);
  return __libc_calloc(number, size);
}
void* realloc(void* old, std::size_t size) {
  count(size);
  return __libc_realloc(old, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  count(size);
  return __libc_memalign(alignment, size);
}
void* memalign(std::size_t alignment, std::size_t size) {
  count(size);
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** result, std::size_t alignment, std::size_t size) {
  count(size);
  *result = __libc_memalign(alignment, size);
  return *result == nullptr ? ENOMEM : 0;
}
}

#endif

namespace troupe::symbol {
namespace {

/// What allocators were asked for during one step with everything that belongs to it.
struct Asked {
  std::uint64_t calls = 0;
  std::size_t largest_bytes = 0;
};

Asked asked_in_step(Bound& bound, std::int64_t number) {
  largest.store(0);
  const std::uint64_t before = allocations.load();
  const bool pushed = bound.executor->set_step(number).ok() && bound.executor->forward(true).ok() &&
                      bound.executor->backward().ok();
  bool done = bound.executor->outputs()[0].wait().ok();
  for (const auto& [name, gradient] : bound.executor->gradients()) done &= gradient.wait().ok();
  const Asked asked{allocations.load() - before, largest.load()};
  REQUIRE(pushed);
  REQUIRE(done);
  return asked;
}

#ifdef TROUPE_COUNTS_ALLOCATIONS
TEST_CASE("the count sees allocations") {
  const std::uint64_t before = allocations.load();
  const std::vector<int> some(1000, 1);
  CHECK(some.size() == 1000);
  CHECK(allocations.load() > before);
}
#endif

/// The packing buffer of oneDNN's gemm is below this, whatever the shapes.
constexpr std::size_t kLibraryBytesMax = 128 * 1024;
constexpr int kQuietSteps = 5;
constexpr int kWarmStepsMax = 200;

TEST_CASE("a training step allocates nothing") {
  for (const std::string network : {"lenet", "tiny-bn"}) {
    for (const bool reference : {true, false}) {
      INFO(network << (reference ? " on reference kernels" : " on the fast kernels"));
      ExecutorOptions options;
      options.reference_only = reference;
      const base::Shape data =
          network == "lenet" ? base::Shape{4, 1, 28, 28} : base::Shape{4, 1, 12, 12};
      Bound bound(network, data, options);
      asked_in_step(bound, 0);
      const storage::PoolStatistics before = bound.test.storage.statistics({});
      // Recycled operations of the engine grow once to the number of variables they name, so the
      // first steps ask for a little; from some step on none does.
      int quiet = 0;
      std::size_t largest_bytes = 0;
      for (int step = 1; step < kWarmStepsMax && quiet < kQuietSteps; ++step) {
        const Asked asked = asked_in_step(bound, step);
        quiet = asked.calls == 0 ? quiet + 1 : 0;
        if (step > kQuietSteps) largest_bytes = std::max(largest_bytes, asked.largest_bytes);
        if (!reference && step > 4 * kQuietSteps) break;
      }
      if (reference) CHECK(quiet == kQuietSteps);
      CHECK(largest_bytes < kLibraryBytesMax);
      const storage::PoolStatistics after = bound.test.storage.statistics({});
      CHECK(after.hits + after.misses == before.hits + before.misses);
      CHECK(after.used_bytes == before.used_bytes);
    }
  }
}

}  // namespace
}  // namespace troupe::symbol
