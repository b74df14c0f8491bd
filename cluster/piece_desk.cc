// SPDX-License-Identifier: Apache-2.0
// Waiting for pieces.
#include "cluster/piece_desk.h"

#include <chrono>
#include <utility>

#include "base/awake_wait.h"

namespace troupe::cluster {

using base::Errc;
using schemas::FilePiece;

namespace {

base::Status not_wanted() {
  return base::error(Errc::cancelled, "nobody waits for the file any more");
}

}  // namespace

PieceDesk::Batch PieceDesk::open(std::function<void()> progress) {
  const base::MutexLock lock(mutex_);
  const Batch batch = next_++;
  open_.emplace(batch, std::move(progress));
  return batch;
}

void PieceDesk::close(Batch batch) {
  const base::MutexLock lock(mutex_);
  open_.erase(batch);
  for (auto& [number, question] : questions_) {
    if (question.batch == batch && !question.answer) question.answer = not_wanted();
  }
  answered_.notify_all();
}

/// The question goes out under the lock: after end() no link is touched.
base::Result<FilePiece> PieceDesk::ask(Batch batch, Peer peer,
                                       const std::weak_ptr<link::Link>& known,
                                       schemas::PieceQuery query) {
  base::AwakeWait wait{std::chrono::milliseconds(wait_ms_)};
  const base::MutexLock lock(mutex_);
  if (ended_ || !open_.contains(batch)) return not_wanted();
  const auto link = known.lock();
  if (!link) return base::error(Errc::unavailable, "its agent is gone");
  const std::uint64_t number = query.number = next_++;
  const std::string file = query.file;
  Question& question = questions_[number];
  question.batch = batch;
  question.peer = peer;
  schemas::Envelope envelope;
  envelope.to = link->peer().actor;
  envelope.message = std::move(query);
  if (const base::Status sent = link->send(std::move(envelope)); !sent.ok()) question.answer = sent;
  while (!question.answer && wait.once(answered_, mutex_)) {
  }
  std::optional<base::Result<FilePiece>> answer = std::move(question.answer);
  questions_.erase(number);
  if (answer) return *std::move(answer);
  return base::error(Errc::deadline_exceeded, "no word about {} for {} ms", file, wait_ms_);
}

bool PieceDesk::take(Peer peer, FilePiece piece) {
  std::function<void()> progress;
  {
    const base::MutexLock lock(mutex_);
    const auto asked = questions_.find(piece.number);
    if (asked == questions_.end() || asked->second.peer != peer || asked->second.answer) {
      return false;
    }
    if (const auto batch = open_.find(asked->second.batch); batch != open_.end()) {
      progress = batch->second;
    }
    if (piece.code == Errc::ok) {
      asked->second.answer = std::move(piece);
    } else {
      asked->second.answer = base::Status(piece.code, piece.text);
    }
    answered_.notify_all();
  }
  if (progress) progress();
  return true;
}

void PieceDesk::lost(Peer peer, const base::Status& why) {
  const base::MutexLock lock(mutex_);
  for (auto& [number, question] : questions_) {
    if (question.peer != peer || question.answer) continue;
    question.answer = base::error(Errc::unavailable, "its agent is gone: {}", why.text());
  }
  answered_.notify_all();
}

void PieceDesk::end() {
  const base::MutexLock lock(mutex_);
  ended_ = true;
  for (auto& [number, question] : questions_) {
    if (!question.answer) question.answer = not_wanted();
  }
  answered_.notify_all();
}

}  // namespace troupe::cluster
