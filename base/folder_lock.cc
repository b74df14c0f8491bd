// SPDX-License-Identifier: Apache-2.0
// flock on a file that stays behind.
#include "base/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "base/file.h"

namespace troupe::base {
namespace {

constexpr std::chrono::milliseconds kRetry{50};

}  // namespace

FolderLock::FolderLock(FolderLock&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

FolderLock& FolderLock::operator=(FolderLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
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
  FolderLock lock;
  lock.descriptor_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock.descriptor_ < 0) {
    const int number = errno;
    return error(errc_of_errno(number), "{} cannot be written: {}", file.string(),
                 std::strerror(number));
  }
  const auto deadline = std::chrono::steady_clock::now() + wait;
  while (::flock(lock.descriptor_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      const int number = errno;
      return error(errc_of_errno(number), "{} cannot be locked: {}", file.string(),
                   std::strerror(number));
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return error(Errc::already_exists, "{} is in use by another process", folder.string());
    }
    std::this_thread::sleep_for(kRetry);
  }
  return lock;
}

}  // namespace troupe::base
