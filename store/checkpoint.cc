// SPDX-License-Identifier: Apache-2.0
// Writing, finding, verifying, hashing and pruning checkpoints.
#include "store/checkpoint.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <functional>
#include <iterator>
#include <map>
#include <set>

#include "base/file.h"
#include "base/log.h"
#include "base/units.h"
#include "schemas/codec.h"
#include "store/checkpoint_size.h"
#include "store/shard_writer.h"

namespace troupe::store {
namespace {

namespace fs = std::filesystem;
using schemas::KeyInfo;
using schemas::KeyKind;

constexpr std::string_view kManifestSuffix = ".manifest";
constexpr std::string_view kDamagedSuffix = ".manifest.damaged";
constexpr std::size_t kSkippedTold = 8;  // one by one; there may be very many

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
  bool set_aside = false;   // a manifest that is believed no more
  bool unfinished = false;  // under another name until it is whole
  bool file = true;         // no folder, which no run has made
};

base::Result<std::vector<FolderEntry>> list(const fs::path& folder) {
  std::vector<FolderEntry> entries;
  std::error_code code;
  fs::directory_iterator files(folder, code);
  for (; !code && files != fs::directory_iterator(); files.increment(code)) {
    const std::string file = files->path().filename().string();
    std::string_view rest;
    const auto name = parse_name(file, rest);
    if (!name || !(rest == kManifestSuffix || rest == kDamagedSuffix ||
                   rest.starts_with("-shard-") || rest.starts_with(".manifest.tmp-"))) {
      continue;
    }
    std::error_code unknown;
    entries.push_back({*name, files->path(), rest == kManifestSuffix, rest == kDamagedSuffix,
                       rest.find(".tmp-") != std::string_view::npos,
                       !files->is_directory(unknown)});
  }
  if (code) {
    return base::error(base::errc_of_errno(code.value()), "{}: cannot be listed: {}",
                       folder.string(), code.message());
  }
  return entries;
}

/// What an earlier run wrote of a step behind this run's start was unreadable when it began.
bool readable(const FolderEntry& entry, const Retention& retention, std::uint64_t generation) {
  return entry.name.generation >= generation || entry.name.step <= retention.start_step;
}

/// A crash in between must not leave a manifest without its files, which would look like damage: so
/// manifests go first, and one that stays keeps its files. Several processes may remove the same.
/// What cannot be removed hinders nothing else; the first error.
base::Status remove_entries(const std::vector<FolderEntry>& entries,
                            const std::function<bool(const FolderEntry&)>& chosen) {
  base::Status first;
  std::set<CheckpointName> staying;
  for (const bool manifests : {true, false}) {
    for (const FolderEntry& entry : entries) {
      if (entry.manifest != manifests || staying.contains(entry.name) || !chosen(entry)) continue;
      std::error_code code;
      fs::remove(entry.path, code);
      if (!code) continue;
      if (manifests) staying.insert(entry.name);
      if (!first.ok()) continue;
      first = base::error(base::errc_of_errno(code.value()), "{}: cannot be removed: {}",
                          entry.path.string(), code.message());
    }
  }
  return first;
}

/// Chooses files without a manifest of runs before `generation`.
std::function<bool(const FolderEntry&)> leavings(const std::vector<FolderEntry>& entries,
                                                 std::uint64_t generation) {
  std::set<CheckpointName> manifests;
  for (const FolderEntry& entry : entries) {
    if (entry.manifest || entry.set_aside) manifests.insert(entry.name);
  }
  return [generation, manifests = std::move(manifests)](const FolderEntry& entry) {
    return entry.name.generation < generation && !manifests.contains(entry.name);
  };
}

/// Of an error that leaves open whether a checkpoint is whole it is not known.
std::optional<bool> whole(const fs::path& manifest) {
  const base::Errc code = Checkpoint::open(manifest, CheckpointCheck::sizes).status().code();
  if (code == base::Errc::ok) return true;
  if (code == base::Errc::data_loss || code == base::Errc::not_found) return false;
  return std::nullopt;
}

/// Manifests that count, newest first.
std::map<CheckpointName, fs::path, std::greater<>> counted(const std::vector<FolderEntry>& entries,
                                                           const Retention& retention,
                                                           std::uint64_t generation) {
  std::map<CheckpointName, fs::path, std::greater<>> manifests;
  for (const FolderEntry& entry : entries) {
    if (entry.manifest && readable(entry, retention, generation)) {
      manifests.emplace(entry.name, entry.path);
    }
  }
  return manifests;
}

/// Looking at sizes is work for a slow folder: it is done when something would go.
std::set<CheckpointName> kept(const std::map<CheckpointName, fs::path, std::greater<>>& manifests,
                              std::uint32_t keep) {
  std::set<CheckpointName> names;
  std::size_t complete = 0;
  for (const auto& [name, path] : manifests) {
    if (complete == keep) break;
    const auto is_whole = manifests.size() > keep ? whole(path) : std::optional(true);
    if (is_whole == false) continue;
    names.insert(name);
    if (is_whole) ++complete;
  }
  return names;
}

/// Removes what a coordinator with copies does not need; see make_room().
base::Status remove_leavings_of_copies(const std::vector<FolderEntry>& entries,
                                       const Retention& retention, std::uint64_t generation) {
  const auto manifests = counted(entries, retention, generation);
  const auto newest = std::find_if(manifests.begin(), manifests.end(), [](const auto& manifest) {
    return whole(manifest.second) == true;
  });
  std::set<CheckpointName> named;
  for (const FolderEntry& entry : entries) {
    if (entry.manifest || entry.set_aside) named.insert(entry.name);
  }
  return remove_entries(entries, [&](const FolderEntry& entry) {
    if (entry.unfinished && entry.name.generation < generation) return true;
    return newest != manifests.end() && entry.name < newest->first && !named.contains(entry.name);
  });
}

/// What the leavings of runs before `generation` hold.
base::Result<std::uint64_t> bytes_left(const fs::path& folder, std::uint64_t generation) {
  TROUPE_TRY_ASSIGN(const std::vector<FolderEntry> entries, list(folder));
  const auto left = leavings(entries, generation);
  std::uint64_t bytes = 0;
  for (const FolderEntry& entry : entries) {
    if (!left(entry)) continue;
    std::error_code code;
    const std::uint64_t size = fs::file_size(entry.path, code);
    if (!code) bytes += size;
  }
  return bytes;
}

/// Of files without a manifest, too: they are of a run that was killed, and leavings() of the next.
std::uint64_t highest_of(const std::vector<FolderEntry>& entries) {
  std::uint64_t highest = 0;
  for (const FolderEntry& entry : entries) {
    if (entry.file) highest = std::max(highest, entry.name.generation);
  }
  return highest;
}

}  // namespace

std::string CheckpointName::to_string() const {
  return schemas::checkpoint_name(step, generation);
}

std::optional<CheckpointName> parse_checkpoint_name(std::string_view text) {
  std::string_view rest;
  const auto name = parse_name(text, rest);
  return name && name->to_string() == text ? name : std::nullopt;
}

bool is_checkpoint_file(std::string_view file) {
  std::string_view rest;
  if (!parse_name(file, rest)) return false;
  const bool plain = std::all_of(rest.begin(), rest.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '.';
  });
  return plain && (rest == kManifestSuffix ||
                   (rest.starts_with("-shard-") && rest.ends_with(".safetensors")));
}

base::Status write_manifest(const fs::path& folder, const schemas::Manifest& manifest) {
  const CheckpointName name{manifest.step, manifest.generation};
  TROUPE_TRY_ASSIGN(const std::string bytes, schemas::encode_manifest(manifest));
  const auto again = schemas::decode_manifest(bytes);
  if (!again.ok()) return again.status().with_context("a manifest that nobody could read");
  const fs::path path = manifest_path(folder / name.to_string());
  return base::write_file_atomically(path, std::as_bytes(std::span(bytes)), base::FileMode::shared,
                                     base::LinkRule::replace);
}

base::Status prune_checkpoints(const fs::path& folder, const Retention& retention,
                               const CheckpointName& written) {
  if (retention.keep == 0) return {};
  TROUPE_TRY_ASSIGN(const std::vector<FolderEntry> entries, list(folder));
  auto manifests = counted(entries, retention, written.generation);
  manifests.erase(manifests.begin(), manifests.lower_bound(written));  // what is newer
  const std::set<CheckpointName> complete = kept(manifests, retention.keep);
  return remove_entries(entries, [&](const FolderEntry& entry) {
    return entry.name < written && !complete.contains(entry.name);
  });
}

base::Status make_room(const fs::path& folder, const Retention& retention,
                       std::uint64_t generation) {
  TROUPE_TRY_ASSIGN(const std::vector<FolderEntry> entries, list(folder));
  const auto manifests = counted(entries, retention, generation);
  base::Status pruned;
  if (!manifests.empty()) {
    pruned = prune_checkpoints(folder, retention, manifests.begin()->first);
  }
  const base::Status left = retention.copies
                                ? remove_leavings_of_copies(entries, retention, generation)
                                : remove_entries(entries, leavings(entries, generation));
  return pruned.ok() ? left : pruned;
}

base::Status remove_unfinished(const fs::path& folder) {
  TROUPE_TRY_ASSIGN(const std::vector<FolderEntry> entries, list(folder));
  return remove_entries(entries, [](const FolderEntry& entry) { return entry.unfinished; });
}

base::Status remove_checkpoint(const fs::path& folder, const CheckpointName& name) {
  TROUPE_TRY_ASSIGN(const std::vector<FolderEntry> entries, list(folder));
  return remove_entries(entries, [&](const FolderEntry& entry) { return entry.name == name; });
}

base::Status remove_older(const fs::path& folder, const CheckpointName& name) {
  TROUPE_TRY_ASSIGN(const std::vector<FolderEntry> entries, list(folder));
  return remove_entries(entries, [&](const FolderEntry& entry) { return entry.name < name; });
}

base::Status check_folder(const fs::path& folder, std::uint64_t bytes, std::uint64_t generation) {
  {
    base::AtomicFile probe(folder / ".probe", base::FileMode::shared, base::LinkRule::replace);
    TROUPE_TRY(probe.open());
    TROUPE_TRY(probe.write(std::as_bytes(std::span(std::string_view("may be removed")))));
  }
  std::error_code code;
  const fs::space_info space = fs::space(folder, code);
  if (code) {
    return base::error(base::errc_of_errno(code.value()), "{}: no word of its free space: {}",
                       folder.string(), code.message());
  }
  if (space.capacity == 0) return {};  // it has no idea
  TROUPE_TRY_ASSIGN(const std::uint64_t left, bytes_left(folder, generation));
  if (space.available + left >= bytes) return {};
  return base::error(base::Errc::resource_exhausted, "{}: a checkpoint takes {}, {} are free",
                     folder.string(), base::format_bytes(bytes),
                     base::format_bytes(space.available));
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
  const std::uint64_t highest = highest_of(entries);
  if (highest < schemas::kGenerationMax) return highest;  // there is one more
  return base::error(base::Errc::failed_precondition,
                     "{}: a checkpoint of generation {}, at most {}", folder.string(), highest,
                     schemas::kGenerationMax - 1);
}

FolderManifests folder_manifests(const fs::path& folder) {
  FolderManifests found;
  const auto entries = list(folder);
  if (!entries.ok()) return found;
  for (const FolderEntry& entry : *entries) {
    if (entry.manifest) found.newest.push_back(entry.name);
    found.set_aside = found.set_aside || entry.set_aside;
  }
  std::sort(found.newest.begin(), found.newest.end(), std::greater<>());
  found.newest.resize(std::min(found.newest.size(), kNewestNames));
  found.highest_generation = highest_of(*entries);
  return found;
}

fs::path manifest_path(fs::path checkpoint) {
  if (checkpoint.extension() != kManifestSuffix) checkpoint += kManifestSuffix;
  return checkpoint;
}

base::Result<std::unique_ptr<Checkpoint>> Checkpoint::open(const fs::path& file,
                                                           CheckpointCheck check) {
  TROUPE_TRY(open_checkpoint_file(file, schemas::kManifestBytesMax).status());
  TROUPE_TRY_ASSIGN(const std::string bytes, base::read_text_file(file, schemas::kManifestBytesMax,
                                                                  base::FileKind::no_link));
  auto manifest = schemas::decode_manifest(bytes);
  if (!manifest.ok()) return manifest.status().with_context(file.string());
  std::unique_ptr<Checkpoint> checkpoint(new Checkpoint());
  checkpoint->manifest_ = std::move(manifest).value();
  checkpoint->path_ = file;
  TROUPE_TRY(checkpoint->check_files(check));
  const schemas::Manifest& read = checkpoint->manifest_;
  TROUPE_TRY(check_keys(read).with_context(file.string()));
  auto layout = SliceLayout::create(read.keys, static_cast<std::uint32_t>(read.files.size()));
  if (layout.ok()) checkpoint->layout_ = std::move(layout).value();
  return checkpoint;
}

base::Status Checkpoint::check_files(CheckpointCheck check) const {
  if (check == CheckpointCheck::manifest) return {};
  for (const schemas::ShardFile& file : manifest_.files) {
    TROUPE_TRY_ASSIGN(const auto reader, ShardReader::open(path_.parent_path() / file.name, file));
    if (check == CheckpointCheck::contents) TROUPE_TRY(reader->verify());
  }
  return {};
}

base::Result<std::unique_ptr<Checkpoint>> Checkpoint::open_newest(const fs::path& folder,
                                                                  CheckpointCheck check) {
  TROUPE_TRY_ASSIGN(std::vector<FolderEntry> entries, list(folder));
  std::erase_if(entries, [](const FolderEntry& entry) { return !entry.manifest; });
  std::sort(entries.begin(), entries.end(),
            [](const FolderEntry& a, const FolderEntry& b) { return a.name > b.name; });
  std::vector<std::string> skipped;
  std::size_t more = 0;
  for (const FolderEntry& entry : entries) {
    auto checkpoint = open(entry.path, check);
    if (checkpoint.ok()) {
      checkpoint.value()->skipped_ = std::move(skipped);
      return checkpoint;
    }
    // An older one makes up for what is damaged or missing.
    const base::Errc why = checkpoint.status().code();
    if (why != base::Errc::data_loss && why != base::Errc::not_found) return checkpoint.status();
    if (skipped.size() > kSkippedTold) skipped.pop_back();
    const bool told = skipped.size() < kSkippedTold;
    skipped.push_back(told ? checkpoint.status().text() : fmt::format("{} more", ++more));
  }
  std::string text;
  for (const std::string& reason : skipped) text += "; skipped " + reason;
  return base::error(skipped.empty() ? base::Errc::not_found : base::Errc::data_loss,
                     "{}: no complete checkpoint{}", folder.string(), text);
}

base::Result<std::shared_ptr<const ShardReader>> Checkpoint::reader(std::size_t file) const {
  const base::MutexLock lock(mutex_);
  auto found = readers_.find(file);
  if (found == readers_.end()) {
    const schemas::ShardFile& named = manifest_.files[file];
    TROUPE_TRY_ASSIGN(auto opened, ShardReader::open(path_.parent_path() / named.name, named));
    if (readers_.size() == kOpenFilesMax) {
      readers_.erase(std::ranges::min_element(
          readers_, {}, [](const auto& entry) { return entry.second.asked; }));
    }
    found = readers_.emplace(file, OpenFile{std::move(opened), 0}).first;
  }
  found->second.asked = ++asked_;
  return found->second.reader;
}

/// The writers' layout says which file holds the slice. A manifest may belong to a program that
/// places slices differently: then all files are asked. One that is not on this machine is an error
/// only when the slice is in none of the others.
base::Result<Checkpoint::Found> Checkpoint::find(const KeyInfo& key, std::uint32_t slice,
                                                 std::string_view slot) const {
  const std::string name = tensor_name(key, slice, slot);
  base::Status absent;
  const auto look = [&](std::size_t file) -> base::Result<Found> {
    const auto holder = reader(file);
    if (holder.status().code() == base::Errc::not_found) {
      absent = holder.status();
      return Found{};
    }
    TROUPE_TRY(holder.status());
    TROUPE_TRY_ASSIGN(const auto tensor, (*holder)->find(name));
    return tensor ? Found{*holder, *tensor} : Found{};
  };
  std::optional<std::size_t> first;
  if (layout_ && layout_->contains({key.id, slice})) first = layout_->info({key.id, slice}).shard;
  if (first) {
    TROUPE_TRY_ASSIGN(const Found found, look(*first));
    if (found.file != nullptr) return found;
  }
  for (std::size_t file = 0; file < manifest_.files.size(); ++file) {
    if (file == first) continue;
    TROUPE_TRY_ASSIGN(const Found found, look(file));
    if (found.file != nullptr) return found;
  }
  TROUPE_TRY(absent);
  return Found{};
}

// One file is open at a time: there may be as many as shards.
base::Result<std::vector<std::vector<std::uint32_t>>> Checkpoint::files_by_shard(
    const SliceLayout& layout) const {
  std::vector<std::set<std::uint32_t>> found(layout.shards());
  std::multimap<std::size_t, const SliceInfo*> sought;  // by the file that should have it
  for (const SliceInfo& slice : layout.slices()) {
    const bool known = layout_ && layout_->contains(slice.id);
    sought.emplace(known ? layout_->info(slice.id).shard : 0, &slice);
  }
  for (const bool anywhere : {false, true}) {  // first where it should be
    for (std::uint32_t file = 0; file < manifest_.files.size() && !sought.empty(); ++file) {
      const auto [begin, end] =
          anywhere ? std::pair(sought.begin(), sought.end()) : sought.equal_range(file);
      if (begin == end) continue;
      const schemas::ShardFile& named = manifest_.files[file];
      TROUPE_TRY_ASSIGN(const auto holder,
                        ShardReader::open(path_.parent_path() / named.name, named));
      for (auto slice = begin; slice != end;) {
        const schemas::SliceId& id = slice->second->id;
        TROUPE_TRY_ASSIGN(const auto tensor,
                          holder->find(tensor_name(manifest_.keys.at(id.key), id.slice, "")));
        if (tensor) found[slice->second->shard].insert(file);
        slice = tensor ? sought.erase(slice) : std::next(slice);
      }
    }
  }
  if (!sought.empty()) {
    const schemas::SliceId& id = sought.begin()->second->id;
    return base::error(base::Errc::data_loss, "{}: no tensor '{}'", path_.string(),
                       tensor_name(manifest_.keys.at(id.key), id.slice, ""));
  }
  std::vector<std::vector<std::uint32_t>> files;
  for (const auto& positions : found) files.emplace_back(positions.begin(), positions.end());
  return files;
}

base::Result<std::uint64_t> Checkpoint::updates(const ShardReader& file,
                                                const std::string& slice) const {
  TROUPE_TRY_ASSIGN(const auto text, file.metadata(slice));
  std::string_view rest = text ? *text : std::string_view();
  std::uint64_t number = 0;
  if (take_number(rest, number) && rest.empty()) return number;
  return base::error(base::Errc::data_loss, "{}: no number of updates of '{}'", path_.string(),
                     slice);
}

// Checksums may be right and yet a manifest belong to a program that cuts keys differently: what is
// missing or has another size is damage here, never a wrong weight.
base::Result<SliceState> Checkpoint::slice(const SliceInfo& info, base::BufferPool& pool) const {
  const schemas::SliceId id = info.id;
  if (id.key >= manifest_.keys.size()) {
    return base::error(base::Errc::data_loss, "{}: no key number {}", path_.string(), id.key);
  }
  const KeyInfo& key = manifest_.keys[id.key];
  std::shared_ptr<const ShardReader> holder;
  auto load = [&](std::string_view slot) -> base::Result<base::Buffer> {
    TROUPE_TRY_ASSIGN(const Found found, find(key, id.slice, slot));
    const std::string name = tensor_name(key, id.slice, slot);
    if (found.file == nullptr || found.tensor.dtype != key.dtype) {
      return base::error(base::Errc::data_loss, "{}: no tensor '{}'", path_.string(), name);
    }
    const std::uint64_t bytes = found.tensor.end - found.tensor.begin;
    if (bytes != info.bytes) {
      return base::error(base::Errc::data_loss, "{}: tensor '{}' has {} bytes, its slice {}",
                         path_.string(), name, bytes, info.bytes);
    }
    TROUPE_TRY_ASSIGN(base::Buffer buffer, pool.allocate(info.bytes, "weights"));
    TROUPE_TRY(found.file->read(found.tensor, buffer.as<std::byte>()));
    holder = found.file;
    return buffer;
  };
  SliceState state;
  TROUPE_TRY_ASSIGN(state.values.weight, load(""));
  TROUPE_TRY_ASSIGN(state.updates, updates(*holder, tensor_name(key, id.slice, "")));
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
  for (std::uint32_t slice = 0; bytes.size() < wanted; ++slice) {
    TROUPE_TRY_ASSIGN(const Found found, find(key, slice, slot));
    if (found.file == nullptr || found.tensor.dtype != key.dtype) break;
    const std::size_t begin = bytes.size();
    const std::uint64_t more = found.tensor.end - found.tensor.begin;
    if (more > wanted - begin) {
      return base::error(base::Errc::data_loss, "{}: key '{}' has more than its {} bytes",
                         path_.string(), tensor_name(key, 0, slot), wanted);
    }
    bytes.resize(begin + static_cast<std::size_t>(more));
    TROUPE_TRY(found.file->read(found.tensor, std::span(bytes).subspan(begin)));
  }
  if (bytes.size() != wanted) {
    return base::error(base::Errc::data_loss, "{}: key '{}' has {} of {} bytes", path_.string(),
                       tensor_name(key, 0, slot), bytes.size(), wanted);
  }
  return bytes;
}

base::Status Checkpoint::set_aside() const {
  fs::path aside = path_;
  aside.replace_extension(kDamagedSuffix);
  std::error_code code;
  fs::rename(path_, aside, code);
  if (!code || code == std::errc::no_such_file_or_directory) return {};  // another server did
  return base::error(base::errc_of_errno(code.value()), "{}: cannot be renamed: {}", path_.string(),
                     code.message());
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
