// SPDX-License-Identifier: Apache-2.0
// Recomputed values have the kept ones' bits, and what recomputation promises of memory holds.
#include "symbol/recompute.h"

#include <algorithm>
#include <set>

#include "tests/symbol/bound.h"

namespace troupe::symbol {
namespace {

constexpr Recompute kPolicies[] = {Recompute::cheap, Recompute::sqrt, Recompute::budget};
constexpr const char* kTitles[] = {"none", "cheap", "sqrt", "budget"};

ExecutorOptions training(Recompute policy, std::size_t budget = 0) {
  ExecutorOptions options;
  options.predict = false;
  options.recompute = policy;
  options.budget = budget;
  return options;
}

std::size_t arena(const std::string& network, const base::Shape& data,
                  const ExecutorOptions& options) {
  return Bound(network, data, options).executor->report().arena_bytes;
}

/// Two steps with every policy against two steps in which all is kept.
void check_bits(const std::string& network, const base::Shape& data, bool reference, int threads) {
  const auto bound = [&](ExecutorOptions options) {
    options.reference_only = reference;
    return std::make_unique<Bound>(network, data, options, true,
                                   engine::EngineOptions{.threads = threads});
  };
  const auto kept = bound(training(Recompute::none));
  const Results first = kept->step(0), second = kept->step(1);
  const std::size_t bytes = kept->executor->report().arena_bytes;
  for (const Recompute policy : kPolicies) {
    INFO(network << " " << kTitles[static_cast<std::size_t>(policy)] << " reference " << reference
                 << " threads " << threads);
    const auto recomputed = bound(training(policy, bytes - bytes / 10));
    CHECK(recomputed->step(0) == first);
    CHECK(recomputed->step(1) == second);
    CHECK(recomputed->executor->report().arena_bytes <= bytes);
  }
}

TEST_CASE("recomputed networks have the kept ones' bits") {
  for (const int threads : {1, 2}) {
    check_bits("resnet18", {4, 3, 32, 32}, false, threads);
    check_bits("inception-bn", {2, 3, 64, 64}, false, threads);
    check_bits("googlenet", {2, 3, 64, 64}, false, threads);
    check_bits("tiny-bn", {16, 1, 28, 28}, false, threads);
    check_bits("alexnet", {2, 3, 96, 96}, false, threads);
    check_bits("resnet18", {2, 3, 32, 32}, true, threads);
    check_bits("tiny-bn", {4, 1, 28, 28}, true, threads);
  }
}

}  // namespace
}  // namespace troupe::symbol
