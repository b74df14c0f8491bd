// SPDX-License-Identifier: Apache-2.0
// Packers: image collections into train.rec/.idx and test.rec/.idx. Pixels are stored raw (u8 CHW
// with a checksum) and the same input gives the same bytes. All files of a call are made under
// temporary names and appear at its end; before that an earlier set stays as it was. A call without
// a test set removes the one of an earlier call. Blocking; any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "data/image_record.h"

namespace troupe::data {

/// Where Debian's package dataset-fashion-mnist puts its files.
inline constexpr const char* kFashionMnistFolder = "/usr/share/datasets/fashion-mnist";

/// One record file that a packer wrote.
struct PackedFile {
  std::filesystem::path path;
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;
  ImageShape image;
  std::uint32_t classes = 0;  ///< highest label + 1
};

/// What a packer wrote.
struct PackReport {
  std::vector<PackedFile> files;
  /// A line per file.
  std::string to_string() const;
};

/// Looked at for each record, may be null: where it is true, the call ends with `cancelled` and
/// leaves what was there before.
using Stop = const std::atomic<bool>*;

/// An IDX file of images (count, height, width) and one of their labels (count), plain or gzip.
struct IdxPair {
  std::filesystem::path images;
  std::filesystem::path labels;
};

/// `troupe data pack idx`.
struct IdxPackOptions {
  IdxPair train;
  std::optional<IdxPair> test;
  std::filesystem::path out;  ///< folder, made when it does not exist
  Stop stop = nullptr;
};

/// `troupe data pack images`: a sub-folder per class; labels count classes in byte order of name.
struct FolderPackOptions {
  std::filesystem::path train;
  std::optional<std::filesystem::path> test;  ///< its classes must be among train's
  std::filesystem::path out;
  /// Store the files' JPEG or PNG bytes as they are: smaller, slower to read.
  bool keep_encoded = false;
  Stop stop = nullptr;
};

/// Most images of one file that pack_generated() and pack_idx() write.
inline constexpr std::uint64_t kPackedMax = std::uint64_t{1} << 28;
inline constexpr std::uint32_t kGeneratedClassesMax = 1U << 24;  // labels are exact in f32

/// `troupe data pack generated`.
struct GeneratedPackOptions {
  ImageShape image{3, 224, 224};
  std::uint32_t classes = 1000;
  std::uint64_t train = 1280;  ///< records
  std::uint64_t test = 320;    ///< records; 0: no test.rec
  std::uint64_t seed = 7;
  std::filesystem::path out;
  Stop stop = nullptr;
};

/// The names of pack_images()'s classes, line by line, beside the sets. Other calls remove it.
inline constexpr std::string_view kClassesFile = "classes.txt";

/// `troupe data pack fashion-mnist`: 60,000 + 10,000 images of 1 x 28 x 28.
base::Result<PackReport> pack_fashion_mnist(const std::filesystem::path& source,
                                            const std::filesystem::path& out, Stop stop = nullptr);
base::Result<PackReport> pack_idx(const IdxPackOptions& options);
/// All images must have one size, and lie in their class's folder itself. Also writes kClassesFile.
base::Result<PackReport> pack_images(const FolderPackOptions& options);
/// Images of ImageGenerator; record i has label i % classes, from 1 to 2^24 of them.
/// invalid_argument names a number that is out of range, resource_exhausted how much room is
/// needed.
base::Result<PackReport> pack_generated(const GeneratedPackOptions& options);

}  // namespace troupe::data
