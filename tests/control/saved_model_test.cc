// SPDX-License-Identifier: Apache-2.0
// Jobs whose checkpoints are of one model of GPUs: they wait for such GPUs as long as enough may
// come back, and take others only where that is not so, or where nothing is bound to a model.
#include <string>
#include <vector>

#include "tests/control/control_world.h"
#include "tests/support/catch.h"

namespace troupe::control {
namespace {

using schemas::JobPhase;
using testing::ControlWorld;
using testing::Fate;

constexpr std::uint64_t kSoonMs = 1'000;

std::vector<schemas::GpuOffer> gpu(const std::string& model) {
  return {{0, model, "", std::uint64_t{80} << 30}};
}

/// A job on one GPU, which trains until it is stopped.
struct World : ControlWorld {
  explicit World(std::uint64_t agents = 0) : ControlWorld(3, agents) {
    spec = job_spec(1, 1, 1);
    spec.workers.device = schemas::WorkerDevice::gpu;
    spec.reproducible = true;
    spec.limits.stall_ms = 60'000;
    for (const char* process : {"a/host", "a/server", "b/host", "b/server"}) {
      set_fate(process, Fate::endless);
    }
  }
  void submit(const std::string& id = "x") {
    say(schemas::JobSubmit{id, job_text(spec), ""});
    wait(kSoonMs);
  }
  void wait(std::uint64_t ms) { run_until(now_ms() + ms); }
  schemas::JobInfo job() { return coordinator().jobs().back(); }
  std::string machine() {
    const auto ranks = coordinator().ranks();
    return ranks.empty() ? "" : ranks.front().machine;
  }
  /// It runs on 'a', an H100, and is stopped, with a checkpoint or without; then 'b', an A100, is
  /// there.
  void run_on_a(bool saved) {
    add_agent("a", 0, gpu("H100"));
    wait(kSoonMs);
    submit();
    REQUIRE(job().phase == JobPhase::running);
    if (saved) {
      say(schemas::JobCheckpoint{"x"});
      wait(kSoonMs);
      REQUIRE_FALSE(job().checkpoint.empty());
    }
    say(schemas::JobStop{"x"});
    wait(kSoonMs);
    REQUIRE(job().phase == JobPhase::stopped);
    add_agent("b", 0, gpu("A100"));
    wait(kSoonMs);
  }
  void lose() {
    lose_gpus("a", {{0, "gone"}});
    wait(kSoonMs);
  }

  schemas::JobSpec spec;
};

constexpr const char* kShortage =
    "1 GPU of model H100; all agents together have 0; 1 GPU is out of service, 'a': GPU 0: gone; "
    "its checkpoints are of H100";

TEST_CASE("a job waits for a GPU of its checkpoints' model that may come back", "[saved_model]") {
  World world;
  world.run_on_a(true);
  world.lose();
  world.spec.checkpoint.dir += GENERATE("", "/.");  // the same folder
  world.submit();
  CHECK(world.job().text == std::string("waits for ") + kShortage);
  world.wait(10 * kSoonMs);
  CHECK(world.job().phase == JobPhase::pending);
  SECTION("it comes back") {
    world.lose_gpus("a", {});
    world.wait(kSoonMs);
    CHECK(world.machine() == "a");
  }
  SECTION("its agent ends") {
    world.stop_agent("a");
    world.wait(2 * kSoonMs);
    CHECK(world.machine() == "b");
  }
}

TEST_CASE("a job is bound to no model before a checkpoint is known", "[saved_model]") {
  World world;
  world.run_on_a(false);
  world.lose();
  world.submit();
  CHECK(world.machine() == "b");
}

TEST_CASE("a job with another folder, or that may change its numerics, is bound to no model",
          "[saved_model]") {
  World world;
  world.run_on_a(true);
  world.lose();
  SECTION("another folder") {
    world.spec.checkpoint.dir = "/else";
  }
  SECTION("other numerics") {
    world.spec.checkpoint.change_numerics = true;
  }
  SECTION("several models") {
    world.spec.reproducible = false;
  }
  world.submit();
  CHECK(world.machine() == "b");
}

TEST_CASE("in a closed cluster a job waits for its checkpoints' model as long as it is patient",
          "[saved_model]") {
  World world(2);
  world.run_on_a(true);
  const std::uint64_t patience_ms = ControlWorld::limits().join_wait_ms;
  SECTION("the GPU is lost") {
    world.lose();
    world.submit();
    CHECK(world.job().text == std::string("waits for ") + kShortage);
    world.wait(patience_ms);
    CHECK(world.job().text == std::string("no room: it needs ") + kShortage);
  }
  SECTION("the GPU is another job's: that takes as long as it takes") {
    schemas::JobSpec other = world.spec;
    std::swap(world.spec, other);
    for (const char* id : {"y", "z"}) {  // one of them is on the H100
      world.spec.checkpoint.dir = std::string("/") + id;
      world.submit(id);
      REQUIRE(world.job().phase == JobPhase::running);
    }
    std::swap(world.spec, other);
    world.submit();
    world.wait(2 * patience_ms);
    CHECK(world.job().text ==
          "waits for 1 GPU of model H100; 0 of 1 are free; its checkpoints are of H100");
  }
}

}  // namespace
}  // namespace troupe::control
