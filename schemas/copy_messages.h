// SPDX-License-Identifier: Apache-2.0
// The messages by which a checkpoint's files travel where the machines of a job do not share
// checkpoint.dir: the coordinator's machine keeps a copy of each checkpoint, and hands it to the
// machines that a later run is placed on. Whoever wants a file asks for it piece by piece. Who says
// what when: control/checkpoint_folder.h. Plain values; part of messages.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace troupe::schemas {

/// Most bytes of one piece: a checksummed chunk of a shard's file.
inline constexpr std::uint64_t kPieceBytesMax = 1'048'576;

/// A checkpoint by its manifest's name.
struct NamedCheckpoint {
  std::uint64_t step = 0;
  std::uint64_t generation = 0;
};

/// Asks for bytes of a file of a checkpoint. Answered by a FilePiece with the same number.
struct PieceQuery {
  std::uint64_t number = 0;  ///< chosen by the asker, never used twice on its link
  std::string job;
  std::uint64_t generation = 1;  ///< of the run
  std::string folder;            ///< to an agent; the coordinator knows it
  std::string file;              ///< name without a folder
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;  ///< at most, as kPieceBytesMax; the end of the file gives fewer
};

/// The answer to PieceQuery. `code` other than ok: there are no bytes, and `text` says why.
struct FilePiece {
  std::uint64_t number = 0;
  base::Errc code = base::Errc::ok;
  std::string text;
  std::uint64_t file_bytes = 0;  ///< of the whole file
  std::string bytes;
};

/// The coordinator to an agent: have the manifest and these files of a checkpoint in `folder`,
/// whole; ask for what is missing or damaged. Answered by CheckpointPlaced.
struct PlaceCheckpoint {
  std::string job;
  std::uint64_t generation = 1;  ///< of the run
  std::string folder;
  std::string checkpoint;            ///< its name, "step-500-g1"
  std::vector<std::uint32_t> files;  ///< by position in the manifest
};

/// What became of PlaceCheckpoint.
struct CheckpointPlaced {
  std::string job;
  std::uint64_t generation = 1;
  base::Errc code = base::Errc::ok;
  std::string text;
};

/// The coordinator to an agent: the files in `folder` of this checkpoint may go, or with `older`
/// those of all before it, since the coordinator has a copy of this one. Not answered.
struct DropCheckpoint {
  std::string folder;
  std::string checkpoint;  ///< its name
  bool older = false;
};

}  // namespace troupe::schemas
