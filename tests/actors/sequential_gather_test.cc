// SPDX-License-Identifier: Apache-2.0
// Gathering in lock step: both phases of a step by themselves, and a machine that goes through
// them.
#include "actors/sequential_gather.h"

#include "tests/actors/slice_fixture.h"
#include "tests/support/catch.h"

namespace troupe::actors {
namespace {

using namespace testing;
using schemas::PushResult;
using store::SumPart;
using store::TreeNode;

constexpr TreeNode kGroup0{1, 0, 0, 1};
constexpr TreeNode kRank2{0, 1, 0, 1};

/// Ranks 0 to 2 on machine 0: a whole group, and one rank whose sibling is elsewhere.
store::SliceRules three_and_one(schemas::ConsistencyMode cluster) {
  return slice_rules(modes(kSequential, cluster), {0, 0, 0, 1});
}

TEST_CASE("frontier: siblings are added from where they lie, a lone gradient is copied") {
  const store::SliceRules rules = three_and_one(kSequential);
  FrontierSums sums(rules, 0);
  const base::Buffer left = slice_bytes();
  const base::Buffer right = slice_bytes();
  const base::Buffer lone = slice_bytes();
  CHECK(sums.offer(1, right, 2.0));
  CHECK_FALSE(sums.next_work().has_value());
  CHECK(sums.missing() == std::vector<std::uint32_t>{0, 2});
  CHECK(sums.offer(2, lone, 4.0));
  CHECK_FALSE(sums.offer(2, lone, 4.0));
  const auto copy = sums.next_work();
  REQUIRE(copy.has_value());
  CHECK(copy->left.same_block(lone));
  CHECK(copy->right.empty());
  CHECK_FALSE(sums.next_complete().has_value());  // the bytes are still the rank's
  CHECK(sums.offer(0, left, 1.0));
  const auto addition = sums.next_work();
  REQUIRE(addition.has_value());
  CHECK(addition->left.same_block(left));
  CHECK(addition->right.same_block(right));
  CHECK(sums.done(copy->id, slice_bytes()) == kRank2);
  const auto first = sums.next_complete();
  REQUIRE(first.has_value());
  CHECK(first->node == kRank2);
  CHECK(first->sum.count == 4.0);
  CHECK_FALSE(first->sum.data.same_block(lone));
  CHECK_FALSE(sums.complete());
  CHECK(sums.done(addition->id, slice_bytes()) == kGroup0);
  CHECK(sums.complete());
  CHECK(sums.next_complete()->sum.count == 3.0);
  CHECK_FALSE(sums.next_complete().has_value());  // each once
  CHECK(sums.missing().empty());
}

TEST_CASE("frontier: sums that are complete together come in rank order, and again each step") {
  const store::SliceRules rules = three_and_one(kEventual);
  FrontierSums sums(rules, 0);
  for (int step = 0; step < 3; ++step) {
    for (const std::uint32_t rank : {2U, 1U, 0U}) CHECK(sums.offer(rank, slice_bytes(), 1.0));
    CHECK(run_all(sums) == 2);
    REQUIRE(sums.complete());
    CHECK(sums.next_complete()->node == kGroup0);
    CHECK(sums.next_complete()->node == kRank2);
    CHECK(sums.complete());
    sums.clear();
    CHECK_FALSE(sums.complete());
  }
}

TEST_CASE("frontier: what has no samples is not added to, and makes no work of its own") {
  const store::SliceRules rules = three_and_one(kSequential);
  FrontierSums sums(rules, 0);
  const base::Buffer only = slice_bytes();
  CHECK(sums.offer(0, {}, 0.0));
  CHECK(sums.offer(1, only, 2.0));
  const auto copy = sums.next_work();
  REQUIRE(copy.has_value());
  CHECK(copy->left.same_block(only));
  CHECK(copy->right.empty());
  CHECK(sums.done(copy->id, slice_bytes()) == kGroup0);
  CHECK(sums.next_complete()->sum.count == 2.0);
  CHECK(sums.offer(2, {}, 0.0));
  CHECK_FALSE(sums.next_work().has_value());
  const auto nothing = sums.next_complete();
  REQUIRE(nothing.has_value());
  CHECK(nothing->node == kRank2);
  CHECK_FALSE(nothing->sum.data);
}

TEST_CASE("ordered sum: ((a + b) + c), one addition at a time") {
  const base::Buffer a = slice_bytes();
  const base::Buffer b = slice_bytes();
  const base::Buffer c = slice_bytes();
  OrderedSum sum({{a, 1.0, true}, {b, 2.0, true}, {c, 4.0, true}});
  const auto first = sum.next_work();
  REQUIRE(first.has_value());
  CHECK(first->left.same_block(a));
  CHECK(first->right.same_block(b));
  CHECK_FALSE(sum.next_work().has_value());
  CHECK_FALSE(sum.complete());
  const base::Buffer ab = slice_bytes();
  sum.done(first->id, ab);
  CHECK_FALSE(sum.complete());
  const auto second = sum.next_work();
  REQUIRE(second.has_value());
  CHECK(second->left.same_block(ab));
  CHECK(second->right.same_block(c));
  const base::Buffer abc = slice_bytes();
  sum.done(second->id, abc);
  REQUIRE(sum.complete());
  const SumPart whole = sum.take();
  CHECK(whole.count == 7.0);
  CHECK(whole.data.same_block(abc));
}

TEST_CASE("ordered sum: parts without samples are passed over") {
  const base::Buffer only = slice_bytes();
  OrderedSum one({{{}, 0.0, false}, {only, 3.0, true}, {{}, 0.0, false}});
  REQUIRE(one.complete());
  CHECK_FALSE(one.next_work().has_value());
  CHECK(one.take().data.same_block(only));

  OrderedSum none({{{}, 0.0, false}, {{}, 0.0, false}});
  REQUIRE(none.complete());
  const SumPart nothing = none.take();
  CHECK_FALSE(nothing.data);
  CHECK(nothing.count == 0.0);
}

TEST_CASE("cluster sequential: each frontier sum goes out by itself, as early as it can") {
  const store::SliceRules rules = three_and_one(kSequential);
  SequentialGather gather(rules, 0);
  gather.push(gradient(2, 0));
  CHECK(gather.take_answers().empty());  // borrowed until the copy has ended
  run_all(gather);
  const auto answers = gather.take_answers();
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].rank == 2);
  CHECK(answers[0].result == PushResult::taken);
  CHECK(answers[0].bytes == 16);
  const auto early = gather.next_push({});
  REQUIRE(early.has_value());
  CHECK(early->node == kRank2);
  CHECK(early->step == 0);
  CHECK(early->contributions.empty());  // the node says it
  CHECK_FALSE(gather.next_push({}).has_value());
  CHECK(gather.arrived(2) == 0);  // the step goes on

  gather.push(gradient(0, 0));
  gather.push(gradient(1, 0));
  run_all(gather);
  CHECK(gather.next_push({})->node == kGroup0);
  CHECK(gather.take_answers().size() == 2);
  CHECK(gather.arrived(0) == 1);
  CHECK(gather.number() == 1);
  CHECK(gather.missing() == std::vector<std::uint32_t>{0, 1, 2});
}

TEST_CASE("cluster eventual: one contribution of the whole machine per step") {
  const store::SliceRules rules = three_and_one(kEventual);
  SequentialGather gather(rules, 0);
  gather.push(gradient(2, 0));
  gather.push(gradient(0, 0));
  run_all(gather);
  CHECK_FALSE(gather.next_push({}).has_value());
  gather.push(gradient(1, 0));
  CHECK(run_all(gather) == 2);  // inside the group, then with the lone rank
  CHECK(gather.take_answers().size() == 3);
  const auto push = gather.next_push({});
  REQUIRE(push.has_value());
  CHECK(push->node == machine_node(0));
  CHECK(push->count == 3.0);
  CHECK(push->data);
  CHECK(push->contributions == std::vector<schemas::Contribution>{{0, 0}, {1, 0}, {2, 0}});
  CHECK_FALSE(gather.next_push({}).has_value());
  CHECK(gather.unsent(1) == 1);
}

TEST_CASE("repeated, past and early pushes") {
  const store::SliceRules rules = three_and_one(GENERATE(kSequential, kEventual));
  SequentialGather gather(rules, 0);
  const auto result_of = [&](RankPush push) {
    gather.push(std::move(push));
    const auto answers = gather.take_answers();
    return answers.empty() ? std::nullopt : std::optional(answers.at(0).result);
  };
  CHECK(result_of(gradient(0, 2)) == PushResult::not_ready);
  CHECK_FALSE(result_of(gradient(0, 0)).has_value());
  CHECK_FALSE(result_of(gradient(0, 0)).has_value());  // still read: the answer is to come
  CHECK(result_of(gradient(2, 0, {})) == PushResult::taken);
  CHECK(result_of(gradient(2, 0, {})) == PushResult::duplicate);
  gather.push(gradient(1, 0));
  run_all(gather);
  CHECK(gather.take_answers().size() == 2);
  CHECK(result_of(gradient(0, 0)) == PushResult::duplicate);
  CHECK_FALSE(result_of(gradient(0, 1)).has_value());
}

TEST_CASE("a rank that is one step ahead waits there, and nobody reads its gradient") {
  const store::SliceRules rules = three_and_one(GENERATE(kSequential, kEventual));
  SequentialGather gather(rules, 0);
  for (const std::uint32_t rank : {0U, 1U}) gather.push(gradient(rank, 0, {}));
  CHECK(gather.take_answers().size() == 2);
  const base::Buffer ahead = slice_bytes();
  gather.push(gradient(0, 1, ahead));
  gather.push(gradient(0, 1, ahead));  // a repetition: the answer is to come
  CHECK(gather.take_answers().empty());
  CHECK_FALSE(gather.next_work().has_value());
  CHECK(gather.asked(0, 0) == PushResult::duplicate);
  CHECK(gather.asked(2, 0) == PushResult::unknown);
  CHECK_FALSE(gather.asked(0, 1).has_value());
  CHECK(gather.asked(1, 1) == PushResult::unknown);
  CHECK(gather.asked(0, 2) == PushResult::unknown);
  CHECK(gather.arrived(0) == 0);

  gather.push(gradient(2, 0, {}));
  CHECK(gather.arrived(0) == 1);
  CHECK_FALSE(gather.asked(0, 1).has_value());  // borrowed
  gather.push(gradient(1, 1));
  const auto work = gather.next_work();
  REQUIRE(work.has_value());
  CHECK(work->left.same_block(ahead));
  gather.done(work->id, slice_bytes());
  CHECK(gather.asked(0, 1) == PushResult::duplicate);
}

TEST_CASE("a step's sums go out once the owner has taken those of the step before") {
  const store::SliceRules rules = three_and_one(GENERATE(kSequential, kEventual));
  SequentialGather gather(rules, 0);
  for (const std::uint64_t step : {0U, 1U}) {
    for (const std::uint32_t rank : {0U, 1U, 2U}) gather.push(gradient(rank, step, {}));
  }
  std::size_t pushes = 0;
  for (; const auto push = gather.next_push({}); ++pushes) CHECK(push->step == 0);
  REQUIRE(pushes > 0);
  for (; pushes > 0; --pushes) {
    CHECK_FALSE(gather.next_push({}).has_value());
    gather.acknowledged(0);
  }
  REQUIRE(gather.next_push({}).has_value());
}

TEST_CASE("cluster eventual: a repeated push while the frontier's sums are added is a duplicate") {
  const store::SliceRules rules = three_and_one(kEventual);
  SequentialGather gather(rules, 0);
  for (const std::uint32_t rank : {0U, 1U, 2U}) gather.push(gradient(rank, 0));
  run_next(gather);
  run_next(gather);
  const auto last = gather.next_work();
  REQUIRE(last.has_value());
  gather.take_answers();
  gather.push(gradient(1, 0));
  CHECK(gather.take_answers().at(0).result == PushResult::duplicate);
  CHECK_FALSE(gather.next_push({}).has_value());
  gather.done(last->id, slice_bytes());
  CHECK(gather.next_push({}).has_value());
}

TEST_CASE("a step without samples goes out without bytes, and the next one begins") {
  const store::SliceRules rules = three_and_one(GENERATE(kSequential, kEventual));
  SequentialGather gather(rules, 0);
  for (const std::uint32_t rank : {0U, 1U, 2U}) gather.push(gradient(rank, 0, {}));
  CHECK(run_all(gather) == 0);
  CHECK(gather.take_answers().size() == 3);
  std::size_t pushes = 0;
  while (const auto push = gather.next_push({})) {
    ++pushes;
    CHECK_FALSE(push->data);
    CHECK(push->count == 0.0);
    CHECK(push->step == 0);
  }
  CHECK(pushes == (rules.cluster_sequential() ? 2 : 1));
  CHECK(gather.number() == 1);
}

}  // namespace
}  // namespace troupe::actors
