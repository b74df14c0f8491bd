// SPDX-License-Identifier: Apache-2.0
// CheckpointWriter: the way of a run's checkpoints into their folder, the same for the local store
// and the parameter servers: first every shard's file, then the manifest, then the removal of old
// ones. Immutable; blocks, so never call it from an actor; several threads may write the files of
// different shards at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "schemas/manifest.h"
#include "schemas/messages.h"
#include "store/checkpoint.h"

namespace troupe::store {

/// What all checkpoints of a run have in common.
struct CheckpointRun {
  std::filesystem::path folder;
  std::uint64_t generation = 0;  ///< of the run; part of every file's name
  /// What the run leaves of the folder's checkpoints. None: all, since others say what may go; the
  /// folder may hold the only whole file of an earlier run.
  std::optional<Retention> retention;
  std::vector<schemas::KeyInfo> keys;  ///< by id
  std::vector<std::string> slots;      ///< of dense keys, in the order of SliceValues::slots
  /// The manifest of a step's checkpoint without its files; called by write_manifest(). `start`:
  /// what training began with.
  std::function<base::Result<schemas::Manifest>(std::uint64_t step,
                                                const schemas::TrainingStart& start)>
      manifest;
};

/// See the top of the file.
class CheckpointWriter {
 public:
  explicit CheckpointWriter(CheckpointRun run) : run_(std::move(run)) {}

  /// Makes room in the folder, where that is the run's affair, then writes and syncs the file of
  /// `shard` of `shards`: its slices' states at `step`. The result is what the manifest must say
  /// about the file.
  base::Result<schemas::ShardFile> write_shard(std::uint64_t step, std::uint32_t shard,
                                               std::uint32_t shards,
                                               std::span<const SliceRecord> slices) const;
  /// Writes the manifest over the files of all shards, each of which has been synced; from then on
  /// the checkpoint exists. Then removes checkpoints that the run need not keep. The result is the
  /// checkpoint's path as people are told it: "DIR/step-500-g1".
  base::Result<std::string> write_manifest(std::uint64_t step, const schemas::TrainingStart& start,
                                           std::vector<schemas::ShardFile> files) const;
  /// Removes what there is of a step's checkpoint that was given up. What cannot be removed is a
  /// warning.
  void remove(std::uint64_t step) const;
  /// Whether a checkpoint of `bytes` could be written into the folder. Errors as of check_folder().
  base::Status check_folder(std::uint64_t bytes) const;

 private:
  CheckpointRun run_;
};

}  // namespace troupe::store
