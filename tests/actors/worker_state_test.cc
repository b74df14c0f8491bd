// SPDX-License-Identifier: Apache-2.0
// A worker alone: keys cut into slices and put together again, echoes, the end.
#include "actors/worker_state.h"

#include "tests/actors/state_fixture.h"
#include "tests/support/catch.h"

namespace troupe::actors {
namespace {

using namespace testing;
using schemas::GradientPush;
using schemas::PushAck;
using schemas::PushResult;
using schemas::Role;
using schemas::WeightPull;
using schemas::WeightReply;

constexpr schemas::ActorId kServer{Role::device_server, 1};

TEST_CASE("a key goes out in slices of one buffer and is released when all are taken") {
  const JobPlan plan = small_plan();
  WorkerState worker(plan, 2);
  const auto starts = of_kind<StartTraining>(open_role(worker, plan));
  REQUIRE(starts.size() == 1);
  CHECK(starts[0].records == 16);
  const base::Buffer gradient = base::make_host_buffer(24);
  const auto effects = worker.handle(PushWanted{0, 0, 1.0, gradient});
  REQUIRE(sent<GradientPush>(effects).size() == 2);
  CHECK(sent<GradientPush>(effects)[0].first == kServer);
  CHECK(std::get<Send>(effects[1]).envelope.payload.data() == gradient.data() + 16);
  const auto ack = [&](std::uint32_t slice, PushResult result) {
    const PushAck message{{0, slice}, {0, 1, 0, 1}, 0, result};
    return of_kind<GradientTaken>(worker.handle(Received{letter(plan, kServer, message)}));
  };
  CHECK(ack(1, PushResult::not_ready).empty());
  CHECK(ack(1, PushResult::taken).empty());
  CHECK(ack(1, PushResult::taken).empty());
  CHECK(ack(0, PushResult::duplicate).size() == 1);
  CHECK(worker.handle(Tick{60'000}).empty());  // nothing is left to repeat
}

TEST_CASE("a key's weights are complete when the slices of that step are") {
  const JobPlan plan = small_plan();
  WorkerState worker(plan, 2);
  open_role(worker, plan);
  const auto pulls = sent<WeightPull>(worker.handle(PullWanted{0, 3, false}));
  REQUIRE(pulls.size() == 2);
  CHECK(pulls[0].second.version == 3);
  const auto reply = [&](std::uint32_t slice, std::uint64_t step) {
    WeightReply message;
    message.slice = {0, slice};
    message.version = message.step = step;
    return of_kind<WeightsReady>(worker.handle(
        Received{letter(plan, kServer, message, base::make_host_buffer(slice == 0 ? 16 : 8))}));
  };
  CHECK(reply(0, 2).empty());  // an echo of an earlier step
  CHECK(reply(0, 3).empty());
  CHECK(reply(0, 3).empty());
  CHECK(worker.waits_for() == "rank 2 waits for weights of key 'weight' for step 3");
  const auto ready = reply(1, 3);
  REQUIRE(ready.size() == 1);
  CHECK(ready[0].slices.size() == 2);
  CHECK(reply(1, 3).empty());
}

TEST_CASE("in eventual modes a barrier is asked for by name") {
  schemas::ConsistencySpec consistency;
  consistency.cluster.mode = schemas::ConsistencyMode::eventual;
  const JobPlan plan = small_plan(2, consistency);
  WorkerState worker(plan, 0);
  open_role(worker, plan);
  const auto pulls = sent<WeightPull>(worker.handle(PullWanted{0, 4, true}));
  CHECK(pulls[0].second.version == schemas::kBarrierVersion);
  CHECK(pulls[0].second.applied_below == 4);
}

TEST_CASE("a rank is done when it has finished and its gradients are taken") {
  const JobPlan plan = small_plan();
  WorkerState worker(plan, 2);
  open_role(worker, plan);
  worker.handle(PushWanted{0, 7, 0.0, {}});
  const auto effects = worker.handle(Finish{8});
  CHECK(sent<schemas::Finished>(effects).size() == 1);
  CHECK(sent<schemas::ActorDone>(effects).empty());
  for (std::uint32_t slice = 0; slice < 2; ++slice) {
    const PushAck ack{{0, slice}, {0, 1, 0, 1}, 7, PushResult::taken};
    const auto after = worker.handle(Received{letter(plan, kServer, ack)});
    CHECK(sent<schemas::ActorDone>(after).size() == slice);
  }
  // The device server may have missed it: it is told until the job ends.
  CHECK(sent<schemas::Finished>(worker.handle(Tick{60'000})).size() == 1);
  worker.handle(Received{letter(plan, kCoordinator, schemas::JobEnd{})});
  CHECK(worker.handle(Tick{120'000}).empty());
}

}  // namespace
}  // namespace troupe::actors
