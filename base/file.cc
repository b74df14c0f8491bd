// SPDX-License-Identifier: Apache-2.0
// File reads and crash-safe writes over POSIX calls.
#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/descriptor.h"

namespace troupe::base {
namespace {

/// What is read at once from something that does not know its size.
constexpr std::size_t kPieceBytes = 65'536;
constexpr mode_t kSecretFolderMode = 0700;

Status too_large(const std::filesystem::path& path, std::uint64_t bytes, std::uint64_t bytes_max) {
  return error(Errc::resource_exhausted, "{}: {} bytes are more than the limit of {}",
               path.string(), bytes, bytes_max);
}

Status not_a_file(const std::filesystem::path& path) {
  return error(Errc::invalid_argument, "{}: is a folder, not a file", path.string());
}

Status secret_rule(const std::filesystem::path& path, const struct stat& found) {
  const mode_t others = found.st_mode & (S_IRWXG | S_IRWXO);
  if (others == 0) return {};
  return error(Errc::permission_denied,
               "{}: others than its owner may use it (mode {:o}); chmod 600 it", path.string(),
               found.st_mode & 07777);
}

Status owner_rule(const std::filesystem::path& path, const struct stat& found,
                  const std::filesystem::path& ruled_by) {
  bool trusted = found.st_uid == 0 || found.st_uid == ::geteuid();
  if (!trusted && !ruled_by.empty() && ::geteuid() == 0) {
    struct stat ruler {};
    if (::stat(ruled_by.c_str(), &ruler) != 0) return file_error(ruled_by, "open", errno);
    trusted = found.st_uid == ruler.st_uid;
  }
  if (!trusted) {
    return error(Errc::permission_denied, "{}: belongs to user {}, not to this one ({}) or root",
                 path.string(), found.st_uid, ::geteuid());
  }
  if ((found.st_mode & S_IWOTH) == 0 || (found.st_mode & S_ISVTX) != 0) return {};
  return error(Errc::permission_denied, "{}: anybody may write there (mode {:o})", path.string(),
               found.st_mode & 07777);
}

/// Opens `path` for reading; `info` becomes what is known of it.
Status open_to_read(const std::filesystem::path& path, FileKind kind, Descriptor& file,
                    struct stat& info) {
  // A pipe that nobody writes would be waited for at the opening already.
  const int patience = kind == FileKind::any ? 0 : O_NONBLOCK;
  const int links = kind == FileKind::no_link ? O_NOFOLLOW : 0;
  file.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | patience | links));
  if (file.get() < 0 && errno == ELOOP && kind == FileKind::no_link) {
    return error(Errc::invalid_argument, "{}: is a symbolic link, which is not followed",
                 path.string());
  }
  if (file.get() < 0) return file_error(path, "open", errno);
  if (::fstat(file.get(), &info) != 0) return file_error(path, "stat", errno);
  if (S_ISDIR(info.st_mode)) return not_a_file(path);
  if (kind != FileKind::any && !S_ISREG(info.st_mode)) {
    return error(Errc::invalid_argument, "{}: is no regular file", path.string());
  }
  return {};
}

/// `rule(found)`: what must hold of the opened file before it is read.
template <typename Container, typename Rule>
Result<Container> read_all(const std::filesystem::path& path, std::uint64_t bytes_max,
                           FileKind kind, const Rule& rule) {
  Descriptor file;
  struct stat info {};
  TROUPE_TRY(open_to_read(path, kind, file, info));
  TROUPE_TRY(rule(info));
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size > bytes_max) return too_large(path, size, bytes_max);
  const bool sized = S_ISREG(info.st_mode) && size > 0;  // pipes and /proc say 0
  Container content;
  content.resize(sized ? size : kPieceBytes);
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t n = ::read(file.get(), content.data() + done, content.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return file_error(path, "read", errno);
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
    if (done > bytes_max) return too_large(path, done, bytes_max);
    if (!sized && done == content.size()) content.resize(2 * done);
  }
  content.resize(done);
  return content;
}

Status any_file(const struct stat& /*found*/) {
  return {};
}

/// True when a link on the way leads to nothing.
bool through_dangling_link(const std::filesystem::path& path) {
  std::filesystem::path way;
  std::error_code code;
  for (const std::filesystem::path& part : path) {
    way /= part;
    if (std::filesystem::exists(way, code)) continue;
    return std::filesystem::is_symlink(std::filesystem::symlink_status(way, code));
  }
  return false;
}

}  // namespace

Errc errc_of_errno(int number) {
  switch (number) {
    case ENOENT:
      return Errc::not_found;
    case EACCES:
    case EPERM:
    case EROFS:
      return Errc::permission_denied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return Errc::resource_exhausted;
    case EEXIST:
      return Errc::already_exists;
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case ENXIO:
      return Errc::invalid_argument;
    default:  // EIO, for one
      return Errc::io_error;
  }
}

Status file_error(const std::filesystem::path& path, std::string_view action, int number) {
  return error(errc_of_errno(number), "{}: cannot {}: {}", path.string(), action,
               std::strerror(number));
}

Result<int> open_regular_file(const std::filesystem::path& path) {
  Descriptor file;
  struct stat info {};
  TROUPE_TRY(open_to_read(path, FileKind::regular, file, info));
  return file.release();
}

Result<std::vector<std::byte>> read_file(const std::filesystem::path& path, std::uint64_t bytes_max,
                                         FileKind kind) {
  return read_all<std::vector<std::byte>>(path, bytes_max, kind, any_file);
}

Result<std::string> read_text_file(const std::filesystem::path& path, std::uint64_t bytes_max,
                                   FileKind kind) {
  return read_all<std::string>(path, bytes_max, kind, any_file);
}

Status check_inside(const std::filesystem::path& path, const std::filesystem::path& root) {
  if (root.empty()) return {};
  std::error_code code;
  const std::filesystem::path folder = std::filesystem::canonical(root, code);
  if (code) return file_error(root, "resolve", code.value());
  const std::filesystem::path found = std::filesystem::weakly_canonical(path, code);
  if (code) return file_error(path, "resolve", code.value());
  const auto [rest, below] =
      std::mismatch(folder.begin(), folder.end(), found.begin(), found.end());
  if (rest == folder.end() && !through_dangling_link(path)) return {};
  return error(Errc::permission_denied, "{}: lies outside of {}", path.string(), root.string());
}

Status make_folder(const std::filesystem::path& folder, FileMode mode) {
  std::error_code code;
  if (mode == FileMode::secret) {
    const auto made = folder.has_filename() ? folder : folder.parent_path();  // "ca/" is "ca"
    std::filesystem::create_directories(made.parent_path(), code);
    ::mkdir(made.c_str(), kSecretFolderMode);  // what it could not do is told below
  }
  std::filesystem::create_directories(folder, code);
  if (!code) return {};
  return error(errc_of_errno(code.value()), "{} cannot be made: {}", folder.string(),
               code.message());
}

Status check_secret(const std::filesystem::path& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return file_error(path, "open", errno);
  if (S_ISDIR(found.st_mode)) return not_a_file(path);
  return secret_rule(path, found);
}

Status check_owner(const std::filesystem::path& path, const std::filesystem::path& ruled_by) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return file_error(path, "open", errno);
  return owner_rule(path, found, ruled_by);
}

Result<std::string> read_secret(const std::filesystem::path& path, std::uint64_t bytes_max,
                                FileKind kind,
                                const std::optional<std::filesystem::path>& ruled_by) {
  // An opened pipe that nobody writes would be waited for.
  if (kind == FileKind::any) TROUPE_TRY(check_secret(path));
  return read_all<std::string>(path, bytes_max, kind, [&](const struct stat& found) -> Status {
    TROUPE_TRY(secret_rule(path, found));
    return ruled_by ? owner_rule(path, found, *ruled_by) : Status();
  });
}

AtomicFile::AtomicFile(std::filesystem::path path, FileMode mode, LinkRule links)
    : path_(std::move(path)), mode_(mode), links_(links) {}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

Status AtomicFile::system_error(std::string_view action) const {
  return file_error(path_, action, errno);
}

Status AtomicFile::open() {
  std::error_code unknown;
  const bool follows = links_ == LinkRule::follow;
  const std::filesystem::file_status there = follows
                                                 ? std::filesystem::status(path_, unknown)
                                                 : std::filesystem::symlink_status(path_, unknown);
  if (std::filesystem::exists(there) && !std::filesystem::is_symlink(there)) {
    if (!std::filesystem::is_regular_file(there)) {
      return error(Errc::invalid_argument, "{}: is no regular file and is not replaced",
                   path_.string());
    }
    if (follows) {
      const auto target = std::filesystem::canonical(path_, unknown);
      if (!unknown) path_ = target;
    }
  }
  std::string pattern = path_.string() + ".tmp-XXXXXX";
  descriptor_ = ::mkostemp(pattern.data(), O_CLOEXEC);
  if (descriptor_ < 0) return system_error("create a temporary file for it");
  temporary_ = pattern;
  if (::fchmod(descriptor_, static_cast<mode_t>(mode_)) != 0) return system_error("set the mode");
  return {};
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("write");
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

Status AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) return system_error("sync");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return system_error("rename to");
  ::close(descriptor_);
  descriptor_ = -1;
  const std::filesystem::path folder = path_.parent_path();
  return sync_folder(folder.empty() ? "." : folder);
}

Status write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes,
                             FileMode mode, LinkRule links) {
  AtomicFile file(path, mode, links);
  TROUPE_TRY(file.open());
  TROUPE_TRY(file.write(bytes));
  return file.commit();
}

Status sync_folder(const std::filesystem::path& folder) {
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.get() < 0) return file_error(folder, "open", errno);
  if (::fsync(descriptor.get()) == 0) return {};
  // Some file systems (those of virtual machines' shared folders) cannot do so with folders.
  if (errno == EINVAL || errno == ENOTSUP) return {};
  return file_error(folder, "sync", errno);
}

}  // namespace troupe::base
