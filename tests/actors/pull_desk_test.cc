// SPDX-License-Identifier: Apache-2.0
// Pulls that wait, and those whose answers are on the way.
#include "actors/pull_desk.h"

#include "tests/actors/state_fixture.h"
#include "tests/support/catch.h"

namespace troupe::actors {
namespace {

using namespace testing;
using schemas::WeightPull;
using Kind = store::PullNeed::Kind;

Pull pull_of(std::uint32_t machine, std::uint64_t version) {
  return {machine, WeightPull{{0, 0}, version, 0, version}};
}

/// An owner at version 0 of a job whose tiers are both sequential.
struct Owner {
  JobPlan plan = small_plan();
  store::SliceRules rules =
      store::make_rules(plan.spec, small_placement(plan), schemas::TrainingStart{0, 16}).value();
  store::SliceOwner owner{rules, {0, 0}};

  void start() {
    store::SliceState first;
    first.values.weight = base::make_host_buffer(16);
    owner.start(first);
  }
};

TEST_CASE("a pull is new until it waits, and again after its answer could have been lost") {
  PullDesk desk;
  const Pull pull = pull_of(3, 1);
  CHECK(desk.is_new(pull));
  CHECK(desk.wait(pull, {Kind::version, 0, 1}));
  CHECK_FALSE(desk.is_new(pull));
  CHECK(desk.is_new(pull_of(2, 1)));

  desk.answered(pull_of(2, 1));
  CHECK_FALSE(desk.is_new(pull_of(2, 1)));
  desk.forget(1U);  // another machine's link was cut
  CHECK_FALSE(desk.is_new(pull_of(2, 1)));
  desk.forget(2U);
  CHECK(desk.is_new(pull_of(2, 1)));
  desk.answered(pull_of(2, 1));
  desk.forget({});  // a new view
  CHECK(desk.is_new(pull_of(2, 1)));
  CHECK_FALSE(desk.is_new(pull));  // waits still
}

TEST_CASE("only the pulls that can be answered are taken out") {
  Owner owner;
  PullDesk desk;
  for (std::uint32_t machine = 0; machine < 4; ++machine) {
    desk.wait(pull_of(machine, 0), {Kind::version, 0, 0});
    desk.wait(pull_of(machine, 1), {Kind::version, 0, 1});
  }
  CHECK_FALSE(desk.next(owner.owner, {}));  // it has no first values yet
  owner.start();
  for (std::uint32_t machine = 0; machine < 4; ++machine) {
    CHECK(desk.next(owner.owner, {}) == pull_of(machine, 0));
  }
  CHECK_FALSE(desk.next(owner.owner, {}));
  CHECK(desk.waiting() == 4);
}

TEST_CASE("a machine's pushes are looked for only when some have come") {
  Owner owner;
  owner.start();
  PullDesk desk;
  desk.wait(pull_of(1, 9), {Kind::pushes, 1, 0});
  CHECK_FALSE(desk.next(owner.owner, {}));
  CHECK_FALSE(desk.next(owner.owner, {0}));
  CHECK(desk.next(owner.owner, {0, 1}) == pull_of(1, 9));
  CHECK_FALSE(desk.next(owner.owner, {0, 1}));
}

TEST_CASE("the pulls of one machine that wait are bounded") {
  PullDesk desk;
  for (std::uint64_t version = 0; version < kPullsWaitingMax; ++version) {
    REQUIRE(desk.wait(pull_of(0, version), {Kind::version, 0, version}));
  }
  CHECK_FALSE(desk.wait(pull_of(0, kPullsWaitingMax), {Kind::version, 0, 1}));
  CHECK(desk.wait(pull_of(1, 0), {Kind::version, 0, 0}));
}

}  // namespace
}  // namespace troupe::actors
