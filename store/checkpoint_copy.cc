// SPDX-License-Identifier: Apache-2.0
// Fetching a checkpoint's files, a chunk at a time.
#include "store/checkpoint_copy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <functional>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "base/descriptor.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mutex.h"
#include "schemas/codec.h"
#include "store/checkpoint_size.h"

namespace troupe::store {
namespace {

namespace fs = std::filesystem;
using base::Errc;
using schemas::FilePiece;

/// Files that are fetched at a time: while one waits for its machine another is written.
constexpr std::size_t kFetchersMax = 4;
/// Chunks of a file that are looked through without a word.
constexpr std::uint64_t kSilentChunks = 64;

/// Who has a file could not be asked, or nobody waits any more.
bool not_asked(Errc code) {
  return code == Errc::unavailable || code == Errc::deadline_exceeded || code == Errc::cancelled;
}

/// What is fetched is of use to the next try, which may come farther: somebody could not be asked,
/// or a disk failed. After any other error it would only fill the disk.
bool of_use(Errc code) {
  return not_asked(code) || code == Errc::io_error;
}

/// A chunk of a file, as the manifest says. What came wrong once may come right.
base::Result<std::string> ask_chunk(const schemas::ShardFile& file, std::size_t chunk,
                                    PieceSources& sources) {
  const std::uint64_t offset = chunk * kChecksumChunkBytes;
  const std::uint64_t bytes = std::min(kChecksumChunkBytes, file.bytes - offset);
  const auto check = [&](const FilePiece& piece) -> base::Status {
    const bool whole = piece.file_bytes == file.bytes && piece.bytes.size() == bytes &&
                       base::crc32c(std::as_bytes(std::span(piece.bytes))) == file.checksums[chunk];
    if (whole) return {};
    return base::error(Errc::data_loss,
                       "{}: what came of bytes {} to {} is not what the manifest says", file.name,
                       offset, offset + bytes);
  };
  auto piece = sources.ask(file.name, offset, bytes, check);
  if (piece.status().code() == Errc::data_loss) {
    piece = sources.ask(file.name, offset, bytes, check);
  }
  TROUPE_TRY(piece.status());
  return std::move(piece->bytes);
}

/// To look through a large file takes long, and nothing of it travels: whoever has the file is
/// asked for nothing of it now and then, so that those who wait for a question or an answer know of
/// it. Whoever cannot be reached is not waited for again. Cancelled: nobody waits any more.
base::Result<bool> whole_here(const fs::path& path, const schemas::ShardFile& file,
                              PieceSources& sources) {
  const auto reader = ShardReader::open(path, file);
  if (!reader.ok()) return false;
  bool heard = true;
  const auto each = [&](std::uint64_t chunk) -> base::Status {
    if (!heard || chunk % kSilentChunks != kSilentChunks - 1) return {};
    const base::Status said = sources.ask(file.name, 0, 0).status();
    heard = !not_asked(said.code());
    return said.code() == Errc::cancelled ? said : base::Status();
  };
  const base::Status verified = (*reader)->verify(each);
  if (verified.code() == Errc::cancelled) return verified;
  return verified.ok();
}

/// Under another name until it is whole: who reads there meanwhile sees the old file or the new
/// one.
base::Status fetch(const fs::path& path, const schemas::ShardFile& file, PieceSources& sources,
                   const std::atomic<bool>& stop) {
  base::AtomicFile out(path, base::FileMode::shared, base::LinkRule::replace);
  TROUPE_TRY(out.open());
  for (std::size_t chunk = 0; chunk < file.checksums.size(); ++chunk) {
    if (stop) return base::error(Errc::cancelled, "{}: another file could not be had", file.name);
    TROUPE_TRY_ASSIGN(const std::string part, ask_chunk(file, chunk, sources));
    TROUPE_TRY(out.write(std::as_bytes(std::span(part))));
  }
  return out.commit();
}

/// A file and whom to ask for it.
struct Wanted {
  const schemas::ShardFile* file;
  PieceSources* sources;
};

/// Several threads fetch files; the first error ends the others' work.
class Fetching {
 public:
  Fetching(const fs::path& folder, const std::vector<Wanted>& wanted)
      : folder_(folder), wanted_(wanted) {}

  void work() {
    for (std::size_t at = next_++; at < wanted_.size() && !stop_; at = next_++) {
      const schemas::ShardFile& file = *wanted_[at].file;
      const fs::path path = folder_ / file.name;
      const auto whole = whole_here(path, file, *wanted_[at].sources);
      if (whole.ok() && *whole) continue;
      base::Status fetched =
          whole.ok() ? fetch(path, file, *wanted_[at].sources, stop_) : whole.status();
      const base::MutexLock lock(mutex_);
      if (fetched.ok()) {
        fetched_.push_back(path);
      } else if (!stop_.exchange(true)) {
        outcome_ = std::move(fetched);
      }
    }
  }
  base::Status outcome() {
    const base::MutexLock lock(mutex_);
    return outcome_;
  }
  /// Removes what was fetched; what was there before stays.
  void undo() {
    const base::MutexLock lock(mutex_);
    std::error_code code;
    for (const fs::path& path : fetched_) fs::remove(path, code);
  }

 private:
  const fs::path& folder_;
  const std::vector<Wanted>& wanted_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> stop_{false};
  base::Mutex mutex_;
  base::Status outcome_ TROUPE_GUARDED_BY(mutex_);
  std::vector<fs::path> fetched_ TROUPE_GUARDED_BY(mutex_);
};

/// Fetches what is not whole in `folder`; then `last`, which makes a checkpoint of it.
base::Status fetch_all(const fs::path& folder, const std::vector<Wanted>& wanted,
                       const std::function<base::Status()>& last) {
  Fetching fetching(folder, wanted);
  std::vector<std::thread> others;
  const std::size_t fetchers = std::min(kFetchersMax, wanted.size());
  try {
    for (std::size_t i = 1; i < fetchers; ++i) others.emplace_back([&] { fetching.work(); });
  } catch (const std::system_error& error) {
    base::log_warn("copies checkpoints with fewer threads: {}", error.what());
  }
  fetching.work();
  for (std::thread& other : others) other.join();
  base::Status outcome = fetching.outcome();
  if (outcome.ok()) outcome = base::sync_folder(folder);
  if (outcome.ok()) outcome = last();
  if (!outcome.ok() && !of_use(outcome.code())) fetching.undo();
  return outcome;
}

/// Nobody has said what it must be; it says so itself, and its decoding checks it.
base::Result<schemas::Manifest> fetch_manifest(const CheckpointName& name, const AskPiece& ask) {
  const std::string file = manifest_path(name.to_string()).string();
  std::string text;
  while (true) {
    TROUPE_TRY_ASSIGN(const FilePiece piece, ask(file, text.size(), schemas::kPieceBytesMax));
    text += piece.bytes;
    if (text.size() == piece.file_bytes) break;
    if (piece.bytes.empty() || text.size() > piece.file_bytes ||
        piece.file_bytes > schemas::kManifestBytesMax) {
      return base::error(Errc::data_loss, "{}: {} bytes came, {} were said to be there", file,
                         text.size(), piece.file_bytes);
    }
  }
  auto manifest = schemas::decode_manifest(text);
  if (!manifest.ok()) return manifest.status().with_context(file);
  if (CheckpointName{manifest->step, manifest->generation} != name) {
    return base::error(Errc::data_loss, "{}: is of step {} and generation {}", file, manifest->step,
                       manifest->generation);
  }
  return manifest;
}

/// What others say is a file of the checkpoint is one, and its sums are as many as it has chunks.
base::Status check_file(const CheckpointName& name, const schemas::ShardFile& file) {
  const bool named =
      is_checkpoint_file(file.name) && file.name.starts_with(name.to_string() + "-shard-");
  const std::uint64_t chunks =
      file.bytes / kChecksumChunkBytes + (file.bytes % kChecksumChunkBytes == 0 ? 0 : 1);
  if (named && file.chunk_bytes == kChecksumChunkBytes && file.checksums.size() == chunks)
    return {};
  return base::error(Errc::data_loss, "the manifest of {} names '{}' of {} bytes with {} checksums",
                     name.to_string(), file.name, file.bytes, file.checksums.size());
}

/// The first manifest that is wanted. Machines may hold checkpoints of two jobs by one name.
base::Result<schemas::Manifest> wanted_manifest(const CheckpointCopy& copy) {
  base::Status why = base::error(Errc::not_found, "nobody has {}", copy.name.to_string());
  for (const AskPiece& ask : copy.of_manifest) {
    auto manifest = fetch_manifest(copy.name, ask);
    const base::Status judged =
        manifest.ok() && copy.judge ? copy.judge(*manifest) : manifest.status();
    if (judged.ok()) return manifest;
    if (leaves_more_hope(judged.code(), why.code())) why = judged;
  }
  return why;
}

base::Status make_room(const CheckpointCopy& copy) {
  if (!copy.retention) return remove_unfinished(copy.folder);
  return make_room(copy.folder, *copy.retention, copy.name.generation);
}

base::Result<CheckpointName> name_of(const std::string& checkpoint) {
  const auto name = parse_checkpoint_name(checkpoint);
  if (name) return *name;
  return base::error(Errc::invalid_argument, "'{}' is no name of a checkpoint", checkpoint);
}

}  // namespace

base::Result<FilePiece> read_piece(const fs::path& folder, const std::string& file,
                                   std::uint64_t offset, std::uint64_t bytes) {
  if (!is_checkpoint_file(file)) {
    return base::error(Errc::invalid_argument, "'{}' is no file of a checkpoint", file);
  }
  const fs::path path = folder / file;
  const base::Descriptor in(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (in.get() < 0) return base::file_error(path, "open", errno);
  struct stat info {};
  if (::fstat(in.get(), &info) != 0) return base::file_error(path, "stat", errno);
  if (!S_ISREG(info.st_mode)) {
    return base::error(Errc::invalid_argument, "{}: is no regular file", path.string());
  }
  FilePiece piece;
  piece.file_bytes = static_cast<std::uint64_t>(info.st_size);
  if (offset >= piece.file_bytes) return piece;
  piece.bytes.resize(std::min({bytes, schemas::kPieceBytesMax, piece.file_bytes - offset}));
  for (std::size_t done = 0; done < piece.bytes.size();) {
    const ssize_t n = ::pread(in.get(), piece.bytes.data() + done, piece.bytes.size() - done,
                              static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return base::file_error(path, "read", errno);
    if (n == 0) return base::error(Errc::data_loss, "{}: became shorter", path.string());
    done += static_cast<std::size_t>(n);
  }
  return piece;
}

base::Status place_checkpoint(const fs::path& folder, const std::string& checkpoint,
                              const std::vector<std::uint32_t>& positions, const AskPiece& ask) {
  TROUPE_TRY_ASSIGN(const CheckpointName name, name_of(checkpoint));
  TROUPE_TRY(base::make_folder(folder, base::FileMode::shared));
  TROUPE_TRY_ASSIGN(const schemas::Manifest manifest, fetch_manifest(name, ask));
  PieceSources sources({ask});
  std::vector<Wanted> wanted;
  for (const std::uint32_t position : positions) {
    if (position >= manifest.files.size()) {
      return base::error(Errc::data_loss, "the manifest of {} has {} files, not {}", checkpoint,
                         manifest.files.size(), position + 1);
    }
    TROUPE_TRY(check_file(name, manifest.files[position]));
    wanted.push_back({&manifest.files[position], &sources});
  }
  return fetch_all(folder, wanted, [&] { return write_manifest(folder, manifest); });
}

base::Status collect_checkpoint(const CheckpointCopy& copy) {
  TROUPE_TRY(base::make_folder(copy.folder, base::FileMode::shared));
  TROUPE_TRY_ASSIGN(const schemas::Manifest manifest, wanted_manifest(copy));
  TROUPE_TRY(check_sizes(manifest, copy.bytes_most));
  PieceSources any(copy.of_manifest);
  std::deque<PieceSources> by_shard;
  for (const AskPiece& ask : copy.of_shard) by_shard.emplace_back(std::vector<AskPiece>{ask});
  std::vector<Wanted> wanted;
  for (const schemas::ShardFile& file : manifest.files) {
    TROUPE_TRY(check_file(copy.name, file));
    if (by_shard.empty()) {
      wanted.push_back({&file, &any});
    } else if (file.shard < by_shard.size()) {
      wanted.push_back({&file, &by_shard[file.shard]});
    } else {
      return base::error(Errc::data_loss, "the manifest of {} names shard {} of {}",
                         copy.name.to_string(), file.shard, copy.of_shard.size());
    }
  }
  const base::Status made = make_room(copy);
  if (!made.ok()) base::log_warn("old checkpoints stay: {}", made.text());
  const auto last = [&] {
    return complete_checkpoint(copy.folder, manifest, copy.retention.value_or(Retention()));
  };
  base::Status copied = fetch_all(copy.folder, wanted, last);
  if (copied.code() != Errc::resource_exhausted || !copy.retention) return copied;
  // What earlier runs have left stayed, as machines might hold the rest. This run has begun
  // without.
  Retention alone = *copy.retention;
  alone.copies = false;
  const base::Status more = make_room(copy.folder, alone, copy.name.generation);
  if (!more.ok()) base::log_warn("old checkpoints stay: {}", more.text());
  return fetch_all(copy.folder, wanted, last);
}

base::Status drop_checkpoint(const fs::path& folder, const std::string& checkpoint, bool older) {
  TROUPE_TRY_ASSIGN(const CheckpointName name, name_of(checkpoint));
  return older ? remove_older(folder, name) : remove_checkpoint(folder, name);
}

}  // namespace troupe::store
