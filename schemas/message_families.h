// SPDX-License-Identifier: Apache-2.0
// Families of messages: who exchanges them. A role dispatches by std::visit with one overload per
// message that it acts upon and one overload for each family that it never meets; so a new message
// does not compile before every role of its family has said what it does with it.
#pragma once

#include <concepts>
#include <variant>

#include "schemas/messages.h"

namespace troupe::schemas {

/// T is one of Ts. Overloads that pass over messages on purpose name them with it.
template <typename T, typename... Ts>
concept OneOf = (std::same_as<T, Ts> || ...);

/// Between workers, device servers and parameter servers.
template <typename T>
concept DataMessage = OneOf<T, GradientPush, PushAck, PushQuery, WeightPull, WeightReply, Finished,
                            StaleView, ShardCheckpoint, StepFacts, StepVerdict>;
/// Between the actors of a job and the coordinator.
template <typename T>
concept JobMessage = OneOf<T, DatasetReport, TrainingStart, ProgressReport, EvaluationReport,
                           CheckpointReport, ActorDone, ActorFailed, JobEnd, Placement,
                           ProcessReady, ServerReport, CutQuery, CutReady, ExtraCut, ExtraCutTaken>;
/// Between agents and the coordinator.
template <typename T>
concept AgentMessage =
    OneOf<T, AgentHello, AgentWelcome, LaunchProcess, StopProcesses, ProcessExited, ProcessMessage,
          FolderProbe, FolderProbeResult, AgentLeaving, DenyList, PieceQuery, FilePiece,
          PlaceCheckpoint, CheckpointPlaced, DropCheckpoint, AgentOffer>;
/// Between people and the coordinator.
template <typename T>
concept PersonMessage = OneOf<T, JobSubmit, JobSubmitted, JobQuery, JobList, JobStop, JobCheckpoint,
                              JobCheckpointAnswer, PersonHello>;
/// Between the two ends of a link; roles never see them.
template <typename T>
concept LinkMessage = OneOf<T, Hello, HelloReply, Ping, Pong, Goodbye, Challenge, Proof>;

template <typename T>
inline constexpr int kFamiliesOf = int{DataMessage<T>} + int{JobMessage<T>} + int{AgentMessage<T>} +
                                   int{PersonMessage<T>} + int{LinkMessage<T>};
template <typename Variant>
inline constexpr bool kAllInOneFamily = false;
template <typename... Ts>
inline constexpr bool kAllInOneFamily<std::variant<Ts...>> = ((kFamiliesOf<Ts> == 1) && ...);
static_assert(kAllInOneFamily<MessageVariant>, "every message belongs to one family");

}  // namespace troupe::schemas
