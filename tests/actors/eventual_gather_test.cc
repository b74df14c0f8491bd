// SPDX-License-Identifier: Apache-2.0
// Gathering whatever has come: what is added to what, when a push goes out, when a machine
// abstains.
#include "actors/eventual_gather.h"

#include "tests/actors/slice_fixture.h"
#include "tests/support/catch.h"

namespace troupe::actors {
namespace {

using namespace testing;
using schemas::PushResult;
using Contributions = std::vector<schemas::Contribution>;

/// Weights of `version` are held and contain everything that the machine has sent.
OwnerView fresh(std::uint64_t version, bool blocked = false) {
  return {version, true, blocked};
}

TEST_CASE("gradients are added in order of arrival, one at a time") {
  const store::SliceRules rules = slice_rules(modes(kEventual, kEventual));
  EventualGather gather(rules, 0);
  const base::Buffer first = slice_bytes();
  const base::Buffer second = slice_bytes();
  gather.push(gradient(1, 0, first));
  gather.push(gradient(0, 0, second));
  const auto copy = gather.next_work();
  REQUIRE(copy.has_value());
  CHECK(copy->left.same_block(first));
  CHECK(copy->right.empty());
  CHECK_FALSE(gather.next_work().has_value());
  CHECK_FALSE(gather.next_push(fresh(0)).has_value());  // not in the middle of an addition
  CHECK(gather.take_answers().empty());
  const base::Buffer sum = slice_bytes();
  gather.done(copy->id, sum);
  CHECK(gather.take_answers().at(0).rank == 1);
  const auto addition = gather.next_work();
  REQUIRE(addition.has_value());
  CHECK(addition->left.same_block(sum));
  CHECK(addition->right.same_block(second));
  gather.done(addition->id, slice_bytes());
  const auto push = gather.next_push(fresh(0));
  REQUIRE(push.has_value());
  CHECK(push->count == 2.0);
  CHECK(push->contributions == Contributions{{1, 0}, {0, 0}});
  CHECK_FALSE(push->abstains);
  CHECK(gather.unsent(0) == 1);
  CHECK(gather.unsent(1) == 1);
}

TEST_CASE("eventual: repeated, past and early pushes") {
  const store::SliceRules rules = slice_rules(modes(kEventual, kEventual));
  EventualGather gather(rules, 0);
  gather.push(gradient(0, 1));
  CHECK(gather.take_answers().at(0).result == PushResult::not_ready);
  gather.push(gradient(0, 0));
  gather.push(gradient(1, 0));
  gather.push(gradient(1, 0));  // it waits to be added
  const auto work = gather.next_work();
  gather.push(gradient(0, 0));  // it is being added
  CHECK(gather.take_answers().empty());
  CHECK_FALSE(gather.asked(0, 0).has_value());
  CHECK_FALSE(gather.asked(1, 0).has_value());
  CHECK(gather.asked(0, 1) == PushResult::unknown);
  gather.done(work->id, slice_bytes());
  CHECK(gather.take_answers().size() == 1);
  gather.push(gradient(0, 0));
  CHECK(gather.take_answers().at(0).result == PushResult::duplicate);
  CHECK(gather.asked(0, 0) == PushResult::duplicate);
  CHECK(gather.arrived(0) == 1);
  CHECK(gather.missing() == std::vector<std::uint32_t>{0, 1});
  gather.push(gradient(0, 1));
  CHECK(gather.missing() == std::vector<std::uint32_t>{1});
}

TEST_CASE("eventual: a rank without samples is named in the next push") {
  const store::SliceRules rules = slice_rules(modes(kEventual, kEventual));
  EventualGather gather(rules, 0);
  gather.push(gradient(0, 0, {}));
  CHECK_FALSE(gather.next_work().has_value());
  CHECK(gather.take_answers().at(0).result == PushResult::taken);
  const auto push = gather.next_push(fresh(0));
  REQUIRE(push.has_value());
  CHECK_FALSE(push->data);
  CHECK(push->count == 0.0);
  CHECK(push->contributions == Contributions{{0, 0}});
}

TEST_CASE("cluster eventual: one push is unacknowledged at most, what comes meanwhile is summed") {
  const store::SliceRules rules = slice_rules(modes(kEventual, kEventual));
  EventualGather gather(rules, 0);
  const auto come = [&](std::uint32_t rank, std::uint64_t step) {
    gather.push(gradient(rank, step));
    run_all(gather);
  };
  come(0, 0);
  CHECK_FALSE(gather.next_push({}).has_value());  // before the first weights nothing goes out
  CHECK(gather.next_push(fresh(0))->step == 0);
  come(1, 0);
  come(0, 1);
  CHECK_FALSE(gather.next_push(fresh(0)).has_value());
  gather.acknowledged(7);  // of no push
  CHECK_FALSE(gather.next_push(fresh(0)).has_value());
  gather.acknowledged(0);
  // The version held need not contain what has been sent.
  const auto second = gather.next_push({std::uint64_t{0}, false, false});
  REQUIRE(second.has_value());
  CHECK(second->step == 1);
  CHECK(second->contributions == Contributions{{1, 0}, {0, 1}});
  gather.acknowledged(0);  // an echo of the first answer
  come(1, 1);
  CHECK_FALSE(gather.next_push(fresh(1)).has_value());
  CHECK_FALSE(gather.spoken_version().has_value());
  CHECK_FALSE(gather.next_push({std::uint64_t{1}, true, true}).has_value());
}

TEST_CASE("cluster sequential: one push per version, of a version that contains the last one") {
  const store::SliceRules rules = slice_rules(modes(kEventual, kSequential));
  EventualGather gather(rules, 0);
  gather.push(gradient(0, 0));
  run_all(gather);
  const auto first = gather.next_push(fresh(5));
  REQUIRE(first.has_value());
  CHECK(first->step == 5);
  CHECK(first->node == machine_node(0));
  CHECK(gather.spoken_version() == 5);
  gather.push(gradient(1, 0));
  run_all(gather);
  CHECK_FALSE(gather.next_push(fresh(5)).has_value());
  CHECK_FALSE(gather.next_push({std::uint64_t{6}, false, false}).has_value());
  CHECK(gather.next_push(fresh(6))->contributions == Contributions{{1, 0}});
}

TEST_CASE("cluster sequential: a machine abstains once per version, when all its ranks wait") {
  const store::SliceRules rules = slice_rules(modes(kEventual, kSequential));
  EventualGather gather(rules, 1);
  CHECK_FALSE(gather.next_push({{}, false, true}).has_value());
  CHECK_FALSE(gather.next_push(fresh(0)).has_value());
  CHECK_FALSE(gather.next_push({std::uint64_t{0}, false, true}).has_value());
  const auto abstention = gather.next_push(fresh(0, true));
  REQUIRE(abstention.has_value());
  CHECK(abstention->abstains);
  CHECK(abstention->machine == 1);
  CHECK(abstention->step == 0);
  CHECK(abstention->node == schemas::TreeNode{1, 0, 1, 1});
  CHECK(abstention->contributions.empty());
  CHECK_FALSE(abstention->data);
  CHECK(abstention->count == 0.0);
  CHECK(gather.spoken_version() == 0);
  CHECK(gather.number() == 0);  // it is no push
  CHECK_FALSE(gather.next_push(fresh(0, true)).has_value());

  // A gradient that comes later is still pushed to the same version, under another name.
  gather.push(gradient(2, 0));
  run_all(gather);
  const auto push = gather.next_push(fresh(0, true));
  REQUIRE(push.has_value());
  CHECK_FALSE(push->abstains);
  CHECK(push->step == 0);
  CHECK(push->node != abstention->node);
  // After a push the version has been spoken for.
  CHECK_FALSE(gather.next_push(fresh(0, true)).has_value());
  CHECK(gather.next_push(fresh(1, true))->abstains);
  gather.push(gradient(3, 0));
  run_all(gather);
  CHECK_FALSE(gather.next_push(fresh(2, true))->abstains);
  CHECK_FALSE(gather.next_push(fresh(2, true)).has_value());
}

TEST_CASE("cluster sequential: nobody abstains while a gradient waits to be added") {
  const store::SliceRules rules = slice_rules(modes(kEventual, kSequential));
  EventualGather gather(rules, 0);
  gather.push(gradient(0, 0));
  CHECK_FALSE(gather.next_push(fresh(0, true)).has_value());
  const auto work = gather.next_work();
  CHECK_FALSE(gather.next_push(fresh(0, true)).has_value());
  gather.done(work->id, slice_bytes());
  CHECK_FALSE(gather.next_push(fresh(0, true))->abstains);
}

}  // namespace
}  // namespace troupe::actors
