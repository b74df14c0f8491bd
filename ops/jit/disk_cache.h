// SPDX-License-Identifier: Apache-2.0
// Compiled kernels as files, so that the next process need not compile them. A cache may lose
// anything: what cannot be read, is damaged or could be somebody else's counts as missing. Any
// thread, any number of processes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace troupe::ops::jit {

/// The kernels in one folder. Whoever may write there decides what devices run, so it must belong
/// to this user, who alone may write in it, and be no symbolic link.
class DiskCache {
 public:
  /// Most kernels of a folder; the one that was not used for longest makes room. Files of others
  /// do not count.
  static constexpr std::size_t kFilesMost = 1024;
  /// Most bytes of a kernel.
  static constexpr std::size_t kBytesMost = std::size_t{4} << 20;

  /// An empty folder: nothing is found or kept.
  explicit DiskCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// What put() kept for exactly this text.
  std::optional<std::string> get(std::string_view text) const;
  /// Keeps the kernel that `text` (source, compiler, device) says in full how to make. Makes the
  /// folder, and what is missing above it, for this user alone. An error says why it is not kept.
  base::Status put(std::string_view text, std::string_view kernel) const;

 private:
  std::filesystem::path folder_;
};

/// Sets the folder of kernel_cache(): for a program's main, before kernels are made. A program that
/// sets none keeps no kernels.
void set_kernel_cache(std::filesystem::path folder);
/// The process's cache.
DiskCache kernel_cache();

}  // namespace troupe::ops::jit
