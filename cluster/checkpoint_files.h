// SPDX-License-Identifier: Apache-2.0
// What agents and coordinators do with the files in a job's folder of checkpoints, as a program
// gives it to them (apps/checkpoint_files.h). All of it blocks, may run on several threads at once,
// and may still run when the agent or coordinator has ended: it refers to nothing of them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "control/control_events.h"
#include "schemas/messages.h"

namespace troupe::cluster {

/// Asks the machine that has a file for at most `bytes` of it from `offset` on, and waits.
using AskPiece = std::function<base::Result<schemas::FilePiece>(
    const std::string& file, std::uint64_t offset, std::uint64_t bytes)>;

/// Asks one after the other, until one has the file. not_found: none has.
AskPiece any_of(std::vector<AskPiece> places);

/// See the top of the file. Errors are told to whoever wanted it.
struct CheckpointFiles {
  /// See folder_probe.h; all of the result but whose it is.
  std::function<schemas::FolderProbeResult(const schemas::FolderProbe&)> probe;
  /// Answers a question; the number and the code are left to the caller.
  std::function<base::Result<schemas::FilePiece>(const schemas::PieceQuery&)> read;
  /// An agent's alone: has these files here.
  std::function<base::Status(const schemas::PlaceCheckpoint&, const AskPiece&)> place;
  std::function<base::Status(const schemas::DropCheckpoint&)> drop;
  /// The rest is a coordinator's alone: makes a copy of a checkpoint.
  std::function<base::Status(const control::CollectCheckpoint&, const AskPiece& of_manifest,
                             const std::vector<AskPiece>& of_shard)>
      collect;
  /// Sets a copy aside when it is damaged.
  std::function<base::Status(const std::string& checkpoint)> check;
};

}  // namespace troupe::cluster
