// SPDX-License-Identifier: Apache-2.0
// Names of roles, states and messages.
#include "schemas/messages.h"

#include <fmt/core.h>

#include <array>

namespace troupe::schemas {
namespace {

constexpr std::array<std::string_view, 5> kRoles = {"coordinator", "agent", "worker",
                                                    "device server", "parameter server"};
constexpr std::array<std::string_view, 7> kJobStates = {
    "pending", "starting", "running", "stopping", "succeeded", "failed", "stopped"};
constexpr std::array<std::string_view, 35> kMessages = {"GradientPush",
                                                        "PushAck",
                                                        "WeightPull",
                                                        "WeightReply",
                                                        "Finished",
                                                        "StaleView",
                                                        "ShardCheckpoint",
                                                        "DatasetReport",
                                                        "TrainingStart",
                                                        "ProgressReport",
                                                        "EvaluationReport",
                                                        "CheckpointReport",
                                                        "ActorDone",
                                                        "ActorFailed",
                                                        "JobEnd",
                                                        "Placement",
                                                        "ProcessReady",
                                                        "AgentHello",
                                                        "AgentWelcome",
                                                        "LaunchProcess",
                                                        "StopProcesses",
                                                        "ProcessExited",
                                                        "ProcessMessage",
                                                        "FolderProbe",
                                                        "FolderProbeResult",
                                                        "JobSubmit",
                                                        "JobSubmitted",
                                                        "JobQuery",
                                                        "JobList",
                                                        "JobStop",
                                                        "Hello",
                                                        "HelloReply",
                                                        "Ping",
                                                        "Pong",
                                                        "Goodbye"};
static_assert(kMessages.size() == std::variant_size_v<Message>);

template <std::size_t N>
std::string_view name_at(const std::array<std::string_view, N>& names, std::size_t position) {
  return position < N ? names[position] : "unknown";
}

}  // namespace

std::string_view role_name(Role role) {
  return name_at(kRoles, static_cast<std::size_t>(role));
}

std::string_view job_state_name(JobState state) {
  return name_at(kJobStates, static_cast<std::size_t>(state));
}

std::string_view message_name(std::size_t type) {
  return name_at(kMessages, type);
}

std::string ActorId::to_string() const {
  return fmt::format("{} {}", role_name(role), index);
}

PushName push_name(const GradientPush& push, std::uint32_t sender) {
  return {push.slice, sender, push.node, push.step};
}

PushName push_name(const PushAck& ack, std::uint32_t sender) {
  return {ack.slice, sender, ack.node, ack.step};
}

std::optional<SliceId> slice_of(const Message& message) {
  return std::visit(
      [](const auto& m) -> std::optional<SliceId> {
        if constexpr (requires { m.slice; }) {
          return m.slice;
        } else {
          return std::nullopt;
        }
      },
      message);
}

}  // namespace troupe::schemas
