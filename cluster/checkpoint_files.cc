// SPDX-License-Identifier: Apache-2.0
// Asking several machines for a file, looking at folders, answering questions for pieces.
#include "cluster/checkpoint_files.h"

#include <fmt/format.h>

#include <utility>

namespace troupe::cluster {

AskPiece any_of(std::vector<AskPiece> places) {
  if (places.size() == 1) return std::move(places.front());
  return [places = std::move(places)](const std::string& file, std::uint64_t offset,
                                      std::uint64_t bytes) -> base::Result<schemas::FilePiece> {
    base::Status last = base::error(base::Errc::not_found, "{}: nobody has it", file);
    for (const AskPiece& ask : places) {
      auto piece = ask(file, offset, bytes);
      if (piece.ok() || piece.status().code() != base::Errc::not_found) return piece;
      last = piece.status();
    }
    return last;
  };
}

void look_at_folder(BackgroundCalls& calls, const CheckpointFiles& files, std::string key,
                    std::string group, const schemas::FolderProbe& probe,
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
  const bool added = calls.add(std::move(key), call, std::move(group));
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
  const bool added = calls.add(std::move(key), call, std::move(group));
  if (!added) tell(base::error(base::Errc::resource_exhausted, "too many pieces are asked for"));
}

}  // namespace troupe::cluster
