// SPDX-License-Identifier: Apache-2.0
// Names of roles, phases, messages and actors.
#include "schemas/messages.h"

#include <fmt/core.h>

#include <array>
#include <utility>

namespace troupe::schemas {
namespace {

constexpr std::array<std::string_view, 5> kRoles = {"coordinator", "agent", "worker",
                                                    "device server", "parameter server"};
constexpr std::array<std::string_view, 7> kJobPhases = {
    "pending", "starting", "running", "stopping", "succeeded", "failed", "stopped"};
constexpr std::array<std::string_view, 6> kRankPhases = {"starting", "reading", "waiting",
                                                         "training", "missing", "done"};
constexpr std::array<std::string_view, 56> kMessages = {"GradientPush",
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
                                                        "Goodbye",
                                                        "Challenge",
                                                        "Proof",
                                                        "PushQuery",
                                                        "ServerReport",
                                                        "CutQuery",
                                                        "CutReady",
                                                        "ExtraCut",
                                                        "ExtraCutTaken",
                                                        "AgentLeaving",
                                                        "JobCheckpoint",
                                                        "JobCheckpointAnswer",
                                                        "PersonHello",
                                                        "DenyList",
                                                        "PieceQuery",
                                                        "FilePiece",
                                                        "PlaceCheckpoint",
                                                        "CheckpointPlaced",
                                                        "DropCheckpoint",
                                                        "AgentOffer",
                                                        "StepFacts",
                                                        "StepVerdict"};
static_assert(kMessages.size() == kMessageTypes);

template <std::size_t N>
std::string_view name_at(const std::array<std::string_view, N>& names, std::size_t position) {
  return position < N ? names[position] : "unknown";
}

template <std::size_t I>
void assign(MessageVariant& to, const void* one, bool moves) {
  using T = std::variant_alternative_t<I, MessageVariant>;
  const T& from = *static_cast<const T*>(one);
  if (moves) {
    to.emplace<I>(std::move(const_cast<T&>(from)));  // its owner has given it away
  } else {
    to.emplace<I>(from);
  }
}

template <std::size_t... I>
constexpr auto assign_functions(std::index_sequence<I...> /*types*/) {
  return std::array{&assign<I>...};
}

/// By position in Message.
constexpr auto kAssign = assign_functions(std::make_index_sequence<kMessageTypes>());

}  // namespace

Message::Message() = default;
Message::Message(std::size_t type, const void* one, bool moves) {
  kAssign.at(type)(*this, one, moves);
}
Message::Message(const Message& other) = default;
Message::Message(Message&& other) noexcept = default;
Message& Message::operator=(const Message& other) = default;
Message& Message::operator=(Message&& other) noexcept = default;
Message::~Message() = default;

std::string_view role_name(Role role) {
  return name_at(kRoles, static_cast<std::size_t>(role));
}

std::string_view job_phase_name(JobPhase phase) {
  return name_at(kJobPhases, static_cast<std::size_t>(phase));
}

std::string_view rank_phase_name(RankPhase phase) {
  return name_at(kRankPhases, static_cast<std::size_t>(phase));
}

bool is_final(JobPhase phase) {
  return phase == JobPhase::succeeded || phase == JobPhase::failed || phase == JobPhase::stopped;
}

std::string_view message_name(std::size_t type) {
  return name_at(kMessages, type);
}

std::string ActorId::to_string() const {
  if (role == Role::coordinator) return std::string(role_name(role));  // there is one
  return fmt::format("{} {}", role_name(role), index);
}

std::optional<std::uint32_t> Placement::machine_of(const ActorId& actor) const {
  const auto at = [&actor](const std::vector<std::uint32_t>& machine_of) {
    return actor.index < machine_of.size() ? std::optional(machine_of[actor.index]) : std::nullopt;
  };
  switch (actor.role) {
    case Role::worker:
      return at(machine_of_rank);
    case Role::parameter_server:
      return at(machine_of_shard);
    case Role::device_server:
      return actor.index < machines.size() ? std::optional(actor.index) : std::nullopt;
    case Role::coordinator:
    case Role::agent:
      return std::nullopt;
  }
  return std::nullopt;
}

std::optional<std::uint32_t> Placement::gpu_of(const ActorId& actor) const {
  if (actor.role != Role::worker || actor.index >= gpu_of_rank.size()) return std::nullopt;
  return gpu_of_rank[actor.index];
}

std::string Placement::name_of(const ActorId& actor) const {
  const auto machine = machine_of(actor);
  if (!machine || *machine >= machines.size()) return actor.to_string();
  const auto gpu = gpu_of(actor);
  return fmt::format("{} on {}machine '{}'", actor.to_string(),
                     gpu ? fmt::format("GPU {} of ", *gpu) : "", machines[*machine]);
}

PushName push_name(const GradientPush& push, std::uint32_t sender) {
  return {push.slice, sender, push.node, push.step};
}

PushName push_name(const PushQuery& query, std::uint32_t sender) {
  return {query.slice, sender, query.node, query.step};
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
