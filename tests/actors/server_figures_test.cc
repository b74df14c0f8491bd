// SPDX-License-Identifier: Apache-2.0
// The figures of servers, read off the events and effects of their state machines.
#include "actors/server_figures.h"

#include <rapidcheck.h>

#include <algorithm>
#include <map>

#include "actors/device_server_state.h"
#include "actors/parameter_server_state.h"
#include "tests/actors/state_fixture.h"
#include "tests/support/catch.h"

namespace troupe::actors {
namespace {

using namespace testing;
using schemas::Role;

constexpr std::size_t kBytes = 16;
constexpr schemas::SliceId kSlice{0, 0};

using Times = std::vector<std::int64_t>;

/// Times and staleness as they are told.
struct Told {
  std::map<Spent::What, Times> spent;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> staleness;
  FigureSinks sinks() {
    return {[this](const Spent& one) { spent[one.what].push_back(one.ns); },
            [this](const Staleness& seen) { staleness.emplace_back(seen.level, seen.steps); }};
  }
  Times take(Spent::What what) { return std::exchange(spent[what], {}); }
};

/// A machine and its figures, as a shell uses them.
template <typename State, typename Figures>
struct Watched {
  JobPlan plan;
  Told told;
  State state;
  Figures figures;
  Watched(JobPlan job, std::uint32_t index)
      : plan(std::move(job)), state(plan, index), figures(plan, index, told.sinks()) {
    handle(Received{letter(plan, kCoordinator, small_placement(plan))}, 0);
    opened = handle(Received{letter(plan, kCoordinator, schemas::TrainingStart{0, 16})}, 0);
  }
  std::vector<typename State::Effect> handle(ServerEvent event, std::int64_t now_ns) {
    figures.arriving(event, now_ns);
    auto effects = state.handle(std::move(event));
    figures.leaving(effects, now_ns);
    return effects;
  }
  std::vector<typename State::Effect> opened;
};

TEST_CASE("the lowest version is that of all slices, however they grow", "[metrics]") {
  rc::check("lowest version", [](const std::vector<std::pair<std::uint8_t, std::uint8_t>>& steps) {
    constexpr std::size_t kSlices = 5;
    LowestVersion lowest(kSlices);
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

TEST_CASE("a device server's rounds, waits and holdings are read off", "[metrics]") {
  Watched<DeviceServerState, DeviceFigures> server(small_plan(), 0);
  const auto push = [&](std::uint32_t rank, std::int64_t now_ns) {
    return server.handle(
        Received{letter(server.plan, {Role::worker, rank}, push_of({0, 0, rank, rank + 1}, 1.0),
                        base::make_host_buffer(kBytes))},
        now_ns);
  };
  push(0, 100);
  push(0, 130);  // a repetition
  CHECK(server.told.spent.empty());
  CHECK(server.figures.holdings().pending_pushes == 1);
  const auto second = push(1, 170);
  CHECK(server.told.take(Spent::What::round) == Times{70});
  CHECK(server.figures.holdings().pending_pushes == 2);
  const auto added = server.handle(
      EffectDone{of_kind<Add>(second).at(0).id, {}, base::make_host_buffer(kBytes)}, 250);
  CHECK(server.told.take(Spent::What::push) == Times{150, 80});
  CHECK(server.figures.holdings().pending_pushes == 0);
  push(1, 260);  // an echo: answered at once, no round of its own
  CHECK(server.told.take(Spent::What::push) == Times{0});
  CHECK(server.told.take(Spent::What::round).empty());
  const DeviceServerCounters& totals = server.figures.counters();
  CHECK(totals.worker_pushes == 2);
  CHECK(totals.worker_push_bytes == 2 * kBytes);
  CHECK(totals.worker_duplicates == 1);
  CHECK(totals.additions == 1);
  CHECK(totals.owner_pushes == 1);
  CHECK(totals.owner_push_bytes == kBytes);
  server.handle(Tick{1}, 300);
  server.handle(Tick{60'000}, 300);
  CHECK(totals.owner_pushes == 1);  // what is repeated is no traffic of its own

  const schemas::WeightPull pull{kSlice, schemas::kNewestVersion, 0, 1};
  server.handle(Received{letter(server.plan, {Role::worker, 0}, pull)}, 300);
  CHECK(server.told.take(Spent::What::pull).empty());
  schemas::WeightReply reply;
  reply.slice = kSlice;
  reply.version = 1;
  reply.step = 1;
  const schemas::ActorId owner{Role::parameter_server, server.plan.layout.info(kSlice).shard};
  server.handle(Received{letter(server.plan, owner, reply, base::make_host_buffer(kBytes))}, 1'000);
  CHECK(server.told.take(Spent::What::pull) == Times{700});
  CHECK(server.told.staleness ==
        std::vector<std::pair<std::uint32_t, std::uint64_t>>{{1, 0}, {2, 0}});
  const ServerHoldings holdings = server.figures.holdings();
  CHECK(holdings.keys == 1);
  CHECK(holdings.store_bytes == kBytes);
  CHECK(holdings.version == 0);  // the other slice has none
  CHECK(totals.owner_replies == 1);
  CHECK(totals.worker_replies == 1);
}

TEST_CASE("the first pull of a rank, of step 0, is timed", "[metrics]") {
  Watched<DeviceServerState, DeviceFigures> server(small_plan(), 0);
  const schemas::WeightPull pull{kSlice, schemas::kNewestVersion, 0, 0};
  server.handle(Received{letter(server.plan, {Role::worker, 0}, pull)}, 100);
  schemas::WeightReply reply;
  reply.slice = kSlice;
  const schemas::ActorId owner{Role::parameter_server, server.plan.layout.info(kSlice).shard};
  server.handle(Received{letter(server.plan, owner, reply, base::make_host_buffer(kBytes))}, 400);
  CHECK(server.told.take(Spent::What::pull) == Times{300});
}

TEST_CASE("a message of another run is no figure", "[metrics]") {
  Watched<DeviceServerState, DeviceFigures> server(small_plan(), 0);
  schemas::Envelope old = letter(server.plan, {Role::worker, 0}, push_of({0, 0, 0, 1}, 1.0),
                                 base::make_host_buffer(kBytes));
  old.generation = server.plan.generation - 1;
  server.handle(Received{old}, 10);
  CHECK(server.figures.holdings().pending_pushes == 0);
}

/// The shard of slice (0, 0), with its first values of 16 bytes and one slot.
struct Shard : Watched<ParameterServerState, ParameterFigures> {
  Shard() : Watched(small_plan(), small_plan().layout.first_shard()) {
    store::SliceState first;
    first.values.weight = base::make_host_buffer(kBytes);
    first.values.slots = {base::make_host_buffer(kBytes)};
    handle(EffectDone{of_kind<InitSlice>(opened).at(0).id, {}, first}, 0);
  }
  std::vector<ParameterEffect> push(std::uint32_t machine, std::int64_t now_ns) {
    return handle(Received{letter(plan, {Role::device_server, machine},
                                  push_of({1, 0, machine, machine + 1}, 2.0),
                                  base::make_host_buffer(kBytes))},
                  now_ns);
  }
  ServerHoldings holdings() const { return figures.holdings(); }
};

TEST_CASE("a parameter server's rounds, pulls, versions and bytes are read off", "[metrics]") {
  Shard shard;
  CHECK(shard.holdings().keys == 1);
  CHECK(shard.holdings().store_bytes == 2 * kBytes);
  const schemas::WeightPull pull{kSlice, 1, 0, 1};
  shard.handle(Received{letter(shard.plan, {Role::device_server, 0}, pull)}, 50);
  shard.push(0, 100);
  CHECK(shard.told.take(Spent::What::push) == Times{0});
  const auto second = shard.push(1, 180);
  const auto added = shard.handle(
      EffectDone{of_kind<Add>(second).at(0).id, {}, base::make_host_buffer(kBytes)}, 200);
  CHECK(shard.told.take(Spent::What::round) == Times{80});
  const store::SliceValues next{base::make_host_buffer(kBytes), {base::make_host_buffer(kBytes)}};
  shard.handle(EffectDone{of_kind<Update>(added).at(0).id, {}, next}, 450);
  CHECK(shard.told.take(Spent::What::pull) == Times{400});
  CHECK(shard.holdings().version == 1);
  CHECK(shard.holdings().store_bytes == 2 * kBytes);
  CHECK(shard.holdings().pending_pushes == 0);
  const ParameterServerCounters& totals = shard.figures.counters();
  CHECK(totals.pushes == 2);
  CHECK(totals.push_bytes == 2 * kBytes);
  CHECK(totals.updates == 1);
  CHECK(totals.replies == 1);
  shard.push(0, 500);
  CHECK(totals.duplicates == 1);
}

TEST_CASE("the ranks that a shard waits for long are told, and that they came", "[metrics]") {
  Shard shard;
  const auto missing_at = [&](std::uint64_t now_ms) {
    return of_kind<Missing>(shard.handle(Tick{now_ms}, 0));
  };
  missing_at(1'000);
  shard.push(0, 0);
  missing_at(2'000);
  const auto missing = missing_at(70'000);
  REQUIRE(missing.size() == 1);
  CHECK(missing[0].ranks == std::vector<std::uint32_t>{2, 3});
  CHECK(missing_at(80'000).empty());
  shard.push(1, 0);
  const auto found = missing_at(81'000);
  REQUIRE(found.size() == 1);
  CHECK(found[0].ranks.empty());
}

}  // namespace
}  // namespace troupe::actors
