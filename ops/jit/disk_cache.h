// SPDX-License-Identifier: Apache-2.0
// Compiled kernels as files, so that the next process need not compile them. A cache may lose
// anything: what cannot be read, is damaged or is not the owner's alone counts as missing, and what
// cannot be written is not kept. Any thread, any number of processes.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace troupe::ops::jit {

/// The kernels in one folder.
class DiskCache {
 public:
  /// Most files of a folder: no more are written.
  static constexpr int kFilesMost = 4096;

  /// An empty folder: nothing is found or kept.
  explicit DiskCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// What put() kept for exactly this text.
  std::optional<std::string> get(std::string_view text) const;
  /// Keeps the kernel that `text` (source, compiler, device) says in full how to make.
  void put(std::string_view text, std::string_view kernel) const;

 private:
  std::filesystem::path file_of(std::string_view text) const;

  std::filesystem::path folder_;
};

/// Sets the folder of kernel_cache(): for a program's main, before kernels are made. A program that
/// sets none keeps no kernels.
void set_kernel_cache(std::filesystem::path folder);
/// The process's cache.
DiskCache kernel_cache();

}  // namespace troupe::ops::jit
