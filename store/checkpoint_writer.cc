// SPDX-License-Identifier: Apache-2.0
// The order in which a checkpoint's files are written.
#include "store/checkpoint_writer.h"

#include <utility>

#include "base/log.h"
#include "store/shard_writer.h"

namespace troupe::store {

// The order makes checkpoints safe against a crash at any moment. A manifest names whole files with
// their checksums, so it must not be there before they are durable: write_shard() returns after its
// file has been synced, and only whoever has the results of all shards can call write_manifest().
// A crash before the manifest leaves files without a manifest, which no reader looks at and a later
// checkpoint removes. Old checkpoints go last, so at every moment the newest one that was ever
// complete is in the folder. What nobody needs goes before anything is written, too: a full disk
// may have kept it from going, or have made a checkpoint be given up, and would stay full. The
// generation in the name keeps a run from writing over the files of an earlier one that reached the
// same step.

base::Result<schemas::ShardFile> CheckpointWriter::write_shard(
    std::uint64_t step, std::uint32_t shard, std::uint32_t shards,
    std::span<const SliceRecord> slices) const {
  if (run_.retention) {
    const base::Status made = make_room(run_.folder, *run_.retention, run_.generation);
    if (!made.ok()) base::log_warn("old checkpoints stay: {}", made.text());
  }
  const CheckpointName name{step, run_.generation};
  return store::write_shard(run_.folder, {name, shard, shards, run_.keys, run_.slots, slices});
}

base::Result<std::string> CheckpointWriter::write_manifest(
    std::uint64_t step, const schemas::TrainingStart& start,
    std::vector<schemas::ShardFile> files) const {
  TROUPE_TRY_ASSIGN(schemas::Manifest manifest, run_.manifest(step, start));
  TROUPE_CHECK(manifest.step == step && manifest.generation == run_.generation,
               "a manifest of another checkpoint");
  manifest.files = std::move(files);
  TROUPE_TRY(complete_checkpoint(run_.folder, manifest, run_.retention.value_or(Retention())));
  return (run_.folder / CheckpointName{step, run_.generation}.to_string()).string();
}

void CheckpointWriter::remove(std::uint64_t step) const {
  const CheckpointName name{step, run_.generation};
  const base::Status removed = remove_checkpoint(run_.folder, name);
  if (removed.ok()) return;
  base::log_warn("what was written of {} stays: {}", name.to_string(), removed.text());
}

base::Status CheckpointWriter::check_folder(std::uint64_t bytes) const {
  // What this run does not remove makes no room for it.
  return store::check_folder(run_.folder, bytes, run_.retention ? run_.generation : 0);
}

}  // namespace troupe::store
