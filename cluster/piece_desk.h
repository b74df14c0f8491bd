// SPDX-License-Identifier: Apache-2.0
// PieceDesk: questions for pieces of files, and the background calls that wait for their answers.
// An answer is taken from the peer that was asked, for a number that was asked, once. Any thread;
// calls may outlive the links, the desk is shared with them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "base/status.h"
#include "link/link.h"
#include "schemas/messages.h"

namespace troupe::cluster {

/// See the top of the file.
class PieceDesk {
 public:
  /// Numbers an end of links, never used twice.
  using Peer = std::uint64_t;
  /// Questions that end together.
  using Batch = std::uint64_t;

  /// An answer has to come within `wait_ms`.
  explicit PieceDesk(std::uint64_t wait_ms) : wait_ms_(wait_ms) {}

  /// `progress` is called at every answer that is taken for the batch, by whoever calls take().
  Batch open(std::function<void()> progress = {});
  /// Questions of the batch end now; so do all later ones.
  void close(Batch batch);
  /// Asks and waits. Errors: what the peer says, deadline_exceeded, unavailable (no link),
  /// cancelled (the batch or the desk is closed).
  base::Result<schemas::FilePiece> ask(Batch batch, Peer peer,
                                       const std::weak_ptr<link::Link>& link,
                                       schemas::PieceQuery query);
  /// An answer; false when `peer` was not asked for it.
  bool take(Peer peer, schemas::FilePiece piece);
  /// The link is down: what it was asked is answered by `why`.
  void lost(Peer peer, const base::Status& why);
  /// No question goes out any more. Afterwards no link is in use.
  void end();

 private:
  struct Question {
    Batch batch = 0;
    Peer peer = 0;
    std::optional<base::Result<schemas::FilePiece>> answer;
  };

  const std::uint64_t wait_ms_;
  base::Mutex mutex_;
  base::CondVar answered_;
  bool ended_ TROUPE_GUARDED_BY(mutex_) = false;
  std::uint64_t next_ TROUPE_GUARDED_BY(mutex_) = 1;  // number of questions and batches
  std::map<Batch, std::function<void()>> open_ TROUPE_GUARDED_BY(mutex_);  // and its progress
  std::map<std::uint64_t, Question> questions_ TROUPE_GUARDED_BY(mutex_);
};

/// A batch that is open until it is closed or this goes. Any thread.
class OpenBatch {
 public:
  /// `progress`: as of PieceDesk::open().
  explicit OpenBatch(std::shared_ptr<PieceDesk> desk, std::function<void()> progress = {})
      : desk_(std::move(desk)), batch_(desk_->open(std::move(progress))) {}
  ~OpenBatch() { desk_->close(batch_); }
  OpenBatch(const OpenBatch&) = delete;
  OpenBatch& operator=(const OpenBatch&) = delete;
  PieceDesk::Batch number() const { return batch_; }
  /// As PieceDesk::ask().
  base::Result<schemas::FilePiece> ask(PieceDesk::Peer peer, const std::weak_ptr<link::Link>& link,
                                       schemas::PieceQuery query) {
    return desk_->ask(batch_, peer, link, std::move(query));
  }

 private:
  const std::shared_ptr<PieceDesk> desk_;
  const PieceDesk::Batch batch_;
};

}  // namespace troupe::cluster
