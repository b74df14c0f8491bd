// SPDX-License-Identifier: Apache-2.0
// FileStamp: how a file looks from outside, so that one sees whether it is worth reading again. Any
// thread.
#pragma once

#include <cstdint>
#include <filesystem>

namespace troupe::cluster {

/// Another one whenever the file's content, owner or rights may have changed, also where its time
/// of writing has not: it was copied with its times, or given other rights.
struct FileStamp {
  int fault = 0;  ///< of looking, an errno; 0: the rest is known
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
  std::int64_t written_ns = 0;  ///< its content, since 1970
  std::int64_t changed_ns = 0;  ///< the content, or its owner or rights

  /// Nothing is there. Other faults say nothing about what is.
  bool gone() const;
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

/// Of what `file` leads to; blocks.
FileStamp stamp_of(const std::filesystem::path& file);

}  // namespace troupe::cluster
