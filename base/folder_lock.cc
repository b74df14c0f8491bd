// SPDX-License-Identifier: Apache-2.0
// flock on a file. Whoever locks a file that its last holder has removed tries again.
#include "base/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "base/file.h"

namespace troupe::base {
namespace {

constexpr std::chrono::milliseconds kRetry{50};

bool removed(int descriptor) {
  struct stat status = {};
  return ::fstat(descriptor, &status) == 0 && status.st_nlink == 0;
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
  ::unlink(file_.c_str());
  ::close(descriptor_);
}

Result<FolderLock> FolderLock::take(const std::filesystem::path& folder,
                                    std::chrono::milliseconds wait) {
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code) {
    return error(errc_of_errno(code.value()), "{} cannot be made: {}", folder.string(),
                 code.message());
  }
  const std::filesystem::path file = folder / "lock";
  const auto deadline = std::chrono::steady_clock::now() + wait;
  while (true) {
    const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    const bool held = descriptor >= 0 && ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
    const int number = errno;
    if (held && !removed(descriptor)) {
      FolderLock lock;
      lock.file_ = file;
      lock.descriptor_ = descriptor;
      return lock;
    }
    if (descriptor >= 0) ::close(descriptor);
    if (held || (descriptor >= 0 && number == EINTR)) continue;
    if (descriptor < 0 || number != EWOULDBLOCK) {
      return error(errc_of_errno(number), "{} cannot be locked: {}", file.string(),
                   std::strerror(number));
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return error(Errc::already_exists, "{} is in use by another process", folder.string());
    }
    std::this_thread::sleep_for(kRetry);
  }
}

}  // namespace troupe::base
