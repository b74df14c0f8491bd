// SPDX-License-Identifier: Apache-2.0
// Looking at folders, answering questions for pieces.
#include "cluster/checkpoint_files.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"

namespace troupe::cluster {

void look_at_folder(BackgroundCalls& calls, const CheckpointFiles& files,
                    BackgroundCalls::Turn turn, const schemas::FolderProbe& probe,
                    const std::function<void(schemas::FolderProbeResult)>& tell) {
  const auto finish = [tell, job = probe.job,
                       generation = probe.generation](schemas::FolderProbeResult result) {
    result.job = job;
    result.generation = generation;
    tell(std::move(result));
  };
  const auto call = [finish, probe, look = files.probe] {
    return [finish, result = look(probe)] { finish(result); };
  };
  const bool added = calls.add(std::move(turn), call);
  if (added) return;
  schemas::FolderProbeResult full;
  full.code = base::Errc::resource_exhausted;
  full.text = "too many folders are looked at";
  finish(full);
}

void serve_piece(BackgroundCalls& calls, const CheckpointFiles& files,
                 const std::shared_ptr<link::Link>& link, const schemas::PieceQuery& query,
                 std::string group,
                 const std::function<void(link::Link&, const base::Status&)>& failed) {
  const auto tell = [known = std::weak_ptr(link), number = query.number,
                     failed](const base::Result<schemas::FilePiece>& read) {
    const auto to = known.lock();
    if (!to) return;
    schemas::FilePiece piece;
    if (read.ok()) piece = *read;
    piece.number = number;
    piece.code = read.status().code();
    piece.text = read.status().text();
    schemas::Envelope envelope;
    envelope.to = to->peer().actor;
    envelope.message = std::move(piece);
    const base::Status sent = to->send(std::move(envelope));
    if (!sent.ok()) failed(*to, sent);
  };
  // Each is a call of its own: numbers are never used twice on a link.
  std::string key = fmt::format("{} ({} of {})", query.file, query.number, fmt::ptr(link.get()));
  const auto call = [tell, query, read = files.read] {
    return [tell, piece = read(query)] { tell(piece); };
  };
  const bool added = calls.add({std::move(key), std::move(group)}, call);
  if (!added) tell(base::error(base::Errc::resource_exhausted, "too many pieces are asked for"));
}

void drop_in_background(BackgroundCalls& calls, const CheckpointFiles& files,
                        const schemas::DropCheckpoint& drop) {
  const std::string what =
      fmt::format("{}{} in {}", drop.older ? "what is before " : "", drop.checkpoint, drop.folder);
  const auto call = [what, drop, remove = files.drop] {
    return [what, status = remove(drop)] {
      if (!status.ok()) base::log_warn("{} stays: {}", what, status.text());
    };
  };
  if (calls.add({what, drop.folder}, call)) return;
  base::log_warn("{} stays: too many copies and removals of checkpoints wait", what);
}

}  // namespace troupe::cluster
