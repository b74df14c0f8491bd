// SPDX-License-Identifier: Apache-2.0
// Adding up what a checkpoint's tensors and their headers take.
#include "store/checkpoint_size.h"

#include <algorithm>

#include "base/shape.h"
#include "base/text.h"
#include "store/checkpoint.h"
#include "store/slice_layout.h"

namespace troupe::store {
namespace {

/// Of a tensor in a header: its dtype, shape and place. Of a slice: the number of its updates.
constexpr std::uint64_t kEntryBytes = 256;
/// A character of a name in JSON: "\u0001".
constexpr std::uint64_t kCharacterBytes = 6;
/// "/", the number of a slice, "/".
constexpr std::uint64_t kSliceNumberBytes = 22;
/// More is on no disk, and far from what overflows.
constexpr std::uint64_t kBytesMost = std::uint64_t{1} << 62;

}  // namespace

base::Result<std::uint64_t> checkpoint_bytes_most(std::span<const schemas::KeyInfo> keys,
                                                  std::span<const std::string> slots) {
  std::uint64_t slot_names = 0;
  for (const std::string& slot : slots) slot_names += slot.size();
  std::uint64_t bytes = 0;
  for (const schemas::KeyInfo& key : keys) {
    const base::Status shape = base::check_shape(key.shape);
    if (!shape.ok() || !key.shape.complete()) {
      return base::error(base::Errc::data_loss, "key '{}' has the shape {}", key.name,
                         key.shape.to_string());
    }
    const std::uint64_t size = base::dtype_size(key.dtype);
    const auto elements = static_cast<std::uint64_t>(key.shape.elements());
    const std::uint64_t slices = elements * size / kSliceBytes + 1;
    const bool dense = key.kind == schemas::KeyKind::dense;
    const std::uint64_t tensors = dense ? 1 + slots.size() : 1;
    const std::uint64_t names =
        (tensors + 1) * (key.name.size() + kSliceNumberBytes) + (dense ? slot_names : 0);
    bytes += tensors * elements * size;
    bytes += slices * (kCharacterBytes * names + (tensors + 1) * kEntryBytes);
    bytes = std::min(bytes, kBytesMost);
  }
  return bytes;
}

base::Status check_sizes(const schemas::Manifest& manifest, std::uint64_t bytes_most) {
  const std::string name = CheckpointName{manifest.step, manifest.generation}.to_string();
  if (bytes_most == 0) {
    const auto own = checkpoint_bytes_most(manifest.keys, manifest.optimizer_slots);
    if (!own.ok()) return own.status().with_context("the manifest of " + name);
    bytes_most = *own;
  }
  const std::uint64_t most = bytes_most + manifest.files.size() * kFileHeadBytes;
  std::uint64_t bytes = 0;
  for (const schemas::ShardFile& file : manifest.files) {
    bytes += std::min(file.bytes, kBytesMost);
    if (bytes <= most) continue;
    return base::error(base::Errc::data_loss,
                       "the manifest of {} names files of {} bytes or more together, the job's "
                       "parameters and their state take at most {}",
                       name, bytes, most);
  }
  return {};
}

// A file has no more bytes than its checksums cover, so a small manifest asks for a small layout.
base::Status check_keys(const schemas::Manifest& manifest) {
  if (manifest.files.empty()) return {};
  std::uint64_t held = 0;
  for (const schemas::ShardFile& file : manifest.files) {
    held += std::min<std::uint64_t>(file.bytes, file.checksums.size() * kChecksumChunkBytes);
  }
  std::uint64_t needed = 0;
  for (const schemas::KeyInfo& key : manifest.keys) {
    if (!base::check_shape(key.shape).ok() || !key.shape.complete()) continue;  // in no layout
    needed += static_cast<std::uint64_t>(key.shape.elements()) * base::dtype_size(key.dtype);
    if (needed <= held) continue;
    return base::error(
        base::Errc::data_loss, "its files hold {} bytes, its keys up to '{}' of shape {} need {}",
        held, base::shortened(key.name, base::kQuotedBytesMax), key.shape.to_string(), needed);
  }
  return {};
}

}  // namespace troupe::store
