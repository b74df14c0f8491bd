// SPDX-License-Identifier: Apache-2.0
// A file is named by the hash of the text and holds the hash of text and kernel, then the kernel.
// Who may write in the folder decides what devices run: so it must be its owner's alone, and
// nobody else's files in it are read.
#include "ops/jit/disk_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <system_error>

#include "base/file.h"
#include "base/hash.h"
#include "base/mutex.h"

namespace troupe::ops::jit {
namespace {

constexpr std::uint64_t kBytesMax = 64 << 20;
constexpr std::size_t kDigits = 64;

std::string checksum(std::string_view text, std::string_view kernel) {
  base::Sha256 hash;
  hash.update_u64(text.size());
  hash.update(text);
  hash.update(kernel);
  return base::to_hex(hash.finish());
}

/// True for a file or folder of this user in which nobody else can write, and no symbolic link.
bool is_own(const std::filesystem::path& path) {
  struct stat found = {};
  return lstat(path.c_str(), &found) == 0 && !S_ISLNK(found.st_mode) && found.st_uid == geteuid() &&
         (found.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/// The process's folder.
struct Folder {
  base::Mutex mutex;
  std::filesystem::path path TROUPE_GUARDED_BY(mutex);
};
Folder& folder() {
  static Folder set;
  return set;
}

bool has_room(const std::filesystem::path& folder) {
  std::error_code problem;
  std::filesystem::directory_iterator entry(folder, problem);
  int files = 0;
  for (; !problem && entry != std::filesystem::directory_iterator(); entry.increment(problem)) {
    if (++files >= DiskCache::kFilesMost) return false;
  }
  return !problem;
}

}  // namespace

std::filesystem::path DiskCache::file_of(std::string_view text) const {
  return folder_ / (base::to_hex(base::sha256(text)) + ".kernel");
}

std::optional<std::string> DiskCache::get(std::string_view text) const {
  if (folder_.empty() || !is_own(folder_)) return std::nullopt;
  const std::filesystem::path file = file_of(text);
  if (!is_own(file)) return std::nullopt;
  base::Result<std::string> content =
      base::read_text_file(file, kBytesMax, base::FileKind::no_link);
  if (!content.ok() || content->size() < kDigits) return std::nullopt;
  std::string kernel = content->substr(kDigits);
  if (content->substr(0, kDigits) != checksum(text, kernel)) return std::nullopt;
  return kernel;
}

void DiskCache::put(std::string_view text, std::string_view kernel) const {
  if (folder_.empty() || kernel.size() > kBytesMax - kDigits) return;
  if (!base::make_folder(folder_, base::FileMode::secret).ok()) return;
  if (!is_own(folder_) || !has_room(folder_)) return;
  std::string content = checksum(text, kernel);
  content += kernel;
  // What cannot be kept is compiled again: nothing to tell anybody.
  static_cast<void>(base::write_file_atomically(file_of(text), std::as_bytes(std::span(content)),
                                                base::FileMode::secret, base::LinkRule::replace));
}

void set_kernel_cache(std::filesystem::path path) {
  const base::MutexLock lock(folder().mutex);
  folder().path = std::move(path);
}

DiskCache kernel_cache() {
  const base::MutexLock lock(folder().mutex);
  return DiskCache(folder().path);
}

}  // namespace troupe::ops::jit
