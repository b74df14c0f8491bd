// SPDX-License-Identifier: Apache-2.0
// What goes into a role's state machine (events) and what comes out of it (effects). State machines
// know no clock, thread, socket or engine: their shell runs the effects, on an engine or a link,
// and reports the ends of those that have an id as EffectDone, in any order. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/buffer.h"
#include "base/dtype.h"
#include "base/status.h"
#include "schemas/messages.h"
#include "store/slice_owner.h"
#include "store/slice_values.h"

namespace troupe::actors {

/// Names an effect of one state machine; never used twice by it.
using EffectId = std::uint64_t;

// ---- effects of every role ----

/// Hand the envelope to its addressee, or to the proxy that stands for it; self included.
struct Send {
  schemas::Envelope envelope;
};

/// Write a line to the log.
struct Warn {
  std::string text;
};

/// This role cannot go on. The coordinator has been told by a Send before it.
struct Fail {
  base::Status status;
};

/// The coordinator has ended the job.
struct End {
  base::Errc code = base::Errc::ok;
  std::string text;
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
  std::vector<schemas::ShardCheckpoint> shards;  ///< by shard
};

/// Weights were handed to a rank: t - 1 less the lowest step applied of any member, in steps.
struct Observe {
  std::uint32_t level = 1;  ///< 1: ranks of the machine; 2: machines
  std::uint64_t staleness_steps = 0;
};

/// A time has ended, for metrics: of a request until its answer, or of a round of pushes.
struct Spent {
  enum class What : std::uint8_t { push, pull, round };
  What what = What::push;
  std::int64_t ns = 0;
};

/// These ranks have been waited for long; empty: nobody is any more.
struct Missing {
  std::vector<std::uint32_t> ranks;
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

using Effect =
    std::variant<Send, Warn, Fail, End, Add, Copy, Update, InitSlice, WriteShard, WriteManifest,
                 Observe, Spent, Missing, StartTraining, WeightsReady, GradientTaken>;

// ---- events ----

/// An envelope has come.
struct Received {
  schemas::Envelope envelope;
};

/// What an effect gave; monostate when it failed.
using EffectResult = std::variant<std::monostate, base::Buffer, store::SliceValues,
                                  store::SliceState, schemas::ShardCheckpoint, std::string>;

/// An effect with an id has ended.
struct EffectDone {
  EffectId id = 0;
  base::Status status;
  EffectResult result;
};

/// Time passes: several times per limits.retry_first_ms, on a monotonic clock.
struct Tick {
  std::uint64_t now_ms = 0;
};

/// Worker: its files are as reported.
struct DatasetChecked {
  schemas::DatasetReport report;
};

/// Worker: a gradient (sum over samples, dense) is written and stays as it is until GradientTaken.
/// An empty buffer with count 0: the rank had no sample.
struct PushKey {
  std::uint32_t key = 0;
  std::uint64_t step = 0;
  double count = 0.0;
  base::Buffer gradient;
};

/// Worker: the rank wants a key's weights for `step`. `barrier`: the step is a barrier and the
/// weights must be its version.
struct PullKey {
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

using Event =
    std::variant<Received, EffectDone, Tick, DatasetChecked, PushKey, PullKey, Report, Finish>;

}  // namespace troupe::actors
