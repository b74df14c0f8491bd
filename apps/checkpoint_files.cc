// SPDX-License-Identifier: Apache-2.0
// Folders inside the root, and what store/checkpoint_copy.h does there.
#include "apps/checkpoint_files.h"

#include <chrono>
#include <filesystem>

#include "base/file.h"
#include "base/log.h"
#include "cluster/folder_probe.h"
#include "store/checkpoint_copy.h"
#include "train/resume.h"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

base::Status check_folder(const std::string& folder, const std::string& root) {
  if (fs::path(folder).is_absolute()) return base::check_inside(folder, root);
  return base::error(base::Errc::invalid_argument, "'{}' is no absolute path", folder);
}

/// A copy that is whole stays, whatever a machine says of it.
base::Status check_copy(const std::string& checkpoint) {
  using store::Checkpoint;
  using store::CheckpointCheck;
  const fs::path manifest = store::manifest_path(checkpoint);
  const base::Status whole = Checkpoint::open(manifest, CheckpointCheck::contents).status();
  if (whole.code() != base::Errc::data_loss) return whole;
  TROUPE_TRY_ASSIGN(const auto damaged, Checkpoint::open(manifest, CheckpointCheck::manifest));
  TROUPE_TRY(damaged->set_aside());
  return whole.with_context("set aside");
}

}  // namespace

cluster::CheckpointFiles checkpoint_files(const schemas::JobRoots& roots) {
  const std::string root = roots.checkpoints;
  cluster::CheckpointFiles files;
  files.probe = [root](const schemas::FolderProbe& probe) {
    schemas::FolderProbeResult result;
    const base::Status status = cluster::probe_folder(probe, root);
    result.code = status.code();
    result.text = status.text();
    const bool removal = probe.write && probe.nonce.empty();
    if (removal || !check_folder(probe.path, root).ok()) return result;
    const store::FolderManifests manifests = store::folder_manifests(probe.path);
    for (const store::CheckpointName& name : manifests.newest) {
      result.newest.push_back({name.step, name.generation});
    }
    result.highest_generation = manifests.highest_generation;
    return result;
  };
  files.read = [root](const schemas::PieceQuery& query) -> base::Result<schemas::FilePiece> {
    TROUPE_TRY(check_folder(query.folder, root));
    return store::read_piece(query.folder, query.file, query.offset, query.bytes);
  };
  files.place = [root](const schemas::PlaceCheckpoint& place,
                       const cluster::AskPiece& ask) -> base::Status {
    TROUPE_TRY(check_folder(place.folder, root));
    return store::place_checkpoint(place.folder, place.checkpoint, place.files, ask);
  };
  files.drop = [root](const schemas::DropCheckpoint& drop) -> base::Status {
    TROUPE_TRY(check_folder(drop.folder, root));
    return store::drop_checkpoint(drop.folder, drop.checkpoint, drop.older);
  };
  files.collect = [roots](const control::CollectCheckpoint& collect,
                          const std::vector<cluster::AskPiece>& of_manifest,
                          const std::vector<cluster::AskPiece>& of_shard) -> base::Status {
    TROUPE_TRY(check_folder(collect.folder, roots.checkpoints));
    store::CheckpointCopy copy;
    copy.folder = collect.folder;
    copy.name = {collect.step, collect.generation};
    copy.of_manifest = of_manifest;
    copy.of_shard = of_shard;
    copy.bytes_most = collect.checkpoint_bytes;
    if (collect.gathered_for) {
      copy.judge = train::manifest_judge(*collect.gathered_for, roots);
    } else {
      copy.retention = {collect.keep, collect.start_step, true};
    }
    return store::collect_checkpoint(copy);
  };
  files.hold = [root](const control::HoldFolder& hold) -> base::Result<base::FolderLock> {
    TROUPE_TRY(check_folder(hold.folder, root));
    return base::FolderLock::take(hold.folder, std::chrono::milliseconds(hold.wait_ms),
                                  base::FileMode::shared, base::FolderLock::kCopiesFile);
  };
  files.newest = [root](const std::string& folder) -> base::Result<schemas::NamedCheckpoint> {
    TROUPE_TRY(check_folder(folder, root));
    const auto found = store::Checkpoint::open_newest(folder, store::CheckpointCheck::sizes);
    const base::Errc code = found.status().code();
    if (code == base::Errc::not_found || code == base::Errc::data_loss) {
      return schemas::NamedCheckpoint();
    }
    TROUPE_TRY(found.status());
    const schemas::Manifest& manifest = (*found)->manifest();
    return schemas::NamedCheckpoint{manifest.step, manifest.generation};
  };
  files.check = check_copy;
  return files;
}

}  // namespace troupe::apps
