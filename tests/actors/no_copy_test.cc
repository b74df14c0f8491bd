// SPDX-License-Identifier: Apache-2.0
// A gradient is not copied on its way: the device server adds from the addresses that the rank
// pushed.
#include <cstring>
#include <map>

#include "actors/device_server_state.h"
#include "actors/worker_state.h"
#include "actors/worker_store.h"
#include "symbol/networks/networks.h"
#include "tests/support/catch.h"
#include "tests/support/test_runtime.h"
#include "train/module.h"

namespace troupe::actors {
namespace {

using schemas::Role;

schemas::Envelope from_coordinator(const schemas::ActorId& to, schemas::Message message) {
  schemas::Envelope envelope;
  envelope.job = "job";
  envelope.generation = 1;
  envelope.from = kCoordinator;
  envelope.to = to;
  envelope.message = std::move(message);
  return envelope;
}

template <typename State>
void open(State& state, const schemas::ActorId& self) {
  schemas::Placement placement;
  placement.machine_of_rank = {0, 0};
  placement.machine_of_shard = {0};
  placement.machines = {"a"};
  state.handle(Received{from_coordinator(self, placement)});
  state.handle(Received{from_coordinator(self, schemas::TrainingStart{0, 100})});
}

TEST_CASE("the device server adds from the ranks' own gradients", "[no_copy]") {
  schemas::JobSpec spec;
  spec.workers.devices = 2;
  schemas::KeyInfo key;
  key.name = "weight";
  key.shape = base::Shape{300'000};  // 1.2 MB: two slices
  const auto plan = make_job_plan("job", 1, spec, {key});
  REQUIRE(plan.ok());
  WorkerState first(*plan, 0);
  WorkerState second(*plan, 1);
  DeviceServerState server(*plan, 0);
  open(first, {Role::worker, 0});
  open(second, {Role::worker, 1});
  open(server, {Role::device_server, 0});

  const base::Buffer left = base::make_host_buffer(1'200'000);
  const base::Buffer right = base::make_host_buffer(1'200'000);
  std::vector<Add> additions;
  auto push = [&](WorkerState& worker, const base::Buffer& gradient) {
    for (WorkerEffect& effect : worker.handle(PushWanted{0, 0, 8.0, gradient})) {
      auto* send = std::get_if<Send>(&effect);
      if (send == nullptr) continue;
      for (DeviceEffect& work : server.handle(Received{std::move(send->envelope)})) {
        if (const auto* add = std::get_if<Add>(&work)) additions.push_back(*add);
      }
    }
  };
  push(second, right);
  push(first, left);
  REQUIRE(additions.size() == 2);
  for (const Add& add : additions) {
    const std::size_t offset = add.slice.slice * std::size_t{1'048'576};
    CHECK(add.left.data() == left.data() + offset);
    CHECK(add.right.data() == right.data() + offset);
  }
}

TEST_CASE("what a rank pushes is the executor's gradient itself", "[no_copy]") {
  tests::TestRuntime test;
  const auto network = symbol::make_network(tests::test_operators(), "mlp", {});
  REQUIRE(network.ok());
  train::ModuleOptions options;
  options.inputs = {"data", "softmax_label", base::Shape{1, 4, 4}, base::DType::f32};
  const auto module = train::Module::create(test.runtime, *network, options);
  REQUIRE(module.ok());
  std::map<std::uint32_t, const std::byte*> pushed;
  WorkerStore* rank_store = nullptr;
  const schemas::JobSpec spec;
  WorkerStore store(0, spec, test.runtime, [&](WorkerEvent event) {
    const auto& push = std::get<PushWanted>(event);
    pushed[push.key] = push.gradient.data();
    rank_store->taken({push.key});
  });
  rank_store = &store;
  REQUIRE((*module)->init_optimizer(store, {}, false).ok());
  train::ModuleBatch batch;
  batch.size = 2;
  batch.data = base::make_host_buffer(2 * 16 * sizeof(float));
  batch.labels = base::make_host_buffer(2 * sizeof(float));
  std::memset(batch.data.data(), 0, batch.data.size());
  std::memset(batch.labels.data(), 0, batch.labels.size());
  REQUIRE((*module)->init_params(schemas::InitializerSpec{}).ok());
  REQUIRE((*module)->forward_backward(batch, 0).ok());
  REQUIRE((*module)->push(0, 2.0).ok());
  REQUIRE(test.engine->wait_all().ok());
  const auto executor = (*module)->executor(2);
  REQUIRE(executor.ok());
  REQUIRE(pushed.size() == (*module)->keys().size());
  for (const schemas::KeyInfo& key : (*module)->keys()) {
    INFO(key.name);
    CHECK(pushed.at(key.id) == (*executor)->gradients().at(key.name).buffer().data());
  }
}

}  // namespace
}  // namespace troupe::actors
