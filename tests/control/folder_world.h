// SPDX-License-Identifier: Apache-2.0
// A job's checkpoint.dir on three machines, as tests of CheckpointFolder see it.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "control/checkpoint_folder.h"
#include "tests/support/catch.h"

namespace troupe::control::testing {

using FolderEffects = std::vector<CheckpointFolder::Effect>;

template <typename Kind>
std::vector<Kind> all_of(const FolderEffects& effects) {
  std::vector<Kind> found;
  for (const auto& effect : effects) {
    if (const auto* one = std::get_if<Kind>(&effect)) found.push_back(*one);
  }
  return found;
}

/// What machines are sent, of one kind.
template <typename Message>
std::vector<std::pair<std::uint32_t, Message>> sent(const FolderEffects& effects) {
  std::vector<std::pair<std::uint32_t, Message>> found;
  for (const auto& send : all_of<Send<std::uint32_t>>(effects)) {
    if (const auto* one = std::get_if<Message>(&send.message)) found.emplace_back(send.to, *one);
  }
  return found;
}

inline schemas::JobSpec mine() {
  schemas::JobSpec spec;
  spec.name = "mine";
  return spec;
}

/// Machines a, b and c; shards 0 and 2 on b, shard 1 on c. Their agents are peers 10, 11, 12.
struct FolderWorld {
  CheckpointFolder folder{{"x", 3, "/out", 2, {"a", "b", "c"}, {10, 11, 12}, {1, 2, 1}, mine()}};

  FolderEffects take() { return folder.take_effects(); }
  /// What machine 1 or 2, or the coordinator (3) says; `step`: of its newest manifest, of
  /// generation 2.
  FolderEffects answer(std::uint32_t machine, base::Errc code = base::Errc::ok,
                       std::uint64_t step = 0) {
    schemas::FolderProbeResult result{"x", 3, code, code == base::Errc::ok ? "" : "no", {}, 0};
    if (step > 0) result.newest = {{step, 2}};
    if (step > 0) result.highest_generation = 2;
    fault =
        machine == 3 ? folder.take(FolderProbed{result, "nonce"}) : folder.take(machine, result);
    return take();
  }
  /// The coordinator has its folder for itself; `step`: of its newest whole checkpoint.
  FolderEffects held(std::uint64_t step = 0, const base::Status& status = {}) {
    fault = folder.take(FolderHeld{"x", 3, status, {step, step > 0 ? 2u : 0u}});
    return take();
  }
  /// What machines held from before.
  FolderEffects gathered(std::uint64_t step, const base::Status& status = {}) {
    fault = folder.gathered({"x", 3, step, 2, status});
    return take();
  }
  /// To the point where it is known which machines have a folder of their own.
  void know(const std::vector<std::uint32_t>& own) {
    folder.probe();
    answer(3);
    for (const std::uint32_t machine : {1u, 2u}) {
      const bool other = std::find(own.begin(), own.end(), machine) != own.end();
      answer(machine, other ? base::Errc::not_found : base::Errc::ok);
    }
    for (const std::uint32_t machine : own) answer(machine);
    for (std::size_t i = 0; i < own.size(); ++i) answer(3, base::Errc::not_found);
    if (!own.empty()) held();
    REQUIRE(folder.known());
    REQUIRE(folder.copied() == !own.empty());
    take();
  }
  StartFound found(const std::string& checkpoint = "/out/step-500-g2") const {
    StartFound start;
    start.step = 500;
    start.checkpoint = checkpoint;
    start.files = {"step-500-g2-shard-0-of-2.safetensors", "step-500-g2-shard-1-of-2.safetensors"};
    start.files_of_shard = {{0}, {1}, {0, 1}};
    start.checkpoint_bytes = 4'711;
    return start;
  }
  ActorSaid report(std::uint64_t step, base::Errc code = base::Errc::ok) const {
    const std::string path = code == base::Errc::ok ? "/out/step" : "";
    return {{schemas::Role::parameter_server, 1},
            schemas::CheckpointReport{step, path, code, "full"}};
  }
  base::Status fault;
};

/// Machines b and c have folders of their own, with newest checkpoints of these steps.
inline FolderEffects separate(FolderWorld& world, std::uint64_t b, std::uint64_t c,
                              std::uint64_t coordinator) {
  world.folder.probe();
  world.answer(3);
  world.answer(1, base::Errc::not_found, b);
  world.answer(2, base::Errc::not_found, c);
  for (const std::uint32_t machine : {1u, 2u}) world.answer(machine);
  for (int i = 0; i < 2; ++i) world.answer(3, base::Errc::not_found);
  return world.held(coordinator);
}

}  // namespace troupe::control::testing
