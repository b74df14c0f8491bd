// SPDX-License-Identifier: Apache-2.0
// safetensors files: u64 length of a JSON header, the header, then the tensors' bytes without
// holes (https://github.com/huggingface/safetensors, format description). The reader is strict and
// safe on any bytes. Little-endian, dense row-major. Any thread; files are read and written
// blocking.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"
#include "base/status.h"
#include "ndarray/ndarray.h"

namespace troupe::ndarray {

/// Limits of the reader.
inline constexpr std::uint64_t kSafetensorsHeaderBytesMax = 100'000'000;  // as the Rust reader's
inline constexpr std::size_t kSafetensorsTensorsMax = 1'000'000;
inline constexpr std::uint64_t kSafetensorsBytesMax = std::uint64_t{64} << 30;

/// A tensor as raw bytes, owned by somebody else.
struct RawTensor {
  std::string name;
  base::DType dtype = base::DType::f32;
  base::Shape shape;
  std::span<const std::byte> bytes;
};

/// A parsed file. Tensors' bytes point into `bytes`.
struct Safetensors {
  std::vector<std::byte> bytes;
  std::vector<RawTensor> tensors;               ///< in the order of their offsets
  std::map<std::string, std::string> metadata;  ///< the header's __metadata__

  /// The tensor called `name`, or null.
  const RawTensor* find(std::string_view name) const;
};

/// Where a tensor lies: at bytes [begin, end) of what follows the header.
struct TensorPlace {
  std::string name;
  base::DType dtype = base::DType::f32;
  base::Shape shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  /// What of it no array here can have ("dtype 'F8_E4M3'", "9 axes"); then dtype and shape mean
  /// nothing. Empty: nothing.
  std::string foreign = {};
};

/// What stands before the tensors' bytes.
struct SafetensorsHeader {
  std::vector<TensorPlace> tensors;  ///< in the order of their places, without gaps
  std::map<std::string, std::string> metadata;
};

/// Bytes of a file that begins with these: its first part, which says how long the header is.
inline constexpr std::size_t kSafetensorsLengthBytes = 8;
/// Where the tensors' bytes begin in a file of `file_bytes`; `first`: the file's first
/// kSafetensorsLengthBytes. data_loss when it is too long for the file or the limit.
base::Result<std::uint64_t> safetensors_data_begin(std::span<const std::byte> first,
                                                   std::uint64_t file_bytes);
/// The header of a file whose tensors take `data_bytes`; `text`: what lies between the length and
/// the tensors' bytes.
base::Result<SafetensorsHeader> parse_safetensors_header(std::string_view text,
                                                         std::uint64_t data_bytes);

/// What stands in a file before the bytes of its tensors, which follow in the given order. Errors:
/// invalid_argument for doubled names, names that are not UTF-8 or sizes that do not fit;
/// resource_exhausted for what the reader would refuse as too large.
base::Result<std::string> encode_safetensors_head(
    std::span<const RawTensor> tensors, const std::map<std::string, std::string>& metadata = {});
/// Header and tensors of bytes in memory, which the views point into; unimplemented names a foreign
/// one.
base::Result<std::vector<RawTensor>> parse_safetensors(
    std::span<const std::byte> bytes, std::map<std::string, std::string>* metadata = nullptr);
/// Reads and parses a file; data_loss names path and fault, unimplemented path and foreign tensor.
base::Result<Safetensors> read_safetensors(const std::filesystem::path& path);
/// Writes atomically (temporary file, fsync, rename), without a copy of the tensors. Errors as of
/// encode_safetensors_head() and of the file.
base::Status write_safetensors(const std::filesystem::path& path,
                               std::span<const RawTensor> tensors,
                               const std::map<std::string, std::string>& metadata = {});

/// Waits for the arrays and saves them.
base::Status save_arrays(const std::filesystem::path& path,
                         const std::map<std::string, NDArray>& arrays);
/// New arrays on the CPU.
base::Result<std::map<std::string, NDArray>> load_arrays(Runtime& runtime,
                                                         const std::filesystem::path& path);

}  // namespace troupe::ndarray
