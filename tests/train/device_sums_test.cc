// SPDX-License-Identifier: Apache-2.0
// Sums on late test devices: the tree's order whatever comes first, ranks without samples, what is
// not added at all, failures and ends.
#include "train/device_sums.h"

#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "base/cast_values.h"
#include "base/random.h"
#include "tests/support/catch.h"
#include "tests/support/delayed_stream.h"
#include "tests/support/test_runtime.h"

namespace troupe::train {
namespace {

using base::DType;
using ndarray::NDArray;
using Values = std::vector<double>;  // of a run's keys, one after the other

base::Device late_device(std::uint32_t index) {
  return {base::DeviceKind::delayed, static_cast<std::int32_t>(index)};
}

schemas::JobSpec job_of(std::uint32_t machines, std::uint32_t devices) {
  schemas::JobSpec job;
  job.workers.machines = machines;
  job.workers.devices = devices;
  return job;
}

/// Keys of all dtypes that meet in a run, in an order that the run must change.
std::vector<schemas::KeyInfo> test_keys() {
  std::vector<schemas::KeyInfo> keys;
  const auto add = [&](std::int64_t elements, DType dtype, DType wire) {
    schemas::KeyInfo key;
    key.id = static_cast<std::uint32_t>(keys.size());
    key.name = "key" + std::to_string(key.id);
    key.shape = base::Shape{elements};
    key.dtype = key.weight_wire = dtype;
    key.gradient_wire = wire;
    keys.push_back(key);
  };
  add(3, DType::f32, DType::f32);
  add(70, DType::f32, DType::bf16);
  add(0, DType::f32, DType::f32);
  add(5, DType::f64, DType::f64);
  add(1, DType::f32, DType::f16);
  add(201, DType::f32, DType::f32);
  add(9, DType::f32, DType::bf16);
  return keys;
}

/// A rank as its process has it: engine, three streams, arrays.
struct Rank {
  Rank(std::uint32_t the_number, base::Device device, GradientWay the_way,
       const std::vector<schemas::KeyInfo>& the_keys)
      : number(the_number),
        way(the_way),
        kernels({.device = device, .delay = std::chrono::microseconds(10 * the_number)}),
        down({.device = device}),
        up({.device = device}),
        keys(the_keys) {
    arrays = StoreArrays::create(test.runtime, keys, std::vector<bool>(keys.size(), true), device,
                                 kRunBytes, way)
                 .value();
  }
  const std::shared_ptr<const KeyRun>& run() const { return arrays->gradient_runs().front(); }

  std::uint32_t number;
  GradientWay way;
  tests::DelayedStream kernels, down, up;
  tests::TestRuntime test{true, {.streams = {&kernels, &down, &up}}};
  const std::vector<schemas::KeyInfo>& keys;
  std::optional<StoreArrays> arrays;
};

/// What a value is in `dtype`.
double in(DType dtype, double value) {
  std::array<std::byte, sizeof(double)> narrow{};
  double back = 0;
  base::cast_values(DType::f64, reinterpret_cast<const std::byte*>(&value), dtype, narrow.data(),
                    1);
  base::cast_values(dtype, narrow.data(), DType::f64, reinterpret_cast<std::byte*>(&back), 1);
  return back;
}

/// A machine of `ranks`, rank r on device r modulo `devices`.
class Machine {
 public:
  Machine(const schemas::JobSpec& job, const std::vector<std::uint32_t>& ranks,
          std::uint32_t devices)
      : tree(job.workers.machines, job.workers.devices) {
    DeviceSumsOptions options;
    for (std::uint32_t device = 0; device < devices; ++device) {
      for (int i = 0; i < 2; ++i) {
        streams.push_back(std::make_unique<tests::DelayedStream>(
            tests::DelayedStreamOptions{.device = late_device(device)}));
        options.streams.push_back(streams.back().get());
      }
    }
    std::vector<SumRank> placed;
    for (const std::uint32_t rank : ranks) placed.push_back({rank, late_device(rank % devices)});
    sums = DeviceSums::create(job, placed, tests::test_operators(), clock, options).value();
    REQUIRE(sums != nullptr);
    for (const SumRank& at : placed) {
      members.push_back(std::make_unique<Rank>(at.rank, at.device, sums->way(at.rank), keys));
    }
  }

  Rank& rank(std::uint32_t number) {
    for (const auto& member : members) {
      if (member->number == number) return *member;
    }
    FAIL("no such rank");
    return *members.front();
  }

  /// Numbers whose sum depends on the order of addition, by key and element.
  Values draw(std::uint32_t rank, std::uint64_t step) const {
    Values values;
    for (const schemas::KeyInfo& key : keys) {
      for (std::int64_t i = 0; i < key.shape.elements(); ++i) {
        const double turn = 1.7 * rank + 0.37 * static_cast<double>(i) + 5.1 * key.id + 0.2 * step;
        values.push_back(in(key.dtype, std::sin(turn) * std::pow(10.0, (rank * 3 + i) % 4)));
      }
    }
    return values;
  }
  void fill(std::uint32_t number, const Values& values) {
    Rank& of = rank(number);
    std::size_t next = 0;
    for (const schemas::KeyInfo& key : keys) {
      const NDArray& array = of.arrays->gradients()[key.id];
      const base::Buffer bytes = base::make_host_buffer(array.bytes());
      base::cast_values(DType::f64, reinterpret_cast<const std::byte*>(values.data() + next),
                        key.dtype, bytes.data(), key.shape.elements());
      next += static_cast<std::size_t>(key.shape.elements());
      REQUIRE(array.copy_from(bytes).ok());
    }
  }
  std::shared_ptr<const double> push(std::uint32_t number, std::uint64_t step, double count) {
    Rank& of = rank(number);
    StoreArrays::round(of.run(), 0);
    return sums->push(of.test.runtime, {number, 0, step, count, 0}, of.run());
  }
  /// What the store reads of a rank that leads.
  Values pushed(std::uint32_t number) {
    Rank& of = rank(number);
    Values values;
    for (const schemas::KeyInfo& key : keys) {
      const NDArray& array = of.arrays->pushed()[key.id];
      REQUIRE(array.device() == base::Device{});
      REQUIRE(array.dtype() == key.gradient_wire);
      std::vector<std::byte> bytes(array.bytes());
      const base::Status read = array.read(bytes);
      INFO(read.to_string());
      REQUIRE(read.ok());
      Values wide(static_cast<std::size_t>(key.shape.elements()));
      base::cast_values(key.gradient_wire, bytes.data(), DType::f64,
                        reinterpret_cast<std::byte*>(wide.data()), key.shape.elements());
      values.insert(values.end(), wide.begin(), wide.end());
    }
    return values;
  }
  /// The sum of a node, one rounding per addition; nothing where no rank of it has values.
  std::optional<Values> expected(const store::TreeNode& node,
                                 const std::function<std::optional<Values>(std::uint32_t)>& of) {
    const auto sides = tree.children(node);
    if (!sides) {
      std::optional<Values> values = of(tree.ranks_of(node).begin);
      return values ? std::optional(rounded(*std::move(values))) : values;
    }
    auto left = expected(sides->first, of), right = expected(sides->second, of);
    if (!left || !right) return left ? left : right;
    for (std::size_t i = 0; i < left->size(); ++i) (*left)[i] += (*right)[i];
    return rounded(*std::move(left));
  }
  Values rounded(Values values) const {
    std::size_t next = 0;
    for (const schemas::KeyInfo& key : keys) {
      for (std::int64_t i = 0; i < key.shape.elements(); ++i, ++next) {
        values[next] = in(key.gradient_wire, values[next]);
      }
    }
    return values;
  }
  void wait() {
    for (const auto& member : members) REQUIRE(member->test.engine->wait_all().ok());
  }

  const std::vector<schemas::KeyInfo> keys = test_keys();
  const store::AdditionTree tree;
  base::SteadyClock clock;
  std::vector<std::unique_ptr<tests::DelayedStream>> streams;
  std::unique_ptr<DeviceSums> sums;
  std::vector<std::unique_ptr<Rank>> members;
};

TEST_CASE("gradients are added on devices along the tree, whatever comes first", "[device_sums]") {
  for (const std::uint32_t devices : {1U, 2U, 5U}) {
    Machine machine(job_of(1, 5), {0, 1, 2, 3, 4}, devices);
    CHECK(machine.sums->ranks_text(0) == "ranks 0-4");
    CHECK(machine.rank(3).arrays->pushed()[0].same_memory(machine.rank(3).arrays->gradients()[0]));
    const std::vector<std::vector<std::uint32_t>> orders = {
        {0, 1, 2, 3, 4}, {4, 3, 2, 1, 0}, {2, 0, 4, 1, 3}};
    for (std::uint64_t step = 7; step < 10; ++step) {
      std::vector<std::shared_ptr<const double>> counts;
      for (const std::uint32_t rank : orders[step - 7]) {
        machine.fill(rank, machine.draw(rank, step));
        counts.push_back(machine.push(rank, step, rank + 1.0));
      }
      machine.wait();
      const auto expected = machine.expected(
          machine.tree.root(), [&](std::uint32_t rank) { return machine.draw(rank, step); });
      CHECK(machine.pushed(0) == *expected);
      double total = 0;
      for (const auto& count : counts) total += *count;
      CHECK(total == 15.0);  // the lead's alone
    }
  }
}

TEST_CASE("a rank without samples adds nothing to a sum on devices", "[device_sums]") {
  Machine machine(job_of(1, 4), {0, 1, 2, 3}, 2);
  const std::size_t size = machine.draw(0, 0).size();
  for (unsigned with = 0; with < 16; ++with) {
    const auto has = [&](std::uint32_t rank) { return (with >> rank & 1U) != 0; };
    std::shared_ptr<const double> count;
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      // Of the others nobody may look at the values; a sum of one rank keeps -0.
      const Values none(size, std::numeric_limits<double>::quiet_NaN());
      Values some = machine.draw(rank, with);
      some[0] = -0.0;
      machine.fill(rank, has(rank) ? some : none);
      const auto counted = machine.push(rank, with, has(rank) ? 2.0 : 0.0);
      if (rank == 0) count = counted;
    }
    machine.wait();
    int ranks = 0;
    for (std::uint32_t rank = 0; rank < 4; ++rank) ranks += has(rank) ? 1 : 0;
    CHECK(*count == 2.0 * ranks);
    if (ranks == 0) continue;
    const auto expected =
        machine.expected(machine.tree.root(), [&](std::uint32_t rank) -> std::optional<Values> {
          if (!has(rank)) return std::nullopt;
          Values some = machine.draw(rank, with);
          some[0] = -0.0;
          return some;
        });
    const Values found = machine.pushed(0);
    CHECK(found == *expected);
    CHECK(std::signbit(found[0]));
  }
}

TEST_CASE("ranks of one machine are added as far as they meet in the tree", "[device_sums]") {
  // Of two groups of four: 1 stands alone, 2 and 3 meet, and all of the second group.
  const std::vector<std::uint32_t> ranks = {1, 2, 3, 4, 5, 6, 7};
  Machine machine(job_of(2, 4), ranks, 3);
  CHECK(machine.sums->way(1) == GradientWay::to_host);
  CHECK(machine.sums->way(2) == GradientWay::sum_lead);
  CHECK(machine.sums->way(3) == GradientWay::sum_member);
  CHECK(machine.sums->way(4) == GradientWay::sum_lead);
  CHECK(machine.sums->way(7) == GradientWay::sum_member);
  CHECK(machine.sums->ranks_text(2) == "ranks 2-3");
  CHECK(machine.sums->ranks_text(4) == "ranks 4-7");
  std::map<std::uint32_t, std::shared_ptr<const double>> counts;
  for (const std::uint32_t rank : {7U, 3U, 5U, 2U, 6U, 4U}) {
    machine.fill(rank, machine.draw(rank, 0));
    counts[rank] = machine.push(rank, 0, 1.0);
  }
  machine.wait();
  const auto draw = [&](std::uint32_t rank) { return machine.draw(rank, 0); };
  const auto parts = machine.tree.frontier(ranks);
  CHECK(parts.size() == 3);
  CHECK(machine.pushed(2) == *machine.expected(parts[1], draw));
  CHECK(machine.pushed(4) == *machine.expected(parts[2], draw));
  CHECK(*counts[2] == 2.0);
  CHECK(*counts[4] == 4.0);
}

TEST_CASE("sums are made on devices only where that is what the job asks for", "[device_sums]") {
  tests::DelayedStream stream({.device = late_device(0)});
  base::SteadyClock clock;
  const DeviceSumsOptions options{.streams = {&stream}};
  const auto made = [&](const schemas::JobSpec& job, const std::vector<SumRank>& ranks,
                        const DeviceSumsOptions& how) {
    return DeviceSums::create(job, ranks, tests::test_operators(), clock, how).value() != nullptr;
  };
  const base::Device here = late_device(0);
  schemas::JobSpec job = job_of(1, 4);
  CHECK(made(job, {{0, here}, {1, here}}, options));
  CHECK(made(job, {{1, here}, {0, here}}, options));                  // in any order
  CHECK_FALSE(made(job, {{0, here}}, options));                       // alone
  CHECK_FALSE(made(job, {{1, here}, {2, here}}, options));            // of different nodes
  CHECK_FALSE(made(job, {{0, here}, {1, {}}}, options));              // on a CPU
  CHECK_FALSE(made(job, {{0, here}, {1, late_device(1)}}, options));  // without a stream
  CHECK_FALSE(made(job, {{0, here}, {1, here}}, {}));
  CHECK_FALSE(made(job, {}, options));
  job.consistency.device.mode = schemas::ConsistencyMode::eventual;
  CHECK_FALSE(made(job, {{0, here}, {1, here}}, options));
  job.consistency = {};
  job.workers.gpu_sums = false;
  CHECK_FALSE(made(job, {{0, here}, {1, here}}, options));
}

TEST_CASE("the first failure ends every sum, and those that come", "[device_sums]") {
  Machine machine(job_of(1, 3), {0, 1, 2}, 1);
  for (const std::uint32_t rank : {0U, 2U}) machine.push(rank, 0, 1.0);  // waits for rank 1
  machine.streams[0]->enqueue_host(
      [] { return base::error(base::Errc::internal, "the device fell off the bus"); });
  machine.push(1, 0, 1.0);
  for (const std::uint32_t rank : {0U, 1U, 2U}) {
    const base::Status status = machine.rank(rank).test.engine->wait_all();
    CHECK_THAT(status.text(), Catch::Contains("adding gradients of delayed:0") &&
                                  Catch::Contains("the device fell off the bus"));
  }
  CHECK_FALSE(machine.rank(0).arrays->pushed()[0].wait().ok());
  machine.push(2, 1, 1.0);
  CHECK_THAT(machine.rank(2).test.engine->wait_all().text(),
             Catch::Contains("the device fell off the bus"));
}

TEST_CASE("a gradient that cannot be rounded is an error of its rank", "[device_sums]") {
  Machine machine(job_of(1, 2), {0, 1}, 1);
  Rank& member = machine.rank(1);
  member.down.enqueue_host(
      [] { return base::error(base::Errc::internal, "the copy stream is broken"); });
  machine.push(1, 0, 1.0);
  CHECK_THAT(member.arrays->gradients()[1].wait().text(),
             Catch::Contains("the copy stream is broken"));
  machine.push(0, 0, 1.0);
  machine.rank(0).test.engine->cancel("the job is stopped");
}

TEST_CASE("a rank that is stopped waits for no sum, and its arrays outlive it", "[device_sums]") {
  Machine machine(job_of(1, 2), {0, 1}, 2);
  machine.streams[0]->hold();
  machine.fill(0, machine.draw(0, 0));
  machine.fill(1, machine.draw(1, 0));
  machine.push(0, 0, 1.0);
  machine.push(1, 0, 1.0);
  machine.push(1, 1, 1.0);  // one step ahead
  for (const auto& member : machine.members) member->test.engine->cancel("the job is stopped");
  for (const auto& member : machine.members) {
    CHECK(member->test.engine->wait_all().code() == base::Errc::cancelled);
  }
  machine.members.clear();
  machine.streams[0]->release();
  machine.sums.reset();
}

}  // namespace
}  // namespace troupe::train
