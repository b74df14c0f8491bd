// SPDX-License-Identifier: Apache-2.0
// Dealing: every record exactly once per epoch for any sizes; known cases; strides; plans.
#include "data/dealer.h"

#include <rapidcheck.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "tests/support/catch.h"

namespace troupe::data {
namespace {

using base::Errc;
using Numbers = std::vector<std::uint64_t>;

Dealer make_dealer(std::uint64_t records, std::uint64_t ranks, std::uint64_t batch,
                   std::uint64_t seed = 7) {
  auto dealer = Dealer::create({records, ranks, batch, seed});
  REQUIRE(dealer.ok());
  return *dealer;
}

TEST_CASE("the last step deals the rest as evenly as possible in rank order") {
  const Dealer dealer = make_dealer(23, 3, 5);
  CHECK(dealer.steps_per_epoch() == 2);
  CHECK(dealer.run(0, 0) == Run{0, 5});
  CHECK(dealer.run(0, 1) == Run{5, 5});
  CHECK(dealer.run(0, 2) == Run{10, 5});
  CHECK(dealer.run(1, 0) == Run{15, 3});
  CHECK(dealer.run(1, 1) == Run{18, 3});
  CHECK(dealer.run(1, 2) == Run{21, 2});
  CHECK(dealer.cursor(5) == Cursor{2, 1});
  CHECK(dealer.global_step({2, 1}) == 5);
}

TEST_CASE("ranks without a sample get an empty run") {
  const Dealer dealer = make_dealer(2, 4, 8);
  CHECK(dealer.steps_per_epoch() == 1);
  CHECK(dealer.run(0, 1) == Run{1, 1});
  CHECK(dealer.run(0, 2).count == 0);
  CHECK(dealer.run(0, 3).count == 0);
}

TEST_CASE("every record is dealt exactly once per epoch") {
  rc::check("partition", [](std::uint64_t seed) {
    const auto records = *rc::gen::inRange<std::uint64_t>(1, 400);
    const auto ranks = *rc::gen::inRange<std::uint64_t>(1, 12);
    const auto batch = *rc::gen::inRange<std::uint64_t>(1, 40);
    const auto epoch = *rc::gen::inRange<std::uint64_t>(0, 5);
    const Dealer dealer = *Dealer::create({records, ranks, batch, seed});
    const Numbers order = dealer.order(epoch);
    Numbers dealt;
    for (std::uint64_t step = 0; step < dealer.steps_per_epoch(); ++step) {
      std::uint64_t in_step = 0;
      std::uint64_t least = batch;
      std::uint64_t most = 0;
      for (std::uint64_t rank = 0; rank < ranks; ++rank) {
        const Run run = dealer.run(step, rank);
        RC_ASSERT(run.begin == dealt.size());
        RC_ASSERT(run.count <= batch);
        for (std::uint64_t i = 0; i < run.count; ++i) dealt.push_back(order[run.begin + i]);
        in_step += run.count;
        least = std::min(least, run.count);
        most = std::max(most, run.count);
      }
      RC_ASSERT(in_step == dealer.step_records(step));
      RC_ASSERT(most - least <= 1U);
      if (step + 1 < dealer.steps_per_epoch()) RC_ASSERT(in_step == ranks * batch);
    }
    std::sort(dealt.begin(), dealt.end());
    Numbers all(records);
    std::iota(all.begin(), all.end(), std::uint64_t{0});
    RC_ASSERT(dealt == all);
  });
}

TEST_CASE("strides of all ranks partition the records") {
  rc::check("strides", [] {
    const auto records = *rc::gen::inRange<std::uint64_t>(0, 300);
    const auto ranks = *rc::gen::inRange<std::uint64_t>(1, 20);
    const auto batch = *rc::gen::inRange<std::uint64_t>(1, 40);
    Numbers seen;
    for (std::uint64_t rank = 0; rank < ranks; ++rank) {
      const auto plan = make_evaluation_plan({records, ranks, batch, 0}, rank);
      std::uint64_t count = 0;
      Numbers numbers;
      for (std::uint64_t step = 0; step < plan->steps(); ++step) {
        plan->records(step, numbers);
        RC_ASSERT(!numbers.empty() && numbers.size() <= batch);
        for (const auto number : numbers) {
          RC_ASSERT(number == rank + count * ranks);
          ++count;
        }
        seen.insert(seen.end(), numbers.begin(), numbers.end());
      }
      RC_ASSERT(count == stride_records(records, ranks, rank));
    }
    std::sort(seen.begin(), seen.end());
    Numbers all(records);
    std::iota(all.begin(), all.end(), std::uint64_t{0});
    RC_ASSERT(seen == all);
  });
}

TEST_CASE("epochs differ, seeds differ, and the same pair never does") {
  const Dealer dealer = make_dealer(100, 2, 10);
  CHECK(dealer.order(0) == make_dealer(100, 5, 3).order(0));
  CHECK(dealer.order(0) != dealer.order(1));
  CHECK(dealer.order(0) != make_dealer(100, 2, 10, 8).order(0));
}

TEST_CASE("a training plan gives the dealer's runs by global step") {
  const auto orders = std::make_shared<const EpochOrders>(make_dealer(23, 3, 5));
  const auto plan = make_training_plan(orders, 1, 7);
  CHECK(plan->steps() == 7);
  Numbers numbers;
  // Back and forth, so that orders are made anew.
  for (const std::uint64_t step : {0, 1, 5, 2, 6, 3, 0}) {
    plan->records(step, numbers);
    const Numbers order = orders->dealer().order(step / 2);
    const Run run = orders->dealer().run(step % 2, 1);
    const auto begin = order.begin() + static_cast<std::ptrdiff_t>(run.begin);
    CHECK(numbers == Numbers(begin, begin + static_cast<std::ptrdiff_t>(run.count)));
    CHECK(plan->epoch(step) == step / 2);
  }
}

TEST_CASE("impossible dealings are refused") {
  CHECK(Dealer::create({0, 1, 1, 0}).status().code() == Errc::invalid_argument);
  CHECK(Dealer::create({1, 0, 1, 0}).status().code() == Errc::invalid_argument);
  CHECK(Dealer::create({1, 1, 0, 0}).status().code() == Errc::invalid_argument);
  CHECK(Dealer::create({1, 1ULL << 40, 1ULL << 40, 0}).status().code() == Errc::invalid_argument);
}

}  // namespace
}  // namespace troupe::data
