// SPDX-License-Identifier: Apache-2.0
// Running one kernel: it sees the caller's memory and the lane's team, slots and stream, on a
// thread at once and on a stream of host closures later.
#include "ndarray/run_kernel.h"

#include <array>
#include <cmath>
#include <memory>
#include <optional>

#include "base/parallel.h"
#include "tests/support/catch.h"
#include "tests/support/delayed_stream.h"

namespace troupe::ndarray {
namespace {

/// What a kernel saw when it ran.
struct Seen {
  ops::KernelContext context;
  std::vector<base::TensorView> inputs, outputs;
  int thread_team = 0;
  float old_output = 0;
};

/// Writes its input plus one, and notes what it saw.
class Increment final : public ops::Kernel {
 public:
  explicit Increment(std::optional<Seen>& seen) : seen_(seen) {}

  base::Status run(const ops::KernelContext& context) const override {
    float& output = *context.outputs[0].as<float>();
    seen_ = Seen{context,
                 {context.inputs.begin(), context.inputs.end()},
                 {context.outputs.begin(), context.outputs.end()},
                 base::thread_team(),
                 output};
    output = *context.inputs[0].as<float>() + 1;
    return failure;
  }
  std::string name() const override { return "increment"; }

  base::Status failure;

 private:
  std::optional<Seen>& seen_;
};

/// One number in, one out, some scratch.
struct Memory {
  base::TensorView view(float& number) const {
    return {&number, base::DType::f32, base::Shape{1}, {}, {}};
  }
  KernelBuffers buffers() { return {inputs, outputs, scratch, false}; }

  float from = 41, to = 7;
  std::array<base::TensorView, 1> inputs = {view(from)}, outputs = {view(to)};
  std::array<std::byte, 64> scratch{};
};

TEST_CASE("on a thread a kernel runs at once, on the caller's memory and the lane's team") {
  std::optional<Seen> seen;
  const auto kernel = std::make_shared<Increment>(seen);
  Memory memory;
  base::SlotStore slots;
  engine::RunContext lane{3, &slots, nullptr};
  REQUIRE(run_kernel(kernel, memory.buffers(), lane, {{17}, 5}).ok());
  REQUIRE(seen);
  CHECK(memory.to == 42);
  CHECK(seen->context.inputs.data() == memory.inputs.data());
  CHECK(seen->context.outputs.data() == memory.outputs.data());
  CHECK(seen->context.scratch.data() == memory.scratch.data());
  CHECK(seen->context.scratch.size() == memory.scratch.size());
  CHECK(seen->context.random_key == base::RandomKey{17});
  CHECK(seen->context.random_step == 5);
  CHECK(seen->context.team == 3);
  CHECK(seen->context.slots == &slots);
  CHECK(seen->context.stream == nullptr);

  kernel->failure = base::error(base::Errc::internal, "broken");
  CHECK(run_kernel(kernel, memory.buffers(), lane) == kernel->failure);
  CHECK(seen->context.random_key == base::RandomKey{});
}

TEST_CASE("on a stream of closures a kernel runs later, on copies of the views") {
  std::optional<Seen> seen;
  const auto kernel = std::make_shared<Increment>(seen);
  Memory memory;
  base::SlotStore slots;
  tests::DelayedStreamOptions options;
  options.held = true;
  tests::DelayedStream stream(options);
  engine::RunContext lane{1, &slots, &stream};
  KernelBuffers buffers = memory.buffers();
  SECTION("whose old content matters") {}
  SECTION("whose old content does not matter") {
    buffers.fresh = true;
  }
  REQUIRE(run_kernel(kernel, buffers, lane).ok());
  CHECK(!seen);
  const base::TensorView output = memory.outputs[0];
  memory.inputs[0].data = memory.outputs[0].data = nullptr;
  stream.release();
  REQUIRE(stream.record()->wait_on_host().ok());
  REQUIRE(seen);
  CHECK(memory.to == 42);
  CHECK(seen->outputs[0].data == output.data);
  CHECK(std::isnan(seen->old_output) == buffers.fresh);
  CHECK(seen->thread_team == 1);
  CHECK(seen->context.stream == &stream);
}

}  // namespace
}  // namespace troupe::ndarray
