// SPDX-License-Identifier: Apache-2.0
// FolderLock: a folder that one process at a time may call its own. The kernel lets go of it when
// the process ends, however it ends. One owner, one thread.
#pragma once

#include <chrono>
#include <filesystem>

#include "base/file.h"
#include "base/status.h"

namespace troupe::base {

/// Holds a lock for as long as it lives: flock on a file in the folder. The holder
/// removes the file at the end; whoever has opened it before finds that and tries again.
class FolderLock {
 public:
  FolderLock() = default;
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;
  ~FolderLock();
  /// The lock in the folder.
  static constexpr const char* kFile = "lock";
  /// That of a coordinator which keeps copies of checkpoints there, beside the other: a parameter
  /// server of the same job may hold that.
  static constexpr const char* kCopiesFile = "copies.lock";

  /// Makes the folder where it is missing (its owner's alone: `mode` secret) and locks it, waiting
  /// for another holder up to `wait`. The lock is a file of its owner alone: who may read could
  /// hold it. A link in its place is not followed.
  /// `name`: of the file. already_exists: another process holds it; unavailable: somebody replaces
  /// the file again and again; else what the file system says.
  static Result<FolderLock> take(const std::filesystem::path& folder,
                                 std::chrono::milliseconds wait = {},
                                 FileMode mode = FileMode::shared, const char* name = kFile);

 private:
  std::filesystem::path file_;
  int descriptor_ = -1;
};

}  // namespace troupe::base
