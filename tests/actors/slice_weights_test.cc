// SPDX-License-Identifier: Apache-2.0
// Which weights a rank gets for which step in each mode, and what the owner is asked for.
#include "actors/slice_weights.h"

#include "tests/actors/slice_fixture.h"
#include "tests/support/catch.h"

namespace troupe::actors {
namespace {

using namespace testing;
using schemas::kBarrierVersion;
using schemas::kNewestVersion;
using schemas::WeightPull;
using schemas::WeightReply;
using Pulls = std::vector<WeightPull>;

constexpr schemas::SliceId kSlice{2, 1};

/// What the weights need to know of a gather, set by hand.
struct SentSoFar final : DeviceGather {
  void push(RankPush) override {}
  std::optional<schemas::PushResult> asked(std::uint32_t, std::uint64_t) const override {
    return std::nullopt;
  }
  std::optional<GatherWork> next_work() override { return std::nullopt; }
  void done(std::uint64_t, base::Buffer) override {}
  std::optional<store::SlicePush> next_push(const OwnerView&) override { return std::nullopt; }
  void acknowledged(std::uint64_t) override {}
  std::uint64_t begun() const override { return 0; }
  std::uint64_t arrived(std::uint32_t) const override { return 0; }
  std::uint64_t unsent(std::uint32_t rank) const override { return below[rank]; }
  std::optional<std::uint64_t> spoken_version() const override { return spoken; }
  std::uint64_t number() const override { return pushes; }
  std::vector<std::uint32_t> missing() const override { return {}; }

  std::uint64_t below[2] = {0, 0};
  std::optional<std::uint64_t> spoken;
  std::uint64_t pushes = 0;
};

/// Machine 0's weights: ranks 0 and 1 of 4.
struct Weights {
  store::SliceRules rules;
  SliceWeights weights{rules, 0, kSlice};
  SentSoFar sent;

  explicit Weights(const schemas::ConsistencySpec& consistency) : rules(slice_rules(consistency)) {}
  Weights(const Weights&) = delete;

  void come(std::uint64_t version, std::uint64_t step, std::vector<std::uint64_t> next) {
    WeightReply reply;
    reply.slice = kSlice;
    reply.version = version;
    reply.step = step;
    reply.next = std::move(next);
    REQUIRE(weights.take(reply, slice_bytes()).ok());
  }
  Pulls desired() const { return weights.desired(sent); }
  /// The version that `rank` is handed now.
  std::optional<std::uint64_t> handed(std::uint32_t rank) {
    const auto handout = weights.next_handout();
    if (!handout) return std::nullopt;
    CHECK(handout->rank == rank);
    return handout->version;
  }
};

/// The same without any barrier between the start and the end.
Weights& without_barriers(Weights& of) {
  of.rules.steps.epoch_steps = of.rules.steps.total;
  return of;
}

TEST_CASE("both tiers sequential: version t for step t, and the one before for a late pull") {
  Weights of(modes(kSequential, kSequential));
  of.weights.want(0, 3);
  of.weights.want(1, 3);
  CHECK(of.weights.waits(0));
  CHECK(of.desired() == Pulls{{kSlice, 3, 0, 3}});
  CHECK_FALSE(of.handed(0).has_value());
  of.come(3, 3, {});
  CHECK(of.handed(0) == 3);
  CHECK(of.desired().empty());
  CHECK(of.weights.handed(0, 3));
  of.weights.want(0, 4);
  of.come(4, 4, {});
  CHECK(of.handed(0) == 4);
  CHECK(of.handed(1) == 3);
  CHECK_FALSE(of.handed(1).has_value());
  of.weights.want(0, 3);  // an echo from before it was handed step 4
  CHECK_FALSE(of.weights.waits(0));
  of.come(3, 3, {});  // a late answer to a repeated pull
  of.weights.want(1, 4);
  CHECK(of.handed(1) == 4);
}

TEST_CASE("sequential, eventual: one answer per step for all ranks of the machine") {
  Weights of(modes(kSequential, kEventual));
  of.weights.want(0, 2);
  of.weights.want(1, 2);
  CHECK(of.desired() == Pulls{{kSlice, kNewestVersion, 0, 2}});
  of.come(5, 2, {2, 2, 1, 0});
  CHECK(of.handed(0) == 5);
  of.come(6, 2, {2, 2, 2, 0});  // the repeated pull was answered with something newer
  CHECK(of.handed(1) == 5);
  of.weights.want(0, 4);  // the end of an epoch
  CHECK(of.desired() == Pulls{{kSlice, kBarrierVersion, 4, 4}});
}

TEST_CASE("sequential, eventual: the pull demands what the bound and the last barrier do") {
  Weights of({{kSequential, {}}, {kEventual, 1}});
  of.weights.want(0, 3);
  CHECK(of.desired() == Pulls{{kSlice, kNewestVersion, 2, 3}});
  of.come(7, 3, {3, 3, 2, 2});
  CHECK(of.handed(0) == 7);
  of.weights.want(0, 5);
  CHECK(of.desired() == Pulls{{kSlice, kNewestVersion, 4, 5}});
}

TEST_CASE("behind a barrier no weights are in front of it, without any bound") {
  Weights lock_step(modes(kSequential, kEventual));
  lock_step.weights.want(0, 6);
  CHECK(lock_step.desired() == Pulls{{kSlice, kNewestVersion, 4, 6}});
  Weights of(modes(kEventual, kEventual));
  of.come(9, 0, {6, 4, 3, 4});
  of.weights.want(0, 6);
  CHECK_FALSE(of.handed(0).has_value());
  CHECK(of.desired() == Pulls{{kSlice, kNewestVersion, 4, 0}});
  of.come(10, 0, {6, 4, 4, 4});
  CHECK(of.handed(0) == 10);
}

TEST_CASE("eventual device: a rank's own steps are in its weights, others' as far as they came") {
  Weights of(modes(kEventual, kEventual));
  of.come(9, 0, {1, 1, 0, 0});
  of.weights.want(0, 2);
  CHECK_FALSE(of.handed(0).has_value());
  of.weights.want(1, 1);
  CHECK(of.handed(1) == 9);
  of.come(8, 0, {2, 1, 0, 0});  // late: a newer version is held
  CHECK_FALSE(of.handed(0).has_value());
  of.come(10, 0, {2, 1, 0, 0});
  CHECK(of.handed(0) == 10);
}

TEST_CASE("eventual device: both tiers' bounds hold weights back") {
  SECTION("the cluster's, of all ranks") {
    Weights of({{kEventual, {}}, {kEventual, 1}});
    without_barriers(of).come(4, 0, {3, 3, 1, 2});
    of.weights.want(0, 3);
    CHECK_FALSE(of.handed(0).has_value());
    CHECK(of.desired() == Pulls{{kSlice, kNewestVersion, 2, 0}});
    of.come(5, 0, {3, 3, 2, 2});
    CHECK(of.handed(0) == 5);
    CHECK(of.desired().empty());
  }
  SECTION("the device's, of this machine's ranks alone") {
    Weights of({{kEventual, 1}, {kEventual, {}}});
    without_barriers(of).come(4, 0, {3, 1, 0, 0});
    of.weights.want(0, 3);
    CHECK_FALSE(of.handed(0).has_value());
    of.come(5, 0, {3, 2, 0, 0});
    CHECK(of.handed(0) == 5);
  }
}

TEST_CASE(
    "eventual device: a barrier step gets the barrier's weights, however new the newest are") {
  Weights of(modes(kEventual, kEventual));
  of.weights.want(0, 4);
  CHECK(of.desired() == Pulls{{kSlice, kBarrierVersion, 4, 4}});
  of.come(11, 0, {4, 4, 4, 3});
  CHECK_FALSE(of.handed(0).has_value());
  of.come(13, 0, {5, 4, 4, 4});  // complete, but with something later
  CHECK_FALSE(of.handed(0).has_value());
  of.come(12, 4, {4, 4, 4, 4});
  CHECK(of.handed(0) == 12);
  of.come(14, 0, {5, 5, 5, 5});
  of.weights.want(1, 4);
  CHECK(of.handed(1) == 12);
  of.weights.want(1, 5);
  CHECK(of.handed(1) == 14);
}

TEST_CASE("eventual device: a barrier's weights go once everybody has passed it and has them") {
  Weights of(modes(kEventual, kEventual));
  of.come(6, 0, {4, 4, 4, 4});  // also the newest: any pull may bring a barrier's weights
  of.weights.passed(4);
  of.weights.want(0, 4);
  of.weights.passed(5);  // rank 0 waits for them
  CHECK(of.handed(0) == 6);
  of.weights.passed(5);
  of.weights.want(1, 4);
  CHECK_FALSE(of.handed(1).has_value());
  CHECK(of.desired() == Pulls{{kSlice, kBarrierVersion, 4, 4}});
}

TEST_CASE("eventual device: the next barrier's weights take the place of the last one's") {
  Weights of(modes(kEventual, kEventual));
  of.come(6, 0, {4, 4, 4, 4});
  of.come(12, 0, {8, 8, 8, 8});
  of.come(6, 4, {4, 4, 4, 4});  // late
  of.weights.want(1, 8);
  CHECK(of.handed(1) == 12);
}

TEST_CASE("eventual, sequential: the next version is fetched when this one has been spoken for") {
  Weights of(modes(kEventual, kSequential));
  CHECK(of.desired().empty());  // the barrier of the start brings the first
  of.come(3, 0, {1, 1, 0, 0});
  of.sent.below[0] = of.sent.below[1] = 1;
  CHECK(of.desired().empty());  // the next push goes to version 3
  of.sent.spoken = 3;           // and has gone, or the machine has abstained
  CHECK(of.desired() == Pulls{{kSlice, kNewestVersion, 0, 4}});
  of.sent.below[1] = 2;
  CHECK(of.desired() == Pulls{{kSlice, kNewestVersion, 0, 4}});
  of.come(4, 0, {1, 1, 1, 0});  // without what was sent
  CHECK(of.desired() == Pulls{{kSlice, kNewestVersion, 0, 5}});
  CHECK_FALSE(of.weights.owner(of.sent).contained);
  of.come(5, 0, {1, 2, 1, 0});
  CHECK(of.desired().empty());
  CHECK(of.weights.owner(of.sent).contained);
  CHECK(of.weights.owner(of.sent).version == 5);
}

TEST_CASE(
    "eventual, eventual: newer weights are fetched for ranks that ask, with all sent in them") {
  Weights of(modes(kEventual, kEventual));
  of.come(3, 0, {1, 1, 0, 0});
  of.sent.below[0] = of.sent.below[1] = 2;
  of.sent.pushes = 6;
  CHECK(of.desired().empty());  // nobody asks
  of.weights.want(0, 2);
  CHECK(of.desired() == Pulls{{kSlice, kNewestVersion, 0, 6}});
  of.come(4, 0, {2, 1, 0, 0});
  CHECK(of.handed(0) == 4);
  CHECK(of.desired() == Pulls{{kSlice, kNewestVersion, 0, 6}});  // rank 0 waited as it came
  of.come(5, 0, {2, 1, 1, 0});
  CHECK(of.desired().empty());
  of.weights.want(1, 2);
  of.come(6, 0, {2, 2, 1, 0});
  CHECK(of.desired().empty());  // everything sent is in it
  CHECK(of.handed(1) == 6);
}

TEST_CASE("a version that does not say what it contains is refused") {
  const auto text = [](const Weights& of, std::vector<std::uint64_t> next) {
    SliceWeights weights(of.rules, 0, kSlice);
    WeightReply reply;
    reply.next = std::move(next);
    const base::Status status = weights.take(reply, slice_bytes());
    if (!status.ok()) CHECK(status.code() == base::Errc::data_loss);
    return status.text();
  };
  const Weights eventual(modes(kEventual, kSequential));
  CHECK(text(eventual, {}) == "slice (2, 1) came with 0 counts for 4 ranks");
  CHECK(text(eventual, {0, 0, 0, 0, 0}) == "slice (2, 1) came with 5 counts for 4 ranks");
  CHECK(text(eventual, {0, 0, 0, 0}).empty());
  const Weights exact(modes(kSequential, kSequential));
  CHECK(text(exact, {0, 0, 0, 0}) == "slice (2, 1) came with 4 counts for 4 ranks");
  CHECK(text(exact, {}).empty());
}

}  // namespace
}  // namespace troupe::actors
