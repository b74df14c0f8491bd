// SPDX-License-Identifier: Apache-2.0
// The GPU slots of one agent: what may be offered, what is free, and what a loss takes away.
#include "control/gpu_slots.h"

#include "tests/support/catch.h"

namespace troupe::control {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

schemas::GpuOffer gpu(std::uint32_t index, std::uint64_t memory_bytes = 80 * kGiB) {
  return {index, "NVIDIA H100", "", memory_bytes};
}

std::string fault_of(const std::vector<schemas::GpuOffer>& gpus) {
  const base::Status status = check_gpus("a", gpus);
  CHECK((status.ok() || status.code() == base::Errc::invalid_argument));
  return status.text();
}

std::vector<std::uint32_t> positions(const GpuSlots& slots) {
  std::vector<std::uint32_t> positions;
  for (const FreeGpu& free : slots.free()) positions.push_back(free.place.position);
  return positions;
}

using Positions = std::vector<std::uint32_t>;

TEST_CASE("what an agent offers is named in words", "[gpu_slots]") {
  CHECK(offer_text(2, 0) == "2 slots");
  CHECK(offer_text(1, 4) == "1 slot and 4 GPUs");
  CHECK(offer_text(0, 1) == "1 GPU");
  CHECK(offer_text(0, 0) == "0 slots");
  CHECK(lost_text({{3, "off the bus"}, {5, "hot"}}) == "GPU 3: off the bus; GPU 5: hot");
  CHECK(lost_text({}).empty());
}

TEST_CASE("GPUs that no machine can have are refused by agent and value", "[gpu_slots]") {
  CHECK(fault_of({}).empty());
  CHECK(fault_of({gpu(0), gpu(63), gpu(0)}).empty());
  CHECK(fault_of(std::vector<schemas::GpuOffer>(64, gpu(1))).empty());
  CHECK(fault_of(std::vector<schemas::GpuOffer>(65, gpu(1))) ==
        "agent 'a' offers 65 GPU slots; the limit is 64");
  std::vector<schemas::GpuOffer> models;
  for (std::uint32_t i = 0; i < 8; ++i) models.push_back({i, "H10" + std::to_string(i), "", kGiB});
  CHECK(fault_of(models).empty());
  models.push_back({8, "H108", "", kGiB});
  CHECK(fault_of(models) == "agent 'a' offers GPUs of 9 models; the limit is 8");
  CHECK(fault_of({gpu(0), gpu(~std::uint32_t{0})}) ==
        "agent 'a' offers GPU 4294967295: indices are from 0 to 63");
  CHECK(fault_of({gpu(2, 0)}) == "agent 'a' offers GPU 2: it has no memory");
  CHECK(fault_of({gpu(2), gpu(2, kGiB)}) == "agent 'a' offers GPU 2: it is described in two ways");
  CHECK(fault_of({{1, "H100\x1b[2J", "", kGiB}}) ==
        "agent 'a' offers GPU 1: its name 'H100?[2J' has a control character");
  CHECK(fault_of({{1, "H100", "GPU-\n", kGiB}}) ==
        "agent 'a' offers GPU 1: its uuid 'GPU-?' has a control character");
}

TEST_CASE("a slot is free, then one rank's, then free again", "[gpu_slots]") {
  GpuSlots slots({gpu(4), gpu(4), gpu(0, kGiB)});
  CHECK(positions(slots) == Positions{0, 1, 2});
  CHECK(slots.free()[1].place.index == 4);
  CHECK(slots.free()[2].memory_bytes == kGiB);
  CHECK(slots.free()[2].model == "NVIDIA H100");
  slots.take({1, 4});
  CHECK(positions(slots) == Positions{0, 2});
  CHECK(slots.used() == 1);
  slots.give_back({1, 4});
  CHECK(positions(slots) == Positions{0, 1, 2});
  CHECK(slots.used() == 0);
}

TEST_CASE("a lost GPU has no free slot, and comes back when it is lost no more", "[gpu_slots]") {
  GpuSlots slots({gpu(0), gpu(1), gpu(1), gpu(2, kGiB)});
  slots.take({1, 1});
  CHECK(slots.lose({{1, "uncorrectable\nerrors" + std::string(500, '!')}, {9, "not here"}}));
  CHECK(positions(slots) == Positions{0, 3});
  CHECK(slots.used() == 1);
  CHECK(slots.lost_unused() == 1);
  CHECK(slots.in_service() == std::vector<schemas::GpuOffer>{gpu(0), gpu(2, kGiB)});
  REQUIRE(slots.lost().size() == 1);
  CHECK(slots.lost()[0].why.starts_with("uncorrectable?errors!"));
  CHECK(slots.lost()[0].why.size() == schemas::kGpuTextBytesMax);
  slots.give_back({1, 1});  // its rank has ended
  CHECK(positions(slots) == Positions{0, 3});
  CHECK(slots.lost_unused() == 2);
  CHECK(slots.lose({{2, "off the bus"}}));
  CHECK_FALSE(
      slots.lose({{9, "not here"}, {2, "off the bus"}}));  // what it says of others is nothing
  CHECK(positions(slots) == Positions{0, 1, 2});
  CHECK(slots.lose({}));
  CHECK(positions(slots) == Positions{0, 1, 2, 3});
}

}  // namespace
}  // namespace troupe::control
