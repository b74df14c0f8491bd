// SPDX-License-Identifier: Apache-2.0
// PieceSources: those that may have files of a checkpoint, and who has which. Machines may hold a
// file that is cut off or of another job beside one that is whole, so each answer is checked, and
// the next one is asked for what another has wrong. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "schemas/messages.h"

namespace troupe::store {

/// Asks where a file is for at most `bytes` of it from `offset` on; waits for the answer. Several
/// threads may ask at once.
using AskPiece = std::function<base::Result<schemas::FilePiece>(
    const std::string& file, std::uint64_t offset, std::uint64_t bytes)>;

/// Of several errors with files of a checkpoint the one that leaves most hope is told: nobody has
/// them; none of use is there; they may be whole.
bool leaves_more_hope(base::Errc one, base::Errc other);

/// See the top of the file.
class PieceSources {
 public:
  /// data_loss: it is not what it must be.
  using Check = std::function<base::Status(const schemas::FilePiece&)>;

  explicit PieceSources(std::vector<AskPiece> sources) : sources_(std::move(sources)) {}

  /// Asks one after the other, until a piece passes `check`. Who had more of the file is asked
  /// first, then who has had nothing wrong, and who could not be asked last. Errors: not_found:
  /// none has it; data_loss: none has it right; one of schemas::nothing_whole: none has one of use;
  /// else why one that may have it did not give it.
  base::Result<schemas::FilePiece> ask(const std::string& file, std::uint64_t offset,
                                       std::uint64_t bytes, const Check& check = {});

 private:
  std::vector<std::size_t> order(const std::string& file);
  void note(const std::string& file, std::size_t source, base::Errc code);

  const std::vector<AskPiece> sources_;
  base::Mutex mutex_;
  std::map<std::string, std::size_t> has_ TROUPE_GUARDED_BY(mutex_);
  std::set<std::pair<std::string, std::size_t>> wrong_ TROUPE_GUARDED_BY(mutex_);
  std::set<std::size_t> failed_ TROUPE_GUARDED_BY(mutex_);
};

}  // namespace troupe::store
