// SPDX-License-Identifier: Apache-2.0
// Which codec reads and writes which message: the union of wire.capnp against the C++ variant, and
// the small parts that several messages share.
#include "schemas/codec_internal.h"

namespace troupe::schemas {
namespace {

using Which = wire::Message::Which;

// Type numbers, positions and ordinals are one thing.
static_assert(static_cast<std::size_t>(Which::STEP_VERDICT) == type_of<StepVerdict>());
static_assert(static_cast<std::size_t>(Which::PLACEMENT) == type_of<Placement>());
static_assert(static_cast<std::size_t>(Which::JOB_SUBMIT) == type_of<JobSubmit>());
static_assert(kMessageTypes == 56);
static_assert(static_cast<int>(wire::Errc::IO_ERROR) == static_cast<int>(base::Errc::io_error));
static_assert(static_cast<int>(wire::DType::BOOLEAN) == static_cast<int>(base::DType::boolean));
static_assert(static_cast<int>(wire::Role::PARAMETER_SERVER) ==
              static_cast<int>(Role::parameter_server));

// One overload per message: where it stands in the union.
auto init(wire::Message::Builder m, const GradientPush&) {
  return m.initGradientPush();
}
auto init(wire::Message::Builder m, const PushAck&) {
  return m.initPushAck();
}
auto init(wire::Message::Builder m, const WeightPull&) {
  return m.initWeightPull();
}
auto init(wire::Message::Builder m, const WeightReply&) {
  return m.initWeightReply();
}
auto init(wire::Message::Builder m, const Finished&) {
  return m.initFinished();
}
auto init(wire::Message::Builder m, const StaleView&) {
  return m.initStaleView();
}
auto init(wire::Message::Builder m, const ShardCheckpoint&) {
  return m.initShardCheckpoint();
}
auto init(wire::Message::Builder m, const DatasetReport&) {
  return m.initDatasetReport();
}
auto init(wire::Message::Builder m, const TrainingStart&) {
  return m.initTrainingStart();
}
auto init(wire::Message::Builder m, const ProgressReport&) {
  return m.initProgressReport();
}
auto init(wire::Message::Builder m, const EvaluationReport&) {
  return m.initEvaluationReport();
}
auto init(wire::Message::Builder m, const CheckpointReport&) {
  return m.initCheckpointReport();
}
auto init(wire::Message::Builder m, const ActorDone&) {
  return m.initActorDone();
}
auto init(wire::Message::Builder m, const ActorFailed&) {
  return m.initActorFailed();
}
auto init(wire::Message::Builder m, const JobEnd&) {
  return m.initJobEnd();
}
auto init(wire::Message::Builder m, const Placement&) {
  return m.initPlacement();
}
auto init(wire::Message::Builder m, const ProcessReady&) {
  return m.initProcessReady();
}
auto init(wire::Message::Builder m, const AgentHello&) {
  return m.initAgentHello();
}
auto init(wire::Message::Builder m, const AgentWelcome&) {
  return m.initAgentWelcome();
}
auto init(wire::Message::Builder m, const LaunchProcess&) {
  return m.initLaunchProcess();
}
auto init(wire::Message::Builder m, const StopProcesses&) {
  return m.initStopProcesses();
}
auto init(wire::Message::Builder m, const ProcessExited&) {
  return m.initProcessExited();
}
auto init(wire::Message::Builder m, const ProcessMessage&) {
  return m.initProcessMessage();
}
auto init(wire::Message::Builder m, const FolderProbe&) {
  return m.initFolderProbe();
}
auto init(wire::Message::Builder m, const FolderProbeResult&) {
  return m.initFolderProbeResult();
}
auto init(wire::Message::Builder m, const JobSubmit&) {
  return m.initJobSubmit();
}
auto init(wire::Message::Builder m, const JobSubmitted&) {
  return m.initJobSubmitted();
}
auto init(wire::Message::Builder m, const JobQuery&) {
  return m.initJobQuery();
}
auto init(wire::Message::Builder m, const JobList&) {
  return m.initJobList();
}
auto init(wire::Message::Builder m, const JobStop&) {
  return m.initJobStop();
}
auto init(wire::Message::Builder m, const Hello&) {
  return m.initHello();
}
auto init(wire::Message::Builder m, const HelloReply&) {
  return m.initHelloReply();
}
auto init(wire::Message::Builder m, const Ping&) {
  return m.initPing();
}
auto init(wire::Message::Builder m, const Pong&) {
  return m.initPong();
}
auto init(wire::Message::Builder m, const Goodbye&) {
  return m.initGoodbye();
}
auto init(wire::Message::Builder m, const Challenge&) {
  return m.initChallenge();
}
auto init(wire::Message::Builder m, const Proof&) {
  return m.initProof();
}
auto init(wire::Message::Builder m, const PushQuery&) {
  return m.initPushQuery();
}
auto init(wire::Message::Builder m, const ServerReport&) {
  return m.initServerReport();
}
auto init(wire::Message::Builder m, const CutQuery&) {
  return m.initCutQuery();
}
auto init(wire::Message::Builder m, const CutReady&) {
  return m.initCutReady();
}
auto init(wire::Message::Builder m, const ExtraCut&) {
  return m.initExtraCut();
}
auto init(wire::Message::Builder m, const ExtraCutTaken&) {
  return m.initExtraCutTaken();
}
auto init(wire::Message::Builder m, const AgentLeaving&) {
  return m.initAgentLeaving();
}
auto init(wire::Message::Builder m, const JobCheckpoint&) {
  return m.initJobCheckpoint();
}
auto init(wire::Message::Builder m, const JobCheckpointAnswer&) {
  return m.initJobCheckpointAnswer();
}
auto init(wire::Message::Builder m, const PersonHello&) {
  return m.initPersonHello();
}
auto init(wire::Message::Builder m, const DenyList&) {
  return m.initDenyList();
}
auto init(wire::Message::Builder m, const PieceQuery&) {
  return m.initPieceQuery();
}
auto init(wire::Message::Builder m, const FilePiece&) {
  return m.initFilePiece();
}
auto init(wire::Message::Builder m, const PlaceCheckpoint&) {
  return m.initPlaceCheckpoint();
}
auto init(wire::Message::Builder m, const CheckpointPlaced&) {
  return m.initCheckpointPlaced();
}
auto init(wire::Message::Builder m, const DropCheckpoint&) {
  return m.initDropCheckpoint();
}
auto init(wire::Message::Builder m, const AgentOffer&) {
  return m.initAgentOffer();
}
auto init(wire::Message::Builder m, const StepFacts&) {
  return m.initStepFacts();
}
auto init(wire::Message::Builder m, const StepVerdict&) {
  return m.initStepVerdict();
}

template <typename T, typename In>
void take(In in, Message& out, Intake& intake) {
  get(in, out.emplace<T>(), intake);
}

}  // namespace

void put(wire::Message::Builder out, const Message& message) {
  std::visit([&](const auto& m) { put(init(out, m), m); }, message);
}

void get(wire::Message::Reader in, Message& out, Intake& intake) {
  // clang-format off
  switch (in.which()) {
    case Which::GRADIENT_PUSH: return take<GradientPush>(in.getGradientPush(), out, intake);
    case Which::PUSH_ACK: return take<PushAck>(in.getPushAck(), out, intake);
    case Which::WEIGHT_PULL: return take<WeightPull>(in.getWeightPull(), out, intake);
    case Which::WEIGHT_REPLY: return take<WeightReply>(in.getWeightReply(), out, intake);
    case Which::FINISHED: return take<Finished>(in.getFinished(), out, intake);
    case Which::STALE_VIEW: return take<StaleView>(in.getStaleView(), out, intake);
    case Which::SHARD_CHECKPOINT:
      return take<ShardCheckpoint>(in.getShardCheckpoint(), out, intake);
    case Which::DATASET_REPORT: return take<DatasetReport>(in.getDatasetReport(), out, intake);
    case Which::TRAINING_START: return take<TrainingStart>(in.getTrainingStart(), out, intake);
    case Which::PROGRESS_REPORT: return take<ProgressReport>(in.getProgressReport(), out, intake);
    case Which::EVALUATION_REPORT:
      return take<EvaluationReport>(in.getEvaluationReport(), out, intake);
    case Which::CHECKPOINT_REPORT:
      return take<CheckpointReport>(in.getCheckpointReport(), out, intake);
    case Which::ACTOR_DONE: return take<ActorDone>(in.getActorDone(), out, intake);
    case Which::ACTOR_FAILED: return take<ActorFailed>(in.getActorFailed(), out, intake);
    case Which::JOB_END: return take<JobEnd>(in.getJobEnd(), out, intake);
    case Which::PLACEMENT: return take<Placement>(in.getPlacement(), out, intake);
    case Which::PROCESS_READY: return take<ProcessReady>(in.getProcessReady(), out, intake);
    case Which::AGENT_HELLO: return take<AgentHello>(in.getAgentHello(), out, intake);
    case Which::AGENT_WELCOME: return take<AgentWelcome>(in.getAgentWelcome(), out, intake);
    case Which::LAUNCH_PROCESS: return take<LaunchProcess>(in.getLaunchProcess(), out, intake);
    case Which::STOP_PROCESSES: return take<StopProcesses>(in.getStopProcesses(), out, intake);
    case Which::PROCESS_EXITED: return take<ProcessExited>(in.getProcessExited(), out, intake);
    case Which::PROCESS_MESSAGE: return take<ProcessMessage>(in.getProcessMessage(), out, intake);
    case Which::FOLDER_PROBE: return take<FolderProbe>(in.getFolderProbe(), out, intake);
    case Which::FOLDER_PROBE_RESULT:
      return take<FolderProbeResult>(in.getFolderProbeResult(), out, intake);
    case Which::JOB_SUBMIT: return take<JobSubmit>(in.getJobSubmit(), out, intake);
    case Which::JOB_SUBMITTED: return take<JobSubmitted>(in.getJobSubmitted(), out, intake);
    case Which::JOB_QUERY: return take<JobQuery>(in.getJobQuery(), out, intake);
    case Which::JOB_LIST: return take<JobList>(in.getJobList(), out, intake);
    case Which::JOB_STOP: return take<JobStop>(in.getJobStop(), out, intake);
    case Which::HELLO: return take<Hello>(in.getHello(), out, intake);
    case Which::HELLO_REPLY: return take<HelloReply>(in.getHelloReply(), out, intake);
    case Which::PING: return take<Ping>(in.getPing(), out, intake);
    case Which::PONG: return take<Pong>(in.getPong(), out, intake);
    case Which::GOODBYE: return take<Goodbye>(in.getGoodbye(), out, intake);
    case Which::CHALLENGE: return take<Challenge>(in.getChallenge(), out, intake);
    case Which::PROOF: return take<Proof>(in.getProof(), out, intake);
    case Which::PUSH_QUERY: return take<PushQuery>(in.getPushQuery(), out, intake);
    case Which::SERVER_REPORT: return take<ServerReport>(in.getServerReport(), out, intake);
    case Which::CUT_QUERY: return take<CutQuery>(in.getCutQuery(), out, intake);
    case Which::CUT_READY: return take<CutReady>(in.getCutReady(), out, intake);
    case Which::EXTRA_CUT: return take<ExtraCut>(in.getExtraCut(), out, intake);
    case Which::EXTRA_CUT_TAKEN: return take<ExtraCutTaken>(in.getExtraCutTaken(), out, intake);
    case Which::AGENT_LEAVING: return take<AgentLeaving>(in.getAgentLeaving(), out, intake);
    case Which::JOB_CHECKPOINT: return take<JobCheckpoint>(in.getJobCheckpoint(), out, intake);
    case Which::JOB_CHECKPOINT_ANSWER:
      return take<JobCheckpointAnswer>(in.getJobCheckpointAnswer(), out, intake);
    case Which::PERSON_HELLO: return take<PersonHello>(in.getPersonHello(), out, intake);
    case Which::DENY_LIST: return take<DenyList>(in.getDenyList(), out, intake);
    case Which::PIECE_QUERY: return take<PieceQuery>(in.getPieceQuery(), out, intake);
    case Which::FILE_PIECE: return take<FilePiece>(in.getFilePiece(), out, intake);
    case Which::PLACE_CHECKPOINT:
      return take<PlaceCheckpoint>(in.getPlaceCheckpoint(), out, intake);
    case Which::CHECKPOINT_PLACED:
      return take<CheckpointPlaced>(in.getCheckpointPlaced(), out, intake);
    case Which::DROP_CHECKPOINT: return take<DropCheckpoint>(in.getDropCheckpoint(), out, intake);
    case Which::AGENT_OFFER: return take<AgentOffer>(in.getAgentOffer(), out, intake);
    case Which::STEP_FACTS: return take<StepFacts>(in.getStepFacts(), out, intake);
    case Which::STEP_VERDICT: return take<StepVerdict>(in.getStepVerdict(), out, intake);
  }
  // clang-format on
  intake.fail("message", fmt::format("has the unknown type {}", static_cast<int>(in.which())));
}

void put(wire::ActorId::Builder out, const ActorId& m) {
  const auto& [role, index] = m;
  out.setRole(choice_of<wire::Role>(role));
  out.setIndex(index);
}

void get(wire::ActorId::Reader in, ActorId& out, Intake& intake) {
  intake.choice(in.getRole(), Role::parameter_server, "role", out.role);
  out.index = in.getIndex();
}

void put(wire::NumericClass::Builder out, const base::NumericClass& m) {
  const auto& [build, onednn, libm, isa, caches, threads, device_model] = m;
  out.setBuild(text_of(build));
  out.setOnednn(text_of(onednn));
  out.setLibm(text_of(libm));
  out.setIsa(text_of(isa));
  out.setCaches(text_of(caches));
  out.setThreads(threads);
  out.setDeviceModel(text_of(device_model));
}

void get(wire::NumericClass::Reader in, base::NumericClass& out, Intake& intake) {
  intake.name(in.getBuild(), "build", out.build);
  intake.name(in.getOnednn(), "onednn", out.onednn);
  intake.name(in.getLibm(), "libm", out.libm);
  intake.name(in.getIsa(), "isa", out.isa);
  intake.name(in.getCaches(), "caches", out.caches);
  out.threads = in.getThreads();
  intake.name(in.getDeviceModel(), "device_model", out.device_model);
}

}  // namespace troupe::schemas
