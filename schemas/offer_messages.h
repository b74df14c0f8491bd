// SPDX-License-Identifier: Apache-2.0
// The messages by which an agent offers its machine's devices, takes some of them out of service,
// and by which people see what is offered. Who says what when: control/agent_state.h. Plain values;
// part of messages.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/numeric_class.h"

namespace troupe::schemas {

/// GPU slots of one agent, at most. A machine numbers its GPUs from 0, below this.
inline constexpr std::size_t kGpusMax = 64;
/// A GPU's name, its uuid, and why it is lost; in bytes, each.
inline constexpr std::size_t kGpuTextBytesMax = 128;

/// A GPU slot: one worker at a time computes on this GPU.
struct GpuOffer {
  std::uint32_t index = 0;  ///< on its machine: base::Device's
  std::string name;         ///< "NVIDIA H100 80GB HBM3"
  std::string uuid;         ///< empty: not known
  std::uint64_t memory_bytes = 0;
  friend bool operator==(const GpuOffer&, const GpuOffer&) = default;
};

/// A GPU that nothing new is placed on, in whichever of its slots.
struct LostGpu {
  std::uint32_t index = 0;
  std::string why;
  friend bool operator==(const LostGpu&, const LostGpu&) = default;
};

/// First message of an agent.
struct AgentHello {
  std::string name;
  std::string version;
  std::uint32_t slots = 0;  ///< for one CPU worker each
  std::string http_address;
  base::NumericClass numeric_class;     ///< threads = 0: known when a job names them
  std::uint64_t process_token = 0;      ///< random; the same on every link of one process
  std::string withheld = {};            ///< as AgentOffer's
  std::vector<GpuOffer> gpus = {};      ///< one for each GPU slot: a GPU may be there several times
  std::vector<LostGpu> lost_gpus = {};  ///< as AgentOffer's
  std::uint32_t slots_kept = 0;         ///< as AgentOffer's
};

/// The coordinator takes an agent in.
struct AgentWelcome {
  std::uint32_t agent = 0;
  std::string coordinator_version;
};

/// An agent to the coordinator: whether its slots are there for what is new; the last word counts.
struct AgentOffer {
  std::string withheld;                 ///< why none is; empty: they are
  std::vector<LostGpu> lost_gpus = {};  ///< but for those of these GPUs
  std::uint32_t slots_kept = 0;         ///< and so many for CPUs, which processes of before may use
};

/// A machine as `top` shows it.
struct MachineInfo {
  std::string name;
  std::uint32_t slots = 0;
  std::uint32_t slots_used = 0;
  bool cut = false;           ///< its agent's link is, and may heal
  std::string withheld = {};  ///< why it gets nothing new; empty: it does
  std::uint32_t gpus = 0;     ///< GPU slots
  std::uint32_t gpus_used = 0;
  std::vector<LostGpu> lost_gpus = {};  ///< that it offers; not all of very many machines'
};

}  // namespace troupe::schemas
