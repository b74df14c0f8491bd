// SPDX-License-Identifier: Apache-2.0
// Asking several machines for a file, looking at folders, answering questions for pieces.
#include "cluster/checkpoint_files.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/mutex.h"

namespace troupe::cluster {

namespace {

/// Who has which file, as far as anybody has said.
class Places {
 public:
  explicit Places(std::vector<AskPiece> places) : asks_(std::move(places)) {}

  /// Several threads may ask.
  base::Result<schemas::FilePiece> ask(const std::string& file, std::uint64_t offset,
                                       std::uint64_t bytes) {
    base::Status why = base::error(base::Errc::not_found, "{}: nobody has it", file);
    for (const std::size_t place : order(file)) {
      auto piece = asks_[place](file, offset, bytes);
      note(file, place, piece.status().code());
      if (piece.ok()) return piece;
      if (why.code() == base::Errc::not_found) why = piece.status();
    }
    return why;
  }

 private:
  std::vector<std::size_t> order(const std::string& file) {
    const base::MutexLock lock(mutex_);
    const auto known = has_.find(file);
    std::vector<std::size_t> places;
    if (known != has_.end()) places.push_back(known->second);
    for (const bool failed : {false, true}) {
      for (std::size_t place = 0; place < asks_.size(); ++place) {
        const bool first = known != has_.end() && known->second == place;
        if (!first && failed_.contains(place) == failed) places.push_back(place);
      }
    }
    return places;
  }
  void note(const std::string& file, std::size_t place, base::Errc code) {
    const base::MutexLock lock(mutex_);
    if (code == base::Errc::ok) {
      has_[file] = place;
      failed_.erase(place);
    } else if (code != base::Errc::not_found) {
      failed_.insert(place);
    }
  }

  const std::vector<AskPiece> asks_;
  base::Mutex mutex_;
  std::map<std::string, std::size_t> has_ TROUPE_GUARDED_BY(mutex_);
  std::set<std::size_t> failed_ TROUPE_GUARDED_BY(mutex_);
};

}  // namespace

AskPiece any_of(std::vector<AskPiece> places) {
  return [known = std::make_shared<Places>(std::move(places))](
             const std::string& file, std::uint64_t offset, std::uint64_t bytes) {
    return known->ask(file, offset, bytes);
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

void drop_in_background(BackgroundCalls& calls, const CheckpointFiles& files,
                        const schemas::DropCheckpoint& drop) {
  const std::string what =
      fmt::format("{}{} in {}", drop.older ? "what is before " : "", drop.checkpoint, drop.folder);
  const auto call = [what, drop, remove = files.drop] {
    return [what, status = remove(drop)] {
      if (!status.ok()) base::log_warn("{} stays: {}", what, status.text());
    };
  };
  if (calls.add(what, call, drop.folder)) return;
  base::log_warn("{} stays: too many copies and removals of checkpoints wait", what);
}

}  // namespace troupe::cluster
