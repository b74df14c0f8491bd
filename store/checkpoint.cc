// SPDX-License-Identifier: Apache-2.0
// Writing, finding, verifying, hashing and pruning checkpoints.
#include "store/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <set>

#include "base/file.h"
#include "base/log.h"
#include "schemas/codec.h"

namespace troupe::store {
namespace {

namespace fs = std::filesystem;
using schemas::KeyInfo;
using schemas::KeyKind;

constexpr std::string_view kManifestSuffix = ".manifest";

std::string tensor_name(const KeyInfo& key, std::uint32_t slice, std::string_view slot) {
  const std::string weights = key.name + "/" + std::to_string(slice);
  return slot.empty() ? weights : weights + "/" + std::string(slot);
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool take_number(std::string_view& text, std::uint64_t& number) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

// "step-500-g1..." of a manifest or shard file; `rest` is what follows.
std::optional<CheckpointName> parse_name(std::string_view file, std::string_view& rest) {
  CheckpointName name;
  if (!take(file, "step-") || !take_number(file, name.step) || !take(file, "-g") ||
      !take_number(file, name.generation)) {
    return std::nullopt;
  }
  rest = file;
  return name;
}

struct FolderEntry {
  CheckpointName name;
  fs::path path;
  bool manifest = false;
};

base::Result<std::vector<FolderEntry>> list(const fs::path& folder) {
  std::vector<FolderEntry> entries;
  std::error_code code;
  fs::directory_iterator files(folder, code);
  for (; !code && files != fs::directory_iterator(); files.increment(code)) {
    const std::string file = files->path().filename().string();
    std::string_view rest;
    const auto name = parse_name(file, rest);
    if (!name || !(rest == kManifestSuffix || rest.starts_with("-shard-") ||
                   rest.starts_with(".manifest.tmp-"))) {
      continue;
    }
    entries.push_back({*name, files->path(), rest == kManifestSuffix});
  }
  if (code) {
    return base::error(base::errc_of_errno(code.value()), "{}: cannot be listed: {}",
                       folder.string(), code.message());
  }
  return entries;
}

std::vector<std::uint32_t> checksums_of(std::span<const std::byte> bytes) {
  std::vector<std::uint32_t> checksums;
  for (std::size_t at = 0; at < bytes.size(); at += kChecksumChunkBytes) {
    checksums.push_back(base::crc32c(
        bytes.subspan(at, std::min<std::size_t>(kChecksumChunkBytes, bytes.size() - at))));
  }
  return checksums;
}

/// Damage that would otherwise look like a lack of memory, or for whose other end one would wait.
base::Status check_file(const fs::path& path, std::uint64_t bytes_most) {
  std::error_code code;
  if (fs::is_other(path, code)) {
    return base::error(base::Errc::data_loss, "{}: is no regular file", path.string());
  }
  const std::uint64_t bytes = fs::file_size(path, code);
  if (code || bytes <= bytes_most) return {};
  return base::error(base::Errc::data_loss, "{}: {} bytes, at most {} make sense", path.string(),
                     bytes, bytes_most);
}

base::Result<ndarray::Safetensors> read_shard(const fs::path& path,
                                              const schemas::ShardFile& file) {
  ndarray::Safetensors content;
  TROUPE_TRY(check_file(path, file.bytes));
  TROUPE_TRY_ASSIGN(content.bytes, base::read_file(path, file.bytes));
  if (content.bytes.size() != file.bytes || file.chunk_bytes != kChecksumChunkBytes) {
    return base::error(base::Errc::data_loss, "{}: {} bytes, the manifest says {}", path.string(),
                       content.bytes.size(), file.bytes);
  }
  const auto checksums = checksums_of(content.bytes);
  for (std::size_t i = 0; i < checksums.size(); ++i) {
    if (i < file.checksums.size() && checksums[i] == file.checksums[i]) continue;
    return base::error(base::Errc::data_loss, "{}: damaged between bytes {} and {}", path.string(),
                       i * kChecksumChunkBytes,
                       std::min<std::uint64_t>((i + 1) * kChecksumChunkBytes, file.bytes));
  }
  auto tensors = ndarray::parse_safetensors(content.bytes, &content.metadata);
  if (!tensors.ok()) return tensors.status().with_context(path.string());
  content.tensors = std::move(tensors).value();
  return content;
}

}  // namespace

std::string CheckpointName::to_string() const {
  return fmt::format("step-{}-g{}", step, generation);
}

base::Result<schemas::ShardFile> write_shard(const fs::path& folder, const ShardContent& content) {
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
  TROUPE_TRY_ASSIGN(const std::vector<std::byte> bytes,
                    ndarray::encode_safetensors(tensors, updates));
  schemas::ShardFile file;
  file.shard = content.shard;
  file.name = fmt::format("{}-shard-{}-of-{}.safetensors", content.name.to_string(), content.shard,
                          content.shards);
  file.bytes = bytes.size();
  file.chunk_bytes = kChecksumChunkBytes;
  file.checksums = checksums_of(bytes);
  TROUPE_TRY(base::write_file_atomically(folder / file.name, bytes));
  return file;
}

base::Status write_manifest(const fs::path& folder, const schemas::Manifest& manifest) {
  const CheckpointName name{manifest.step, manifest.generation};
  TROUPE_TRY_ASSIGN(const std::string bytes, schemas::encode_manifest(manifest));
  const auto again = schemas::decode_manifest(bytes);
  if (!again.ok()) return again.status().with_context("a manifest that nobody could read");
  const fs::path path = folder / (name.to_string() + std::string(kManifestSuffix));
  return base::write_file_atomically(path, std::as_bytes(std::span(bytes)));
}

base::Status prune_checkpoints(const fs::path& folder, const Retention& retention,
                               const CheckpointName& written) {
  if (retention.keep == 0) return {};
  TROUPE_TRY_ASSIGN(const std::vector<FolderEntry> entries, list(folder));
  std::set<CheckpointName, std::greater<>> complete;
  for (const FolderEntry& entry : entries) {
    const bool unreadable =
        entry.name.generation < written.generation && entry.name.step > retention.start_step;
    if (entry.manifest && !unreadable && entry.name <= written) complete.insert(entry.name);
  }
  while (complete.size() > retention.keep) complete.erase(std::prev(complete.end()));
  auto remove = [&](bool manifests) -> base::Status {
    for (const FolderEntry& entry : entries) {
      const bool old = entry.name < written && !complete.contains(entry.name);
      if (!old || entry.manifest != manifests) continue;
      std::error_code code;
      fs::remove(entry.path, code);
      if (code) {
        return base::error(base::errc_of_errno(code.value()), "{}: cannot be removed: {}",
                           entry.path.string(), code.message());
      }
    }
    return {};
  };
  // A crash in between must not leave a manifest without its files: that would look like damage.
  TROUPE_TRY(remove(true));
  return remove(false);
}

base::Status complete_checkpoint(const fs::path& folder, const schemas::Manifest& manifest,
                                 const Retention& retention) {
  TROUPE_TRY(write_manifest(folder, manifest));
  const CheckpointName written{manifest.step, manifest.generation};
  const base::Status pruned = prune_checkpoints(folder, retention, written);
  if (!pruned.ok()) base::log_warn("old checkpoints stay: {}", pruned.text());
  return {};
}

base::Result<std::uint64_t> highest_generation(const fs::path& folder) {
  TROUPE_TRY_ASSIGN(const std::vector<FolderEntry> entries, list(folder));
  std::uint64_t highest = 0;
  for (const FolderEntry& entry : entries) {
    if (entry.manifest) highest = std::max(highest, entry.name.generation);
  }
  return highest;
}

base::Result<std::unique_ptr<Checkpoint>> Checkpoint::open(const fs::path& manifest_path) {
  TROUPE_TRY(check_file(manifest_path, schemas::kManifestBytesMax));
  TROUPE_TRY_ASSIGN(const std::string bytes,
                    base::read_text_file(manifest_path, schemas::kManifestBytesMax));
  auto manifest = schemas::decode_manifest(bytes);
  if (!manifest.ok()) return manifest.status().with_context(manifest_path.string());
  std::unique_ptr<Checkpoint> checkpoint(new Checkpoint());
  checkpoint->manifest_ = std::move(manifest).value();
  checkpoint->path_ = manifest_path;
  for (const schemas::ShardFile& file : checkpoint->manifest_.files) {
    TROUPE_TRY_ASSIGN(auto content, read_shard(manifest_path.parent_path() / file.name, file));
    checkpoint->files_.push_back(std::move(content));
  }
  for (const ndarray::Safetensors& file : checkpoint->files_) {
    for (const ndarray::RawTensor& tensor : file.tensors) {
      checkpoint->tensors_[tensor.name] = &tensor;
    }
  }
  return checkpoint;
}

base::Result<std::unique_ptr<Checkpoint>> Checkpoint::open_newest(const fs::path& folder) {
  TROUPE_TRY_ASSIGN(std::vector<FolderEntry> entries, list(folder));
  std::erase_if(entries, [](const FolderEntry& entry) { return !entry.manifest; });
  std::sort(entries.begin(), entries.end(),
            [](const FolderEntry& a, const FolderEntry& b) { return a.name > b.name; });
  std::vector<std::string> skipped;
  for (const FolderEntry& entry : entries) {
    auto checkpoint = open(entry.path);
    if (checkpoint.ok()) {
      checkpoint.value()->skipped_ = std::move(skipped);
      return checkpoint;
    }
    // An older one makes up for what is damaged or missing.
    const base::Errc why = checkpoint.status().code();
    if (why != base::Errc::data_loss && why != base::Errc::not_found) return checkpoint.status();
    skipped.push_back(checkpoint.status().text());
  }
  std::string text;
  for (const std::string& reason : skipped) text += "; skipped " + reason;
  return base::error(skipped.empty() ? base::Errc::not_found : base::Errc::data_loss,
                     "{}: no complete checkpoint{}", folder.string(), text);
}

const ndarray::RawTensor* Checkpoint::find(const std::string& name) const {
  const auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : it->second;
}

base::Result<std::uint64_t> Checkpoint::updates(const std::string& slice) const {
  for (const ndarray::Safetensors& file : files_) {
    const auto text = file.metadata.find(slice);
    if (text == file.metadata.end()) continue;
    std::string_view rest = text->second;
    std::uint64_t number = 0;
    if (take_number(rest, number) && rest.empty()) return number;
  }
  return base::error(base::Errc::data_loss, "{}: no number of updates of '{}'", path_.string(),
                     slice);
}

// Checksums were right, but a manifest may belong to a program that cuts keys differently: what is
// missing or has another size is damage here, never a wrong weight.
base::Result<SliceState> Checkpoint::slice(const SliceInfo& info, base::BufferPool& pool) const {
  const schemas::SliceId id = info.id;
  if (id.key >= manifest_.keys.size()) {
    return base::error(base::Errc::data_loss, "{}: no key number {}", path_.string(), id.key);
  }
  const KeyInfo& key = manifest_.keys[id.key];
  auto load = [&](std::string_view slot) -> base::Result<base::Buffer> {
    const std::string name = tensor_name(key, id.slice, slot);
    const ndarray::RawTensor* tensor = find(name);
    if (tensor == nullptr || tensor->dtype != key.dtype) {
      return base::error(base::Errc::data_loss, "{}: no tensor '{}'", path_.string(), name);
    }
    if (tensor->bytes.size() != info.bytes) {
      return base::error(base::Errc::data_loss, "{}: tensor '{}' has {} bytes, its slice {}",
                         path_.string(), name, tensor->bytes.size(), info.bytes);
    }
    TROUPE_TRY_ASSIGN(base::Buffer buffer, pool.allocate(tensor->bytes.size(), "weights"));
    std::memcpy(buffer.data(), tensor->bytes.data(), tensor->bytes.size());
    return buffer;
  };
  SliceState state;
  TROUPE_TRY_ASSIGN(state.values.weight, load(""));
  TROUPE_TRY_ASSIGN(state.updates, updates(tensor_name(key, id.slice, "")));
  if (key.kind != KeyKind::dense) return state;
  for (const std::string& slot : manifest_.optimizer_slots) {
    TROUPE_TRY_ASSIGN(base::Buffer buffer, load(slot));
    state.values.slots.push_back(std::move(buffer));
  }
  return state;
}

base::Result<std::vector<std::byte>> Checkpoint::dense(const KeyInfo& key,
                                                       std::string_view slot) const {
  const auto wanted = static_cast<std::size_t>(key.shape.elements()) * base::dtype_size(key.dtype);
  std::vector<std::byte> bytes;
  bytes.reserve(wanted);
  for (std::uint32_t slice = 0;; ++slice) {
    const ndarray::RawTensor* tensor = find(tensor_name(key, slice, slot));
    if (tensor == nullptr || tensor->dtype != key.dtype) break;
    bytes.insert(bytes.end(), tensor->bytes.begin(), tensor->bytes.end());
  }
  if (bytes.size() != wanted) {
    return base::error(base::Errc::data_loss, "{}: key '{}' has {} of {} bytes", path_.string(),
                       tensor_name(key, 0, slot), bytes.size(), wanted);
  }
  return bytes;
}

base::Status Checkpoint::hash_key(base::Sha256& sha, const KeyInfo& key) const {
  // The length first, so that different lists of names never give the same bytes.
  auto text = [&](std::string_view value) {
    sha.update_u64(value.size());
    sha.update(value);
  };
  text(key.name);
  text(base::dtype_name(key.dtype));
  sha.update_u64(static_cast<std::uint64_t>(key.shape.rank()));
  for (const std::int64_t extent : key.shape.dims()) {
    sha.update_u64(static_cast<std::uint64_t>(extent));
  }
  TROUPE_TRY_ASSIGN(const auto weights, dense(key, ""));
  sha.update(weights);
  if (key.kind != KeyKind::dense) return {};
  std::vector<std::string> slots = manifest_.optimizer_slots;
  std::sort(slots.begin(), slots.end());
  for (const std::string& slot : slots) {
    text(slot);
    TROUPE_TRY_ASSIGN(const auto values, dense(key, slot));
    sha.update(values);
  }
  return {};
}

base::Result<base::Sha256Digest> Checkpoint::hash() const {
  std::vector<KeyInfo> keys = manifest_.keys;
  std::sort(keys.begin(), keys.end(), [](const KeyInfo& a, const KeyInfo& b) {
    return std::pair(a.kind, std::string_view(a.name)) <
           std::pair(b.kind, std::string_view(b.name));
  });
  base::Sha256 sha;
  for (const KeyInfo& key : keys) TROUPE_TRY(hash_key(sha, key));
  sha.update_u64(manifest_.step);
  sha.update_u64(manifest_.epoch);
  sha.update_u64(manifest_.samples);
  return sha.finish();
}

}  // namespace troupe::store
