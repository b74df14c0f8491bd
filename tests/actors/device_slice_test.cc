// SPDX-License-Identifier: Apache-2.0
// The rules between a slice's gradients and its weights: barriers, echoes, refusals.
#include "actors/device_slice.h"

#include <algorithm>

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

/// The slice at machine 0: ranks 0 and 1 of 4.
struct Slice {
  store::SliceRules rules;
  DeviceSlice slice{rules, 0, kSlice};

  explicit Slice(const schemas::ConsistencySpec& consistency) : rules(slice_rules(consistency)) {}
  Slice(const Slice&) = delete;

  base::Status reply(std::uint64_t version, std::uint64_t step, std::vector<std::uint64_t> next,
                     base::Errc code = base::Errc::ok) {
    WeightReply reply;
    reply.slice = kSlice;
    reply.version = version;
    reply.step = step;
    reply.code = code;
    reply.text = code == base::Errc::ok ? "" : "it is gone";
    reply.next = std::move(next);
    return slice.replied(reply, code == base::Errc::ok ? slice_bytes() : base::Buffer());
  }
  /// True when there was something to compute.
  bool computes() { return run_all(slice.gather()) > 0; }
};

TEST_CASE("a gradient behind a barrier is not read before the barrier is complete") {
  Slice of(modes(kEventual, GENERATE(kSequential, kEventual)));
  // Even the start's has to be seen.
  of.slice.push(gradient(0, 0));
  CHECK_FALSE(of.computes());
  CHECK(of.slice.gather().take_answers().empty());
  CHECK(of.slice.desired() == Pulls{{kSlice, kBarrierVersion, 0, 0}});
  CHECK(of.reply(0, 0, {0, 0, 0, 0}).ok());
  CHECK(of.computes());
  CHECK(of.slice.gather().take_answers().size() == 1);
  for (std::uint64_t step = 1; step < 4; ++step) {
    of.slice.push(gradient(0, step));
    CHECK(of.computes());
  }
  of.slice.gather().take_answers();

  of.slice.push(gradient(0, 4));
  of.slice.push(gradient(0, 4));  // repeated
  CHECK_FALSE(of.computes());
  const WeightPull barrier{kSlice, kBarrierVersion, 4, 4};
  const auto asks = [&] {
    const Pulls pulls = of.slice.desired();
    return std::count(pulls.begin(), pulls.end(), barrier);
  };
  CHECK(asks() == 1);
  CHECK(of.reply(1, 1, {4, 3, 4, 4}).ok());  // one rank is missing
  CHECK_FALSE(of.computes());
  CHECK(asks() == 1);
  CHECK(of.reply(2, 2, {4, 4, 4, 4}).ok());
  CHECK(asks() == 0);
  CHECK(of.computes());
  CHECK(of.slice.gather().take_answers().size() == 1);
}

TEST_CASE("a barrier wanted by ranks and gradients is one question") {
  Slice of(modes(kEventual, kEventual));
  of.slice.push(gradient(0, 0));
  of.slice.want(1, 0);
  CHECK(of.slice.desired() == Pulls{{kSlice, kBarrierVersion, 0, 0}});
  CHECK(of.reply(0, 0, {0, 0, 0, 0}).ok());
  CHECK(of.slice.weights().next_handout()->rank == 1);
  CHECK(of.slice.desired().empty());
}

TEST_CASE("sequential, eventual: the barrier holds back the whole machine's step") {
  Slice of(modes(kSequential, kEventual));
  CHECK(of.reply(0, 0, {0, 0, 0, 0}).ok());
  for (std::uint64_t step = 0; step < 4; ++step) {
    of.slice.push(gradient(0, step));
    of.slice.push(gradient(1, step));
    CHECK(of.computes());
    REQUIRE(of.slice.next_push(false).has_value());
    of.slice.gather().acknowledged(step);
  }
  of.slice.push(gradient(0, 4));
  of.slice.push(gradient(1, 4));
  CHECK_FALSE(of.computes());
  CHECK(of.reply(7, 4, {4, 4, 4, 4}).ok());
  CHECK(of.computes());
  CHECK(of.slice.next_push(false)->step == 4);
}

TEST_CASE("both tiers sequential: nothing is held back, versions keep the order") {
  Slice of(modes(kSequential, kSequential));
  for (std::uint64_t step = 0; step < 6; ++step) {
    of.slice.push(gradient(0, step));
    of.slice.push(gradient(1, step));
    CHECK(of.computes());
  }
  CHECK(of.slice.desired().empty());
}

TEST_CASE("a rank that has gone on asks no more: the echo of its pull is dropped") {
  Slice of(modes(kEventual, kEventual));
  CHECK(of.reply(0, 0, {0, 0, 0, 0}).ok());
  of.slice.want(0, 0);
  CHECK(of.slice.weights().next_handout().has_value());
  of.slice.want(0, 0);  // its weights were lost on the way
  CHECK(of.slice.weights().next_handout().has_value());
  of.slice.push(gradient(0, 0));
  of.slice.want(0, 0);
  CHECK_FALSE(of.slice.weights().waits(0));
}

TEST_CASE("a refusal ends the job only if its question is still open") {
  Slice of(modes(kSequential, kSequential));
  of.slice.want(0, 2);
  CHECK(of.reply(1, 1, {}, base::Errc::not_found).ok());  // asked before, answered since
  const base::Status refused = of.reply(2, 2, {}, base::Errc::not_found);
  CHECK(refused.code() == base::Errc::not_found);
  CHECK(refused.text() == "it is gone");

  Slice barrier(modes(kEventual, kEventual));
  barrier.slice.push(gradient(0, 0));
  CHECK_FALSE(barrier.reply(kBarrierVersion, 0, {}, base::Errc::not_found).ok());
  CHECK(barrier.reply(kNewestVersion, 0, {}, base::Errc::not_found).ok());
}

TEST_CASE("a push to the owner knows the version held and whether the machine is blocked") {
  Slice of(modes(kEventual, kSequential));
  CHECK_FALSE(of.slice.next_push(true).has_value());  // before the first weights
  CHECK(of.reply(0, 0, {0, 0, 0, 0}).ok());
  CHECK_FALSE(of.slice.next_push(false).has_value());
  CHECK(of.slice.next_push(true)->abstains);
  of.slice.push(gradient(1, 0));
  CHECK(of.computes());
  CHECK(of.slice.next_push(false)->step == 0);
  of.slice.push(gradient(0, 0));
  CHECK(of.computes());
  CHECK(of.reply(1, 1, {0, 0, 1, 1}).ok());  // a round without this machine's push
  CHECK_FALSE(of.slice.next_push(false).has_value());
  CHECK(of.reply(2, 2, {0, 1, 1, 1}).ok());
  CHECK(of.slice.next_push(false)->step == 2);
}

TEST_CASE("who is waited for") {
  Slice of(modes(kSequential, kSequential));
  of.slice.push(gradient(0, 0));
  CHECK(of.slice.waits_for() == "slice (2, 1) waits for gradients of ranks 1");
  of.slice.want(1, 3);
  CHECK(of.slice.waits_for() == "slice (2, 1): rank 1 waits for its owner's weights of step 3");
}

TEST_CASE("beyond a hold nothing is summed, asked for or handed out") {
  Slice of(modes(kSequential, kSequential));
  CHECK(of.reply(0, 0, {}).ok());
  of.slice.want(0, 0);
  CHECK(of.slice.weights().next_handout().has_value());
  of.slice.push(gradient(0, 0));
  CHECK(of.slice.begun() == 1);
  of.slice.want(0, 1);
  CHECK(of.slice.begun() == 2);
  of.slice.hold(1);
  of.slice.push(gradient(1, 0));  // below it all goes on
  CHECK(of.computes());
  CHECK(of.slice.gather().take_answers().size() == 2);
  of.slice.want(1, 1);
  CHECK(of.slice.waits(1));
  of.slice.push(gradient(1, 1));
  CHECK_FALSE(of.slice.asked(1, 1).has_value());  // its answer will follow
  CHECK(of.reply(1, 1, {}).ok());
  CHECK(of.slice.weights().next_handout()->rank == 0);
  CHECK_FALSE(of.slice.weights().next_handout().has_value());

  of.slice.hold(store::kNoStep);
  CHECK(of.slice.weights().next_handout()->rank == 1);
  of.slice.push(gradient(0, 1));
  CHECK(of.computes());
}

TEST_CASE("a hold does not let through what waits for a barrier") {
  Slice of(modes(kEventual, kSequential));
  of.rules.steps.checkpoints = true;
  CHECK(of.reply(0, 0, {0, 0, 0, 0}).ok());
  of.slice.push(gradient(0, 0));
  CHECK(of.computes());
  of.slice.hold(1);
  of.slice.push(gradient(0, 1));
  CHECK_FALSE(of.computes());
  REQUIRE(of.rules.steps.add_cut(2));
  of.slice.hold(2);
  CHECK(of.computes());  // step 1 is below the cut
  of.slice.push(gradient(0, 2));
  CHECK(of.reply(2, 2, {2, 2, 2, 2}).ok());  // the barrier is complete, but nobody goes on
  CHECK_FALSE(of.computes());
  of.slice.hold(store::kNoStep);
  CHECK(of.computes());
}

}  // namespace
}  // namespace troupe::actors
