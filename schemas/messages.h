// SPDX-License-Identifier: Apache-2.0
// The company's messages as plain structs: nouns of fact, exchanged by workers, device servers,
// parameter servers, agents and the coordinator. codec.h turns them into Cap'n Proto bytes and
// back; inside one process they are handed over as they are. Tensor bytes never stand here: an
// envelope carries them beside its message.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/buffer.h"
#include "base/dtype.h"
#include "base/numeric_class.h"
#include "base/secret.h"
#include "base/shape.h"
#include "base/status.h"
#include "schemas/copy_messages.h"
#include "schemas/cut_messages.h"
#include "schemas/job_spec.h"
#include "schemas/offer_messages.h"
#include "schemas/trust_messages.h"
#include "schemas/verdict_messages.h"
#include "schemas/view_messages.h"

namespace troupe::schemas {

/// Version of frames and messages; peers of another version are refused with both numbers.
inline constexpr std::uint32_t kProtocolVersion = 1;

/// Who an actor is.
enum class Role : std::uint8_t { coordinator, agent, worker, device_server, parameter_server };

/// "worker", "device server", ...
std::string_view role_name(Role role);

/// One actor of a job (or the coordinator, index 0; or an agent). Index: rank, machine or shard.
struct ActorId {
  Role role = Role::coordinator;
  std::uint32_t index = 0;
  friend auto operator<=>(const ActorId&, const ActorId&) = default;
  /// "worker 3".
  std::string to_string() const;
};

/// What a key's values mean and how its slices are cut.
enum class KeyKind : std::uint8_t {
  dense,    ///< gradients are summed, an optimizer updates
  average,  ///< batch statistics are averaged into a state
  rows,     ///< sparse rows; defined, refused for now
  /// Two numbers, (loss scale, steps since it changed), which the step's verdict alone moves.
  loss_scale
};

/// A key, fixed when the job starts. `id` is its position in the job's list of keys.
struct KeyInfo {
  std::uint32_t id = 0;
  std::string name;
  base::Shape shape;
  KeyKind kind = KeyKind::dense;
  base::DType dtype = base::DType::f32;
  /// What gradients and all partial sums of them are rounded to, wherever they are added: its own
  /// dtype, or 16 bits.
  base::DType gradient_wire = base::DType::f32;
  base::DType weight_wire = base::DType::f32;  ///< likewise of weights on their way to workers
  double momentum = 0.0;  ///< average: m of state = m * state + (1 - m) * batch value
  std::optional<InitializerSpec> initializer;  ///< of its first values; absent: the job's
  double lr_mult = 1.0;                        ///< dense: times the learning rate; 0: frozen
  /// Dense: times the optimizer's weight decay; absent: as OptimizerSpec::decay says.
  std::optional<double> wd_mult;
  friend bool operator==(const KeyInfo&, const KeyInfo&) = default;
};

/// One slice of a key: at most 1 MiB of its dense row-major form.
struct SliceId {
  std::uint32_t key = 0;
  std::uint32_t slice = 0;
  friend auto operator<=>(const SliceId&, const SliceId&) = default;
};

/// A node of the job's tree of additions. Level 0: members [begin, end) of `group`'s ranks,
/// numbered inside the group; level 1: groups [begin, end), `group` = 0. A whole group is a level-1
/// leaf.
struct TreeNode {
  std::uint8_t level = 0;
  std::uint32_t group = 0;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  friend auto operator<=>(const TreeNode&, const TreeNode&) = default;
};

/// One rank's gradient of one step, as listed by eventual contributions.
struct Contribution {
  std::uint32_t rank = 0;
  std::uint64_t step = 0;
  friend auto operator<=>(const Contribution&, const Contribution&) = default;
};

// ---- data plane: workers, device servers, parameter servers ----

/// A sum of gradients of one slice; payload: the slice's elements in the key's gradient_wire dtype.
/// Sequential: `node` names it. Eventual tiers: `contributions` lists what it sums, `node` is the
/// sender's machine and `step` the sender's running number for the slice.
struct GradientPush {
  SliceId slice;
  TreeNode node;
  std::uint64_t step = 0;
  double count = 0.0;  ///< sum of the loss's weights (samples by default) over what was added
  std::vector<Contribution> contributions;
  /// All ranks of the sender's machine wait for weights, so round `step` need not wait for it. No
  /// payload, count or contributions; `node` has no members, so the answer to an abstention is not
  /// that to the machine's push of the same step.
  bool abstains = false;
};

/// What became of a push. Not ready: it was not taken and has to be sent again, after a pause.
/// Unknown, to a PushQuery only: it has not come and has to be sent again at once.
enum class PushResult : std::uint8_t { taken, duplicate, stale_view, not_ready, unknown };

/// The immediate answer to a push; names it by slice, node and step.
struct PushAck {
  SliceId slice;
  TreeNode node;
  std::uint64_t step = 0;
  PushResult result = PushResult::taken;
};

/// What has become of a push that has not been answered for long? Asked in its place, since it may
/// be large. Answered by a PushAck: duplicate when it has been taken, unknown when it has not come;
/// not answered when the push waits where it is, since its own answer will follow.
struct PushQuery {
  SliceId slice;
  TreeNode node;
  std::uint64_t step = 0;
};

/// What names a push in one generation of a job: to its sender, to whoever takes each push once,
/// and in the answer, which repeats all of it but the sender.
struct PushName {
  SliceId slice;
  std::uint32_t sender = 0;  ///< rank (to its device server) or machine (to the slice's owner)
  TreeNode node;
  std::uint64_t step = 0;
  friend auto operator<=>(const PushName&, const PushName&) = default;
};
PushName push_name(const GradientPush& push, std::uint32_t sender);
/// The name of the push that `sender` asks about.
PushName push_name(const PushQuery& query, std::uint32_t sender);
/// The name of the push that `ack` answers, which `sender` had sent.
PushName push_name(const PushAck& ack, std::uint32_t sender);

/// Any version will do as long as it is recent enough (eventual tiers).
inline constexpr std::uint64_t kNewestVersion = ~std::uint64_t{0};

/// The version that contains every contribution of steps < `applied_below`, a barrier, and none
/// later.
inline constexpr std::uint64_t kBarrierVersion = kNewestVersion - 1;

/// Asks for exactly `version` of a slice, for the barrier's (kBarrierVersion), or with
/// kNewestVersion for the newest that contains, of every rank of the job, all contributions of
/// steps < `applied_below`. Answered when that exists.
struct WeightPull {
  SliceId slice;
  std::uint64_t version = 0;
  std::uint64_t applied_below = 0;
  /// The asker's step. From a device server with kNewestVersion: its pushes numbered below this are
  /// in the answer (cluster eventual); the version is at least this (cluster sequential). Repeated
  /// equal pulls are one request.
  std::uint64_t step = 0;
  friend auto operator<=>(const WeightPull&, const WeightPull&) = default;
};

/// A version of a slice; payload: the slice's elements in weight_wire dtype. `code` other than ok:
/// the version is gone or refused, no payload. `next`: per rank the lowest step not yet contained
/// (eventual tiers; empty under sequential, where the version says all).
struct WeightReply {
  SliceId slice;
  std::uint64_t version = 0;
  std::uint64_t step = 0;
  base::Errc code = base::Errc::ok;
  std::string text;
  std::vector<std::uint64_t> next;
};

/// The ranks named have no further steps: nobody waits for them any more.
struct Finished {
  std::vector<std::uint32_t> ranks;
  std::uint64_t steps = 0;
};

/// Answer to a frame of an earlier view.
struct StaleView {
  std::uint64_t current = 0;
};

/// A shard tells the server of slice (0, 0) of its finished, synced checkpoint file, or with a
/// `code` other than ok that it could not write it.
struct ShardCheckpoint {
  std::uint64_t step = 0;
  std::uint32_t shard = 0;
  base::Errc code = base::Errc::ok;
  std::string text;
  std::string file;
  std::uint64_t bytes = 0;
  std::uint64_t chunk_bytes = 0;
  std::vector<std::uint32_t> checksums;  ///< CRC-32C of each chunk
};

// ---- a job's processes and the coordinator ----

/// A record file as a rank has found it; without a name there is none.
struct FoundFile {
  std::string file;
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;
  std::uint32_t checksum = 0;  ///< of samples of the file: data::Fingerprint

  /// Wherever the files lie.
  bool same_content(const FoundFile& other) const {
    return records == other.records && bytes == other.bytes && checksum == other.checksum;
  }
};

/// What a rank found in its data files; compared over all ranks before step 0.
struct DatasetReport {
  std::uint32_t rank = 0;
  FoundFile train;
  FoundFile test = {};
};

/// All ranks agree on their data: training begins at `step`. To every actor of the job; `records`
/// (training records) fixes the number of steps, all three figures stand in the run's manifests.
struct TrainingStart {
  std::uint64_t step = 0;
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;
  std::uint32_t checksum = 0;
};

/// A sum and the weight it is divided by.
struct MetricPair {
  double sum = 0.0;
  double weight = 0.0;
  double mean() const { return weight > 0.0 ? sum / weight : 0.0; }
  MetricPair& operator+=(const MetricPair& other) {
    sum += other.sum;
    weight += other.weight;
    return *this;
  }
  friend bool operator==(const MetricPair&, const MetricPair&) = default;
};

/// Sums that a rank reports at a log point, by metric name.
struct ProgressReport {
  std::uint32_t rank = 0;
  std::uint64_t step = 0;
  std::uint64_t samples = 0;
  std::map<std::string, MetricPair> metrics;
};

/// A rank's part of the test set after an epoch, at the barrier's version: integer counts.
struct EvaluationReport {
  std::uint32_t rank = 0;
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
  std::uint64_t samples = 0;
  std::uint64_t correct = 0;
  double loss_sum = 0.0;
};

/// The manifest of a checkpoint is durable, or (`code`) this checkpoint was given up. To the
/// coordinator and to every shard, whose credit for another checkpoint returns with it.
struct CheckpointReport {
  std::uint64_t step = 0;
  std::string path;
  base::Errc code = base::Errc::ok;
  std::string text;
};

/// A rank has done all its steps and scoring, or a server has nothing more to do.
struct ActorDone {
  ActorId actor;
  std::uint64_t steps = 0;
};

/// A parameter server is there, whatever it waits for: all its slices contain every step below
/// `applied_below`. Sent several times per limits.missing_log_ms.
struct ServerReport {
  std::uint32_t shard = 0;
  std::uint64_t applied_below = 0;
};

/// An actor cannot go on; ends the job. The first one is the job's cause.
struct ActorFailed {
  ActorId actor;
  base::Errc code = base::Errc::internal;
  std::string text;
  std::optional<ActorId> lost = {};  ///< the peer without which it cannot
};

/// The coordinator ends a job's processes: all is done, or `code` says why not.
struct JobEnd {
  base::Errc code = base::Errc::ok;
  std::string text;
};

/// Where the parts of a job live; sent to every process of it. Every new one is a new view.
struct Placement {
  std::uint64_t view = 1;
  std::uint64_t generation = 1;
  std::uint64_t start_step = 0;
  std::vector<std::uint32_t> machine_of_rank;   ///< machine index per virtual rank
  std::vector<std::uint32_t> machine_of_shard;  ///< machine index per shard
  std::vector<std::string> machines;            ///< agents' names by machine index
  std::vector<std::string> shard_addresses;     ///< HOST:PORT per shard; empty in one process
  /// GPU per virtual rank, by its index on the machine; empty: the job computes on CPUs.
  std::vector<std::uint32_t> gpu_of_rank = {};

  /// Index of the machine where an actor of the job is; nullopt: there is no such actor.
  std::optional<std::uint32_t> machine_of(const ActorId& actor) const;
  /// The GPU of a worker; nullopt: it has none, or is no worker.
  std::optional<std::uint32_t> gpu_of(const ActorId& actor) const;
  /// "worker 3 on machine 'b'", "worker 3 on GPU 2 of machine 'b'"; without the machine where that
  /// is unknown.
  std::string name_of(const ActorId& actor) const;
};

/// A process of a job says where it listens and what it computes with.
struct ProcessReady {
  ActorId actor;  ///< the machine's device server, or the parameter server
  std::uint64_t pid = 0;
  std::string address;       ///< HOST:PORT for links of the lower tier; empty: none
  std::string http_address;  ///< HOST:PORT of /metrics
  base::NumericClass numeric_class;
};

// ---- agents and the coordinator ----

/// Which process to start: a host process (ranks and their device server) or a parameter server.
struct LaunchProcess {
  std::string job;
  std::uint64_t generation = 1;
  ActorId actor;
  std::uint32_t machine = 0;
  std::vector<std::uint32_t> ranks;  ///< host process: the ranks it holds
  /// GpuOffer::index of each rank on the machine: for a host process by position of `ranks`, for a
  /// parameter server because its numeric class names them; empty: the job computes on CPUs.
  std::vector<std::uint32_t> gpus;
  std::string job_text;        ///< the encoded job spec
  std::uint32_t machines = 0;  ///< of the job; each has one device server
  base::Secret secret{};       ///< of this run; its processes prove to each other that they
                               ///< know it, and it travels no other way
  std::string credentials;     ///< PEM, with a private key: for TLS between the run's
                               ///< processes; the agent makes them for its child alone
  std::string checkpoint;      ///< that the run goes on from, "DIR/step-500-g1"; empty: none
  bool copied = false;         ///< machines do not share checkpoint.dir: the coordinator keeps
                               ///< copies, and says what may be removed here
};

/// Stop all processes of a job's run; they get `grace_ms` before they are killed.
struct StopProcesses {
  std::string job;
  std::uint64_t generation = 1;
  std::uint64_t grace_ms = 0;
};

/// A child has ended. `how`: "exit 0", "signal 9" and perhaps why; "not started: WHY"; "hung: WHY"
/// when the agent had to kill it because it said nothing any more.
struct ProcessExited {
  std::string job;
  std::uint64_t generation = 1;
  ActorId actor;
  std::string how;
  bool clean = false;
};

/// Carries a job's message between the coordinator and one process of an agent, either way.
struct ProcessMessage {
  std::string job;
  std::uint64_t generation = 1;
  ActorId actor;
  std::string message;  ///< the inner message, encoded
};

/// The agent creates `path`/`file` holding `nonce` (write), or reads it back (not write).
struct FolderProbe {
  std::string job;
  std::uint64_t generation = 1;
  std::string path;
  std::string file;
  std::string nonce;
  bool write = false;
};

/// What an agent found about a folder; and, whatever became of the probe, which manifests lie
/// there.
struct FolderProbeResult {
  std::string job;
  std::uint64_t generation = 1;
  base::Errc code = base::Errc::ok;
  std::string text;
  std::vector<NamedCheckpoint> newest;   ///< a few, the newest first
  std::uint64_t highest_generation = 0;  ///< of all manifests, readable or not
};

// ---- people and the coordinator ----

/// Submits a job; the same id with the same content again is the same job, and so is what comes
/// again with the same request: a command that has got no answer asks once more.
struct JobSubmit {
  std::string id;        ///< empty: the coordinator chooses
  std::string job_text;  ///< the encoded job spec
  std::string request;   ///< made by the command, for it alone; empty: none
};

/// The answer to JobSubmit: the id, or why not.
struct JobSubmitted {
  std::string id;
  base::Errc code = base::Errc::ok;
  std::string text;
};

// ---- links ----

/// What a connection carries.
enum class Channel : std::uint8_t { control, data };

/// First frame of every connection, at most 4 KiB.
struct Hello {
  std::uint32_t protocol = kProtocolVersion;
  std::string job;  ///< empty: agents and people
  std::uint64_t generation = 0;
  ActorId actor;
  std::string name;  ///< the machine's or user's name, for errors
  Channel channel = Channel::control;
  std::uint64_t token = 0;  ///< the same for all connections of one link
  std::uint32_t lane = 0;   ///< 0: the control connection; then the data connections
  std::uint32_t lanes = 1;  ///< connections of the link, the control connection included
  bool resume = false;      ///< the link was up before; refused when the peer does not know it
  base::Secret nonce{};     ///< between processes of a job; see Challenge
};

/// The answer; `code` other than ok refuses and the connection closes. `proof`: where there was a
/// Challenge, that the listener knows the job's secret.
struct HelloReply {
  std::uint32_t protocol = kProtocolVersion;
  base::Errc code = base::Errc::ok;
  std::string text;
  base::Sha256Digest proof{};
};

/// Asks a silent peer whether it is there.
struct Ping {
  std::uint64_t number = 0;
};
/// The answer to Ping, with its number.
struct Pong {
  std::uint64_t number = 0;
};

/// The sender closes in good order; nobody reconnects.
struct Goodbye {
  std::string text;
};

/// A listener of a job answers any Hello with it, right or wrong, and tells nothing of itself.
struct Challenge {
  base::Secret nonce{};
};

/// The answer to Challenge: that the sender of the Hello knows the job's secret.
struct Proof {
  base::Sha256Digest proof{};
};

/// Every message. The position is the wire's type number: append only.
using MessageVariant = std::variant<
    GradientPush, PushAck, WeightPull, WeightReply, Finished, StaleView, ShardCheckpoint,
    DatasetReport, TrainingStart, ProgressReport, EvaluationReport, CheckpointReport, ActorDone,
    ActorFailed, JobEnd, Placement, ProcessReady, AgentHello, AgentWelcome, LaunchProcess,
    StopProcesses, ProcessExited, ProcessMessage, FolderProbe, FolderProbeResult, JobSubmit,
    JobSubmitted, JobQuery, JobList, JobStop, Hello, HelloReply, Ping, Pong, Goodbye, Challenge,
    Proof, PushQuery, ServerReport, CutQuery, CutReady, ExtraCut, ExtraCutTaken, AgentLeaving,
    JobCheckpoint, JobCheckpointAnswer, PersonHello, DenyList, PieceQuery, FilePiece,
    PlaceCheckpoint, CheckpointPlaced, DropCheckpoint, AgentOffer, StepFacts, StepVerdict>;
inline constexpr std::size_t kMessageTypes = std::variant_size_v<MessageVariant>;

/// Where T stands in the list; behind its end: nowhere.
template <typename T, typename... Ts>
constexpr std::size_t position_in(const std::variant<Ts...>* /*list*/) {
  constexpr std::array<bool, sizeof...(Ts)> kSame{std::is_same_v<T, Ts>...};
  return static_cast<std::size_t>(std::find(kSame.begin(), kSame.end(), true) - kSame.begin());
}
template <typename T>
inline constexpr std::size_t kTypeOf = position_in<T>(static_cast<const MessageVariant*>(nullptr));
/// T is a message.
template <typename T>
concept MessageStruct = kTypeOf<T> < kMessageTypes;
/// The position of T in Message: its number on the wire.
template <MessageStruct T>
constexpr std::size_t type_of() {
  return kTypeOf<T>;
}

/// One message, as MessageVariant holds it and std::visit and std::get_if read it. How one is made,
/// copied and ended are functions of messages.cc, so that not every source makes those of all
/// messages.
class Message : public MessageVariant {
 public:
  Message();  ///< a GradientPush
  template <typename T>
  requires MessageStruct<std::remove_cvref_t<T>> Message(
      T&& one)  // NOLINT(google-explicit-constructor): as a variant takes its alternatives
      : Message(type_of<std::remove_cvref_t<T>>(), std::addressof(one),
                std::is_same_v<T, std::remove_cvref_t<T>>) {}
  Message(const Message& other);
  Message(Message&& other) noexcept;
  Message& operator=(const Message& other);
  Message& operator=(Message&& other) noexcept;
  ~Message();

 private:
  /// `one`: the message number `type`, which is copied, or moved from.
  Message(std::size_t type, const void* one, bool moves);
};

/// "GradientPush", "PushAck", ... by position in Message; "unknown" beyond it.
std::string_view message_name(std::size_t type);
/// The slice that a message is about: messages of one slice are never reordered on a link.
std::optional<SliceId> slice_of(const Message& message);

/// A message on its way, with its tensor bytes. In one process it is handed over as it is.
struct Envelope {
  std::string job;
  std::uint64_t generation = 0;
  std::uint64_t view = 0;
  ActorId from;
  ActorId to;
  Message message;
  base::Buffer payload;  ///< empty unless the message carries a tensor
  /// From a link: as long as a copy of the envelope lives, its sender has not got back the credit
  /// for it. Whoever keeps the payload alone lets go of it.
  std::shared_ptr<const void> receipt;
};

}  // namespace troupe::schemas
