// SPDX-License-Identifier: Apache-2.0
// A job's GPUs among those of a machine, and what is said where there are none.
#include "train/job_devices.h"

#include "tests/support/catch.h"

namespace troupe::train {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

schemas::JobSpec job_on(schemas::WorkerDevice device, std::uint32_t machines, std::uint32_t each,
                        std::uint64_t memory = 0) {
  schemas::JobSpec job;
  job.workers.machines = machines;
  job.workers.devices = each;
  job.workers.device = device;
  job.workers.memory = memory;
  job.reproducible = false;
  return job;
}

std::vector<std::int32_t> indices(const base::Result<std::vector<base::Device>>& devices) {
  INFO(devices.status().to_string());
  REQUIRE(devices.ok());
  std::vector<std::int32_t> all;
  for (const base::Device device : *devices) {
    CHECK(device.kind == base::DeviceKind::cuda);
    all.push_back(device.index);
  }
  return all;
}

TEST_CASE("a job gets GPUs with the memory it asks for, one a rank", "[job_devices]") {
  using schemas::WorkerDevice;
  gpu::Inventory four;
  for (const std::uint64_t memory : {24, 80, 40, 80}) {
    four.devices.push_back(
        {.name = "GPU of " + std::to_string(memory), .memory_bytes = memory * kGiB});
  }
  using Indices = std::vector<std::int32_t>;
  CHECK(indices(choose_gpus(job_on(WorkerDevice::gpu, 1, 2), four)) == Indices{0, 1});
  CHECK(indices(choose_gpus(job_on(WorkerDevice::gpu, 2, 2), four)) == Indices{0, 1, 2, 3});
  CHECK(indices(choose_gpus(job_on(WorkerDevice::gpu, 4, 2), four)) == Indices{0, 1, 2, 3});
  CHECK(indices(choose_gpus(job_on(WorkerDevice::gpu, 1, 3, 40 * kGiB), four)) == Indices{1, 2, 3});
  CHECK(indices(choose_gpus(job_on(WorkerDevice::gpu, 1, 3, 41 * kGiB), four)) == Indices{1, 3});
  CHECK(indices(choose_gpus(job_on(WorkerDevice::cpu, 4, 2), four)).empty());

  const base::Status large = choose_gpus(job_on(WorkerDevice::gpu, 1, 1, 81 * kGiB), four).status();
  CHECK(large.code() == base::Errc::resource_exhausted);
  CHECK_THAT(large.text(), Catch::Contains("GPUs of 81.0 GiB or more") &&
                               Catch::Contains("cuda:2 (GPU of 40) has 40.0 GiB"));

  four.devices[1].problem = "it does not answer";
  CHECK(indices(choose_gpus(job_on(WorkerDevice::gpu, 4, 2), four)) == Indices{0, 2, 3});
  CHECK_THAT(choose_gpus(job_on(WorkerDevice::gpu, 1, 1, 81 * kGiB), four).status().text(),
             Catch::Contains("cuda:1 (GPU of 80): it does not answer, cuda:0 (GPU of 24) has"));

  gpu::Inventory none;
  none.problem = "no driver";
  const base::Status refused = choose_gpus(job_on(WorkerDevice::gpu, 1, 1), none).status();
  CHECK(refused.code() == base::Errc::resource_exhausted);
  CHECK_THAT(refused.text(), Catch::Contains("no driver"));
  CHECK(choose_gpus(job_on(WorkerDevice::cpu, 1, 1), none)->empty());
}

TEST_CASE("GPUs of a reproducible job are of one model", "[job_devices]") {
  gpu::Inventory mixed;
  for (const char* name : {"A100", "H100", "A100", "H100", "H100"}) {
    mixed.devices.push_back({.name = name, .memory_bytes = 80 * kGiB});
  }
  using Indices = std::vector<std::int32_t>;
  const auto chosen = [&](std::uint32_t ranks) {
    schemas::JobSpec job = job_on(schemas::WorkerDevice::gpu, 1, ranks);
    job.reproducible = true;
    return indices(choose_gpus(job, mixed));
  };
  CHECK(chosen(1) == Indices{0});
  CHECK(chosen(2) == Indices{0, 2});
  CHECK(chosen(3) == Indices{1, 3, 4});
  CHECK(chosen(5) == Indices{1, 3, 4});  // shared
}

}  // namespace
}  // namespace troupe::train
