// SPDX-License-Identifier: Apache-2.0
// A parameter server alone: exact versions, checkpoints with their credit, silence.
#include "actors/parameter_server_state.h"

#include <algorithm>

#include "tests/actors/state_fixture.h"
#include "tests/support/catch.h"

namespace troupe::actors {
namespace {

using namespace testing;
using schemas::CheckpointReport;
using schemas::GradientPush;
using schemas::PushAck;
using schemas::Role;
using schemas::ShardCheckpoint;
using schemas::WeightPull;
using schemas::WeightReply;

constexpr std::size_t kBytes = 16;

/// The server of slice (0, 0), 16 bytes; the other slice is another shard's.
struct Server {
  JobPlan plan = small_plan();
  ParameterServerState state{plan, plan.layout.first_shard()};
  std::uint32_t shard = plan.layout.first_shard();
  std::vector<ParameterEffect> opened = open_role(state, plan);

  void start() {
    store::SliceState first;
    first.values.weight = base::make_host_buffer(kBytes);
    state.handle(EffectDone{of_kind<InitSlice>(opened).at(0).id, {}, first});
  }
  std::vector<ParameterEffect> from(schemas::ActorId id, schemas::Message message,
                                    std::size_t bytes = 0) {
    base::Buffer payload = bytes > 0 ? base::make_host_buffer(bytes) : base::Buffer();
    return state.handle(Received{letter(plan, id, std::move(message), std::move(payload))});
  }
  std::vector<ParameterEffect> pull(std::uint64_t version) {
    return from({Role::device_server, 0}, WeightPull{{0, 0}, version, 0, version});
  }
  /// The whole step in one push, and its update.
  std::vector<ParameterEffect> step(std::uint64_t number) {
    GradientPush push;
    push.node = {1, 0, 0, 2};
    push.step = number;
    push.count = 4.0;
    const auto updates = of_kind<Update>(from({Role::device_server, 0}, push, kBytes));
    if (updates.empty()) return {};
    store::SliceValues next{base::make_host_buffer(kBytes), {}};
    return state.handle(EffectDone{updates[0].id, {}, next});
  }
};

TEST_CASE("a pull gets exactly its version, when it exists, or an error") {
  Server server;
  CHECK(sent<WeightReply>(server.pull(0)).empty());
  store::SliceState first;
  first.values.weight = base::make_host_buffer(kBytes);
  const auto started =
      server.state.handle(EffectDone{of_kind<InitSlice>(server.opened).at(0).id, {}, first});
  CHECK(sent<WeightReply>(started).size() == 1);
  CHECK(sent<WeightReply>(server.pull(1)).empty());
  const auto replies = sent<WeightReply>(server.step(0));
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].second.version == 1);
  server.step(1);
  server.state.handle(LinkResumed{{Role::device_server, 0}});
  const auto gone = sent<WeightReply>(server.pull(0));
  REQUIRE(gone.size() == 1);
  CHECK(gone[0].second.code == base::Errc::not_found);
  CHECK(gone[0].second.text.find("the newest is 2") != std::string::npos);
}

TEST_CASE("a pull is answered once over a link, and again when the answer could have been lost") {
  Server server;
  server.start();
  CHECK(sent<WeightReply>(server.pull(0)).size() == 1);
  CHECK(server.pull(0).empty());
  server.state.handle(LinkResumed{{Role::device_server, 1}});
  CHECK(server.pull(0).empty());
  server.state.handle(LinkResumed{{Role::device_server, 0}});
  CHECK(sent<WeightReply>(server.pull(0)).size() == 1);
  CHECK(server.pull(0).empty());
  CHECK(server.pull(1).empty());
  CHECK(server.pull(1).empty());  // it waits already
  CHECK(sent<WeightReply>(server.step(0)).size() == 1);
  CHECK(server.pull(1).empty());
  server.state.handle(Received{letter(server.plan, kCoordinator, small_placement(server.plan, 2))});
  schemas::Envelope again =
      letter(server.plan, {Role::device_server, 0}, WeightPull{{0, 0}, 1, 0, 1});
  again.view = 2;
  CHECK(sent<WeightReply>(server.state.handle(Received{again})).size() == 1);
}

TEST_CASE("an owner is asked about a push in its place") {
  Server server;
  server.start();
  const auto asked = [&](std::uint64_t step) {
    const schemas::PushQuery query{{0, 0}, {1, 0, 0, 2}, step};
    return sent<PushAck>(server.from({Role::device_server, 0}, query));
  };
  REQUIRE(asked(0).size() == 1);
  CHECK(asked(0)[0].second.result == schemas::PushResult::unknown);
  server.step(0);
  CHECK(asked(0)[0].second.result == schemas::PushResult::duplicate);
}

TEST_CASE("too many pulls of one machine end the job, and the error names it") {
  Server server;
  for (std::uint64_t version = 1; version <= kPullsWaitingMax; ++version) server.pull(version);
  const auto fails = of_kind<Fail>(server.pull(kPullsWaitingMax + 1));
  REQUIRE(fails.size() == 1);
  CHECK(fails[0].status.text() == "device server 0 has asked 4096 times for slice (0, 0)");
}

TEST_CASE("checkpoints: two in flight, the third holds its slices until a report returns credit") {
  Server server;
  server.start();
  std::vector<WriteShard> writes;
  for (std::uint64_t step = 0; step < 2; ++step) {
    const auto some = of_kind<WriteShard>(server.step(step));
    writes.insert(writes.end(), some.begin(), some.end());
  }
  REQUIRE(writes.size() == 2);
  CHECK(writes[0].slices.at(0).state.version == 1);
  CHECK(of_kind<WriteShard>(server.step(2)).empty());
  CHECK(server.step(3).empty());  // held at the cut of step 3
  CHECK(server.state.waits_for().find("waits for a checkpoint") != std::string::npos);

  const auto written = server.state.handle(EffectDone{writes[0].id, {}, ShardCheckpoint{}});
  REQUIRE(sent<ShardCheckpoint>(written).size() == 1);
  ShardCheckpoint own = sent<ShardCheckpoint>(written)[0].second;
  CHECK(of_kind<WriteManifest>(server.from({Role::parameter_server, server.shard}, own)).empty());
  ShardCheckpoint other = own;
  other.shard = 1 - server.shard;
  const auto manifests =
      of_kind<WriteManifest>(server.from({Role::parameter_server, other.shard}, other));
  REQUIRE(manifests.size() == 1);
  CHECK(manifests[0].shards.size() == 2);
  CHECK(of_kind<WriteManifest>(server.from({Role::parameter_server, other.shard}, other)).empty());

  const auto told = sent<CheckpointReport>(
      server.state.handle(EffectDone{manifests[0].id, {}, std::string("step-1-g3")}));
  REQUIRE(told.size() == 1);
  CHECK(told[0].first == kCoordinator);
  // Only the coordinator's word settles it, and only the first server's is passed on.
  CHECK(sent<CheckpointReport>(
            server.from({Role::parameter_server, 1 - server.shard}, told[0].second))
            .empty());
  const auto settled = server.from(kCoordinator, told[0].second);
  CHECK(sent<CheckpointReport>(settled).size() == 2);  // both shards
  // A shard that has missed the report asks with its file again.
  CHECK(sent<CheckpointReport>(server.from({Role::parameter_server, other.shard}, other)).size() ==
        1);
  const auto freed = server.from({Role::parameter_server, server.shard},
                                 sent<CheckpointReport>(settled)[0].second);
  CHECK(of_kind<WriteShard>(freed).size() == 1);
  CHECK(of_kind<Update>(freed).size() == 1);
}

TEST_CASE("a checkpoint that fails is given up, the third in a row ends the job") {
  Server server;
  server.start();
  for (std::uint64_t step = 0; step < 3; ++step) {
    const auto writes = of_kind<WriteShard>(server.step(step));
    REQUIRE(writes.size() == 1);
    const base::Status full(base::Errc::resource_exhausted, "no space left on device");
    const auto failed =
        sent<ShardCheckpoint>(server.state.handle(EffectDone{writes[0].id, full, {}}));
    REQUIRE(failed.size() == 1);
    server.from({Role::parameter_server, server.shard}, failed[0].second);
    ShardCheckpoint other;
    other.step = step + 1;
    other.shard = 1 - server.shard;
    const auto told = sent<CheckpointReport>(server.from({Role::parameter_server, 1}, other));
    REQUIRE(told.size() == 1);
    const auto settled = sent<CheckpointReport>(server.from(kCoordinator, told[0].second));
    REQUIRE_FALSE(settled.empty());
    CHECK(settled[0].second.code == base::Errc::resource_exhausted);
    const auto effects = server.from({Role::parameter_server, server.shard}, settled[0].second);
    const auto fails = of_kind<Fail>(effects);
    REQUIRE(fails.size() == (step == 2 ? 1 : 0));
    if (step == 2) CHECK(fails[0].status.text().find("3 checkpoints failed") != std::string::npos);
  }
}

TEST_CASE("silence is named, then ends the job") {
  Server server;
  server.start();
  server.state.handle(Tick{1'000});
  GradientPush push;
  push.node = {1, 0, 0, 1};
  push.count = 2.0;
  server.from({Role::device_server, 0}, push, kBytes);
  server.state.handle(Tick{2'000});
  const auto warns = of_kind<Note>(server.state.handle(Tick{70'000}));
  REQUIRE(warns.size() == 1);
  CHECK(warns[0].text.find("step 0 waits for ranks 2, 3") != std::string::npos);
  CHECK(of_kind<Note>(server.state.handle(Tick{80'000})).empty());
  const auto fails = of_kind<Fail>(server.state.handle(Tick{1'900'000}));
  REQUIRE(fails.size() == 1);
  CHECK(fails[0].status.code() == base::Errc::deadline_exceeded);
}

TEST_CASE("a copy that alone holds a slice up is no silence, however long it takes") {
  for (const bool held : {true, false}) {
    INFO(held);
    Server server;
    server.start();
    server.state.handle(Tick{1'000});
    // Files of one or two cuts are written, and nobody has said what became of them.
    for (std::uint64_t step = 0; step < (held ? 2 : 1); ++step) {
      const auto writes = of_kind<WriteShard>(server.step(step));
      REQUIRE(writes.size() == 1);
      server.state.handle(EffectDone{writes[0].id, {}, ShardCheckpoint{}});
    }
    if (held) CHECK(of_kind<WriteShard>(server.step(2)).empty());
    std::size_t fails = 0;
    for (const std::uint64_t now_ms : {2'000, 70'000, 1'900'000, 3'900'000}) {
      fails += of_kind<Fail>(server.state.handle(Tick{now_ms})).size();
    }
    CHECK(fails == (held ? 0 : 1));  // else it is the ranks that push nothing
  }
}

TEST_CASE("a server without slices has nothing to wait for") {
  JobPlan plan = small_plan();
  schemas::JobSpec spec = plan.spec;
  spec.servers.shards = 3;  // of two slices
  plan = make_job_plan("small", 3, spec, plan.keys, 16).value();
  std::vector<bool> owns(3);
  for (const store::SliceInfo& slice : plan.layout.slices()) owns[slice.shard] = true;
  const auto idle =
      static_cast<std::uint32_t>(std::find(owns.begin(), owns.end(), false) - owns.begin());
  ParameterServerState state(plan, idle);
  open_role(state, plan);
  for (const std::uint64_t now_ms : {1'000, 70'000, 1'900'000, 3'900'000}) {
    const auto effects = state.handle(Tick{now_ms});
    CHECK(sent<schemas::ServerReport>(effects).size() == 1);
    CHECK(effects.size() == 1);
  }
}

TEST_CASE("a server reports to the coordinator several times before it would be missed") {
  Server server;
  server.start();
  const auto reports = [&](std::uint64_t now_ms) {
    return sent<schemas::ServerReport>(server.state.handle(Tick{now_ms}));
  };
  REQUIRE(reports(1'000).size() == 1);
  server.step(0);
  CHECK(reports(15'999).empty());
  const auto second = reports(16'000);
  REQUIRE(second.size() == 1);
  CHECK(second[0].first == kCoordinator);
  CHECK(second[0].second.shard == server.shard);
  CHECK(second[0].second.applied_below == 1);
  server.from(kCoordinator, schemas::JobEnd{});
  CHECK(reports(60'000).empty());
}

TEST_CASE("slices of other shards end the job by name") {
  Server server;
  server.start();
  const auto fails =
      of_kind<Fail>(server.from({Role::device_server, 0}, WeightPull{{0, 1}, 0, 0, 0}));
  REQUIRE(fails.size() == 1);
  CHECK(fails[0].status.text().find("slice (0, 1) does not belong to this shard") !=
        std::string::npos);
}

TEST_CASE("an abstention with bytes ends the job, one without them is taken") {
  const JobPlan plan = small_plan(2, {{schemas::ConsistencyMode::eventual, {}}, {}});
  ParameterServerState state(plan, plan.layout.first_shard());
  store::SliceState first;
  first.values.weight = base::make_host_buffer(kBytes);
  const auto opened = open_role(state, plan);
  state.handle(EffectDone{of_kind<InitSlice>(opened).at(0).id, {}, first});
  GradientPush push;
  push.node = {1, 0, 1, 1};
  push.abstains = true;
  const auto post = [&](std::size_t bytes) {
    base::Buffer payload = bytes > 0 ? base::make_host_buffer(bytes) : base::Buffer();
    return state.handle(Received{letter(plan, {Role::device_server, 1}, push, payload)});
  };
  const auto acks = sent<PushAck>(post(0));
  REQUIRE(acks.size() == 1);
  CHECK(acks[0].second.result == schemas::PushResult::taken);
  CHECK(acks[0].second.node == push.node);
  const auto fails = of_kind<Fail>(post(kBytes));
  REQUIRE(fails.size() == 1);
  CHECK_THAT(fails[0].status.text(), Catch::Contains("machine 1 abstains with 16 bytes"));
}

TEST_CASE("a cut out of turn is written at its step, and told") {
  JobPlan plan = small_plan();
  plan.spec.checkpoint.every = {};
  ParameterServerState state(plan, plan.layout.first_shard());
  const auto opened = open_role(state, plan);
  store::SliceState first;
  first.values.weight = base::make_host_buffer(kBytes);
  state.handle(EffectDone{of_kind<InitSlice>(opened).at(0).id, {}, first});
  const auto from = [&](schemas::ActorId id, schemas::Message message) {
    return state.handle(Received{letter(plan, id, std::move(message))});
  };
  const auto step = [&](std::uint64_t number) {
    GradientPush push;
    push.node = {1, 0, 0, 2};
    push.step = number;
    push.count = 4.0;
    const auto updates = of_kind<Update>(state.handle(
        Received{letter(plan, {Role::device_server, 0}, push, base::make_host_buffer(kBytes))}));
    store::SliceValues next{base::make_host_buffer(kBytes), {}};
    return state.handle(EffectDone{updates.at(0).id, {}, next});
  };
  CHECK(of_kind<WriteShard>(step(0)).empty());
  CHECK(from({Role::device_server, 0}, schemas::ExtraCut{1, 3, false}).empty());  // no business
  const auto taken =
      sent<schemas::ExtraCutTaken>(from(kCoordinator, schemas::ExtraCut{1, 3, false}));
  REQUIRE(taken.size() == 1);
  CHECK(taken[0].second.shard == plan.layout.first_shard());
  CHECK(of_kind<WriteShard>(step(1)).empty());
  const auto writes = of_kind<WriteShard>(step(2));
  REQUIRE(writes.size() == 1);
  CHECK(writes[0].step == 3);
  SECTION("a failure does not count: people may ask as often as they like") {
    for (std::uint64_t number = 3;; number += 2) {
      state.handle(
          EffectDone{number == 3 ? writes[0].id : of_kind<WriteShard>(step(number - 1)).at(0).id,
                     base::Status(base::Errc::resource_exhausted, "full"),
                     {}});
      const CheckpointReport report{number, "", base::Errc::resource_exhausted, "full"};
      CHECK(
          of_kind<Fail>(from({Role::parameter_server, plan.layout.first_shard()}, report)).empty());
      if (number == 7) break;
      CHECK(sent<schemas::ExtraCutTaken>(
                from(kCoordinator, schemas::ExtraCut{number, number + 2, false}))
                .size() == 1);
      CHECK(of_kind<WriteShard>(step(number)).empty());
    }
  }
  SECTION("a step that has come cannot be cut any more") {
    const auto late = from(kCoordinator, schemas::ExtraCut{2, 2, false});
    CHECK(of_kind<Fail>(late).size() == 1);
  }
}

}  // namespace
}  // namespace troupe::actors
