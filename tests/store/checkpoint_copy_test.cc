// SPDX-License-Identifier: Apache-2.0
// Checkpoints between folders: what is fetched, what is believed, what is left after a fault.
#include "store/checkpoint_copy.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "base/hash.h"
#include "schemas/codec.h"
#include "storage/storage.h"
#include "store/shard_writer.h"
#include "tests/support/catch.h"
#include "tests/support/test_folder.h"

namespace troupe::store {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using schemas::FilePiece;

const CheckpointName kName{500, 3};

/// Two keys of two megabytes and a bit, on two shards; each slice's bytes are its own.
struct World {
  TestFolder folder{"checkpoint-copy"};
  fs::path a = folder.path() / "a";
  fs::path b = folder.path() / "b";
  fs::path kept = folder.path() / "kept";
  storage::Storage storage;
  std::vector<schemas::KeyInfo> keys = {{0, "w", base::Shape{600'000}},
                                        {1, "v", base::Shape{600'000}}};
  SliceLayout layout = SliceLayout::create(keys, 2).value();
  schemas::Manifest manifest;
  std::atomic<int> asked{0};

  World() {
    fs::create_directories(a);
    fs::create_directories(b);
    manifest.step = kName.step;
    manifest.generation = kName.generation;
    manifest.keys = keys;
    manifest.files = {write(a, 0), write(b, 1)};
    REQUIRE(write_manifest(a, manifest).ok());
  }

  schemas::ShardFile write(const fs::path& where, std::uint32_t shard) {
    std::vector<SliceRecord> slices;
    for (const SliceInfo& info : layout.slices()) {
      if (info.shard != shard) continue;
      SliceRecord record{info.id, {}};
      record.state.values.weight =
          storage.pool(base::Device{}).allocate(info.bytes, "weights").value();
      auto values = record.state.values.weight.as<float>();
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(info.offset + i + 1'000'000 * info.id.key);
      }
      slices.push_back(std::move(record));
    }
    return write_shard(where, {kName, shard, 2, keys, {}, slices}).value();
  }

  AskPiece from(const fs::path& where) {
    return [this, where](const std::string& file, std::uint64_t offset, std::uint64_t bytes) {
      ++asked;
      return read_piece(where, file, offset, bytes);
    };
  }
  CheckpointCopy copy() {
    return {kept, kName, Retention{1, 0, true}, {from(a)}, {from(a), from(b)}, {}, 0};
  }
  /// Of what machines hold from before.
  CheckpointCopy gathered() { return {kept, kName, {}, {from(b), from(a)}, {}, {}, 0}; }
};

TEST_CASE("a copy is the same checkpoint, and older ones go", "[checkpoint_copy]") {
  World world;
  fs::create_directories(world.kept);
  std::ofstream(world.kept / "step-400-g3.manifest");
  REQUIRE(collect_checkpoint(world.copy()).ok());
  CHECK_FALSE(fs::exists(world.kept / "step-400-g3.manifest"));
  const auto kept = Checkpoint::open_newest(world.kept);
  REQUIRE(kept.ok());
  CHECK((*kept)->manifest() == world.manifest);
  const auto bytes = (*kept)->dense(world.keys[1], "").value();
  const float* values = reinterpret_cast<const float*>(bytes.data());
  CHECK(values[599'999] == 1'599'999.0F);
  // Once more: nothing but the manifest travels.
  world.asked = 0;
  REQUIRE(collect_checkpoint(world.copy()).ok());
  CHECK(world.asked == 1);
}

TEST_CASE("a machine gets the files that it lacks, and reads its slices from them",
          "[checkpoint_copy]") {
  World world;
  REQUIRE(collect_checkpoint(world.copy()).ok());
  const auto kept = Checkpoint::open_newest(world.kept).value();
  // As many shards as there were: each needs its own file.
  CHECK(kept->files_by_shard(world.layout).value() ==
        std::vector<std::vector<std::uint32_t>>{{0}, {1}});
  // One shard needs both.
  const SliceLayout one = SliceLayout::create(world.keys, 1).value();
  CHECK(kept->files_by_shard(one).value() == std::vector<std::vector<std::uint32_t>>{{0, 1}});

  const fs::path c = world.folder.path() / "c";
  REQUIRE(place_checkpoint(c, "step-500-g3", {1}, world.from(world.kept)).ok());
  CHECK_FALSE(fs::exists(c / world.manifest.files[0].name));
  const auto placed =
      Checkpoint::open(c / "step-500-g3.manifest", CheckpointCheck::manifest).value();
  for (const SliceInfo& info : world.layout.slices()) {
    const auto state = placed->slice(info, world.storage.pool(base::Device{}));
    INFO(info.id.key << "/" << info.id.slice);
    CHECK(state.ok() == (info.shard == 1));
    // Not damage: nobody may set the checkpoint aside for it.
    if (info.shard == 0) CHECK(state.status().code() == base::Errc::not_found);
  }
  // The whole one is no whole one here.
  CHECK_FALSE(Checkpoint::open(c / "step-500-g3.manifest", CheckpointCheck::sizes).ok());
}

TEST_CASE("what is damaged here is fetched anew, what is whole is not", "[checkpoint_copy]") {
  World world;
  REQUIRE(collect_checkpoint(world.copy()).ok());
  const fs::path damaged = world.a / world.manifest.files[0].name;
  {
    std::fstream file(damaged, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(1'500'000);
    file.put('x');
  }
  world.asked = 0;
  REQUIRE(place_checkpoint(world.a, "step-500-g3", {0}, world.from(world.kept)).ok());
  CHECK(world.asked > 1);
  CHECK(ShardReader::open(damaged, world.manifest.files[0]).value()->verify().ok());
  world.asked = 0;
  REQUIRE(place_checkpoint(world.a, "step-500-g3", {0}, world.from(world.kept)).ok());
  CHECK(world.asked == 1);  // the manifest
}

TEST_CASE("bytes that the manifest does not confirm are not kept", "[checkpoint_copy]") {
  World world;
  CheckpointCopy copy = world.copy();
  const auto lie = [&](const std::function<void(FilePiece&)>& change) {
    copy.of_shard[1] = [change, ask = world.from(world.b)](
                           const std::string& file, std::uint64_t offset,
                           std::uint64_t bytes) -> base::Result<FilePiece> {
      auto piece = ask(file, offset, bytes);
      if (piece.ok()) change(*piece);
      return piece;
    };
    const base::Status collected = collect_checkpoint(copy);
    CHECK(Checkpoint::open_newest(world.kept).status().code() == base::Errc::not_found);
    CHECK(fs::is_empty(world.kept));
    return collected;
  };
  CHECK(lie([](FilePiece& piece) { piece.bytes[7] ^= 1; }).code() == base::Errc::data_loss);
  CHECK(lie([](FilePiece& piece) { piece.bytes.pop_back(); }).code() == base::Errc::data_loss);
  CHECK(lie([](FilePiece& piece) { ++piece.file_bytes; }).code() == base::Errc::data_loss);
  // What comes wrong once comes right when it is asked for again.
  bool once = true;
  copy.of_shard[1] = [&](const std::string& file, std::uint64_t offset,
                         std::uint64_t bytes) -> base::Result<FilePiece> {
    auto piece = read_piece(world.b, file, offset, bytes);
    if (std::exchange(once, false)) piece->bytes[0] ^= 1;
    return piece;
  };
  CHECK(collect_checkpoint(copy).ok());
}

TEST_CASE("a copy that fails takes nothing away that was there", "[checkpoint_copy]") {
  World world;
  fs::create_directories(world.kept);
  const std::string& file = world.manifest.files[0].name;
  fs::copy_file(world.a / file, world.kept / file);
  CheckpointCopy copy = world.copy();
  copy.of_shard[1] = [](const std::string&, std::uint64_t, std::uint64_t) {
    return base::Result<FilePiece>(base::error(base::Errc::unavailable, "gone"));
  };
  CHECK(collect_checkpoint(copy).code() == base::Errc::unavailable);
  CHECK(fs::exists(world.kept / file));
  CHECK(std::distance(fs::directory_iterator(world.kept), {}) == 1);
  // From wherever the files are.
  CHECK(collect_checkpoint(world.gathered()).ok());
  CHECK(folder_manifests(world.kept).newest == std::vector{kName});
  CHECK(folder_manifests(world.kept).highest_generation == kName.generation);
}

TEST_CASE("a machine that cannot answer ends the copy with its reason", "[checkpoint_copy]") {
  World world;
  CheckpointCopy copy = world.copy();
  copy.of_shard[0] = [](const std::string&, std::uint64_t,
                        std::uint64_t) -> base::Result<FilePiece> {
    return base::error(base::Errc::deadline_exceeded, "machine 'a' says nothing");
  };
  const base::Status late = collect_checkpoint(copy);
  CHECK(late.code() == base::Errc::deadline_exceeded);
  CHECK(late.text() == "machine 'a' says nothing");
  CHECK_FALSE(fs::exists(world.kept / world.manifest.files[0].name));
}

TEST_CASE("what came whole stays for the next try, unless it only fills the disk",
          "[checkpoint_copy]") {
  World world;
  const auto fails_after_the_other = [&](base::Errc code) {
    CheckpointCopy copy = world.copy();
    copy.of_shard[1] = [&world, code](const std::string&, std::uint64_t,
                                      std::uint64_t) -> base::Result<FilePiece> {
      const fs::path other = world.kept / world.manifest.files[0].name;
      while (!fs::exists(other)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return base::error(code, "no more");
    };
    return collect_checkpoint(copy).code();
  };
  for (const base::Errc code :
       {base::Errc::data_loss, base::Errc::resource_exhausted, base::Errc::not_found}) {
    CHECK(fails_after_the_other(code) == code);
    CHECK(fs::is_empty(world.kept));
  }
  const base::Errc later = GENERATE(base::Errc::cancelled, base::Errc::io_error);
  CHECK(fails_after_the_other(later) == later);
  CheckpointCopy copy = world.copy();
  copy.of_shard[0] = [](const std::string& file, std::uint64_t,
                        std::uint64_t) -> base::Result<FilePiece> {
    return base::error(base::Errc::internal, "{} was asked for again", file);
  };
  CHECK(collect_checkpoint(copy).ok());
}

TEST_CASE("of another job nothing is fetched, and nothing goes for it", "[checkpoint_copy]") {
  World world;
  fs::create_directories(world.kept);
  for (const char* name : {"step-400-g3.manifest", "step-400-g3-shard-0-of-1.safetensors"}) {
    std::ofstream(world.kept / name);
  }
  std::ofstream(world.kept / "step-500-g3-shard-0-of-2.safetensors.tmp-abcdef");  // cut off
  CheckpointCopy copy = world.gathered();
  copy.judge = [](const schemas::Manifest& manifest) {
    return base::error(base::Errc::failed_precondition, "step {} is of another job", manifest.step);
  };
  const base::Status foreign = collect_checkpoint(copy);
  CHECK(foreign.text() == "step 500 is of another job");  // not that b has none
  CHECK_FALSE(fs::exists(world.kept / world.manifest.files[0].name));
  copy.judge = [](const schemas::Manifest&) { return base::Status(); };
  CHECK(collect_checkpoint(copy).ok());
  CHECK(Checkpoint::open_newest(world.kept).ok());
  CHECK(fs::exists(world.kept / "step-400-g3.manifest"));
  CHECK(fs::exists(world.kept / "step-400-g3-shard-0-of-1.safetensors"));
  CHECK_FALSE(fs::exists(world.kept / "step-500-g3-shard-0-of-2.safetensors.tmp-abcdef"));
}

TEST_CASE("of files that are too large for the job nothing is fetched", "[checkpoint_copy]") {
  World world;
  schemas::ShardFile& large = world.manifest.files[0];
  large.bytes = 64 * kChecksumChunkBytes;
  large.checksums.assign(64, 0);
  REQUIRE(write_manifest(world.a, world.manifest).ok());
  CheckpointCopy copy = world.copy();
  const base::Status status = collect_checkpoint(copy);
  CHECK(status.code() == base::Errc::data_loss);
  CHECK_THAT(status.text(), Contains("bytes or more together"));
  CHECK(world.asked == 1);  // for the manifest
  CHECK(fs::is_empty(world.kept));
}

TEST_CASE("the job's own bound holds for a manifest's parameters", "[checkpoint_copy]") {
  World world;
  CheckpointCopy copy = world.copy();
  copy.bytes_most = 1'000'000;
  CHECK(collect_checkpoint(copy).code() == base::Errc::data_loss);
  copy.bytes_most = 6'000'000;
  CHECK(collect_checkpoint(copy).ok());
}

TEST_CASE("of two checkpoints of one name the one that is wanted is taken", "[checkpoint_copy]") {
  World world;
  schemas::Manifest other = world.manifest;
  other.job_name = "other";
  REQUIRE(write_manifest(world.b, other).ok());
  CheckpointCopy copy = world.gathered();
  copy.judge = [](const schemas::Manifest& manifest) {
    return manifest.job_name.empty() ? base::Status()
                                     : base::error(base::Errc::failed_precondition, "another job");
  };
  CHECK(collect_checkpoint(copy).ok());
  CHECK(Checkpoint::open_newest(world.kept).value()->manifest() == world.manifest);
}

TEST_CASE("who may have the checkpoint whole is told before whose manifest is of no use",
          "[checkpoint_copy]") {
  World world;
  std::ofstream(world.b / "step-500-g3.manifest") << "no manifest";
  CheckpointCopy copy = world.gathered();
  copy.of_manifest[1] = [](const std::string&, std::uint64_t,
                           std::uint64_t) -> base::Result<FilePiece> {
    return base::error(base::Errc::deadline_exceeded, "a says nothing");
  };
  for (int i = 0; i < 2; ++i) {
    CHECK(collect_checkpoint(copy).text() == "a says nothing");
    std::swap(copy.of_manifest[0], copy.of_manifest[1]);
  }
  copy.of_manifest.erase(copy.of_manifest.begin() + 1);  // a, which was asked last
  CHECK(collect_checkpoint(copy).code() == base::Errc::data_loss);
}

TEST_CASE("room is made before a file is fetched", "[checkpoint_copy]") {
  World world;
  fs::create_directories(world.kept);
  std::ofstream(world.kept / "step-400-g3.manifest");
  std::ofstream(world.kept / "step-450-g2-shard-0-of-2.safetensors.tmp-abcdef");
  CheckpointCopy copy = world.copy();
  std::atomic<bool> room{true};
  copy.of_shard[0] = [&](const std::string& file, std::uint64_t offset, std::uint64_t bytes) {
    if (fs::exists(world.kept / "step-450-g2-shard-0-of-2.safetensors.tmp-abcdef")) room = false;
    return read_piece(world.a, file, offset, bytes);
  };
  CHECK(collect_checkpoint(copy).ok());
  CHECK(room);
}

TEST_CASE("on a full disk parts of a newer checkpoint of earlier runs go", "[checkpoint_copy]") {
  World world;
  fs::create_directories(world.kept);
  const fs::path part = world.kept / "step-900-g2-shard-0-of-2.safetensors";
  std::ofstream(part) << "part";
  CheckpointCopy copy = world.copy();
  copy.of_shard[0] = [&](const std::string& file, std::uint64_t offset,
                         std::uint64_t bytes) -> base::Result<FilePiece> {
    if (fs::exists(part)) return base::error(base::Errc::resource_exhausted, "no space");
    return read_piece(world.a, file, offset, bytes);
  };
  CHECK(collect_checkpoint(copy).ok());
  CHECK_FALSE(fs::exists(part));
}

TEST_CASE("who looks through a large file says so now and then", "[checkpoint_copy]") {
  World world;
  schemas::Manifest manifest = world.manifest;
  schemas::ShardFile& large = manifest.files[0];
  large.bytes = 130 * kChecksumChunkBytes;
  const std::vector<std::byte> chunk(kChecksumChunkBytes);
  large.checksums.assign(130, base::crc32c(chunk));
  fs::resize_file(world.a / large.name, 0);
  fs::resize_file(world.a / large.name, large.bytes);  // takes no room
  REQUIRE(write_manifest(world.b, manifest).ok());
  const base::Errc code =
      GENERATE(base::Errc::io_error, base::Errc::unavailable, base::Errc::cancelled);
  std::vector<std::uint64_t> asked;
  const AskPiece ask = [&](const std::string& file, std::uint64_t offset,
                           std::uint64_t bytes) -> base::Result<FilePiece> {
    if (file != large.name) return read_piece(world.b, file, offset, bytes);
    asked.push_back(bytes);
    return base::error(code, "nothing more is asked for");
  };
  // No header, so the file is no good in the end; what matters is what was heard before. Who cannot
  // be reached is not waited for twice, and where nobody waits any more the look ends.
  CHECK(place_checkpoint(world.a, "step-500-g3", {0}, ask).code() == code);
  std::vector<std::uint64_t> expected = {0, 0, kChecksumChunkBytes};
  if (code == base::Errc::unavailable) expected.erase(expected.begin());
  if (code == base::Errc::cancelled) expected = {0};
  CHECK(asked == expected);
}

TEST_CASE("a manifest is not believed about names, shards and checksums", "[checkpoint_copy]") {
  World world;
  const auto refused = [&](const std::function<void(schemas::Manifest&)>& change) {
    schemas::Manifest manifest = world.manifest;
    change(manifest);
    const std::string text = schemas::encode_manifest(manifest).value();
    CheckpointCopy copy = world.copy();
    copy.of_manifest = {[text](const std::string&, std::uint64_t offset, std::uint64_t) {
      return base::Result<FilePiece>(
          FilePiece{0, base::Errc::ok, "", text.size(), text.substr(offset)});
    }};
    const base::Status collected = collect_checkpoint(copy);
    CHECK(fs::is_empty(world.kept));
    return collected;
  };
  for (const char* name : {"../step-500-g3-shard-0-of-2.safetensors", "/etc/passwd",
                           "step-400-g3-shard-0-of-2.safetensors", "step-500-g3.manifest",
                           "step-500-g3-shard-0/x.safetensors", ""}) {
    const base::Status status =
        refused([&](schemas::Manifest& manifest) { manifest.files[0].name = name; });
    INFO(name);
    CHECK(status.code() == base::Errc::data_loss);
    CHECK_THAT(status.text(), Contains(fmt::format("'{}'", name)));
  }
  CHECK(refused([](auto& manifest) { manifest.files[0].shard = 2; }).code() ==
        base::Errc::data_loss);
  CHECK(refused([](auto& manifest) { manifest.files[0].checksums.pop_back(); }).code() ==
        base::Errc::data_loss);
  CHECK(refused([](auto& manifest) { manifest.files[0].chunk_bytes = 0; }).code() ==
        base::Errc::data_loss);
  CHECK(refused([](auto& manifest) { manifest.step = 501; }).code() == base::Errc::data_loss);
}

TEST_CASE("pieces are read of checkpoints only, and through no link", "[checkpoint_copy]") {
  World world;
  std::ofstream(world.a / "secret") << "secret";
  fs::create_symlink("secret", world.a / "step-1-g1.manifest");
  CHECK(read_piece(world.a, "secret", 0, 9).status().code() == base::Errc::invalid_argument);
  CHECK(read_piece(world.a, "../a/secret", 0, 9).status().code() == base::Errc::invalid_argument);
  CHECK_FALSE(read_piece(world.a, "step-1-g1.manifest", 0, 9).ok());
  CHECK(read_piece(world.a, "step-2-g1.manifest", 0, 9).status().code() == base::Errc::not_found);
  const std::string& file = world.manifest.files[0].name;
  const std::uint64_t bytes = world.manifest.files[0].bytes;
  CHECK(read_piece(world.a, file, bytes, 9)->bytes.empty());
  CHECK(read_piece(world.a, file, ~std::uint64_t{0}, 9)->bytes.empty());
  CHECK(read_piece(world.a, file, bytes - 2, ~std::uint64_t{0})->bytes.size() == 2);
  CHECK(read_piece(world.a, file, 0, ~std::uint64_t{0})->bytes.size() == schemas::kPieceBytesMax);
  // Nor is anything written through one.
  fs::create_directories(world.kept);
  fs::create_symlink(world.folder.path() / "elsewhere", world.kept / file);
  CHECK(collect_checkpoint(world.copy()).ok());
  CHECK_FALSE(fs::exists(world.folder.path() / "elsewhere"));
  CHECK_FALSE(fs::is_symlink(world.kept / file));
}

TEST_CASE("what may go is dropped by name", "[checkpoint_copy]") {
  World world;
  std::ofstream(world.a / "step-400-g3-shard-0-of-2.safetensors");
  std::ofstream(world.a / "step-400-g4.manifest");
  std::ofstream(world.a / "step-500-g2.manifest");
  std::ofstream(world.a / "step-600-g1.manifest");  // newer: perhaps the only copy
  REQUIRE(drop_checkpoint(world.a, "step-500-g3", true).ok());
  CHECK_FALSE(fs::exists(world.a / "step-400-g3-shard-0-of-2.safetensors"));
  CHECK_FALSE(fs::exists(world.a / "step-400-g4.manifest"));
  CHECK_FALSE(fs::exists(world.a / "step-500-g2.manifest"));
  CHECK(fs::exists(world.a / world.manifest.files[0].name));
  REQUIRE(drop_checkpoint(world.a, "step-500-g3", false).ok());
  CHECK_FALSE(fs::exists(world.a / world.manifest.files[0].name));
  CHECK(fs::exists(world.a / "step-600-g1.manifest"));
  for (const char* name : {"", "step-500", "step-500-g3.manifest", "../step-500-g3", "step-0500-g3",
                           "step-99999999999999999999-g1"}) {
    INFO(name);
    CHECK(drop_checkpoint(world.a, name, true).code() == base::Errc::invalid_argument);
  }
}

}  // namespace
}  // namespace troupe::store
