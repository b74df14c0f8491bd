// SPDX-License-Identifier: Apache-2.0
// The figures of servers: lowest versions, and times as the state machines tell them.
#include "actors/server_figures.h"

#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include "actors/device_server_state.h"
#include "actors/parameter_server_state.h"
#include "tests/actors/state_fixture.h"

namespace troupe::actors {
namespace {

using namespace testing;
using schemas::Role;

constexpr std::size_t kBytes = 16;
constexpr schemas::SliceId kSlice{0, 0};

/// The times of one kind among the effects.
std::vector<std::int64_t> spent(const std::vector<Effect>& effects, Spent::What what) {
  std::vector<std::int64_t> times;
  for (const Spent& one : of_kind<Spent>(effects)) {
    if (one.what == what) times.push_back(one.ns);
  }
  return times;
}

using Times = std::vector<std::int64_t>;

TEST_CASE("the lowest version is that of all slices, however they grow", "[metrics]") {
  rc::check("lowest version", [](const std::vector<std::pair<std::uint8_t, std::uint8_t>>& steps) {
    constexpr std::size_t kSlices = 5;
    LowestVersion lowest;
    lowest.reset(kSlices);
    std::vector<std::uint64_t> versions(kSlices, 0);
    for (const auto& [slice, version] : steps) {
      lowest.set(slice % kSlices, version);
      versions[slice % kSlices] = std::max<std::uint64_t>(versions[slice % kSlices], version);
      RC_ASSERT(lowest.lowest() == *std::min_element(versions.begin(), versions.end()));
    }
  });
}

schemas::GradientPush push_of(schemas::TreeNode node, double count) {
  schemas::GradientPush push;
  push.slice = kSlice;
  push.node = node;
  push.count = count;
  return push;
}

TEST_CASE("a device server tells its rounds and how long requests waited", "[metrics]") {
  const JobPlan plan = small_plan();
  DeviceServerState state(plan, 0);
  open_role(state, plan);
  const auto push = [&](std::uint32_t rank, std::int64_t now_ns) {
    return state.handle(
        Received{letter(plan, {Role::worker, rank}, push_of({0, 0, rank, rank + 1}, 1.0),
                        base::make_host_buffer(kBytes))},
        now_ns);
  };
  CHECK(of_kind<Spent>(push(0, 100)).empty());
  CHECK(of_kind<Spent>(push(0, 130)).empty());  // a repetition
  CHECK(state.holdings().pending_pushes == 1);
  const auto second = push(1, 170);
  CHECK(spent(second, Spent::What::round) == Times{70});
  CHECK(state.holdings().pending_pushes == 2);
  const auto added = state.handle(
      EffectDone{of_kind<Add>(second).at(0).id, {}, base::make_host_buffer(kBytes)}, 250);
  CHECK(spent(added, Spent::What::push) == Times{150, 80});
  CHECK(state.holdings().pending_pushes == 0);

  const schemas::WeightPull pull{kSlice, schemas::kNewestVersion, 0, 1};
  CHECK(of_kind<Spent>(state.handle(Received{letter(plan, {Role::worker, 0}, pull)}, 300)).empty());
  schemas::WeightReply reply;
  reply.slice = kSlice;
  reply.version = 1;
  reply.step = 1;
  const schemas::ActorId owner{Role::parameter_server, plan.layout.info(kSlice).shard};
  const auto handed =
      state.handle(Received{letter(plan, owner, reply, base::make_host_buffer(kBytes))}, 1'000);
  CHECK(spent(handed, Spent::What::pull) == Times{700});
  CHECK(state.holdings().keys == 1);
  CHECK(state.holdings().store_bytes == kBytes);
  CHECK(state.holdings().version == 0);  // the other slice has none
}

/// The shard of slice (0, 0), with its first values of 16 bytes and one slot.
struct Shard {
  JobPlan plan = small_plan();
  ParameterServerState state{plan, plan.layout.first_shard()};

  Shard() {
    const auto opened = open_role(state, plan);
    store::SliceState first;
    first.values.weight = base::make_host_buffer(kBytes);
    first.values.slots = {base::make_host_buffer(kBytes)};
    state.handle(EffectDone{of_kind<InitSlice>(opened).at(0).id, {}, first});
  }
  std::vector<Effect> push(std::uint32_t machine, std::int64_t now_ns) {
    return state.handle(Received{letter(plan, {Role::device_server, machine},
                                        push_of({1, 0, machine, machine + 1}, 2.0),
                                        base::make_host_buffer(kBytes))},
                        now_ns);
  }
};

TEST_CASE("a parameter server tells its rounds, pulls, versions and bytes", "[metrics]") {
  Shard shard;
  ParameterServerState& state = shard.state;
  CHECK(state.holdings().keys == 1);
  CHECK(state.holdings().store_bytes == 2 * kBytes);
  const schemas::WeightPull pull{kSlice, 1, 0, 1};
  state.handle(Received{letter(shard.plan, {Role::device_server, 0}, pull)}, 50);
  CHECK(spent(shard.push(0, 100), Spent::What::push) == Times{0});
  const auto second = shard.push(1, 180);
  const auto added = state.handle(
      EffectDone{of_kind<Add>(second).at(0).id, {}, base::make_host_buffer(kBytes)}, 200);
  CHECK(spent(added, Spent::What::round) == Times{80});
  const store::SliceValues next{base::make_host_buffer(kBytes), {base::make_host_buffer(kBytes)}};
  const auto updated = state.handle(EffectDone{of_kind<Update>(added).at(0).id, {}, next}, 450);
  CHECK(spent(updated, Spent::What::pull) == Times{400});
  CHECK(state.holdings().version == 1);
  CHECK(state.holdings().store_bytes == 2 * kBytes);
}

TEST_CASE("the ranks that a shard waits for long are told, and that they came", "[metrics]") {
  Shard shard;
  shard.state.handle(Tick{1'000});
  shard.push(0, 0);
  shard.state.handle(Tick{2'000});
  const auto missing = of_kind<Missing>(shard.state.handle(Tick{70'000}));
  REQUIRE(missing.size() == 1);
  CHECK(missing[0].ranks == std::vector<std::uint32_t>{2, 3});
  CHECK(of_kind<Missing>(shard.state.handle(Tick{80'000})).empty());
  shard.push(1, 0);
  const auto found = of_kind<Missing>(shard.state.handle(Tick{81'000}));
  REQUIRE(found.size() == 1);
  CHECK(found[0].ranks.empty());
}

}  // namespace
}  // namespace troupe::actors
