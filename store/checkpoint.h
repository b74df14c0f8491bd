// SPDX-License-Identifier: Apache-2.0
// Crash-safe checkpoints. A folder holds, per checkpoint `step-C-gG` (step C, generation G), one
// safetensors file per shard and, written last, a manifest that names them with their checksums.
// Without a readable manifest and whole files there is no checkpoint. Blocking; never call from an
// actor. Tensors of a shard file: "KEY/SLICE" (weights) and "KEY/SLICE/SLOT" (optimizer state),
// dense row-major.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/hash.h"
#include "base/mutex.h"
#include "base/status.h"
#include "ndarray/safetensors.h"
#include "schemas/manifest.h"
#include "schemas/messages.h"
#include "store/shard_reader.h"
#include "store/slice_layout.h"
#include "store/slice_values.h"

namespace troupe::store {

/// One slice at the checkpoint's cut.
struct SliceRecord {
  schemas::SliceId id;
  SliceState state;
};

/// Which checkpoint: the cut and the run that writes it.
struct CheckpointName {
  std::uint64_t step = 0;
  std::uint64_t generation = 0;
  friend auto operator<=>(const CheckpointName&, const CheckpointName&) = default;
  /// "step-500-g1".
  std::string to_string() const;
};

/// What to_string() gave; nullopt for anything else.
std::optional<CheckpointName> parse_checkpoint_name(std::string_view text);
/// True for names that a checkpoint's manifest and shard files have, so never for a path.
bool is_checkpoint_file(std::string_view file);

/// Writes and syncs the manifest: the checkpoint exists from here on. What could not be read again
/// is not written, but an error.
base::Status write_manifest(const std::filesystem::path& folder, const schemas::Manifest& manifest);
/// What a run leaves of the folder's checkpoints.
struct Retention {
  std::uint32_t keep = 0;        ///< so many complete ones, the newest; 0: all
  std::uint64_t start_step = 0;  ///< that the run began at
  /// The folder is the coordinator's, which keeps copies: what is newer than the newest complete
  /// checkpoint may be a part of one whose other files are on machines.
  bool copies = false;
};

/// Removes all but the newest complete checkpoints up to `written`, the one just written, and
/// leavings of interrupted ones before it. Manifests go first. Where there are more manifests than
/// are kept, a checkpoint counts when its files are there with their sizes; what cannot be looked
/// at stays and does not count. What an earlier run wrote of a step behind this run's start was
/// unreadable when it began, and does not count; what is newer by name than `written` is not
/// removed either.
base::Status prune_checkpoints(const std::filesystem::path& folder, const Retention& retention,
                               const CheckpointName& written);
/// Removes what no run needs any more, so that there is room for the next checkpoint of the run
/// `generation`: all but the newest complete checkpoints, leavings before the newest one, and
/// leavings of earlier runs: files without a manifest. For the holder of the folder's lock, since
/// nobody else writes there then. A complete checkpoint stays until a newer one is complete. To be
/// called when the run's first values have been read: until then the newest one may turn out
/// damaged. With `retention.copies` the leavings are files that earlier runs did not finish, and
/// those without a manifest before the newest complete checkpoint, of any run.
base::Status make_room(const std::filesystem::path& folder, const Retention& retention,
                       std::uint64_t generation);
/// Removes files that were being written when their process ended. For who knows that nobody writes
/// there now.
base::Status remove_unfinished(const std::filesystem::path& folder);
/// Removes the manifest, where there is one, and then the files of a checkpoint that was given up.
base::Status remove_checkpoint(const std::filesystem::path& folder, const CheckpointName& name);
/// Removes what there is of the checkpoints before `name`, of any run, as remove_checkpoint() does.
base::Status remove_older(const std::filesystem::path& folder, const CheckpointName& name);
/// Whether the run `generation` could write a checkpoint of `bytes` into the folder: writes and
/// removes a small file, and asks for the free space and for what leavings of earlier runs hold.
/// Those stay for now: their run may be writing still. Errors: what the file system says;
/// resource_exhausted naming folder, free and needed bytes.
base::Status check_folder(const std::filesystem::path& folder, std::uint64_t bytes,
                          std::uint64_t generation);
/// write_manifest and prune_checkpoints. What cannot be removed is a warning: the checkpoint
/// exists.
base::Status complete_checkpoint(const std::filesystem::path& folder,
                                 const schemas::Manifest& manifest, const Retention& retention);
/// The highest generation of the folder's manifests, readable or not, set aside or not, and of
/// files without one; 0 without any. failed_precondition: it is schemas::kGenerationMax or above,
/// so no run can follow it.
base::Result<std::uint64_t> highest_generation(const std::filesystem::path& folder);

/// So many names of a folder are told: of checkpoints that may turn out to be of no use.
inline constexpr std::size_t kNewestNames = 4;

/// What the names of a folder's manifests say, complete or not.
struct FolderManifests {
  std::vector<CheckpointName> newest;    ///< the newest first, at most kNewestNames
  std::uint64_t highest_generation = 0;  ///< as of highest_generation()
  bool set_aside = false;                ///< some are believed no more
};
/// Of a folder that cannot be listed: nothing.
FolderManifests folder_manifests(const std::filesystem::path& folder);

/// A checkpoint is its manifest, "out/step-938-g1.manifest"; people may leave the suffix out.
std::filesystem::path manifest_path(std::filesystem::path checkpoint);

/// What is looked at before a checkpoint is called complete.
enum class CheckpointCheck : std::uint8_t {
  manifest,  ///< its manifest alone: of its files only those that are needed may be here
  sizes,     ///< its manifest, and that all files are there with their sizes
  contents   ///< also every byte of the files, read once
};

/// A complete checkpoint. It holds the manifest; its tensors are read when they are asked for, and
/// their checksums checked. Any thread.
class Checkpoint {
 public:
  /// The newest complete one of a folder; what is newer but damaged is named in skipped().
  /// Errors: not_found when there is none, data_loss when all are damaged; what cannot be read, or
  /// only by a newer program, is an error too, since it may be whole.
  static base::Result<std::unique_ptr<Checkpoint>> open_newest(
      const std::filesystem::path& folder, CheckpointCheck check = CheckpointCheck::contents);
  /// One, by the path of its manifest. Errors: not_found, data_loss, and those of reading.
  static base::Result<std::unique_ptr<Checkpoint>> open(
      const std::filesystem::path& file, CheckpointCheck check = CheckpointCheck::contents);

  const schemas::Manifest& manifest() const { return manifest_; }
  /// Path of the manifest file.
  const std::filesystem::path& path() const { return path_; }
  /// What was passed over: the newest eight, then a line that counts the others.
  const std::vector<std::string>& skipped() const { return skipped_; }

  /// A slice's values in fresh buffers of `pool`; data_loss when a tensor is missing, damaged or
  /// has another size.
  base::Result<SliceState> slice(const SliceInfo& info, base::BufferPool& pool) const;
  /// A whole dense tensor by key name, "" or a slot's name.
  base::Result<std::vector<std::byte>> dense(const schemas::KeyInfo& key,
                                             std::string_view slot) const;
  /// SHA-256 over dense keys in byte order of name (name, dtype, shape, weights, slots by name),
  /// then average keys likewise, then step, epoch and samples as u64. Nothing of shards, machines
  /// or time.
  base::Result<base::Sha256Digest> hash() const;
  /// By shard of `layout`: the files, by position in the manifest, that hold its slices; ascending.
  /// Errors: data_loss when a slice is in none, those of reading.
  base::Result<std::vector<std::vector<std::uint32_t>>> files_by_shard(
      const SliceLayout& layout) const;
  /// Renames the manifest, so that no run begins here again: the files were found damaged.
  base::Status set_aside() const;

 private:
  /// A tensor and the file that holds it; null: no file does.
  struct Found {
    std::shared_ptr<const ShardReader> file;
    ndarray::TensorPlace tensor;
  };
  /// A file that is open, and when it was last asked for.
  struct OpenFile {
    std::shared_ptr<const ShardReader> reader;
    std::uint64_t asked = 0;
  };
  static constexpr std::size_t kOpenFilesMax = 256;

  Checkpoint() = default;
  base::Status check_files(CheckpointCheck check) const;
  base::Result<std::shared_ptr<const ShardReader>> reader(std::size_t file) const;
  base::Result<Found> find(const schemas::KeyInfo& key, std::uint32_t slice,
                           std::string_view slot) const;
  base::Result<std::uint64_t> updates(const ShardReader& file, const std::string& slice) const;
  base::Status hash_key(base::Sha256& sha, const schemas::KeyInfo& key) const;

  schemas::Manifest manifest_;
  std::filesystem::path path_;
  std::vector<std::string> skipped_;
  std::optional<SliceLayout> layout_;  // of the writers: where to look first
  mutable base::Mutex mutex_;
  // By position in the manifest's files; opened when needed, and closed for others.
  mutable std::map<std::size_t, OpenFile> readers_ TROUPE_GUARDED_BY(mutex_);
  mutable std::uint64_t asked_ TROUPE_GUARDED_BY(mutex_) = 0;
};

}  // namespace troupe::store
