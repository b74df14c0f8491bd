# SPDX-License-Identifier: Apache-2.0
# Every message that crosses a process border, as messages.h describes it. The C++ structs are what
# the program works with; this file is what peers agree on. Tensor bytes never stand here.
@0xd0a1c5f4b7e21a02;
using Cxx = import "/capnp/c++.capnp";
using Common = import "common.capnp";
$Cxx.namespace("troupe::schemas::wire");

# Header of an envelope: everything but the tensor bytes.
struct Envelope {
  job @0 :Text;
  generation @1 :UInt64;
  view @2 :UInt64;
  from @3 :Common.ActorId;
  to @4 :Common.ActorId;
  message @5 :Message;
}

# The ordinal is the frame's type number and the position in the C++ variant.
struct Message {
  union {
    gradientPush @0 :GradientPush;
    pushAck @1 :PushAck;
    weightPull @2 :WeightPull;
    weightReply @3 :WeightReply;
    finished @4 :Finished;
    staleView @5 :StaleView;
    shardCheckpoint @6 :ShardCheckpoint;
    datasetReport @7 :DatasetReport;
    trainingStart @8 :TrainingStart;
    progressReport @9 :ProgressReport;
    evaluationReport @10 :EvaluationReport;
    checkpointReport @11 :CheckpointReport;
    actorDone @12 :ActorDone;
    actorFailed @13 :ActorFailed;
    jobEnd @14 :JobEnd;
    placement @15 :Placement;
    processReady @16 :ProcessReady;
    agentHello @17 :AgentHello;
    agentWelcome @18 :AgentWelcome;
    launchProcess @19 :LaunchProcess;
    stopProcesses @20 :StopProcesses;
    processExited @21 :ProcessExited;
    processMessage @22 :ProcessMessage;
    folderProbe @23 :FolderProbe;
    folderProbeResult @24 :FolderProbeResult;
    jobSubmit @25 :JobSubmit;
    jobSubmitted @26 :JobSubmitted;
    jobQuery @27 :JobQuery;
    jobList @28 :JobList;
    jobStop @29 :JobStop;
    hello @30 :Hello;
    helloReply @31 :HelloReply;
    ping @32 :Ping;
    pong @33 :Pong;
    goodbye @34 :Goodbye;
    challenge @35 :Challenge;
    proof @36 :Proof;
    pushQuery @37 :PushQuery;
    serverReport @38 :ServerReport;
    cutQuery @39 :CutQuery;
    cutReady @40 :CutReady;
    extraCut @41 :ExtraCut;
    extraCutTaken @42 :ExtraCutTaken;
    agentLeaving @43 :AgentLeaving;
    jobCheckpoint @44 :JobCheckpoint;
    jobCheckpointAnswer @45 :JobCheckpointAnswer;
    personHello @46 :PersonHello;
    denyList @47 :DenyList;
    pieceQuery @48 :PieceQuery;
    filePiece @49 :FilePiece;
    placeCheckpoint @50 :PlaceCheckpoint;
    checkpointPlaced @51 :CheckpointPlaced;
    dropCheckpoint @52 :DropCheckpoint;
    agentOffer @53 :AgentOffer;
    stepFacts @54 :StepFacts;
    stepVerdict @55 :StepVerdict;
  }
}

# ---- data plane ----

struct SliceId {
  key @0 :UInt32;
  slice @1 :UInt32;
}

struct TreeNode {
  level @0 :UInt8;
  group @1 :UInt32;
  begin @2 :UInt32;
  end @3 :UInt32;
}

struct Contribution {
  rank @0 :UInt32;
  step @1 :UInt64;
}

struct GradientPush {
  slice @0 :SliceId;
  node @1 :TreeNode;
  step @2 :UInt64;
  count @3 :Float64;
  contributions @4 :List(Contribution);
  abstains @5 :Bool;
}

enum PushResult {
  taken @0;
  duplicate @1;
  staleView @2;
  notReady @3;
  unknown @4;
}

struct PushAck {
  slice @0 :SliceId;
  node @1 :TreeNode;
  step @2 :UInt64;
  result @3 :PushResult;
}

struct PushQuery {
  slice @0 :SliceId;
  node @1 :TreeNode;
  step @2 :UInt64;
}

struct WeightPull {
  slice @0 :SliceId;
  version @1 :UInt64;
  appliedBelow @2 :UInt64;
  step @3 :UInt64;
}

struct WeightReply {
  slice @0 :SliceId;
  version @1 :UInt64;
  step @2 :UInt64;
  code @3 :Common.Errc;
  text @4 :Text;
  next @5 :List(UInt64);
}

struct Finished {
  ranks @0 :List(UInt32);
  steps @1 :UInt64;
}

struct StaleView {
  current @0 :UInt64;
}

struct ShardCheckpoint {
  step @0 :UInt64;
  shard @1 :UInt32;
  file @2 :Text;
  bytes @3 :UInt64;
  chunkBytes @4 :UInt64;
  checksums @5 :List(UInt32);
  code @6 :Common.Errc;
  text @7 :Text;
}

struct SliceFacts {
  squares @0 :Float64;
  notFinite @1 :UInt64;
}

struct StepFacts {
  step @0 :UInt64;
  shard @1 :UInt32;
  count @2 :Float64;
  lossScale @3 :Float64;
  slices @4 :List(SliceFacts);
}

struct StepVerdict {
  step @0 :UInt64;
  skip @1 :Bool;
  divisor @2 :Float64;
  norm @3 :Float64;
}

# ---- a job's processes and the coordinator ----

struct DatasetReport {
  rank @0 :UInt32;
  file @1 :Text;
  records @2 :UInt64;
  bytes @3 :UInt64;
  checksum @4 :UInt32;
  testFile @5 :Text;
  testRecords @6 :UInt64;
  testBytes @7 :UInt64;
  testChecksum @8 :UInt32;
}

struct TrainingStart {
  step @0 :UInt64;
  records @1 :UInt64;
  bytes @2 :UInt64;
  checksum @3 :UInt32;
}

struct MetricSum {
  name @0 :Text;
  sum @1 :Float64;
  weight @2 :Float64;
}

struct ProgressReport {
  rank @0 :UInt32;
  step @1 :UInt64;
  samples @2 :UInt64;
  metrics @3 :List(MetricSum);  # names strictly ascending
}

struct EvaluationReport {
  rank @0 :UInt32;
  epoch @1 :UInt64;
  step @2 :UInt64;
  samples @3 :UInt64;
  correct @4 :UInt64;
  lossSum @5 :Float64;
}

struct CheckpointReport {
  step @0 :UInt64;
  path @1 :Text;
  code @2 :Common.Errc;
  text @3 :Text;
}

struct ActorDone {
  actor @0 :Common.ActorId;
  steps @1 :UInt64;
}

struct ServerReport {
  shard @0 :UInt32;
  appliedBelow @1 :UInt64;
}

struct ActorFailed {
  actor @0 :Common.ActorId;
  code @1 :Common.Errc;
  text @2 :Text;
  lost @3 :Common.ActorId;  # absent: it has lost no peer
}

struct JobEnd {
  code @0 :Common.Errc;
  text @1 :Text;
}

struct Placement {
  view @0 :UInt64;
  generation @1 :UInt64;
  startStep @2 :UInt64;
  machineOfRank @3 :List(UInt32);
  machineOfShard @4 :List(UInt32);
  machines @5 :List(Text);
  shardAddresses @6 :List(Text);
  gpuOfRank @7 :List(UInt32);  # by position of machineOfRank, or none
}

struct ProcessReady {
  actor @0 :Common.ActorId;
  pid @1 :UInt64;
  address @2 :Text;
  httpAddress @3 :Text;
  numericClass @4 :Common.NumericClass;
}

# ---- agents and the coordinator ----

struct AgentHello {
  name @0 :Text;
  version @1 :Text;
  slots @2 :UInt32;
  httpAddress @3 :Text;
  numericClass @4 :Common.NumericClass;
  processToken @5 :UInt64;
  withheld @6 :Text;
  gpus @7 :List(GpuOffer);
  lostGpus @8 :List(LostGpu);
  slotsKept @9 :UInt32;
}

struct GpuOffer {
  index @0 :UInt32;
  name @1 :Text;
  uuid @2 :Text;
  memoryBytes @3 :UInt64;
}

struct LostGpu {
  index @0 :UInt32;
  why @1 :Text;
}

struct AgentWelcome {
  agent @0 :UInt32;
  coordinatorVersion @1 :Text;
}

struct LaunchProcess {
  job @0 :Text;
  generation @1 :UInt64;
  actor @2 :Common.ActorId;
  machine @3 :UInt32;
  ranks @4 :List(UInt32);
  jobText @5 :Data;  # job.capnp
  machines @6 :UInt32;
  secret @7 :Data;  # 16 bytes
  credentials @8 :Text;  # PEM; written by the agent, for its child alone
  checkpoint @9 :Text;
  copied @10 :Bool;
  gpus @11 :List(UInt32);  # by position of ranks, or none
}

struct StopProcesses {
  job @0 :Text;
  graceMs @1 :UInt64;
  generation @2 :UInt64;
}

struct ProcessExited {
  job @0 :Text;
  actor @1 :Common.ActorId;
  how @2 :Text;
  clean @3 :Bool;
  generation @4 :UInt64;
}

struct ProcessMessage {
  job @0 :Text;
  actor @1 :Common.ActorId;
  message @2 :Data;  # a Message of its own
  generation @3 :UInt64;
}

struct FolderProbe {
  job @0 :Text;
  path @1 :Text;
  file @2 :Text;
  nonce @3 :Text;
  write @4 :Bool;
  generation @5 :UInt64;
}

struct NamedCheckpoint {
  step @0 :UInt64;
  generation @1 :UInt64;
}

struct FolderProbeResult {
  job @0 :Text;
  code @1 :Common.Errc;
  text @2 :Text;
  generation @3 :UInt64;
  newest @4 :List(NamedCheckpoint);
  highestGeneration @5 :UInt64;
}

# ---- copies of checkpoints: agents and the coordinator ----

struct PieceQuery {
  number @0 :UInt64;
  job @1 :Text;
  generation @2 :UInt64;
  folder @3 :Text;
  file @4 :Text;
  offset @5 :UInt64;
  bytes @6 :UInt64;
}

struct FilePiece {
  number @0 :UInt64;
  code @1 :Common.Errc;
  text @2 :Text;
  fileBytes @3 :UInt64;
  bytes @4 :Data;
}

struct PlaceCheckpoint {
  job @0 :Text;
  generation @1 :UInt64;
  folder @2 :Text;
  checkpoint @3 :Text;
  files @4 :List(UInt32);
}

struct CheckpointPlaced {
  job @0 :Text;
  generation @1 :UInt64;
  code @2 :Common.Errc;
  text @3 :Text;
}

struct DropCheckpoint {
  folder @0 :Text;
  checkpoint @1 :Text;
  older @2 :Bool;
}

# ---- people and the coordinator ----

struct JobSubmit {
  id @0 :Text;
  jobText @1 :Data;  # job.capnp
  request @2 :Text;
}

struct JobSubmitted {
  id @0 :Text;
  code @1 :Common.Errc;
  text @2 :Text;
}

struct JobQuery {
  id @0 :Text;
  cluster @1 :Bool;
}

enum JobPhase {
  pending @0;
  starting @1;
  running @2;
  stopping @3;
  succeeded @4;
  failed @5;
  stopped @6;
}

struct JobInfo {
  id @0 :Text;
  name @1 :Text;
  phase @2 :JobPhase;
  step @3 :UInt64;
  stepsTotal @4 :UInt64;
  samples @5 :UInt64;
  loss @6 :Float64;
  accuracy @7 :Float64;
  samplesPerSecond @8 :Float64;
  checkpoint @9 :Text;
  text @10 :Text;
  ageMs @11 :UInt64;
  number @12 :UInt64;
  noRoom @13 :Bool;
  doneBefore @14 :Bool;
}

struct MachineInfo {
  name @0 :Text;
  slots @1 :UInt32;
  slotsUsed @2 :UInt32;
  cut @3 :Bool;
  withheld @4 :Text;
  gpus @5 :UInt32;
  gpusUsed @6 :UInt32;
  lostGpus @7 :List(LostGpu);
}

enum RankPhase {
  starting @0;
  reading @1;
  waiting @2;
  training @3;
  missing @4;
  done @5;
}

struct RankInfo {
  job @0 :Text;
  rank @1 :UInt32;
  machine @2 :Text;
  phase @3 :RankPhase;
  step @4 :UInt64;
  samplesPerSecond @5 :Float64;
  heardMs @6 :UInt64;
  gpu @7 :Common.OptionalUInt64;  # null: it computes on its machine's CPUs
}

struct JobList {
  code @0 :Common.Errc;
  text @1 :Text;
  jobs @2 :List(JobInfo);
  machines @3 :List(MachineInfo);
  ranks @4 :List(RankInfo);
}

struct JobStop {
  id @0 :Text;
  checkpoint @1 :Bool;
}

# ---- a cut out of turn ----

struct CutQuery {
  number @0 :UInt64;
}

struct CutReady {
  number @0 :UInt64;
  machine @1 :UInt32;
  next @2 :UInt64;
}

struct ExtraCut {
  number @0 :UInt64;
  step @1 :UInt64;
  last @2 :Bool;
}

struct ExtraCutTaken {
  number @0 :UInt64;
  shard @1 :UInt32;
}

struct AgentLeaving {
  text @0 :Text;
}

struct AgentOffer {
  withheld @0 :Text;
  lostGpus @1 :List(LostGpu);
  slotsKept @2 :UInt32;
}

struct JobCheckpoint {
  id @0 :Text;
}

struct JobCheckpointAnswer {
  code @0 :Common.Errc;
  text @1 :Text;
  step @2 :UInt64;
  path @3 :Text;
}

struct PersonHello {
  token @0 :Text;
}

struct DenyList {
  pem @0 :Text;
  code @1 :Common.Errc;
  text @2 :Text;
}

# ---- links ----

enum Channel {
  control @0;
  data @1;
}

struct Hello {
  protocol @0 :UInt32;
  job @1 :Text;
  generation @2 :UInt64;
  actor @3 :Common.ActorId;
  name @4 :Text;
  channel @5 :Channel;
  token @6 :UInt64;
  lane @7 :UInt32;
  lanes @8 :UInt32;
  resume @9 :Bool;
  nonce @10 :Data;  # 16 bytes or none
}

struct HelloReply {
  protocol @0 :UInt32;
  code @1 :Common.Errc;
  text @2 :Text;
  proof @3 :Data;  # 32 bytes or none
}

struct Ping {
  number @0 :UInt64;
}

struct Pong {
  number @0 :UInt64;
}

struct Goodbye {
  text @0 :Text;
}

struct Challenge {
  nonce @0 :Data;  # 16 bytes
}

struct Proof {
  proof @0 :Data;  # 32 bytes
}
