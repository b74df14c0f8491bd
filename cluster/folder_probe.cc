// SPDX-License-Identifier: Apache-2.0
// Files of a probe, each by its name in an open folder: no link is followed.
#include "cluster/folder_probe.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "base/descriptor.h"
#include "base/file.h"
#include "base/name.h"

namespace troupe::cluster {
namespace {

using base::Errc;
namespace fs = std::filesystem;

constexpr std::string_view kPrefix = ".probe-";
/// Of a job's id and what tells its runs apart.
constexpr std::size_t kFileBytesMax = 128;

bool plain_file(const std::string& file) {
  const auto plain = [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
           (letter >= '0' && letter <= '9') || letter == '-' || letter == '_' || letter == '.';
  };
  return file.starts_with(kPrefix) && file.size() > kPrefix.size() &&
         file.size() <= kFileBytesMax && std::all_of(file.begin(), file.end(), plain);
}

base::Status check(const schemas::FolderProbe& probe) {
  if (!plain_file(probe.file)) {
    return base::error(Errc::invalid_argument, "'{}' is no file of a probe", probe.file);
  }
  if (!fs::path(probe.path).is_absolute()) {
    return base::error(Errc::invalid_argument, "'{}' is no absolute path", probe.path);
  }
  const bool removes = probe.write && probe.nonce.empty();
  if (removes || base::plain_name(probe.nonce)) return {};
  return base::error(Errc::invalid_argument, "a probe of {} with a nonce that is no plain name",
                     probe.path);
}

base::Status remove(const base::Descriptor& folder, const schemas::FolderProbe& probe) {
  if (::unlinkat(folder.get(), probe.file.c_str(), 0) == 0 || errno == ENOENT) return {};
  return base::file_error(fs::path(probe.path) / probe.file, "remove", errno);
}

/// What an earlier run has left is removed, a link like a file; then the file is a new one.
base::Status write(const base::Descriptor& folder, const schemas::FolderProbe& probe) {
  TROUPE_TRY(remove(folder, probe));
  const fs::path path = fs::path(probe.path) / probe.file;
  const base::Descriptor file(::openat(folder.get(), probe.file.c_str(),
                                       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!file.open()) return base::file_error(path, "create", errno);
  const ssize_t written = ::write(file.get(), probe.nonce.data(), probe.nonce.size());
  if (written < 0) return base::file_error(path, "write", errno);
  if (static_cast<std::size_t>(written) != probe.nonce.size())
    return base::file_error(path, "write", ENOSPC);
  if (::fsync(file.get()) != 0) return base::file_error(path, "sync", errno);
  return base::sync_folder(probe.path);
}

base::Status read_back(const base::Descriptor& folder, const schemas::FolderProbe& probe) {
  const fs::path path = fs::path(probe.path) / probe.file;
  const base::Descriptor file(
      ::openat(folder.get(), probe.file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.open()) return base::file_error(path, "open", errno);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return base::file_error(path, "stat", errno);
  if (!S_ISREG(info.st_mode)) {
    return base::error(Errc::invalid_argument, "{}: is no regular file", path.string());
  }
  std::array<char, kFileBytesMax> found;
  const ssize_t bytes = ::read(file.get(), found.data(), found.size());
  if (bytes < 0) return base::file_error(path, "read", errno);
  if (std::string_view(found.data(), static_cast<std::size_t>(bytes)) == probe.nonce) return {};
  return base::error(Errc::failed_precondition, "{} holds something else", path.string());
}

}  // namespace

base::Status probe_folder(const schemas::FolderProbe& probe, const std::string& root) {
  TROUPE_TRY(check(probe));
  TROUPE_TRY(base::check_inside(probe.path, root).with_context("--checkpoint-root " + root));
  const bool removes = probe.write && probe.nonce.empty();
  std::error_code code;
  if (probe.write && !removes) fs::create_directories(probe.path, code);
  if (code) {
    return base::error(base::errc_of_errno(code.value()), "{}: cannot make the folder: {}",
                       probe.path, code.message());
  }
  const base::Descriptor folder(::open(probe.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.open()) return base::file_error(probe.path, "open the folder", errno);
  if (removes) return remove(folder, probe);
  return probe.write ? write(folder, probe) : read_back(folder, probe);
}

}  // namespace troupe::cluster
