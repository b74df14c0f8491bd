// SPDX-License-Identifier: Apache-2.0
// A device server alone: what it adds from, when it answers, what it sends and asks in each mode.
#include "actors/device_server_state.h"

#include "tests/actors/state_fixture.h"
#include "tests/support/catch.h"

namespace troupe::actors {
namespace {

using namespace testing;
using schemas::ConsistencyMode;
using schemas::GradientPush;
using schemas::PushAck;
using schemas::PushResult;
using schemas::Role;
using schemas::WeightPull;
using schemas::WeightReply;

constexpr schemas::SliceId kSlice{0, 0};
constexpr std::size_t kBytes = 16;
constexpr auto kEventual = ConsistencyMode::eventual;

struct Server {
  JobPlan plan;
  DeviceServerState state;
  explicit Server(schemas::ConsistencySpec consistency = {}, std::uint32_t machines = 2)
      : plan(small_plan(machines, consistency)), state(plan, 0) {
    open_role(state, plan);
  }
  std::vector<DeviceEffect> push(std::uint32_t rank, std::uint64_t step,
                                 const base::Buffer& gradient) {
    GradientPush message;
    message.slice = kSlice;
    message.node = {0, 0, rank, rank + 1};
    message.step = step;
    message.count = gradient ? 1.0 : 0.0;
    return state.handle(Received{letter(plan, {Role::worker, rank}, message, gradient)});
  }
  std::vector<DeviceEffect> pull(std::uint32_t rank, std::uint64_t step) {
    const WeightPull message{kSlice, schemas::kNewestVersion, 0, step};
    return state.handle(Received{letter(plan, {Role::worker, rank}, message)});
  }
  std::vector<DeviceEffect> reply(std::uint64_t version, std::uint64_t step,
                                  std::vector<std::uint64_t> next) {
    WeightReply message;
    message.slice = kSlice;
    message.version = version;
    message.step = step;
    message.next = std::move(next);
    const schemas::ActorId owner{Role::parameter_server, plan.layout.info(kSlice).shard};
    return state.handle(Received{letter(plan, owner, message, base::make_host_buffer(kBytes))});
  }
  std::vector<DeviceEffect> done(EffectId id) {
    return state.handle(EffectDone{id, {}, base::make_host_buffer(kBytes)});
  }
};

TEST_CASE("gradients are added from where they lie and answered when they have been") {
  Server server;
  const base::Buffer left = base::make_host_buffer(kBytes);
  const base::Buffer right = base::make_host_buffer(kBytes);
  CHECK(server.push(1, 0, right).empty());
  CHECK(server.push(1, 0, right).empty());  // a repetition: the answer is still to come
  const auto adds = of_kind<Add>(server.push(0, 0, left));
  REQUIRE(adds.size() == 1);
  CHECK(adds[0].left.data() == left.data());
  CHECK(adds[0].right.data() == right.data());
  const auto effects = server.done(adds[0].id);
  CHECK(sent<PushAck>(effects).size() == 2);
  const auto pushes = sent<GradientPush>(effects);
  REQUIRE(pushes.size() == 1);
  CHECK(pushes[0].first.role == Role::parameter_server);
  CHECK(pushes[0].second.node == schemas::TreeNode{1, 0, 0, 1});
  CHECK(pushes[0].second.count == 2.0);
  const auto late = sent<PushAck>(server.push(1, 0, right));
  REQUIRE(late.size() == 1);
  CHECK(late[0].second.result == PushResult::duplicate);
  CHECK(sent<PushAck>(server.push(1, 5, right))[0].second.result == PushResult::not_ready);
}

TEST_CASE("a gradient without company is copied, never sent itself") {
  Server server;
  const base::Buffer only = base::make_host_buffer(kBytes);
  CHECK(sent<PushAck>(server.push(0, 0, {})).size() == 1);  // nothing to read: answered at once
  const auto copies = of_kind<Copy>(server.push(1, 0, only));
  REQUIRE(copies.size() == 1);
  CHECK(copies[0].from.data() == only.data());
  const auto effects = server.done(copies[0].id);
  CHECK(sent<PushAck>(effects).size() == 1);
  CHECK(sent<GradientPush>(effects)[0].second.count == 1.0);
}

TEST_CASE("a pull without an answer is asked again after long, an answered one is not") {
  Server server;
  server.state.handle(Tick{0});
  CHECK(sent<WeightPull>(server.pull(0, 0)).size() == 1);
  CHECK(sent<WeightPull>(server.pull(1, 0)).empty());  // the same question
  CHECK(server.state.handle(Tick{9'999}).empty());
  CHECK(sent<WeightPull>(server.state.handle(Tick{10'000})).size() == 1);
  const auto handed = sent<WeightReply>(server.reply(0, 0, {}));
  CHECK(handed.size() == 2);
  CHECK(server.state.handle(Tick{30'000}).empty());
}

TEST_CASE("a sum goes out once: later it is asked about, and again only when it has not come") {
  Server server;
  server.state.handle(Tick{0});
  server.push(0, 0, base::make_host_buffer(kBytes));
  const auto adds = of_kind<Add>(server.push(1, 0, base::make_host_buffer(kBytes)));
  const auto pushes = sent<GradientPush>(server.done(adds.at(0).id));
  REQUIRE(pushes.size() == 1);
  const auto& [owner, push] = pushes[0];
  CHECK(server.state.handle(Tick{9'999}).empty());
  const auto later = server.state.handle(Tick{10'000});
  CHECK(sent<schemas::PushQuery>(later).size() == 1);
  CHECK(sent<GradientPush>(later).empty());
  const auto after_cut = server.state.handle(LinkResumed{owner});
  CHECK(sent<schemas::PushQuery>(after_cut).size() == 1);
  CHECK(sent<GradientPush>(after_cut).empty());
  CHECK(server.state.handle(LinkResumed{{Role::parameter_server, 9}}).empty());
  // (clang++ 14 takes no structured binding into a lambda by itself.)
  const auto answer = [&server, to = owner, node = push.node, step = push.step](PushResult result) {
    const PushAck ack{kSlice, node, step, result};
    return sent<GradientPush>(server.state.handle(Received{letter(server.plan, to, ack)}));
  };
  CHECK(answer(PushResult::unknown).size() == 1);
  CHECK(server.state.mail_counters().repeated == 1);
  const auto moved = server.state.handle(
      Received{letter(server.plan, kCoordinator, small_placement(server.plan, 2))});
  CHECK(sent<GradientPush>(moved).size() == 1);
  CHECK(server.state.mail_counters().repeated == 2);
}

TEST_CASE("a rank learns what has become of its gradient") {
  Server server;
  const auto asked = [&](std::uint32_t rank, std::uint64_t step) {
    const schemas::PushQuery query{kSlice, {0, 0, rank, rank + 1}, step};
    const auto acks = sent<PushAck>(
        server.state.handle(Received{letter(server.plan, {Role::worker, rank}, query)}));
    return acks.empty() ? std::nullopt : std::optional(acks[0].second.result);
  };
  CHECK(asked(0, 0) == PushResult::unknown);
  server.push(0, 0, base::make_host_buffer(kBytes));
  CHECK(asked(0, 0) == std::nullopt);  // its answer is to come
  server.push(1, 0, {});
  CHECK(asked(1, 0) == PushResult::duplicate);
}

TEST_CASE("sequential, eventual: one contribution per step, one version per machine and step") {
  Server server({{}, {kEventual, 1}});
  server.pull(0, 0);
  server.reply(0, 0, {0, 0, 0, 0});
  server.push(0, 0, base::make_host_buffer(kBytes));
  const auto adds = of_kind<Add>(server.push(1, 0, base::make_host_buffer(kBytes)));
  const auto pushes = sent<GradientPush>(server.done(adds[0].id));
  REQUIRE(pushes.size() == 1);
  CHECK(pushes[0].second.contributions == std::vector<schemas::Contribution>{{0, 0}, {1, 0}});
  const auto pulls = sent<WeightPull>(server.pull(0, 2));
  REQUIRE(pulls.size() == 1);
  CHECK(pulls[0].second.step == 2);
  CHECK(pulls[0].second.applied_below == 2);  // a checkpoint is taken there
  const auto effects = server.reply(4, 2, {2, 2, 2, 2});
  CHECK(sent<WeightReply>(effects)[0].second.version == 4);
  server.reply(5, 2, {2, 2, 3, 3});  // an echo with something newer changes nothing
  CHECK(sent<WeightReply>(server.pull(1, 2))[0].second.version == 4);
}

TEST_CASE("eventual, eventual: what it holds goes out once the last push is acknowledged") {
  Server server({{kEventual, {}}, {kEventual, {}}});
  server.pull(0, 0);
  server.reply(0, 0, {0, 0, 0, 0});
  const auto first = of_kind<Copy>(server.push(0, 0, base::make_host_buffer(kBytes)));
  const auto pushes = sent<GradientPush>(server.done(first[0].id));
  REQUIRE(pushes.size() == 1);
  CHECK(pushes[0].second.contributions == std::vector<schemas::Contribution>{{0, 0}});
  const auto second = of_kind<Copy>(server.push(1, 0, base::make_host_buffer(kBytes)));
  CHECK(sent<GradientPush>(server.done(second[0].id)).empty());
  const PushAck ack{kSlice, pushes[0].second.node, 0, PushResult::taken};
  const auto next =
      sent<GradientPush>(server.state.handle(Received{letter(server.plan, pushes[0].first, ack)}));
  REQUIRE(next.size() == 1);
  CHECK(next[0].second.step == 1);
  CHECK(next[0].second.contributions == std::vector<schemas::Contribution>{{1, 0}});
}

TEST_CASE("eventual: nothing gets in front of a barrier") {
  Server server({{kEventual, {}}, {kEventual, {}}});
  server.pull(0, 0);
  server.reply(0, 0, {0, 0, 0, 0});
  // Step 1 is a checkpoint: its contributions wait until all of step 0 are in.
  const auto early = server.push(0, 1, base::make_host_buffer(kBytes));
  CHECK(of_kind<Copy>(early).empty());
  REQUIRE(sent<WeightPull>(early).size() == 1);
  CHECK(sent<WeightPull>(early)[0].second.version == schemas::kBarrierVersion);
  CHECK(sent<WeightPull>(early)[0].second.applied_below == 1);
}

TEST_CASE("wrong sizes, slices and strangers end the job by name") {
  const auto failure = [](Server& server, schemas::Envelope envelope) {
    const auto fails = of_kind<Fail>(server.state.handle(Received{std::move(envelope)}));
    return fails.empty() ? std::string() : fails[0].status.text();
  };
  GradientPush push;
  push.slice = kSlice;
  push.count = 1.0;
  Server a;
  CHECK(failure(a, letter(a.plan, {Role::worker, 0}, push, base::make_host_buffer(8)))
            .find("has 8 bytes instead of 16") != std::string::npos);
  Server b;
  CHECK(failure(b, letter(b.plan, {Role::worker, 3}, push)).find("worker 3") != std::string::npos);
  Server c;
  push.slice = {7, 0};
  CHECK(failure(c, letter(c.plan, {Role::worker, 0}, push)).find("(7, 0)") != std::string::npos);
  Server d({{kEventual, {}}, {ConsistencyMode::sequential, {}}});
  push = {};
  push.abstains = true;
  CHECK(failure(d, letter(d.plan, {Role::worker, 1}, push)) ==
        "rank 1 abstains, as only machines may");
}

TEST_CASE("eventual, sequential: a machine whose ranks all wait abstains, bare of everything") {
  Server server({{kEventual, {}}, {ConsistencyMode::sequential, {}}});
  server.pull(0, 0);
  server.pull(1, 0);
  server.reply(0, 0, {0, 0, 0, 0});
  CHECK(sent<GradientPush>(server.pull(0, 1)).empty());  // rank 1 computes still
  const auto pushes = sent<GradientPush>(server.pull(1, 1));
  REQUIRE(pushes.size() == 1);
  CHECK(pushes[0].first.role == Role::parameter_server);
  CHECK(pushes[0].second.abstains);
  CHECK(pushes[0].second.step == 0);
  CHECK(pushes[0].second.count == 0.0);
  CHECK(pushes[0].second.contributions.empty());
  CHECK(pushes[0].second.node == schemas::TreeNode{1, 0, 0, 0});
}

TEST_CASE("a cut out of turn holds the ranks until its step is told") {
  Server server;
  const auto from = [&](schemas::ActorId id, schemas::Message message) {
    return server.state.handle(Received{letter(server.plan, id, std::move(message))});
  };
  server.pull(0, 0);
  const bool last = GENERATE(false, true);
  const auto ready = sent<schemas::CutReady>(from(kCoordinator, schemas::CutQuery{1}));
  REQUIRE(ready.size() == 1);
  CHECK(ready[0].first == kCoordinator);
  CHECK(ready[0].second.machine == 0);
  CHECK(ready[0].second.next == 1);
  // A rank that goes on meanwhile waits.
  CHECK(sent<WeightPull>(server.pull(1, 1)).empty());
  const auto told = from(kCoordinator, schemas::ExtraCut{1, 2, last});
  CHECK(sent<WeightPull>(told).size() == 1);
  // The run's end is where nobody goes on.
  CHECK(sent<WeightPull>(server.pull(0, 2)).size() == (last ? 0 : 1));
}

TEST_CASE("only the coordinator cuts out of turn") {
  Server server;
  const auto stranger =
      GENERATE(schemas::ActorId{Role::worker, 0}, schemas::ActorId{Role::parameter_server, 1});
  const auto query = letter(server.plan, stranger, schemas::CutQuery{1});
  CHECK(server.state.handle(Received{query}).empty());
  const auto cut = letter(server.plan, stranger, schemas::ExtraCut{1, 2, false});
  CHECK(server.state.handle(Received{cut}).empty());
}

TEST_CASE("a cut out of turn outside of the run ends the job") {
  Server server;
  const auto effects = server.state.handle(
      Received{letter(server.plan, kCoordinator, schemas::ExtraCut{1, 9, false})});
  CHECK(of_kind<Fail>(effects).size() == 1);
}

}  // namespace
}  // namespace troupe::actors
