// SPDX-License-Identifier: Apache-2.0
// A shard's file of a checkpoint, written from the store's own memory. Blocking; never call from an
// actor. Any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "schemas/manifest.h"
#include "store/checkpoint.h"

namespace troupe::store {

/// What a slice's weights, or with `slot` a state of its optimizer, are called in a shard's file.
std::string tensor_name(const schemas::KeyInfo& key, std::uint32_t slice, std::string_view slot);

/// One shard's part of a checkpoint to write.
struct ShardContent {
  CheckpointName name;
  std::uint32_t shard = 0;
  std::uint32_t shards = 1;
  std::span<const schemas::KeyInfo> keys;
  std::span<const std::string> slots;  ///< of dense keys, in the order of SliceValues::slots
  std::span<const SliceRecord> slices;
};

/// Writes and syncs a shard's file; what the manifest must say about it.
base::Result<schemas::ShardFile> write_shard(const std::filesystem::path& folder,
                                             const ShardContent& content);

}  // namespace troupe::store
