// SPDX-License-Identifier: Apache-2.0
// Files: whole reads with a size limit, and crash-safe writes. Blocking; never call from an actor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace troupe::base {

/// The code of a failed system call on a file: not_found, permission_denied, resource_exhausted (no
/// space, no descriptors), already_exists, invalid_argument (a path that leads nowhere), else
/// io_error: a disk or a server of files that fails; another try or another machine may have the
/// bytes. data_loss are bytes that are there and wrong.
Errc errc_of_errno(int number);

/// "PATH: cannot ACTION: why", of a system call that has failed with `number`.
Status file_error(const std::filesystem::path& path, std::string_view action, int number);

/// What a path may lead to.
enum class FileKind : std::uint8_t {
  regular,  ///< a file, of /proc too; it is opened without waiting for anybody
  no_link,  ///< the same, and no symbolic link by its own name, which may lead anywhere
  any       ///< a pipe or device, too, which may never end: what the user of a command has named
};

/// Opens a regular file for reading, without waiting for anybody, and gives its descriptor, which
/// the caller closes. Errors name the path: errc_of_errno's, invalid_argument (no regular file).
Result<int> open_regular_file(const std::filesystem::path& path);

/// Reads a whole file; errors name the path: errc_of_errno's, resource_exhausted (larger than
/// `bytes_max`), invalid_argument (not of the kind; a folder).
Result<std::vector<std::byte>> read_file(const std::filesystem::path& path, std::uint64_t bytes_max,
                                         FileKind kind = FileKind::regular);
/// The same as text.
Result<std::string> read_text_file(const std::filesystem::path& path, std::uint64_t bytes_max,
                                   FileKind kind = FileKind::regular);

/// permission_denied unless `path` lies in the folder `root` once symbolic links are followed; of a
/// path that does not exist yet, the part that does counts. A link that leads nowhere may lead
/// outside tomorrow, and counts so. An empty root is everywhere.
Status check_inside(const std::filesystem::path& path, const std::filesystem::path& root);

/// Who may read a file that is written.
enum class FileMode : std::uint32_t {
  shared = 0644,  ///< everybody
  secret = 0600   ///< its owner only, at no time anybody else
};

/// Makes the folder, and those above it, where they are missing; with FileMode::secret its owner
/// alone may enter the one that is made.
Status make_folder(const std::filesystem::path& folder, FileMode mode);

/// permission_denied where others than its owner may read or write the file; invalid_argument: it
/// is a folder; errors of looking. Another file may stand at `path` a moment later: read_secret().
Status check_secret(const std::filesystem::path& path);
/// permission_denied unless the file or folder belongs to this process's user or root, and nobody
/// else may put others in its place: not anybody may write there. `ruled_by`: a folder whose
/// owner's files are right, too, where root looks. not_found; errors of looking.
Status check_owner(const std::filesystem::path& path, const std::filesystem::path& ruled_by = {});

/// read_text_file() of a file that is opened once: check_secret()'s rule holds for what is read,
/// and, where `ruled_by` is given, check_owner()'s with that folder.
Result<std::string> read_secret(const std::filesystem::path& path, std::uint64_t bytes_max,
                                FileKind kind = FileKind::regular,
                                const std::optional<std::filesystem::path>& ruled_by = {});

/// What a file does that is written where a symbolic link stands.
enum class LinkRule : std::uint8_t {
  follow,  ///< the link's target is replaced: its owner has put the link there
  replace  ///< the link is replaced, whatever it leads to: others write in this folder, too
};

/// Writes a temporary file in the same folder, syncs it, renames it to `path` and syncs the folder:
/// after a crash `path` holds the old or the new content, whole. Never retries a failed sync. What
/// is there and neither a regular file nor a link is invalid_argument.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path, FileMode mode = FileMode::shared,
                      LinkRule links = LinkRule::follow);
  /// Removes the temporary file when commit() was not reached.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  Status open();
  Status write(std::span<const std::byte> bytes);
  Status commit();

 private:
  Status system_error(std::string_view action) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  FileMode mode_;
  LinkRule links_;
  int descriptor_ = -1;
};

/// AtomicFile in one call.
Status write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes,
                             FileMode mode = FileMode::shared, LinkRule links = LinkRule::follow);
/// Makes entries of a folder durable.
Status sync_folder(const std::filesystem::path& folder);

}  // namespace troupe::base
