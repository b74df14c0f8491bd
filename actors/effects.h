// SPDX-License-Identifier: Apache-2.0
// What goes into the state machines of workers and servers (events) and what comes out of them
// (effects). State machines know no clock, thread, socket or engine: their shell runs the effects,
// on an engine or a link, and reports the ends of those that have an id as EffectDone, in any
// order. Plain values. Each role has its own lists, so what it forgets does not compile.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/buffer.h"
#include "base/dtype.h"
#include "base/status.h"
#include "control/role_events.h"
#include "schemas/messages.h"
#include "store/slice_owner.h"
#include "store/slice_values.h"

namespace troupe::actors {

/// Names an effect of one state machine; never used twice by it.
using EffectId = std::uint64_t;

using control::End;   ///< the coordinator has ended the job
using control::Fail;  ///< the coordinator has been told by a Send before it
using control::Note;
using control::Tick;

// ---- effects ----

/// Hand the envelope to its addressee, or to the proxy that stands for it; self included.
struct Send {
  schemas::Envelope envelope;
};

// ---- effects of servers; `EffectDone::result` named by each ----

/// left + right, element by element, into a new buffer. Result: that Buffer.
struct Add {
  EffectId id = 0;
  schemas::SliceId slice;
  base::DType dtype = base::DType::f32;
  base::Buffer left;
  base::Buffer right;
};

/// The same bytes in a buffer of the server's own. Result: that Buffer.
struct Copy {
  EffectId id = 0;
  schemas::SliceId slice;
  base::DType dtype = base::DType::f32;
  base::Buffer from;
};

/// The next version of a slice. Result: SliceValues in new buffers.
struct Update {
  EffectId id = 0;
  schemas::SliceId slice;
  store::SliceUpdate update;
};

/// See what a slice's sum is like. Result: Examined.
struct Examine {
  EffectId id = 0;
  schemas::SliceId slice;
  store::SliceExamination examination;
};

/// First values of a slice: from the checkpoint of `step`, or for step 0 computed from (seed, key,
/// element) or read from the job's weight file. Result: SliceState (values and updates).
struct InitSlice {
  EffectId id = 0;
  schemas::SliceId slice;
  std::uint64_t step = 0;
};

/// One slice in a checkpoint.
struct CutSlice {
  schemas::SliceId slice;
  store::SliceState state;
};

/// Write and sync this shard's file of the checkpoint. Result: ShardCheckpoint (file, bytes,
/// checksums).
struct WriteShard {
  EffectId id = 0;
  std::uint64_t step = 0;
  std::vector<CutSlice> slices;  ///< ordered by id
};

/// Write the manifest over all shards' files, last. Result: its path.
struct WriteManifest {
  EffectId id = 0;
  std::uint64_t step = 0;
  schemas::TrainingStart start;                  ///< what training began with
  std::vector<schemas::ShardCheckpoint> shards;  ///< by shard
};

/// Remove what there is of a step's checkpoint, which was given up. Nobody waits for it.
struct RemoveCheckpoint {
  std::uint64_t step = 0;
};

/// These ranks have been waited for long; empty: nobody is any more.
struct Missing {
  std::vector<std::uint32_t> ranks;
};

/// The verdict on a step, for whoever watches; once a step, where it is given.
struct Judged {
  std::uint64_t step = 0;
  bool dropped = false;
  double norm = 0.0;  ///< of all gradients, means over samples, before it is cut; if not dropped
  std::optional<double> loss_scale;  ///< at this step; of jobs in f16
};

// ---- effects of a worker ----

/// Training begins at `step`; `records` training records fix the number of steps.
struct StartTraining {
  std::uint64_t step = 0;
  std::uint64_t records = 0;
};

/// The weights of a key for the rank's computation of `step`, slice by slice, immutable.
struct WeightsReady {
  std::uint32_t key = 0;
  std::uint64_t step = 0;
  std::vector<base::Buffer> slices;
};

/// Nobody reads the gradient any more: its read tag may go.
struct GradientTaken {
  std::uint32_t key = 0;
  std::uint64_t step = 0;
};

using WorkerEffect = std::variant<Send, Fail, End, StartTraining, WeightsReady, GradientTaken>;
using DeviceEffect = std::variant<Send, Fail, End, Add, Copy>;
using ParameterEffect = std::variant<Send, Fail, End, Note, Add, Examine, Update, InitSlice,
                                     WriteShard, WriteManifest, RemoveCheckpoint, Missing, Judged>;

// ---- events ----

/// An envelope has come.
struct Received {
  schemas::Envelope envelope;
};

/// What an effect gave; monostate when it failed.
using EffectResult = std::variant<std::monostate, base::Buffer, store::Examined, store::SliceValues,
                                  store::SliceState, schemas::ShardCheckpoint, std::string>;

/// An effect with an id has ended.
struct EffectDone {
  EffectId id = 0;
  base::Status status;
  EffectResult result;
};

/// Servers: the link to the process of `peer` was cut and goes on again.
struct LinkResumed {
  schemas::ActorId peer;
};

/// Worker: its files are as reported.
struct DatasetChecked {
  schemas::DatasetReport report;
};

/// Worker: a gradient (sum over samples, dense) is written and stays as it is until GradientTaken.
/// An empty buffer with count 0: the rank had no sample.
struct PushWanted {
  std::uint32_t key = 0;
  std::uint64_t step = 0;
  double count = 0.0;
  base::Buffer gradient;
};

/// Worker: the rank wants a key's weights for `step`. `barrier`: the step is a barrier and the
/// weights must be its version.
struct PullWanted {
  std::uint32_t key = 0;
  std::uint64_t step = 0;
  bool barrier = false;
};

/// Worker: a fact for the coordinator (ProgressReport, EvaluationReport).
struct Report {
  schemas::Message message;
};

/// Worker: the rank has done all its steps, `steps` in number counted from 0, and its scoring.
struct Finish {
  std::uint64_t steps = 0;
};

using WorkerEvent =
    std::variant<Received, Tick, DatasetChecked, PushWanted, PullWanted, Report, Finish>;
using ServerEvent = std::variant<Received, Tick, EffectDone, LinkResumed>;

}  // namespace troupe::actors
