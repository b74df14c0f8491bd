// SPDX-License-Identifier: Apache-2.0
// Stamps by stat.
#include "cluster/file_stamp.h"

#include <sys/stat.h>

#include <cerrno>

namespace troupe::cluster {
namespace {

std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

bool FileStamp::gone() const {
  return fault == ENOENT;
}

FileStamp stamp_of(const std::filesystem::path& file) {
  FileStamp stamp;
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) {
    stamp.fault = errno;
    return stamp;
  }
  stamp.device = info.st_dev;
  stamp.inode = info.st_ino;
  stamp.bytes = static_cast<std::uint64_t>(info.st_size);
  stamp.written_ns = nanoseconds(info.st_mtim);
  stamp.changed_ns = nanoseconds(info.st_ctim);
  return stamp;
}

}  // namespace troupe::cluster
