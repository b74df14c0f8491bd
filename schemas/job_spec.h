// SPDX-License-Identifier: Apache-2.0
// A job as data: what a job file says, complete with defaults and checked. apps/job_file makes it,
// the wire carries it, train and actors obey it. Plain values with their units in the names;
// nothing is parsed here. Any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/limits.h"

namespace troupe::schemas {

/// A stretch of training: "500 steps", "2 epochs". A count of 0 means never (or none).
struct Period {
  enum class Unit : std::uint8_t { steps, epochs };
  std::uint64_t count = 0;
  Unit unit = Unit::steps;
  friend bool operator==(const Period&, const Period&) = default;
};

/// `[model]`: either a built-in network or a graph in a file.
struct ModelSpec {
  std::string network;         ///< built-in name ("lenet", "tiny-bn", ...); empty: `symbol`
  std::string symbol;          ///< path of a symbol JSON file; empty: `network`
  std::string symbol_json;     ///< that file's text, read by the submitter: one graph for everybody
  std::uint32_t classes = 10;  ///< a job file that says nothing gives the network's own
  std::vector<std::int64_t> input;  ///< shape of one sample, (channels, height, width); empty: as
                                    ///< in the first training record
  std::optional<double> dropout;    ///< built-in networks: probability of a zero; absent: theirs
  std::optional<bool> bias;         ///< built-in networks: convolutions with a bias; absent: theirs
  friend bool operator==(const ModelSpec&, const ModelSpec&) = default;
};

/// What a damaged record does.
enum class BadRecord : std::uint8_t {
  fail,  ///< a damaged record ends the job
  skip   ///< its batch is one sample shorter; counted and logged with file and offset
};

/// `[data.augment]`: what is done to training images, by (seed, epoch, record) alone.
struct AugmentSpec {
  std::uint32_t crop_padding = 0;  ///< pixels of 0 on each side, of which a random window is taken
  bool mirror = false;             ///< left and right change places in half of the samples
  friend bool operator==(const AugmentSpec&, const AugmentSpec&) = default;
};

/// `[data]`: record files (each with its .idx beside it) and what becomes of a record.
struct DataSpec {
  std::string train;             ///< path of the training .rec
  std::string test;              ///< path of the test .rec; empty: nothing is scored
  std::vector<float> mean;       ///< per channel, of pixels scaled to [0, 1]; empty: 0
  std::vector<float> std;        ///< per channel; the sample is (pixel / 255 - mean) / std
  std::uint32_t batch = 32;      ///< samples per worker and step
  std::uint32_t test_batch = 0;  ///< samples per worker and scoring step; 0: batch
  std::uint32_t prefetch_threads = 1;
  std::uint32_t prefetch_batches = 4;  ///< decoded batches waiting, at most
  BadRecord on_bad_record = BadRecord::fail;
  AugmentSpec augment;
  friend bool operator==(const DataSpec&, const DataSpec&) = default;
};

/// Which parameters weight decay falls on where nothing else is said of them.
enum class Decay : std::uint8_t {
  all,     ///< all
  weights  ///< those whose names end in _weight or _gamma, as with MXNet's Module
};

/// `train.optimizer`: data, never code. With `symbol_json` the update is that graph of weight,
/// gradient, states, lr and step.
struct OptimizerSpec {
  std::string name = "sgd";  ///< empty: `symbol`
  double lr = 0.01;          ///< per mean gradient, before the schedule
  double momentum = 0.0;
  double wd = 0.0;             ///< weight decay, added to the gradient as wd * weight
  double clip_gradient = 0.0;  ///< each element of the mean gradient is cut to +-this; 0: not
  double clip_norm = 0.0;      ///< the norm of all mean gradients together is cut to this; 0: not
  std::string symbol;          ///< path of a symbol JSON file
  std::string symbol_json;     ///< its text, read by the submitter
  Decay decay = Decay::all;    ///< what wd falls on
  friend bool operator==(const OptimizerSpec&, const OptimizerSpec&) = default;
};

/// An entry of `train.keys`: what it says of the parameters that it matches goes before what the
/// network's variables say, and a later entry before an earlier one.
struct KeyRule {
  std::string match;              ///< a name, in which * stands for any letters, also none
  std::optional<double> lr_mult;  ///< times the learning rate; 0: the parameter stays as it is
  std::optional<double> wd_mult;  ///< times train.optimizer.wd
  friend bool operator==(const KeyRule&, const KeyRule&) = default;
};
/// Entries of `train.keys`, at most.
inline constexpr std::uint64_t kKeyRulesMax = 1'024;

/// Shape of the learning rate over the steps.
enum class ScheduleKind : std::uint8_t { constant, cosine };

/// `train.schedule`: the learning rate of step t. It spans all epochs, whatever max_steps says.
struct ScheduleSpec {
  ScheduleKind kind = ScheduleKind::constant;
  Period warmup;           ///< the rate climbs linearly from warmup_lr to lr
  double warmup_lr = 0.0;  ///< rate that the climb starts from
  double final_lr = 0.0;   ///< cosine: the rate at the end
  friend bool operator==(const ScheduleSpec&, const ScheduleSpec&) = default;
};

/// Distribution of first weights.
enum class InitializerKind : std::uint8_t { uniform, normal, xavier, msra, constant };
/// Which fan of a weight divides its variance.
enum class FanKind : std::uint8_t { average, in, out };
/// How xavier draws.
enum class Distribution : std::uint8_t { uniform, normal };

/// `train.initializer`: a function of (seed, key, shape, element).
struct InitializerSpec {
  InitializerKind kind = InitializerKind::xavier;
  std::optional<double> scale;     ///< uniform: half width (0.07); normal: deviation (0.01);
                                   ///< xavier: magnitude (3); msra: slope (0); constant: value (0)
  FanKind fan = FanKind::average;  ///< xavier, msra: which fan divides
  Distribution distribution = Distribution::uniform;  ///< xavier only; msra draws normal
  friend bool operator==(const InitializerSpec&, const InitializerSpec&) = default;
};

/// Whether processes stay behind the last step.
enum class Hold : std::uint8_t {
  none,
  until_scraped  ///< after the last step each process stays until its /metrics was read once more,
                 ///< at most limits.hold_ms
};

/// What a gradient that is not finite does.
enum class NonFinite : std::uint8_t {
  fail,   ///< a gradient that holds NaN or infinity ends the job, naming rank, step and key
  ignore  ///< it is applied like any other
};

/// `[train]`.
struct TrainSpec {
  std::uint32_t epochs = 1;
  std::optional<std::uint64_t> max_steps;  ///< end after this step although epochs are left
  OptimizerSpec optimizer;
  ScheduleSpec schedule;
  InitializerSpec initializer;
  std::string weights;                          ///< safetensors file of first weights
  Period log_every{50, Period::Unit::steps};    ///< progress reports
  Period score_every{1, Period::Unit::epochs};  ///< scoring of data.test; whole epochs only
  Hold hold = Hold::none;
  NonFinite non_finite = NonFinite::fail;
  std::vector<KeyRule> keys;  ///< rules for parameters by name
  friend bool operator==(const TrainSpec&, const TrainSpec&) = default;
};

/// What a worker computes on.
enum class WorkerDevice : std::uint8_t { cpu, gpu };

/// `[workers]`: the job has machines x devices virtual ranks for life.
struct WorkersSpec {
  std::uint32_t machines = 1;
  std::uint32_t devices = 1;  ///< workers per machine, the group size of the tree of additions
  std::uint32_t threads = 1;  ///< compute threads per worker; part of the numeric class
  WorkerDevice device = WorkerDevice::cpu;  ///< of each worker; part of the numeric class
  std::uint64_t memory = 0;                 ///< gpu: bytes of each GPU at least; 0: any
  bool gpu_graphs = true;                   ///< gpu: work goes out as graphs where it can
  bool gpu_sums = true;                     ///< gpu: gradients of a machine are added there
  friend bool operator==(const WorkersSpec&, const WorkersSpec&) = default;
};

/// `[servers]`.
struct ServersSpec {
  std::uint32_t shards = 0;   ///< parameter servers; 0: one per machine
  std::uint32_t threads = 1;  ///< threads of each server's engine; never changes a bit
  friend bool operator==(const ServersSpec&, const ServersSpec&) = default;
};

/// How a tier orders updates.
enum class ConsistencyMode : std::uint8_t { sequential, eventual };

/// One tier's promise.
struct TierSpec {
  ConsistencyMode mode = ConsistencyMode::sequential;
  std::optional<std::uint32_t> max_staleness;  ///< eventual: steps; absent: unbounded
  friend bool operator==(const TierSpec&, const TierSpec&) = default;
};

/// Ranks of a job with an eventual tier: every answer to a pull names the next step of each.
inline constexpr std::uint64_t kEventualRanksMax = 1'024;

/// `[consistency]`: inside a machine, and between machines.
struct ConsistencySpec {
  TierSpec device;
  TierSpec cluster;
  /// Both tiers are.
  bool sequential() const {
    return device.mode == ConsistencyMode::sequential &&
           cluster.mode == ConsistencyMode::sequential;
  }
  friend bool operator==(const ConsistencySpec&, const ConsistencySpec&) = default;
};

/// `[checkpoint]`. With a folder there is always one after the last step.
struct CheckpointSpec {
  std::string dir;               ///< the same folder on every machine; empty: no checkpoints
  Period every;                  ///< 0: only the last
  std::uint32_t keep = 3;        ///< newest complete ones kept; 0: all
  bool resume = true;            ///< go on from the newest complete one of the same job, if any
  bool change_numerics = false;  ///< resume although the numeric class differs
  friend bool operator==(const CheckpointSpec&, const CheckpointSpec&) = default;
};

/// Highest instruction set that kernels may use.
enum class Isa : std::uint8_t { native, avx2, avx512 };
/// Layouts of tensors between convolutions.
enum class LayoutChoice : std::uint8_t { automatic, dense };

/// What matrices travel in between workers and servers, and partial sums of their gradients.
enum class WireType : std::uint8_t { same, bf16, f16 };

/// `[numerics]`: part of the numeric class.
struct NumericsSpec {
  Isa isa = Isa::native;                          ///< highest instruction set used
  LayoutChoice layout = LayoutChoice::automatic;  ///< of convolutions' tensors
  bool reference_only = false;                    ///< only the plain reference kernels
  /// f32 or f64: of all tensors; bf16 or f16: of products, in a network whose weights are f32.
  base::DType dtype = base::DType::f32;
  bool winograd = true;  ///< Winograd's form of convolutions where it is faster
  bool tf32 = false;     ///< f32 on GPUs: factors of products are rounded to 11 bits
  std::string kernels;  ///< path of a file of kernel choices (`troupe model autotune`); empty: none
  std::string kernels_json;  ///< its text, read by the submitter: one choice for everybody
  WireType gradient_wire = WireType::same;  ///< of gradients and their sums (KeyInfo)
  WireType weight_wire = WireType::same;    ///< of weights on their way to workers
  double loss_scale = 1'024.0;  ///< f16: what gradients are multiplied with at first; a power of 2
  /// f16: after so many steps without an overflow the loss scale is doubled; 0: never.
  std::uint64_t loss_scale_steps = 2'000;
  friend bool operator==(const NumericsSpec&, const NumericsSpec&) = default;
};

/// Which forward values the backward pass computes once more instead of keeping them.
enum class Recompute : std::uint8_t {
  none,
  cheap,
  sqrt,
  automatic  ///< cheap on CPUs; none on GPUs, whose memory is large
};

/// `[memory]`. No bit depends on it.
struct MemorySpec {
  Recompute recompute = Recompute::automatic;  ///< where there is no budget
  /// Bytes for the values and scratch of a step, outputs and gradients not counted; 0: none.
  std::uint64_t budget = 0;
  std::uint64_t sub_batch = 0;     ///< samples that a prediction computes at a time; 0: chosen
  std::uint64_t device_limit = 0;  ///< bytes of its GPU that a worker takes at most; 0: all it has
  friend bool operator==(const MemorySpec&, const MemorySpec&) = default;
};

/// Names of an enumeration's values, in their order, as job files and fingerprints have them.
template <typename Enum>
inline constexpr std::array<std::string_view, 0> kNames{};
template <>
inline constexpr std::array<std::string_view, 2> kNames<Period::Unit>{"steps", "epochs"};
template <>
inline constexpr std::array<std::string_view, 2> kNames<BadRecord>{"fail", "skip"};
template <>
inline constexpr std::array<std::string_view, 2> kNames<Decay>{"all", "weights"};
template <>
inline constexpr std::array<std::string_view, 2> kNames<ScheduleKind>{"constant", "cosine"};
template <>
inline constexpr std::array<std::string_view, 5> kNames<InitializerKind>{
    "uniform", "normal", "xavier", "msra", "constant"};
template <>
inline constexpr std::array<std::string_view, 3> kNames<FanKind>{"average", "in", "out"};
template <>
inline constexpr std::array<std::string_view, 2> kNames<Distribution>{"uniform", "normal"};
template <>
inline constexpr std::array<std::string_view, 2> kNames<Hold>{"none", "until-scraped"};
template <>
inline constexpr std::array<std::string_view, 2> kNames<NonFinite>{"fail", "ignore"};
template <>
inline constexpr std::array<std::string_view, 2> kNames<WorkerDevice>{"cpu", "gpu"};
template <>
inline constexpr std::array<std::string_view, 2> kNames<ConsistencyMode>{"sequential", "eventual"};
template <>
inline constexpr std::array<std::string_view, 3> kNames<Isa>{"native", "avx2", "avx512"};
template <>
inline constexpr std::array<std::string_view, 2> kNames<LayoutChoice>{"auto", "dense"};
template <>
inline constexpr std::array<std::string_view, 3> kNames<WireType>{"same", "bf16", "f16"};
template <>
inline constexpr std::array<std::string_view, 4> kNames<Recompute>{"none", "cheap", "sqrt", "auto"};

/// "cosine"; `value` is one of the enumeration's.
template <typename Enum>
constexpr std::string_view name_of(Enum value) {
  return kNames<Enum>[static_cast<std::size_t>(value)];
}

/// A job. Paths are as written in the job file until the submitter makes them absolute.
struct JobSpec {
  std::string name;
  std::uint64_t seed = 0;
  bool reproducible = true;  ///< refuse to run over several numeric classes
  ModelSpec model;
  DataSpec data;
  TrainSpec train;
  WorkersSpec workers;
  ServersSpec servers;
  ConsistencySpec consistency;
  CheckpointSpec checkpoint;
  NumericsSpec numerics;
  MemorySpec memory;
  base::Limits limits;  ///< of every process of the job

  /// V, the virtual ranks of the job for life.
  std::uint32_t ranks() const { return workers.machines * workers.devices; }
  /// Parameter servers.
  std::uint32_t shards() const { return servers.shards != 0 ? servers.shards : workers.machines; }
  friend bool operator==(const JobSpec&, const JobSpec&) = default;
};

/// Folders of a machine that jobs may name files in, once symbolic links are followed. Empty:
/// anywhere.
struct JobRoots {
  std::string data;         ///< record files with their indexes, files of first weights
  std::string checkpoints;  ///< checkpoint.dir
};

}  // namespace troupe::schemas
