// SPDX-License-Identifier: Apache-2.0
// What agents and coordinators do with the files in a job's folder of checkpoints, as a program
// gives it to them (apps/checkpoint_files.h). All of it blocks, may run on several threads at once,
// and may still run when the agent or coordinator has ended: it refers to nothing of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/folder_lock.h"
#include "base/status.h"
#include "cluster/background_calls.h"
#include "control/control_events.h"
#include "link/link.h"
#include "schemas/messages.h"

namespace troupe::cluster {

/// Questions for pieces of files that may wait to be answered.
inline constexpr std::size_t kPiecesWaitingMax = 4'096;

/// Asks the machine that has a file for at most `bytes` of it from `offset` on, and waits.
using AskPiece = std::function<base::Result<schemas::FilePiece>(
    const std::string& file, std::uint64_t offset, std::uint64_t bytes)>;

/// See the top of the file. Errors are told to whoever wanted it.
struct CheckpointFiles {
  /// See folder_probe.h; all of the result but whose it is.
  std::function<schemas::FolderProbeResult(const schemas::FolderProbe&)> probe;
  /// Answers a question; the number and the code are left to the caller.
  std::function<base::Result<schemas::FilePiece>(const schemas::PieceQuery&)> read;
  /// An agent's alone: has these files here.
  std::function<base::Status(const schemas::PlaceCheckpoint&, const AskPiece&)> place;
  std::function<base::Status(const schemas::DropCheckpoint&)> drop;
  /// The rest is a coordinator's alone: makes a copy of a checkpoint. `of_manifest`: those that may
  /// have its manifest; `of_shard`: as in CollectCheckpoint.
  std::function<base::Status(const control::CollectCheckpoint&,
                             const std::vector<AskPiece>& of_manifest,
                             const std::vector<AskPiece>& of_shard)>
      collect;
  /// Has a folder of copies for one job alone, while the lock lives.
  std::function<base::Result<base::FolderLock>(const control::HoldFolder&)> hold;
  /// As of control::FolderHeld.
  std::function<base::Result<schemas::NamedCheckpoint>(const std::string& folder)> newest;
  /// Sets a copy aside when it is damaged.
  std::function<base::Status(const std::string& checkpoint)> check;
};

/// Has a folder looked at in the background; `tell` gets the result, on the call's thread, or at
/// once where too many wait.
void look_at_folder(BackgroundCalls& calls, const CheckpointFiles& files,
                    BackgroundCalls::Turn turn, const schemas::FolderProbe& probe,
                    const std::function<void(schemas::FolderProbeResult)>& tell);

/// Has a piece read in the background, and sends it; `failed` hears when it cannot go out. `group`:
/// as of BackgroundCalls.
void serve_piece(BackgroundCalls& calls, const CheckpointFiles& files,
                 const std::shared_ptr<link::Link>& link, const schemas::PieceQuery& query,
                 std::string group,
                 const std::function<void(link::Link&, const base::Status&)>& failed);

/// Has files of checkpoints removed in the background; what stays is logged. What is dropped is
/// known by its folder alone, which is the group.
void drop_in_background(BackgroundCalls& calls, const CheckpointFiles& files,
                        const schemas::DropCheckpoint& drop);

}  // namespace troupe::cluster
