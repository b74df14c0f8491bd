// SPDX-License-Identifier: Apache-2.0
// The coordinator and its agents in a played cluster, from seeds: whatever is killed, every job
// ends and nothing is left.
#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "tests/control/control_world.h"
#include "tests/support/catch.h"

namespace troupe::control {
namespace {

using schemas::JobPhase;
using testing::ControlWorld;
using testing::Fate;

constexpr std::uint64_t kSmallGpu = std::uint64_t{1} << 34;

std::string text_of(const schemas::JobSpec& spec) {
  return ControlWorld::job_text(spec);
}

/// A few GPU slots of two sizes and two models, several of them perhaps on one GPU.
std::vector<schemas::GpuOffer> random_gpus(ControlWorld& world) {
  std::vector<schemas::GpuOffer> gpus;
  for (std::uint64_t slots = world.random(4); slots > 0; --slots) {
    const auto index = static_cast<std::uint32_t>(world.random(3));
    gpus.push_back({index, index < 2 ? "gpu" : "other", "", (1 + index % 2) * kSmallGpu});
  }
  return gpus;
}

/// Now and then a GPU is lost, and perhaps it comes back.
void lose_some_gpus(ControlWorld& world, const std::string& agent) {
  const std::uint64_t lost_ms = world.random(1'500);
  world.at(lost_ms, [&world, agent] {
    world.lose_gpus(agent, {{0, "off the bus"}, {1, "uncorrectable errors"}});
  });
  if (world.random(2) == 0) return;
  world.at(lost_ms + world.random(1'500), [&world, agent] { world.lose_gpus(agent, {}); });
}

/// A random job, and what people want of it.
void submit_job(ControlWorld& world, int job, bool on_gpus) {
  const auto machines = static_cast<std::uint32_t>(1 + world.random(2));
  const auto devices = static_cast<std::uint32_t>(1 + world.random(2));
  const auto shards = static_cast<std::uint32_t>(1 + world.random(3));
  const std::string id = "job" + std::to_string(job);
  schemas::JobSpec spec = ControlWorld::job_spec(machines, devices, shards);
  if (job % 2 == 1) spec.checkpoint.dir += std::to_string(job);
  if (on_gpus) {
    spec.workers.device = schemas::WorkerDevice::gpu;
    spec.workers.memory = world.random(3) * kSmallGpu;
  }
  const std::string text = text_of(spec);
  world.at(world.random(500), [&world, id, text] { world.say(schemas::JobSubmit{id, text, ""}); });
  if (world.random(5) == 0) {
    const bool checkpoint = world.random(2) == 0;
    world.at(600 + world.random(500), [&world, id, checkpoint] {
      world.say(schemas::JobStop{id, checkpoint});
    });
  }
  if (world.random(3) == 0) {
    world.at(world.random(1'000), [&world, id] { world.say(schemas::JobCheckpoint{id}); });
  }
}

/// A cluster with random jobs and faults; returns its trace. In a third of the seeds agents have
/// GPUs, too, and jobs want some.
std::uint64_t play(std::uint64_t seed, std::size_t& launches_on_gpus) {
  ControlWorld world(seed);
  if (seed % 2 == 1) world.separate_folders();
  const bool with_gpus = seed % 3 == 0;
  constexpr std::array<Fate, 7> kFates = {Fate::well,   Fate::never_ready, Fate::hangs,
                                          Fate::killed, Fate::fails,       Fate::exits,
                                          Fate::lingers};
  const std::vector<std::string> names = {"a", "b", "c"};
  for (const std::string& name : names) {
    const auto slots = static_cast<std::uint32_t>(1 + world.random(4));
    world.add_agent(name, slots, with_gpus ? random_gpus(world) : std::vector<schemas::GpuOffer>());
    if (world.random(4) == 0) world.set_fate(name + "/host", kFates[world.random(7)]);
    // Servers do not hang: who judges silence would be silent itself, beside hosts that hang too.
    constexpr std::array<Fate, 4> kServerFates = {Fate::well, Fate::never_ready, Fate::killed,
                                                  Fate::exits};
    if (world.random(6) == 0) world.set_fate(name + "/server", kServerFates[world.random(4)]);
  }
  for (int job = 0; job < 4; ++job) submit_job(world, job, with_gpus && job > 0);
  if (with_gpus && world.random(3) == 0) lose_some_gpus(world, names[world.random(3)]);
  const std::string victim = names[world.random(3)];
  if (world.random(3) == 0) {
    const bool kindly = world.random(2) == 0;
    world.at(world.random(1'500), [&world, victim, kindly] {
      kindly ? world.stop_agent(victim) : world.kill_agent(victim);
    });
  }
  if (world.random(4) == 0) {
    const std::uint64_t kill_ms = world.random(1'500);
    world.at(kill_ms, [&world] { world.kill_coordinator(); });
    world.at(kill_ms + world.random(1'000), [&world] { world.start_coordinator(); });
  }
  world.run_until(40'000);
  INFO("seed " << seed);
  for (const schemas::JobInfo& info : world.coordinator().jobs()) {
    INFO(info.id << " " << schemas::job_phase_name(info.phase) << ": " << info.text);
    const bool waits = info.phase == JobPhase::pending && info.text.starts_with("waits for") &&
                       world.processes() == 0;
    const bool final = info.phase == JobPhase::succeeded || info.phase == JobPhase::failed ||
                       info.phase == JobPhase::stopped;
    CHECK((final || waits));
    CHECK((info.phase != JobPhase::failed || !info.text.empty()));
  }
  CHECK(world.coordinator().counts().cpus.used == 0);
  CHECK(world.coordinator().counts().cpus.withheld == 0);
  CHECK(world.coordinator().counts().gpus.used == 0);
  CHECK(world.faults() == std::vector<std::string>{});
  launches_on_gpus += world.launches_on_gpus();
  CHECK(world.processes() == 0);
  return world.trace();
}

TEST_CASE("whatever is killed, every job ends, nothing is left, and a seed repeats") {
  std::size_t launches_on_gpus = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    CHECK(play(seed, launches_on_gpus) == play(seed, launches_on_gpus));
  }
  CHECK(launches_on_gpus > 100);
}

}  // namespace
}  // namespace troupe::control
