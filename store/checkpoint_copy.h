// SPDX-License-Identifier: Apache-2.0
// Checkpoints that travel. Where the machines of a job do not share checkpoint.dir, the
// coordinator's machine collects the files of each checkpoint from the machines that wrote them,
// and a machine that goes on from one gets the files that it lacks. Both ask for pieces and believe
// no byte that the manifest's checksums do not confirm. The manifest is written last, so there is a
// whole checkpoint or none. Blocking; never call from an actor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "schemas/messages.h"
#include "store/checkpoint.h"
#include "store/piece_sources.h"

namespace troupe::store {

/// Answers such a question from `folder`; at most schemas::kPieceBytesMax. Errors: invalid_argument
/// for a name that is no file of a checkpoint, not_found, those of reading. No link is followed.
base::Result<schemas::FilePiece> read_piece(const std::filesystem::path& folder,
                                            const std::string& file, std::uint64_t offset,
                                            std::uint64_t bytes);

/// Makes the manifest of `checkpoint` ("step-500-g1") and its files at `positions` whole in
/// `folder`, which is made if missing. What is there and whole is left as it is, and nothing of it
/// is asked for; while it is looked through, a question for no bytes is asked now and then, so that
/// who answers knows that somebody is at it. Errors: data_loss when what comes is not what the
/// manifest says, those of asking and of the folder.
base::Status place_checkpoint(const std::filesystem::path& folder, const std::string& checkpoint,
                              const std::vector<std::uint32_t>& positions, const AskPiece& ask);

/// What is to be collected.
struct CheckpointCopy {
  std::filesystem::path folder;  ///< where to
  CheckpointName name;
  /// What is left of the folder's checkpoints. None: all, but for files that were being written
  /// when their process ended.
  std::optional<Retention> retention;
  std::vector<AskPiece> of_manifest;  ///< each asks one who may have the manifest
  std::vector<AskPiece> of_shard;     ///< each asks who has a shard's file, by shard; empty: all of
                                      ///< of_manifest may have each
  /// Whether a checkpoint with this manifest is wanted; asked before a file is fetched.
  std::function<base::Status(const schemas::Manifest&)> judge = {};
  std::uint64_t bytes_most = 0;  ///< that its files may take here, as of check_sizes()
};

/// Makes a whole copy of a checkpoint: takes the first manifest that is wanted, makes room as
/// make_room() does, fetches, and then removes older ones as the run would. Errors as of
/// place_checkpoint(), those of check_sizes(), and why no manifest is wanted. Where those that have
/// a file could not be reached, a disk failed or nobody waits any more, whole files stay for the
/// next try; else nothing is left of what was fetched.
base::Status collect_checkpoint(const CheckpointCopy& copy);

/// Removes the files of `checkpoint`, or with `older` all that are before it, of any run.
/// invalid_argument: it is no name of a checkpoint.
base::Status drop_checkpoint(const std::filesystem::path& folder, const std::string& checkpoint,
                             bool older);

}  // namespace troupe::store
