// SPDX-License-Identifier: Apache-2.0
// Planned scratch is all the scratch: once warm, a training step calls no allocator, with oneDNN's
// kernels as with the reference's.
#include "tests/support/count_allocations.h"
#include "tests/symbol/bound.h"

namespace troupe::symbol {
namespace {

/// What allocators were asked for during one step with everything that belongs to it.
tests::Allocations asked_in_step(Bound& bound, std::int64_t number) {
  const tests::CountAllocations count;
  const bool pushed = bound.executor->set_step(number).ok() && bound.executor->forward(true).ok() &&
                      bound.executor->backward().ok();
  bool done = bound.executor->outputs()[0].wait().ok();
  for (const auto& [name, gradient] : bound.executor->gradients()) done &= gradient.wait().ok();
  const tests::Allocations asked = count.so_far();
  REQUIRE(pushed);
  REQUIRE(done);
  return asked;
}

#ifdef TROUPE_COUNTS_ALLOCATIONS
TEST_CASE("the count sees allocations") {
  const tests::CountAllocations count;
  // A compiler may leave out memory that nobody but a vector sees.
  void* (*const volatile allocate)(std::size_t) = std::malloc;
  void* const some = allocate(4000);
  CHECK(some != nullptr);
  std::free(some);
  CHECK(count.so_far().calls > 0);
  CHECK(count.so_far().largest_bytes >= 4000);
}
#endif

/// Recycled operations of the engine grow once to the number of variables they name, so the first
/// steps ask for a little; this many steps in a row must ask for nothing.
constexpr int kQuietSteps = 5;
constexpr int kStepsMax = 200;

void check_quiet(const std::string& network, const ExecutorOptions& options, int threads) {
  INFO(network << (options.reference_only ? " on reference kernels" : " on the fast kernels")
               << ", threads " << threads);
  const base::Shape data =
      network == "lenet" ? base::Shape{4, 1, 28, 28} : base::Shape{4, 1, 12, 12};
  engine::EngineOptions engine_options;
  engine_options.threads = threads;
  Bound bound(network, data, options, true, engine_options);
  asked_in_step(bound, 0);
  const storage::PoolFigures before = bound.test.storage.statistics({});
  int quiet = 0;
  tests::Allocations asked;
  for (int step = 1; step < kStepsMax && quiet < kQuietSteps; ++step) {
    asked = asked_in_step(bound, step);
    quiet = asked.calls == 0 ? quiet + 1 : 0;
  }
  INFO(asked.calls << " allocations in the last step, the largest of " << asked.largest_bytes);
  CHECK(quiet == kQuietSteps);
  const storage::PoolFigures after = bound.test.storage.statistics({});
  CHECK(after.hits + after.misses == before.hits + before.misses);
  CHECK(after.used_bytes == before.used_bytes);
}

TEST_CASE("a training step allocates nothing") {
  for (const std::string network : {"lenet", "tiny-bn"}) {
    for (const bool reference : {true, false}) {
      ExecutorOptions options;
      options.reference_only = reference;
      check_quiet(network, options, 1);
    }
  }
  // Members of a team allocate too. (A team of more threads than processors is slow: once.)
  check_quiet("tiny-bn", {}, 2);
}

}  // namespace
}  // namespace troupe::symbol
