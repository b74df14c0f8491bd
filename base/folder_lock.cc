// SPDX-License-Identifier: Apache-2.0
// flock on a file. Whoever has locked a file that is no longer the one in the folder tries again.
#include "base/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "base/awake_wait.h"

namespace troupe::base {
namespace {

constexpr std::chrono::milliseconds kRetry{50};
constexpr mode_t kLockMode = 0600;

/// So often a file may turn out to be another one.
constexpr int kReplacedMax = 20;

/// Whether the path leads to the file behind the descriptor. It is opened anew, since NFS answers a
/// stat from memory but asks the server at an open. What cannot be told is a no: on NFS a file that
/// is gone gives an error.
bool same_file(int descriptor, const std::filesystem::path& file) {
  const int again = ::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (again < 0) return false;
  struct stat locked = {};
  struct stat named = {};
  const bool known = ::fstat(descriptor, &locked) == 0 && ::fstat(again, &named) == 0;
  ::close(again);
  return known && locked.st_dev == named.st_dev && locked.st_ino == named.st_ino;
}

/// Somebody else's file may have been put at the lock's name: a file with another name, too, is
/// left alone. 0 names: it has gone meanwhile.
Status make_own(int descriptor, const std::filesystem::path& file) {
  struct stat info = {};
  if (::fstat(descriptor, &info) != 0) return file_error(file, "stat", errno);
  if (!S_ISREG(info.st_mode) || info.st_nlink > 1) {
    return error(Errc::failed_precondition,
                 "{} cannot be locked: it is a file with {} names, or no regular file; remove it",
                 file.string(), info.st_nlink);
  }
  ::fchmod(descriptor, kLockMode);  // left by an older program
  return {};
}

}  // namespace

FolderLock::FolderLock(FolderLock&& other) noexcept
    : file_(std::move(other.file_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

FolderLock& FolderLock::operator=(FolderLock&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

FolderLock::~FolderLock() {
  if (descriptor_ < 0) return;
  if (same_file(descriptor_, file_)) ::unlink(file_.c_str());
  ::close(descriptor_);
}

Result<FolderLock> FolderLock::take(const std::filesystem::path& folder,
                                    std::chrono::milliseconds wait, FileMode mode,
                                    const char* name) {
  TROUPE_TRY(make_folder(folder, mode));
  const std::filesystem::path file = folder / name;
  AwakeWait left(wait);
  for (int replaced = 0; replaced < kReplacedMax;) {
    const int descriptor =
        ::open(file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, kLockMode);
    const Status own = descriptor >= 0 ? make_own(descriptor, file) : Status();
    if (!own.ok()) {
      ::close(descriptor);
      return own;
    }
    const bool held = descriptor >= 0 && ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
    const int number = errno;
    const bool gone = descriptor >= 0 && !held && number == ESTALE;  // on NFS: removed elsewhere
    if (held && same_file(descriptor, file)) {
      FolderLock lock;
      lock.file_ = file;
      lock.descriptor_ = descriptor;
      return lock;
    }
    if (descriptor >= 0) ::close(descriptor);
    if (held || gone) {
      ++replaced;
      std::this_thread::sleep_for(kRetry);
      continue;
    }
    if (descriptor >= 0 && number == EINTR) continue;
    if (descriptor < 0 || number != EWOULDBLOCK) {
      return error(errc_of_errno(number), "{} cannot be locked: {}", file.string(),
                   std::strerror(number));
    }
    if (!left.sleep(kRetry)) {
      return error(Errc::already_exists, "{} is in use by another process", folder.string());
    }
  }
  return error(Errc::unavailable, "{} is replaced again and again", file.string());
}

}  // namespace troupe::base
