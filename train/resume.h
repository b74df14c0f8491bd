// SPDX-License-Identifier: Apache-2.0
// Where a job begins: at step 0 or at the newest checkpoint of the same job; and what the manifests
// that it writes say. Blocking file access; never call from an actor.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/numeric_class.h"
#include "base/status.h"
#include "control/control_events.h"
#include "schemas/manifest.h"
#include "schemas/messages.h"
#include "store/checkpoint.h"
#include "store/checkpoint_writer.h"
#include "store/slice_compute.h"
#include "store/slice_layout.h"
#include "store/slice_values.h"
#include "train/job.h"
#include "train/weight_file.h"

namespace troupe::train {

/// The start of a run.
struct RunStart {
  std::uint64_t step = 0;
  std::uint64_t generation = 1;  ///< of the run: one above the highest in the folder, or more
  /// "DIR/step-500-g1", as reports of checkpoints have it; empty: from the beginning.
  std::string checkpoint_path;
  /// The checkpoint is of another numeric class, or of a run that began with such a one.
  bool numerics_changed = false;
  /// checkpoint.dir is this machine's own; what may be removed there others say.
  bool copied = false;
  /// Null: from the beginning. To be dropped when the first values have been taken: it holds its
  /// files open.
  std::shared_ptr<const store::Checkpoint> checkpoint;
};

/// Looks into checkpoint.dir (made if missing). Errors: a newest checkpoint of another job, of
/// another numeric class (unless checkpoint.change_numerics), with other keys or data, or beyond
/// the job's end. Without checkpoint.resume a folder that holds checkpoints is already_exists.
/// `check`: contents where this process reads it; sizes where others do, later.
base::Result<RunStart> find_start(const Job& job, const base::NumericClass& numeric_class,
                                  store::CheckpointCheck check = store::CheckpointCheck::contents);

/// The start that the coordinator has found, for a process that has a part of the job: `checkpoint`
/// as in RunStart::checkpoint_path. Makes checkpoint.dir if missing; reads the manifest alone,
/// whose files may not all be on this machine. Errors as of find_start(), or not_found.
base::Result<RunStart> open_start(const Job& job, const base::NumericClass& numeric_class,
                                  const std::string& checkpoint);

/// Says whether the job of `spec`, whose files lie in `roots`, could go on from a checkpoint with a
/// manifest, by the rules of find_start(); its processes compare their numeric class themselves.
/// Opens the job when it is asked first. One thread.
std::function<base::Status(const schemas::Manifest&)> manifest_judge(
    const schemas::JobSpec& spec, const schemas::JobRoots& roots);

/// Does FindStart: opens the job, whose files lie in `roots`, and looks into its folder of
/// checkpoints. Where machines have copies, a newest one that turns out damaged is set aside, and
/// that is told. Blocks; reads manifests, no tensors.
control::StartFound find_job_start(const control::FindStart& find, const schemas::JobRoots& roots);

/// Whether the run's next checkpoint could be written into checkpoint.dir from here. Errors as of
/// store::check_folder(); ok without a folder.
base::Status check_checkpoint_folder(const Job& job, const store::CheckpointWriter& writer,
                                     std::size_t slots);

/// What a run on this job's data begins with. Error: the training file cannot be read.
base::Result<schemas::TrainingStart> training_start(const Job& job, std::uint64_t step);

/// What the manifest of the run's checkpoint of `step` says beside its files. `training`: what
/// training began with; its data stand in the manifest.
schemas::Manifest make_manifest(const Job& job, const base::NumericClass& numeric_class,
                                const RunStart& start, const schemas::TrainingStart& training,
                                std::uint64_t step, const std::vector<std::string>& slots);

/// Writes the run's checkpoints into checkpoint.dir, with manifests by make_manifest().
store::CheckpointWriter make_checkpoint_writer(std::shared_ptr<const Job> job,
                                               const base::NumericClass& numeric_class,
                                               const RunStart& start,
                                               const std::vector<std::string>& slots);

/// First states of slices: from the checkpoint, from train.weights, or by the initialiser. A
/// checkpoint that turns out to be damaged is set aside, so that the next run begins before it.
class FirstValues {
 public:
  /// Opens train.weights where the job names it and no checkpoint is given (null).
  static base::Result<FirstValues> create(std::shared_ptr<const Job> job,
                                          std::shared_ptr<const store::Checkpoint> checkpoint);

  base::Result<store::SliceState> operator()(const schemas::KeyInfo& key,
                                             const store::SliceInfo& slice,
                                             const store::SliceCompute& compute,
                                             base::BufferPool& pool) const;

 private:
  FirstValues(std::shared_ptr<const Job> job, std::shared_ptr<const store::Checkpoint> checkpoint)
      : job_(std::move(job)), checkpoint_(std::move(checkpoint)) {}

  std::shared_ptr<const Job> job_;
  std::shared_ptr<const store::Checkpoint> checkpoint_;
  std::shared_ptr<const WeightFile> weights_;
};

}  // namespace troupe::train
