// SPDX-License-Identifier: Apache-2.0
// Slots of several agents together, and the jobs that have room in them.
#include "control/capacity.h"

#include <string>
#include <vector>

#include "tests/control/control_world.h"
#include "tests/support/catch.h"

namespace troupe::control {
namespace {

using schemas::WorkerDevice;
using testing::ControlWorld;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

/// `count` GPUs of a model.
GpuSlots gpus(std::uint32_t count, const std::string& model = "H100",
              std::uint64_t memory_bytes = 80 * kGiB) {
  std::vector<schemas::GpuOffer> offers;
  for (std::uint32_t i = 0; i < count; ++i) offers.push_back({i, model, "", memory_bytes});
  return GpuSlots(std::move(offers));
}

schemas::JobSpec job(std::uint32_t workers, WorkerDevice device = WorkerDevice::gpu,
                     std::uint64_t memory_bytes = 0) {
  schemas::JobSpec spec = ControlWorld::job_spec(1, workers, 1);
  spec.workers.device = device;
  spec.workers.memory = memory_bytes;
  return spec;
}

bool in_service(const Capacity& all, const schemas::JobSpec& spec, const std::string& model = "") {
  return all.holds(spec, model, &Room::all);
}

TEST_CASE("agents hold as many workers as they have slots, however these are spread") {
  Capacity all;
  CHECK_FALSE(in_service(all, job(1)));
  CHECK_FALSE(in_service(all, job(1, WorkerDevice::cpu)));
  all.add(Room{2, 2, 2});
  all.add(Room{1, 1, 0});
  all.add(gpus(2), true);
  all.add(gpus(2), true);
  CHECK(in_service(all, job(3, WorkerDevice::cpu)));
  CHECK_FALSE(in_service(all, job(4, WorkerDevice::cpu)));
  CHECK(in_service(all, job(4)));
  CHECK_FALSE(in_service(all, job(5)));
}

TEST_CASE("what is free is in service, and what is in service may be had at some time") {
  GpuSlots slots = gpus(4);
  slots.take(slots.free()[0].place);
  slots.lose({{1, "gone"}, {2, "gone"}});
  Capacity all;
  all.add(slots, true);
  const auto room = [&all] { return all.room_for(job(1).workers); };
  CHECK(room().most == 4);
  CHECK(room().all == 2);
  CHECK(room().free == 1);
  all.add(gpus(2), false);
  CHECK(room().most == 6);
  CHECK(room().all == 2);
  all.take(slots.free()[0]);
  CHECK(room().free == 0);
  CHECK(all.holds(job(6), "", &Room::most));
  CHECK_FALSE(all.holds(job(7), "", &Room::most));
  all.add(Room{5, 4, 3});
  all.take();
  CHECK(all.room_for(job(1, WorkerDevice::cpu).workers).free == 2);
}

TEST_CASE("GPUs that are too small do not count") {
  Capacity all;
  all.add(gpus(2, "A100", 40 * kGiB), true);
  all.add(gpus(2), true);
  CHECK(in_service(all, job(2, WorkerDevice::gpu, 80 * kGiB)));
  CHECK_FALSE(in_service(all, job(3, WorkerDevice::gpu, 80 * kGiB)));
  const schemas::JobSpec large = job(1, WorkerDevice::gpu, 80 * kGiB + 1);
  CHECK_FALSE(in_service(all, large));
  CHECK(all.too_small_for(large.workers) == std::pair(std::uint64_t{4}, 80 * kGiB));
  CHECK(all.too_small_for(job(1, WorkerDevice::gpu, 40 * kGiB + 1).workers) ==
        std::pair(std::uint64_t{2}, 40 * kGiB));
  CHECK(all.too_small_for(job(1).workers).first == 0);
}

TEST_CASE("GPUs of a reproducible job are of one model, whatever their sizes") {
  Capacity all;
  all.add(gpus(2, "A100", 40 * kGiB), true);
  all.add(gpus(1, "A100"), true);
  all.add(gpus(2), true);
  schemas::JobSpec spec = job(4);
  spec.reproducible = false;
  CHECK(in_service(all, spec));
  spec.reproducible = true;
  CHECK_FALSE(in_service(all, spec));
  spec.workers.devices = 3;
  CHECK(in_service(all, spec));
  spec.workers.memory = 60 * kGiB;
  CHECK_FALSE(in_service(all, spec));
  spec.workers.devices = 2;
  CHECK(in_service(all, spec));
}

TEST_CASE("a job that is bound to a model has room on that alone") {
  Capacity all;
  all.add(gpus(3, "A100"), true);
  all.add(gpus(1), true);
  for (const bool reproducible : {true, false}) {
    schemas::JobSpec spec = job(1);
    spec.reproducible = reproducible;
    CHECK(in_service(all, spec, "A100"));
    CHECK(in_service(all, spec, "H100"));
    CHECK_FALSE(in_service(all, spec, "V100"));
    spec.workers.devices = 2;
    CHECK(in_service(all, spec, "A100"));
    CHECK_FALSE(in_service(all, spec, "H100"));
  }
}

}  // namespace
}  // namespace troupe::control
