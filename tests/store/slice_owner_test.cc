// SPDX-License-Identifier: Apache-2.0
// The owner of a slice in all four combinations of modes: what it takes, when it updates, what it
// answers and what its checkpoints contain.
#include "store/slice_owner.h"

#include "tests/support/catch.h"

namespace troupe::store {
namespace {

using schemas::ConsistencyMode;
using schemas::PushResult;
using schemas::WeightPull;

SliceRules rules(ConsistencyMode device, ConsistencyMode cluster) {
  schemas::ConsistencySpec consistency{{device, {}}, {cluster, {}}};
  StepPlan steps;
  steps.total = 8;
  steps.epoch_steps = 4;
  steps.checkpoints = true;
  return {AdditionTree(2, 2), consistency, steps, 16.0, {0, 0, 1, 1}};
}

base::Buffer bytes() {
  return base::make_host_buffer(8);
}

SliceState first() {
  return {{bytes(), {bytes()}}, 0, 0};
}

/// Runs all work there is; counts updates.
struct Runner {
  SliceOwner& owner;
  std::vector<SliceUpdate> updates;

  void run() {
    while (auto work = owner.next_work()) {
      if (auto* add = std::get_if<Addition>(&*work)) {
        owner.added(add->id, bytes());
      } else {
        updates.push_back(std::get<SliceUpdate>(*work));
        owner.updated({bytes(), {bytes()}});
      }
    }
  }
};

SlicePush group_push(std::uint32_t group, std::uint64_t step) {
  return {group, {1, 0, group, group + 1}, step, 8.0, {}, bytes()};
}

SlicePush listed_push(std::uint32_t machine, std::uint64_t number,
                      std::vector<schemas::Contribution> contributions) {
  return {machine, {1, 0, machine, machine + 1}, number, 8.0, std::move(contributions), bytes()};
}

SlicePush abstention(std::uint32_t machine, std::uint64_t version) {
  SlicePush push{machine, {1, 0, machine, machine}, version, 0.0, {}, {}};
  push.abstains = true;
  return push;
}

constexpr auto kSequential = ConsistencyMode::sequential;
constexpr auto kEventual = ConsistencyMode::eventual;

TEST_CASE("sequential: version t + 1 is made of step t once everybody is in") {
  const SliceRules r = rules(kSequential, kSequential);
  SliceOwner owner(r, {0, 0});
  Runner runner{owner, {}};
  CHECK(*owner.push(group_push(0, 0)) == PushResult::not_ready);
  CHECK_FALSE(owner.answer({{}, 0, 0, 0}, 0).has_value());
  owner.start(first());
  CHECK(owner.answer({{}, 0, 0, 0}, 0)->version == 0);

  CHECK(*owner.push(group_push(0, 0)) == PushResult::taken);
  CHECK(*owner.push(group_push(0, 0)) == PushResult::duplicate);
  runner.run();
  CHECK(runner.updates.empty());
  CHECK(owner.waits_for().find("step 0 waits for ranks 2, 3") != std::string::npos);
  CHECK_FALSE(owner.answer({{}, 1, 0, 1}, 0).has_value());
  CHECK(*owner.push(group_push(1, 0)) == PushResult::taken);
  runner.run();
  REQUIRE(runner.updates.size() == 1);
  CHECK(runner.updates[0].count == 16.0);
  CHECK(runner.updates[0].share == 1.0);
  CHECK(*owner.push(group_push(1, 0)) == PushResult::duplicate);
  CHECK(owner.answer({{}, 1, 0, 1}, 0)->next.empty());
  CHECK(owner.answer({{}, 0, 0, 0}, 0)->code == base::Errc::ok);  // the previous one is kept

  CHECK_FALSE(owner.push({0, {0, 0, 0, 2}, 1, 1.0, {}, bytes()}).ok());  // no node of the tree
}

/// The name of a push of either helper.
PushName name_of(const SlicePush& push) {
  return {{0, 0}, push.machine, push.node, push.step};
}

TEST_CASE("sequential: a sum of the next step waits for its step and is acknowledged then") {
  const SliceRules r = rules(kSequential, kSequential);
  SliceOwner owner(r, {0, 0});
  Runner runner{owner, {}};
  owner.start(first());
  CHECK(*owner.push(group_push(0, 0)) == PushResult::taken);
  CHECK(*owner.push(group_push(0, 1)) == std::nullopt);
  CHECK(*owner.push(group_push(0, 1)) == std::nullopt);  // a repetition: the answer is to come
  CHECK(*owner.push(group_push(0, 2)) == PushResult::not_ready);
  CHECK(owner.take_acks().empty());
  CHECK(*owner.push(group_push(1, 0)) == PushResult::taken);
  runner.run();
  CHECK(owner.state().version == 1);
  REQUIRE(owner.take_acks() == std::vector<PushName>{name_of(group_push(0, 1))});
  CHECK(*owner.push(group_push(0, 1)) == PushResult::duplicate);
  CHECK(*owner.push(group_push(1, 1)) == PushResult::taken);
  runner.run();
  CHECK(owner.state().version == 2);
  CHECK(runner.updates.size() == 2);
}

TEST_CASE("sequential: an owner knows what has become of a push") {
  const SliceRules r = rules(kSequential, kSequential);
  SliceOwner owner(r, {0, 0});
  const auto asked = [&](std::uint32_t group, std::uint64_t step) {
    return owner.asked(name_of(group_push(group, step)));
  };
  CHECK(asked(0, 0) == PushResult::unknown);
  owner.start(first());
  CHECK(asked(0, 0) == PushResult::unknown);
  CHECK(*owner.push(group_push(0, 0)) == PushResult::taken);
  CHECK(asked(0, 0) == PushResult::duplicate);
  CHECK(asked(1, 0) == PushResult::unknown);
  CHECK(asked(0, 1) == PushResult::unknown);
  CHECK(*owner.push(group_push(0, 1)) == std::nullopt);
  CHECK(asked(0, 1) == std::nullopt);  // its answer is to come
  CHECK(*owner.push(group_push(1, 0)) == PushResult::taken);
  REQUIRE(owner.next_work().has_value());  // the addition
  owner.added(1, bytes());
  REQUIRE(owner.next_work().has_value());  // the update
  CHECK(asked(1, 0) == PushResult::duplicate);
  CHECK(asked(1, 1) == PushResult::unknown);
  owner.updated({bytes(), {bytes()}});
  CHECK(asked(1, 0) == PushResult::duplicate);
  CHECK(asked(0, 1) == PushResult::duplicate);
  CHECK(owner.asked({{0, 0}, 7, {0, 0, 0, 2}, 1}) == PushResult::unknown);  // no such machine
}

TEST_CASE("eventual cluster: an owner knows what has become of a push") {
  const SliceRules r = rules(kSequential, kEventual);
  SliceOwner owner(r, {0, 0});
  owner.start(first());
  const SlicePush push = listed_push(0, 0, {{0, 0}, {1, 0}});
  CHECK(owner.asked(name_of(push)) == PushResult::unknown);
  CHECK(*owner.push(push) == std::nullopt);
  CHECK(owner.asked(name_of(push)) == std::nullopt);
  REQUIRE(owner.next_work().has_value());
  CHECK(owner.asked(name_of(push)) == PushResult::duplicate);
  CHECK(owner.take_applied().empty());
  owner.updated({bytes(), {bytes()}});
  CHECK(owner.asked(name_of(push)) == PushResult::duplicate);
  CHECK(owner.take_applied() == std::set<std::uint32_t>{0});
  CHECK(owner.take_applied().empty());
}

TEST_CASE("eventual: a push that sums nothing is refused, and the error names its machine") {
  const ConsistencyMode cluster = GENERATE(kSequential, kEventual);
  const SliceRules r = rules(kEventual, cluster);
  SliceOwner owner(r, {0, 3});
  owner.start(first());
  const auto refused = owner.push(listed_push(1, 0, {}));
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().text() == "[slice (0, 3)] push 0 of machine 1 sums nothing");
}

TEST_CASE("rounds: an owner knows what has become of a push and of an abstention") {
  const SliceRules r = rules(kEventual, kSequential);
  SliceOwner owner(r, {0, 0});
  Runner runner{owner, {}};
  owner.start(first());
  const SlicePush one = listed_push(0, 0, {{0, 0}});
  const SlicePush none = abstention(1, 0);
  CHECK(owner.asked(name_of(one)) == PushResult::unknown);
  CHECK(owner.asked(name_of(none)) == PushResult::unknown);
  CHECK(*owner.push(one) == PushResult::taken);
  CHECK(owner.asked(name_of(one)) == PushResult::duplicate);
  CHECK(*owner.push(none) == PushResult::taken);
  CHECK(owner.asked(name_of(none)) == PushResult::duplicate);
  REQUIRE(owner.next_work().has_value());  // the round is closed
  const SlicePush late = listed_push(1, 0, {{2, 0}});
  CHECK(*owner.push(late) == std::nullopt);
  CHECK(owner.asked(name_of(late)) == std::nullopt);
  owner.updated({bytes(), {bytes()}});
  CHECK(owner.asked(name_of(none)) == PushResult::duplicate);
  CHECK(owner.asked(name_of(late)) == PushResult::duplicate);
  CHECK(owner.asked(name_of(abstention(1, 1))) == PushResult::unknown);
}

TEST_CASE("sequential: a step without samples keeps the weights") {
  const SliceRules r = rules(kSequential, kSequential);
  SliceOwner owner(r, {0, 0});
  Runner runner{owner, {}};
  owner.start(first());
  const base::Buffer weight = owner.state().values.weight;
  const base::Buffer data = GENERATE(base::Buffer{}, base::make_host_buffer(4));
  CHECK(*owner.push({0, r.tree.root(), 0, 0.0, {}, data}) == PushResult::taken);
  runner.run();
  CHECK(runner.updates.empty());
  CHECK(owner.state().version == 1);
  CHECK(owner.state().updates == 0);
  CHECK(owner.state().values.weight.same_block(weight));
}

TEST_CASE("sequential: a checkpoint is a version, and training waits until it is taken") {
  SliceRules r = rules(kSequential, kSequential);
  r.steps.checkpoint_steps = 2;
  SliceOwner owner(r, {0, 0});
  Runner runner{owner, {}};
  owner.start(first());
  for (std::uint64_t step = 0; step < 3; ++step) {
    CHECK(*owner.push({0, r.tree.root(), step, 16.0, {}, bytes()}) == PushResult::taken);
    runner.run();
  }
  CHECK(owner.state().version == 2);
  CHECK(owner.cut_due() == 2);
  CHECK(owner.take_cut().version == 2);
  runner.run();
  CHECK(owner.state().version == 3);
  CHECK(runner.updates.back().from.version == 2);
}

TEST_CASE("sequential: the finished are waited for no more") {
  const SliceRules r = rules(kSequential, kSequential);
  SliceOwner owner(r, {0, 0});
  Runner runner{owner, {}};
  owner.start(first());
  CHECK(*owner.push(group_push(0, 0)) == PushResult::taken);
  owner.finish(2, 0);
  runner.run();
  CHECK(owner.state().version == 0);
  owner.finish(3, 0);
  runner.run();
  CHECK(owner.state().version == 1);
  CHECK(runner.updates.back().count == 8.0);
}

TEST_CASE(
    "sequential: a rank that finishes while others train is nothing, and the last ones end it") {
  const SliceRules r = rules(kSequential, kSequential);
  SliceOwner owner(r, {0, 0});
  Runner runner{owner, {}};
  owner.start(first());
  owner.finish(0, 1);  // after step 0
  owner.finish(1, 1);
  CHECK(*owner.push(group_push(0, 0)) == PushResult::taken);
  CHECK(*owner.push(group_push(1, 0)) == PushResult::taken);
  runner.run();
  CHECK(owner.state().version == 1);
  CHECK(*owner.push(group_push(1, 1)) == PushResult::taken);
  runner.run();
  CHECK(owner.state().version == 2);  // without the machine that has finished
  owner.finish(2, 2);
  owner.finish(2, 2);  // said again
  owner.finish(3, 2);
  runner.run();
  CHECK(owner.state().version == 2);  // nobody is left for another step
}

TEST_CASE("eventual cluster: every push is an update of its share, in order of arrival") {
  const SliceRules r = rules(kSequential, kEventual);
  SliceOwner owner(r, {0, 0});
  owner.start(first());
  CHECK(*owner.push(listed_push(0, 0, {{0, 0}, {1, 0}})) == std::nullopt);
  CHECK(*owner.push(listed_push(1, 0, {{2, 0}, {3, 0}})) == std::nullopt);
  CHECK(*owner.push(listed_push(1, 0, {{2, 0}, {3, 0}})) == std::nullopt);  // it waits still
  CHECK(*owner.push(listed_push(1, 2, {{2, 2}, {3, 2}})) == PushResult::not_ready);
  auto work = owner.next_work();
  REQUIRE(work.has_value());
  CHECK(std::get<SliceUpdate>(*work).share == 0.5);
  CHECK(std::get<SliceUpdate>(*work).delay == 0.0);  // nothing came before
  REQUIRE(owner.take_acks().size() == 1);
  CHECK_FALSE(owner.next_work().has_value());  // one update at a time
  CHECK(*owner.push(listed_push(0, 0, {{0, 0}, {1, 0}})) == PushResult::duplicate);
  // Machine 0's pull for step 1 wants its own step 0 in it.
  const WeightPull pull{{0, 0}, schemas::kNewestVersion, 0, 1};
  CHECK_FALSE(owner.answer(pull, 0).has_value());
  owner.updated({bytes(), {}});
  CHECK(owner.answer(pull, 0)->next == std::vector<std::uint64_t>{1, 1, 0, 0});
  CHECK_FALSE(owner.answer(pull, 1).has_value());
  // Bounded staleness: nothing may be missing below step 1.
  CHECK_FALSE(owner.answer({{0, 0}, schemas::kNewestVersion, 1, 1}, 0).has_value());
  Runner runner{owner, {}};
  runner.run();
  CHECK(owner.answer({{0, 0}, schemas::kNewestVersion, 1, 1}, 0)->version == 2);
  REQUIRE(runner.updates.size() == 1);
  CHECK(runner.updates[0].delay == 0.5);  // machine 0's half of a step
}

TEST_CASE("eventual cluster: skipped, doubled or early contributions end the job") {
  const SliceRules r = rules(kEventual, kEventual);
  const auto text = [&](std::vector<schemas::Contribution> contributions) {
    SliceOwner owner(r, {0, 0});
    owner.start(first());
    const auto result = owner.push(listed_push(0, 0, std::move(contributions)));
    return result.ok() ? std::string() : result.status().text();
  };
  CHECK(text({{0, 0}, {0, 1}, {1, 0}}).empty());
  CHECK(text({{0, 1}}).find("rank 0 step 1, expected step 0") != std::string::npos);
  CHECK(text({{0, 0}, {0, 0}}).find("expected step 1") != std::string::npos);
  CHECK(text({{0, 0}, {0, 1}, {0, 2}, {0, 3}, {0, 4}}).find("below barrier 4") !=
        std::string::npos);
  CHECK(text({{9, 0}}).find("rank 9 of 4") != std::string::npos);
}

TEST_CASE("eventual device, sequential cluster: a late push is examined when it comes") {
  const SliceRules r = rules(kEventual, kSequential);
  SliceOwner owner(r, {0, 0});
  owner.start(first());
  CHECK(*owner.push(listed_push(0, 0, {{0, 0}})) == PushResult::taken);
  CHECK(*owner.push(listed_push(1, 0, {{2, 0}})) == PushResult::taken);
  Runner runner{owner, {}};
  runner.run();
  REQUIRE(owner.state().version == 1);
  CHECK(*owner.push(listed_push(0, 1, {{0, 1}})) == PushResult::taken);
  CHECK(*owner.push(abstention(1, 1)) == PushResult::taken);
  auto update = owner.next_work();  // the round is closed
  REQUIRE(update.has_value());
  SECTION("a contribution out of order") {
    const auto result = owner.push(listed_push(1, 1, {{2, 2}}));
    CHECK_THAT(result.status().text(), Catch::Contains("rank 2 step 2, expected step 1"));
  }
  SECTION("a rank of no machine") {
    CHECK_FALSE(owner.push(listed_push(1, 1, {{9, 0}})).ok());
  }
  SECTION("a rank's step in two machines' pushes") {
    const auto result = owner.push(listed_push(1, 1, {{0, 1}}));
    CHECK_THAT(result.status().text(), Catch::Contains("rank 0 step 1, expected step 2"));
  }
  SECTION("two of one machine") {
    // A machine has one unacknowledged push per slice.
    const SlicePush other = {1, {1, 0, 0, 2}, 1, 8.0, {{3, 0}}, bytes()};
    CHECK(*owner.push(listed_push(1, 1, {{2, 1}})) == std::nullopt);
    CHECK_THAT(owner.push(other).status().text(), Catch::Contains("while another one waits"));
  }
  owner.updated({bytes(), {}});
  CHECK(owner.state().version == 2);
}

TEST_CASE("eventual cluster: the barrier's version is kept until everybody has passed it") {
  SliceRules r = rules(kEventual, kEventual);
  r.steps.epoch_steps = 1;
  r.steps.checkpoint_steps = 1;
  SliceOwner owner(r, {0, 0});
  Runner runner{owner, {}};
  owner.start(first());
  const WeightPull barrier{{0, 0}, schemas::kBarrierVersion, 1, 1};
  CHECK(*owner.push(listed_push(0, 0, {{0, 0}, {1, 0}})) == std::nullopt);
  runner.run();
  CHECK_FALSE(owner.answer(barrier, 1).has_value());
  CHECK(*owner.push(listed_push(1, 0, {{2, 0}, {3, 0}})) == std::nullopt);
  runner.run();
  CHECK(owner.cut_due() == 1);
  CHECK(owner.take_cut().version == 2);
  CHECK(*owner.push(listed_push(0, 1, {{0, 1}, {1, 1}})) == std::nullopt);
  runner.run();
  CHECK(owner.state().version == 3);
  REQUIRE(owner.answer(barrier, 1).has_value());
  CHECK(owner.answer(barrier, 1)->version == 2);
  CHECK(owner.answer(barrier, 1)->next == std::vector<std::uint64_t>{1, 1, 1, 1});
  CHECK(*owner.push(listed_push(1, 1, {{2, 1}, {3, 1}})) == std::nullopt);
  runner.run();
  CHECK(owner.answer(barrier, 1)->code == base::Errc::not_found);
}

TEST_CASE("eventual device, sequential cluster: one push per machine and version") {
  const SliceRules r = rules(kEventual, kSequential);
  SliceOwner owner(r, {0, 0});
  Runner runner{owner, {}};
  owner.start(first());
  // Machine 0 runs ahead to the barrier at 4 in one push per version.
  CHECK(*owner.push(listed_push(0, 0, {{0, 0}, {0, 1}, {0, 2}, {0, 3}, {1, 0}, {1, 1}})) ==
        PushResult::taken);
  runner.run();
  CHECK(runner.updates.empty());
  CHECK(owner.waits_for().find("round 0 waits for machines 1") != std::string::npos);
  CHECK(*owner.push(listed_push(1, 0, {{2, 0}})) == PushResult::taken);
  runner.run();
  REQUIRE(runner.updates.size() == 1);
  CHECK(runner.updates[0].contributions.size() == 7);
  CHECK(*owner.push(listed_push(0, 1, {{1, 2}, {1, 3}})) == PushResult::taken);
  CHECK(*owner.push(listed_push(1, 1, {{3, 0}})) == PushResult::taken);
  runner.run();
  CHECK(owner.state().version == 2);
  // Machine 0 has nothing left before the barrier: version 3 does not wait for it.
  CHECK(*owner.push(listed_push(1, 2, {{2, 1}, {2, 2}, {2, 3}})) == PushResult::taken);
  runner.run();
  CHECK(owner.state().version == 3);
  CHECK(*owner.push(listed_push(1, 3, {{3, 1}, {3, 2}, {3, 3}})) == PushResult::taken);
  runner.run();
  CHECK(owner.applied_below() == 4);
  // Behind the barrier everybody counts again.
  CHECK(*owner.push(listed_push(1, 4, {{2, 4}})) == PushResult::taken);
  runner.run();
  CHECK(owner.state().version == 4);
}

TEST_CASE("eventual device, sequential cluster: abstentions let a round go on, but not alone") {
  const SliceRules r = rules(kEventual, kSequential);
  SliceOwner owner(r, {0, 0});
  Runner runner{owner, {}};
  owner.start(first());
  CHECK(*owner.push(abstention(0, 1)) == PushResult::not_ready);
  CHECK(*owner.push(abstention(0, 0)) == PushResult::taken);
  CHECK(*owner.push(abstention(1, 0)) == PushResult::taken);
  runner.run();
  CHECK(owner.state().version == 0);  // a round of abstentions is no round
  // Who has abstained may still come while the round is open.
  CHECK(*owner.push(listed_push(1, 0, {{2, 0}})) == PushResult::taken);
  auto work = owner.next_work();
  REQUIRE(work.has_value());
  CHECK(std::get<SliceUpdate>(*work).contributions.size() == 1);
  // While its update runs, a push for the same version waits for the next round.
  CHECK(*owner.push(listed_push(0, 0, {{0, 0}})) == std::nullopt);
  CHECK(*owner.push(listed_push(0, 0, {{0, 0}})) == std::nullopt);
  CHECK(owner.take_acks().empty());
  CHECK_FALSE(owner.answer({{0, 0}, schemas::kNewestVersion, 0, 1}, 0).has_value());
  owner.updated({bytes(), {}});
  CHECK(owner.take_acks() == std::vector<PushName>{{{0, 0}, 0, {1, 0, 0, 1}, 0}});
  CHECK(owner.answer({{0, 0}, schemas::kNewestVersion, 0, 1}, 0)->next ==
        std::vector<std::uint64_t>{0, 0, 1, 0});
  CHECK(*owner.push(listed_push(0, 0, {{0, 0}})) == PushResult::duplicate);
  CHECK(*owner.push(abstention(1, 0)) == PushResult::taken);  // of the last round: says nothing now
  runner.run();
  CHECK(owner.state().version == 1);
  CHECK(*owner.push(abstention(1, 1)) == PushResult::taken);
  runner.run();
  CHECK(owner.state().version == 2);
}

TEST_CASE("an abstention that brings something, or in another mode, is refused") {
  const auto text = [](ConsistencyMode device, ConsistencyMode cluster, const SlicePush& push) {
    const SliceRules r = rules(device, cluster);
    SliceOwner owner(r, {0, 0});
    owner.start(first());
    const auto result = owner.push(push);
    if (!result.ok()) CHECK(result.status().code() == base::Errc::invalid_argument);
    return result.ok() ? std::string() : result.status().text();
  };
  CHECK(text(kEventual, kSequential, abstention(1, 0)).empty());
  CHECK_THAT(text(kSequential, kSequential, abstention(1, 0)),
             Catch::Contains("1 abstains, which"));
  CHECK_THAT(text(kSequential, kEventual, abstention(1, 0)), Catch::Contains("1 abstains, which"));
  CHECK_THAT(text(kEventual, kEventual, abstention(1, 0)), Catch::Contains("1 abstains, which"));
  SlicePush full = abstention(1, 0);
  full.data = bytes();
  CHECK_THAT(text(kEventual, kSequential, full),
             Catch::Contains("machine 1 abstains with 8 bytes"));
  full = abstention(1, 0);
  full.count = 2.0;
  CHECK_THAT(text(kEventual, kSequential, full), Catch::Contains("count 2"));
  full = abstention(1, 0);
  full.contributions = {{2, 0}};
  CHECK_THAT(text(kEventual, kSequential, full), Catch::Contains("1 contributions"));
  // What neither abstains nor sums anything is no push.
  full = abstention(1, 0);
  full.abstains = false;
  CHECK_THAT(text(kEventual, kSequential, full), Catch::Contains("machine 1 sums nothing"));
}

TEST_CASE("a judged step is examined, and waits for its verdict", "[judged]") {
  SliceRules r = rules(kSequential, kSequential);
  r.judged = true;
  SliceOwner owner(r, {0, 0});
  owner.start(first());
  REQUIRE(owner.push(group_push(0, 0)).ok());
  REQUIRE(owner.push(group_push(1, 0)).ok());
  owner.added(std::get<Addition>(*owner.next_work()).id, bytes());
  const auto work = owner.next_work();
  REQUIRE(work.has_value());
  REQUIRE(std::holds_alternative<SliceExamination>(*work));
  CHECK_FALSE(owner.next_work().has_value());
  CHECK_FALSE(owner.take_finding().has_value());
  CHECK_FALSE(owner.idle());
  CHECK_THAT(owner.waits_for(), Catch::Contains("the verdict on step 0"));
  CHECK(owner.missing_ranks().empty());
  // The step's sums are complete, whatever comes again or too early.
  CHECK(*owner.push(group_push(0, 0)) == PushResult::duplicate);
  CHECK_FALSE(owner.push(group_push(0, 1))->has_value());

  owner.examined({{4.0, 0}, 0.0});
  const auto found = owner.take_finding();
  REQUIRE(found.has_value());
  CHECK(found->step == 0);
  CHECK(found->count == 16.0);
  CHECK(found->examined.facts.squares == 4.0);
  CHECK_FALSE(owner.take_finding().has_value());
  CHECK_FALSE(owner.next_work().has_value());
  owner.judged({0, false, 2.0, 1.0});
  const auto update = owner.next_work();
  REQUIRE(update.has_value());
  CHECK(std::get<SliceUpdate>(*update).verdict.divisor == 2.0);
  owner.updated({bytes(), {bytes()}});
  CHECK(owner.state().version == 1);
  CHECK(owner.state().updates == 1);
}

TEST_CASE("a step that is dropped makes a version that no optimizer counts", "[judged]") {
  SliceRules r = rules(kSequential, kSequential);
  r.judged = true;
  SliceOwner owner(r, {0, 0});
  owner.start(first());
  for (std::uint64_t step = 0; step < 2; ++step) {
    REQUIRE(owner.push(group_push(0, step)).ok());
    REQUIRE(owner.push(group_push(1, step)).ok());
    owner.added(std::get<Addition>(*owner.next_work()).id, bytes());
    REQUIRE(owner.next_work().has_value());
    owner.examined({{0.0, 1}, 0.0});
    REQUIRE(owner.take_finding().has_value());
    owner.judged({step, step == 0, 2.0, 0.0});
    const auto update = owner.next_work();
    CHECK(std::get<SliceUpdate>(*update).from.updates == 0);
    owner.updated({bytes(), {bytes()}});
    CHECK(owner.state().version == step + 1);
    CHECK(owner.state().updates == step);
  }
}

TEST_CASE("a step without samples needs no verdict", "[judged]") {
  SliceRules r = rules(kSequential, kSequential);
  r.judged = true;
  SliceOwner owner(r, {0, 0});
  owner.start(first());
  for (std::uint32_t group = 0; group < 2; ++group) {
    SlicePush push = group_push(group, 0);
    push.count = 0.0;
    push.data = {};
    REQUIRE(owner.push(push).ok());
  }
  CHECK_FALSE(owner.next_work().has_value());
  CHECK(owner.state().version == 1);
  CHECK_FALSE(owner.take_finding().has_value());
}

}  // namespace
}  // namespace troupe::store
