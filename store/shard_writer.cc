// SPDX-License-Identifier: Apache-2.0
// Tensors go to the file as they are, and into the checksums on the way.
#include "store/shard_writer.h"

#include <fmt/format.h>

#include <map>
#include <utility>
#include <vector>

#include "base/file.h"
#include "ndarray/safetensors.h"
#include "store/shard_reader.h"

namespace troupe::store {

using schemas::KeyInfo;

std::string tensor_name(const KeyInfo& key, std::uint32_t slice, std::string_view slot) {
  const std::string weights = key.name + "/" + std::to_string(slice);
  return slot.empty() ? weights : weights + "/" + std::string(slot);
}

base::Result<schemas::ShardFile> write_shard(const std::filesystem::path& folder,
                                             const ShardContent& content) {
  std::vector<ndarray::RawTensor> tensors;
  std::map<std::string, std::string> updates;
  auto add = [&](std::string name, const KeyInfo& key, const base::Buffer& buffer) {
    const auto elements = static_cast<std::int64_t>(buffer.size() / base::dtype_size(key.dtype));
    tensors.push_back({std::move(name), key.dtype, base::Shape{elements}, buffer.as<std::byte>()});
  };
  for (const SliceRecord& slice : content.slices) {
    const KeyInfo& key = content.keys[slice.id.key];
    const SliceValues& values = slice.state.values;
    updates[tensor_name(key, slice.id.slice, "")] = std::to_string(slice.state.updates);
    add(tensor_name(key, slice.id.slice, ""), key, values.weight);
    for (std::size_t i = 0; i < values.slots.size(); ++i) {
      add(tensor_name(key, slice.id.slice, content.slots[i]), key, values.slots[i]);
    }
  }
  TROUPE_TRY_ASSIGN(const std::string head, ndarray::encode_safetensors_head(tensors, updates));
  schemas::ShardFile file;
  file.shard = content.shard;
  file.name = fmt::format("{}-shard-{}-of-{}.safetensors", content.name.to_string(), content.shard,
                          content.shards);
  file.chunk_bytes = kChecksumChunkBytes;
  base::AtomicFile out(folder / file.name, base::FileMode::shared, base::LinkRule::replace);
  TROUPE_TRY(out.open());
  ChunkChecksums checksums;
  const auto write = [&](std::span<const std::byte> bytes) {
    file.bytes += bytes.size();
    checksums.add(bytes);
    return out.write(bytes);
  };
  TROUPE_TRY(write(std::as_bytes(std::span(head))));
  for (const ndarray::RawTensor& tensor : tensors) TROUPE_TRY(write(tensor.bytes));
  TROUPE_TRY(out.commit());
  file.checksums = checksums.take();
  return file;
}

}  // namespace troupe::store
