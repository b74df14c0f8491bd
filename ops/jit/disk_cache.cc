// SPDX-License-Identifier: Apache-2.0
// A file is named by the hash of the text and holds the hash of text and kernel, then the kernel.
// Folder and file are opened first and looked at then, so that nobody can exchange them between.
#include "ops/jit/disk_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mutex.h"

namespace troupe::ops::jit {
namespace {

using base::Descriptor;
using base::Errc;
using base::Status;

constexpr std::size_t kDigits = 64;
constexpr std::string_view kSuffix = ".kernel";

/// True for what belongs to this user, who alone may write to it.
bool is_own(const Descriptor& opened) {
  struct stat found = {};
  return fstat(opened.get(), &found) == 0 && found.st_uid == geteuid() &&
         (found.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::string checksum(std::string_view text, std::string_view kernel) {
  base::Sha256 hash;
  hash.update_u64(text.size());
  hash.update(text);
  hash.update(kernel);
  return base::to_hex(hash.finish());
}

std::string name_of(std::string_view text) {
  return base::to_hex(base::sha256(text)) + std::string(kSuffix);
}

/// Without dots and slashes at the end, behind which a link would be followed.
std::filesystem::path trimmed(const std::filesystem::path& folder) {
  const std::filesystem::path normal = folder.lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

Status make_own_folders(const std::filesystem::path& folder) {
  std::error_code problem;
  if (folder.empty() || std::filesystem::exists(folder, problem)) return {};
  TROUPE_TRY(make_own_folders(folder.parent_path()));
  if (mkdir(folder.c_str(), S_IRWXU) == 0 || errno == EEXIST) return {};
  return base::file_error(folder, "make", errno);
}

Status open_folder(const std::filesystem::path& folder, Descriptor& opened) {
  opened.reset(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!opened.open()) return base::file_error(folder, "open as a folder", errno);
  if (is_own(opened)) return {};
  return base::error(Errc::permission_denied,
                     "{}: others may write there, or it is not this user's", folder.string());
}

/// All bytes, at most those of a kernel and its checksum.
std::optional<std::string> read_all(const Descriptor& file) {
  struct stat facts = {};
  constexpr auto kMost = static_cast<off_t>(kDigits + DiskCache::kBytesMost);
  if (fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size > kMost) {
    return std::nullopt;
  }
  std::string content(static_cast<std::size_t>(facts.st_size) + 1, '\0');
  std::size_t size = 0;
  while (size < content.size()) {
    const ssize_t got = read(file.get(), content.data() + size, content.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size < kDigits || size == content.size()) return std::nullopt;
  content.resize(size);
  return content;
}

bool write_all(const Descriptor& file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = write(file.get(), bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

/// True for names of this file's kernels, unfinished ones among them.
bool is_ours(std::string_view name) {
  const std::string_view digits = name.substr(0, std::min(name.size(), kDigits));
  return digits.size() == kDigits &&
         digits.find_first_not_of("0123456789abcdef") == std::string_view::npos &&
         name.substr(kDigits).starts_with(kSuffix);
}

/// Removes the kernels that were used longest ago, as many as there are too many.
void remove_surplus(const std::filesystem::path& folder, const Descriptor& opened) {
  std::vector<std::pair<std::int64_t, std::string>> found;  // when used, in nanoseconds
  std::error_code problem;
  std::filesystem::directory_iterator entry(folder, problem);
  for (; !problem && entry != std::filesystem::directory_iterator(); entry.increment(problem)) {
    std::string name = entry->path().filename().string();
    struct stat facts = {};
    if (!is_ours(name) || fstatat(opened.get(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(facts.st_mode)) {
      continue;
    }
    found.emplace_back(facts.st_mtim.tv_sec * 1'000'000'000 + facts.st_mtim.tv_nsec,
                       std::move(name));
  }
  if (found.size() <= DiskCache::kFilesMost) return;
  std::ranges::sort(found);
  found.resize(found.size() - DiskCache::kFilesMost);
  for (const auto& [when, name] : found) {
    static_cast<void>(unlinkat(opened.get(), name.c_str(), 0));
  }
}

/// A name that no other writer has.
std::string unfinished_name(const std::string& name) {
  std::array<std::uint8_t, 8> random = {};
  static_cast<void>(getentropy(random.data(), random.size()));
  return name + "." + base::to_hex(random);
}

/// The process's folder.
struct Folder {
  base::Mutex mutex;
  std::filesystem::path path TROUPE_GUARDED_BY(mutex);
};
Folder& process_folder() {
  static Folder set;
  return set;
}

}  // namespace

std::optional<std::string> DiskCache::get(std::string_view text) const {
  if (folder_.empty()) return std::nullopt;
  Descriptor folder;
  if (!open_folder(trimmed(folder_), folder).ok()) return std::nullopt;
  // O_NONBLOCK: what stands there may be a pipe.
  const Descriptor file(
      openat(folder.get(), name_of(text).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.open() || !is_own(file)) return std::nullopt;
  const std::optional<std::string> content = read_all(file);
  if (!content) return std::nullopt;
  std::string kernel = content->substr(kDigits);
  if (content->substr(0, kDigits) != checksum(text, kernel)) return std::nullopt;
  static_cast<void>(futimens(file.get(), nullptr));  // it was used
  return kernel;
}

Status DiskCache::put(std::string_view text, std::string_view kernel) const {
  if (folder_.empty()) return {};
  if (kernel.size() > kBytesMost) {
    return base::error(Errc::resource_exhausted, "a kernel of {} bytes (at most {})", kernel.size(),
                       kBytesMost);
  }
  const std::filesystem::path path = trimmed(folder_);
  TROUPE_TRY(make_own_folders(path));
  Descriptor folder;
  TROUPE_TRY(open_folder(path, folder));
  // Complete before it has its name; a crash leaves at most a file that nobody reads.
  const std::string name = name_of(text), unfinished = unfinished_name(name);
  const std::string content = checksum(text, kernel) + std::string(kernel);
  const Descriptor file(openat(folder.get(), unfinished.c_str(),
                               O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
  errno = file.open() ? 0 : errno;
  const bool kept = file.open() && write_all(file, content) &&
                    renameat(folder.get(), unfinished.c_str(), folder.get(), name.c_str()) == 0;
  if (kept) {
    remove_surplus(path, folder);
    return {};
  }
  const int problem = errno != 0 ? errno : ENOSPC;
  static_cast<void>(unlinkat(folder.get(), unfinished.c_str(), 0));
  return base::file_error(path / name, "write", problem);
}

void set_kernel_cache(std::filesystem::path folder) {
  const base::MutexLock lock(process_folder().mutex);
  process_folder().path = std::move(folder);
}

DiskCache kernel_cache() {
  const base::MutexLock lock(process_folder().mutex);
  return DiskCache(process_folder().path);
}

}  // namespace troupe::ops::jit
