// SPDX-License-Identifier: Apache-2.0
// What stays in a folder of checkpoints, and what a damaged one gives out.
#include "store/checkpoint.h"

#include <sys/stat.h>

#include <fstream>
#include <map>
#include <set>

#include "base/file.h"
#include "storage/storage.h"
#include "store/shard_writer.h"
#include "tests/support/catch.h"
#include "tests/support/job_files.h"

namespace troupe::store {
namespace {

namespace fs = std::filesystem;

std::set<std::string> files_of(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

void touch(const fs::path& folder, const CheckpointName& name) {
  std::ofstream(folder / (name.to_string() + ".manifest"));
  std::ofstream(folder / (name.to_string() + "-shard-0-of-1.safetensors"));
}

schemas::Manifest manifest_of(const CheckpointName& name) {
  schemas::Manifest manifest;
  manifest.step = name.step;
  manifest.generation = name.generation;
  manifest.keys = {{0, "w", base::Shape{4}}};
  return manifest;
}

/// A checkpoint of two shards with a slice each, "w" and "v", all of one value.
void write_pair(const fs::path& folder, const CheckpointName& name, float value) {
  schemas::Manifest manifest = manifest_of(name);
  manifest.keys = {{0, "w", base::Shape{4}}, {1, "v", base::Shape{4}}};
  for (std::uint32_t shard = 0; shard < 2; ++shard) {
    base::Buffer weight = base::make_host_buffer(4 * sizeof(float));
    for (float& element : weight.as<float>()) element = value;
    const std::vector<SliceRecord> slices = {{{shard, 0}, {{weight, {}}, name.step, name.step}}};
    const auto file = write_shard(folder, {name, shard, 2, manifest.keys, {}, slices});
    REQUIRE(file.ok());
    manifest.files.push_back(*file);
  }
  REQUIRE(write_manifest(folder, manifest).ok());
}

/// Overwrites the last byte of a shard's file.
void damage(const fs::path& folder, const CheckpointName& name, std::uint32_t shard) {
  const auto file = folder / fmt::format("{}-shard-{}-of-2.safetensors", name.to_string(), shard);
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekp(-1, std::ios::end);
  bytes.put('!');
}

TEST_CASE("pruning counts from the checkpoint just written, not from unreadable newer ones",
          "[checkpoint]") {
  const TestFolder folder("checkpoint-prune");
  write_pair(folder.path(), {400, 1}, 1.0F);
  write_pair(folder.path(), {500, 1}, 1.0F);
  write_pair(folder.path(), {1000, 1}, 1.0F);  // found damaged: the run has begun at 500
  write_pair(folder.path(), {550, 1}, 1.0F);   // likewise
  write_pair(folder.path(), {600, 2}, 1.0F);
  const auto pruned = [&](std::uint32_t keep) {
    REQUIRE(prune_checkpoints(folder.path(), {keep, 500}, {600, 2}).ok());
    std::set<std::string> manifests;
    for (const std::string& name : files_of(folder.path())) {
      if (name.ends_with(".manifest")) manifests.insert(name);
    }
    CHECK(files_of(folder.path()).size() == 3 * manifests.size());
    return manifests;
  };
  CHECK(pruned(0).size() == 5);
  CHECK(pruned(2) == std::set<std::string>{"step-1000-g1.manifest", "step-500-g1.manifest",
                                           "step-600-g2.manifest"});
  CHECK(pruned(1) == std::set<std::string>{"step-1000-g1.manifest", "step-600-g2.manifest"});
  touch(folder.path(), {10, 7});
  CHECK(highest_generation(folder.path()).value() == 7);
  touch(folder.path(), {10, ~std::uint64_t{0}});
  const auto refused = highest_generation(folder.path());
  CHECK(refused.status().code() == base::Errc::failed_precondition);
  CHECK_THAT(refused.status().text(),
             Catch::Contains("a checkpoint of generation 18446744073709551615, at most"));
}

std::set<std::string> manifests_of(const fs::path& folder) {
  std::set<std::string> manifests;
  for (const std::string& name : files_of(folder)) {
    if (name.ends_with(".manifest")) manifests.insert(name.substr(0, name.find('.')));
  }
  return manifests;
}

TEST_CASE("a checkpoint whose files are not there does not count", "[checkpoint]") {
  const TestFolder folder("checkpoint-incomplete");
  write_pair(folder.path(), {20, 1}, 1.0F);
  write_pair(folder.path(), {40, 1}, 1.0F);
  write_pair(folder.path(), {60, 1}, 1.0F);
  fs::remove(folder.path() / "step-40-g1-shard-0-of-2.safetensors");
  using Names = std::set<std::string>;
  SECTION("it goes") {
    REQUIRE(prune_checkpoints(folder.path(), {2, 0}, {60, 1}).ok());
    CHECK(files_of(folder.path()).size() == 6);
    CHECK(manifests_of(folder.path()) == Names{"step-20-g1", "step-60-g1"});
  }
  SECTION("where there are as many as may stay, nothing is looked at") {
    REQUIRE(prune_checkpoints(folder.path(), {3, 0}, {60, 1}).ok());
    CHECK(manifests_of(folder.path()) == Names{"step-20-g1", "step-40-g1", "step-60-g1"});
  }
  SECTION("it is the newest one: the last whole one stays") {
    fs::remove(folder.path() / "step-60-g1-shard-0-of-2.safetensors");
    REQUIRE(prune_checkpoints(folder.path(), {1, 0}, {60, 1}).ok());
    CHECK(manifests_of(folder.path()) == Names{"step-20-g1", "step-60-g1"});
  }
}

TEST_CASE("a coordinator makes room for a copy, and keeps parts of what machines may hold",
          "[checkpoint]") {
  const TestFolder folder("checkpoint-room");
  write_pair(folder.path(), {20, 1}, 1.0F);
  write_pair(folder.path(), {40, 1}, 1.0F);
  const auto add = [&](const std::string& name) {
    std::ofstream(folder.path() / name) << "x";
    return name;
  };
  const std::string old = add("step-30-g2-shard-0-of-2.safetensors");
  const std::string part = add("step-80-g2-shard-0-of-2.safetensors");
  const std::string cut_off = add("step-80-g2-shard-1-of-2.safetensors.tmp-abcdef");
  const std::string now = add("step-60-g3-shard-1-of-2.safetensors.tmp-abcdef");
  std::set<std::string> expected = files_of(folder.path());
  SECTION("all are kept, so only leavings go") {
    REQUIRE(make_room(folder.path(), {0, 40, true}, 3).ok());
    for (const std::string& name : {old, cut_off}) expected.erase(name);
    CHECK(files_of(folder.path()) == expected);
  }
  SECTION("one is kept") {
    REQUIRE(make_room(folder.path(), {1, 40, true}, 3).ok());
    CHECK(manifests_of(folder.path()) == std::set<std::string>{"step-40-g1"});
    CHECK(files_of(folder.path()).contains(part));
    CHECK(files_of(folder.path()).contains(now));
    CHECK_FALSE(files_of(folder.path()).contains(cut_off));
    CHECK_FALSE(files_of(folder.path()).contains(old));
  }
  SECTION("who knows that nobody writes there removes what is unfinished") {
    REQUIRE(remove_unfinished(folder.path()).ok());
    for (const std::string& name : {now, cut_off}) expected.erase(name);
    CHECK(files_of(folder.path()) == expected);
  }
}

TEST_CASE("a checkpoint that is a pipe is damaged, nobody waits for its other end",
          "[checkpoint]") {
  const TestFolder folder("checkpoint-pipe");
  REQUIRE(::mkfifo((folder.path() / "step-9-g1.manifest").c_str(), 0600) == 0);
  const auto opened = Checkpoint::open_newest(folder.path());
  CHECK(opened.status().code() == base::Errc::data_loss);
  CHECK_THAT(opened.status().text(), Catch::Contains("step-9-g1.manifest: is no regular file"));
}

TEST_CASE("a link in a manifest's place is damage, wherever it leads", "[checkpoint]") {
  const TestFolder folder("checkpoint-manifest-link");
  const fs::path outside = folder.path() / "outside";
  const fs::path out = folder.path() / "out";
  for (const fs::path& made : {outside, out}) fs::create_directory(made);
  REQUIRE(write_manifest(outside, manifest_of({9, 1})).ok());
  REQUIRE(write_manifest(out, manifest_of({4, 1})).ok());
  fs::create_symlink(outside / "step-9-g1.manifest", out / "step-9-g1.manifest");
  const auto opened = Checkpoint::open(out / "step-9-g1.manifest", CheckpointCheck::manifest);
  CHECK(opened.status().code() == base::Errc::data_loss);
  CHECK_THAT(opened.status().text(), Catch::Contains("step-9-g1.manifest: is a symbolic link"));
  const auto newest = Checkpoint::open_newest(out, CheckpointCheck::manifest);
  REQUIRE(newest.ok());
  CHECK((*newest)->manifest().step == 4);
}

TEST_CASE("a manifest that nobody could read is not written", "[checkpoint]") {
  const TestFolder folder("checkpoint-unreadable");
  schemas::Manifest manifest = manifest_of({2, 1});
  manifest.job_fingerprint.assign(100'000, 'x');  // means and deviations of many channels
  CHECK(write_manifest(folder.path(), manifest).ok());
  manifest.job_name.assign(100'000, 'x');
  manifest.step = 4;
  const base::Status refused = write_manifest(folder.path(), manifest);
  CHECK(refused.code() == base::Errc::data_loss);
  CHECK_THAT(refused.text(), Catch::Contains("job_name has length 100000"));
  CHECK(files_of(folder.path()).count("step-4-g1.manifest") == 0);
}

TEST_CASE("keys that need more bytes than the files have are damage", "[checkpoint]") {
  const TestFolder folder("checkpoint-keys");
  schemas::Manifest manifest = manifest_of({2, 1});
  const auto file = write_shard(folder.path(), {{2, 1}, 0, 1, manifest.keys, {}, {}});
  REQUIRE(file.ok());
  manifest.files = {*file};
  const auto opened = [&](const schemas::Manifest& written, CheckpointCheck check) {
    REQUIRE(write_manifest(folder.path(), written).ok());
    return Checkpoint::open(folder.path() / "step-2-g1.manifest", check).status();
  };
  CHECK(opened(manifest, CheckpointCheck::sizes).ok());
  for (std::uint32_t id = 0; id < 1'000; ++id) {
    if (id > 0) manifest.keys.push_back(manifest.keys[0]);
    manifest.keys[id].id = id;
    manifest.keys[id].shape = base::Shape{std::int64_t{1} << 40};
  }
  for (const CheckpointCheck check : {CheckpointCheck::manifest, CheckpointCheck::sizes}) {
    const base::Status refused = opened(manifest, check);
    CHECK(refused.code() == base::Errc::data_loss);
    CHECK_THAT(refused.text(), Catch::Contains("step-2-g1.manifest: its files hold ") &&
                                   Catch::Contains("its keys up to 'w' of shape (1099511627776,)"));
  }
  // One checksum of a huge chunk makes no huge file.
  manifest.files[0].bytes = manifest.files[0].chunk_bytes = std::uint64_t{1} << 60;
  CHECK(opened(manifest, CheckpointCheck::manifest).code() == base::Errc::data_loss);
}

TEST_CASE("a link in a checkpoint's place is replaced, and what it leads to stays",
          "[checkpoint]") {
  const TestFolder folder("checkpoint-link");
  const fs::path out = folder.path() / "out";
  fs::create_directory(out);
  std::ofstream(folder.path() / "victim") << "mine";
  const schemas::Manifest manifest = manifest_of({2, 1});
  const std::vector<SliceRecord> slices = {{{0, 0}, {{base::make_host_buffer(16), {}}, 2, 2}}};
  for (const char* name : {"step-2-g1.manifest", "step-2-g1-shard-0-of-1.safetensors", ".probe"}) {
    fs::create_symlink(folder.path() / "victim", out / name);
  }
  REQUIRE(check_folder(out, 1, 1).ok());
  REQUIRE(write_shard(out, {{2, 1}, 0, 1, manifest.keys, {}, slices}).ok());
  REQUIRE(write_manifest(out, manifest).ok());
  CHECK(fs::is_regular_file(fs::symlink_status(out / "step-2-g1.manifest")));
  CHECK(fs::is_regular_file(fs::symlink_status(out / "step-2-g1-shard-0-of-1.safetensors")));
  CHECK(base::read_text_file(folder.path() / "victim", 100).value() == "mine");
}

TEST_CASE("a checkpoint is complete although an old one cannot be removed", "[checkpoint]") {
  const TestFolder folder("checkpoint-stuck");
  fs::create_directories(folder.path() / "step-1-g1.manifest" / "inside");
  CHECK(complete_checkpoint(folder.path(), manifest_of({2, 1}), {1, 0}).ok());
  CHECK_FALSE(prune_checkpoints(folder.path(), {1, 0}, {2, 1}).ok());
  CHECK(files_of(folder.path()).count("step-2-g1.manifest") == 1);
  CHECK_FALSE(complete_checkpoint(folder.path() / "missing", manifest_of({2, 1}), {1, 0}).ok());
}

TEST_CASE("what cannot be removed keeps its own files and nothing else", "[checkpoint]") {
  const TestFolder folder("checkpoint-stuck-one");
  write_pair(folder.path(), {1, 1}, 1.0F);
  fs::remove(folder.path() / "step-1-g1.manifest");
  fs::create_directories(folder.path() / "step-1-g1.manifest" / "inside");
  for (std::uint64_t step = 2; step <= 4; ++step) write_pair(folder.path(), {step, 1}, 1.0F);
  CHECK_FALSE(prune_checkpoints(folder.path(), {1, 0}, {4, 1}).ok());
  CHECK(manifests_of(folder.path()) == std::set<std::string>{"step-1-g1", "step-4-g1"});
  CHECK(files_of(folder.path()).size() == 6);
  std::ofstream(folder.path() / "step-5-g1-shard-0-of-1.safetensors") << "x";  // a killed run's
  CHECK_FALSE(make_room(folder.path(), {1, 4}, 2).ok());
  CHECK(files_of(folder.path()).size() == 6);
}

TEST_CASE("what a killed run leaves is of an earlier run than the next", "[checkpoint]") {
  const TestFolder folder("checkpoint-killed");
  for (const char* name :
       {"step-3-g1-shard-0-of-1.safetensors.tmp-Ab3dEf", "step-6-g2-shard-0-of-1.safetensors"}) {
    std::ofstream(folder.path() / name) << "x";
  }
  CHECK(highest_generation(folder.path()).value() == 2);
  CHECK(folder_manifests(folder.path()).highest_generation == 2);
  CHECK_FALSE(folder_manifests(folder.path()).set_aside);
  REQUIRE(make_room(folder.path(), {1, 0}, 3).ok());
  CHECK(files_of(folder.path()).empty());
}

TEST_CASE("a tensor of another size than its slice is damage", "[checkpoint]") {
  const TestFolder folder("checkpoint-size");
  storage::Storage storage;
  base::BufferPool& pool = storage.pool(base::Device{});
  schemas::Manifest manifest = manifest_of({2, 1});
  const std::size_t elements = GENERATE(3U, 4U, 5U);
  base::Buffer weight = base::make_host_buffer(elements * sizeof(float));
  const std::vector<SliceRecord> slices = {{{0, 0}, {{weight, {}}, 2, 2}}};
  const auto file = write_shard(folder.path(), {{2, 1}, 0, 1, manifest.keys, {}, slices});
  REQUIRE(file.ok());
  manifest.files = {*file};
  REQUIRE(write_manifest(folder.path(), manifest).ok());
  const auto checkpoint = Checkpoint::open_newest(folder.path());
  INFO(checkpoint.status().to_string());
  REQUIRE(checkpoint.ok());
  const auto layout = SliceLayout::create(manifest.keys, 1);
  REQUIRE(layout.ok());
  const auto state = (*checkpoint)->slice(layout->info({0, 0}), pool);
  if (elements == 4) {
    REQUIRE(state.ok());
    CHECK(state->values.weight.size() == 16);
    CHECK(state->updates == 2);
  } else {
    CHECK(state.status().code() == base::Errc::data_loss);
    CHECK_THAT(state.status().text(), Catch::Contains("'w/0'") && Catch::Contains("its slice 16"));
  }
}

TEST_CASE("a slice is read from its own file, what is damaged elsewhere does not matter to it",
          "[checkpoint]") {
  const TestFolder folder("checkpoint-parts");
  storage::Storage storage;
  base::BufferPool& pool = storage.pool(base::Device{});
  write_pair(folder.path(), {2, 1}, 2.0F);
  write_pair(folder.path(), {4, 1}, 4.0F);
  damage(folder.path(), {4, 1}, 1);
  const auto newest = Checkpoint::open_newest(folder.path(), CheckpointCheck::sizes);
  REQUIRE(newest.ok());
  CHECK((*newest)->manifest().step == 4);
  const auto layout = SliceLayout::create((*newest)->manifest().keys, 1).value();
  const auto whole = (*newest)->slice(layout.info({0, 0}), pool);
  REQUIRE(whole.ok());
  CHECK(whole->values.weight.as<float>()[3] == 4.0F);
  const base::Status damaged = (*newest)->slice(layout.info({1, 0}), pool).status();
  CHECK(damaged.code() == base::Errc::data_loss);
  CHECK_THAT(damaged.text(), Catch::Contains("step-4-g1-shard-1-of-2.safetensors"));
  // Who reads all of it finds the damage first and takes the one before.
  const auto sound = Checkpoint::open_newest(folder.path());
  REQUIRE(sound.ok());
  CHECK((*sound)->manifest().step == 2);
  REQUIRE((*sound)->skipped().size() == 1);
  CHECK((*sound)->skipped()[0] == damaged.text());
}

TEST_CASE("of very many damaged checkpoints a few are named, and then how many", "[checkpoint]") {
  const TestFolder folder("checkpoint-skipped");
  write_pair(folder.path(), {2, 1}, 2.0F);
  for (int step = 10; step < 40; ++step) {
    std::ofstream(folder.path() / fmt::format("step-{}-g1.manifest", step)) << "x";
  }
  const auto newest = Checkpoint::open_newest(folder.path());
  REQUIRE(newest.ok());
  CHECK((*newest)->manifest().step == 2);
  const std::vector<std::string>& skipped = (*newest)->skipped();
  REQUIRE(skipped.size() == 9);
  CHECK_THAT(skipped[0], Catch::Contains("step-39-g1"));
  CHECK_THAT(skipped[7], Catch::Contains("step-32-g1"));
  CHECK(skipped[8] == "22 more");
  fs::remove(folder.path() / "step-2-g1.manifest");
  const base::Status none = Checkpoint::open_newest(folder.path()).status();
  CHECK(none.code() == base::Errc::data_loss);
  CHECK_THAT(none.text(), Catch::Contains("; skipped 22 more"));
}

TEST_CASE("where slices lie is found with one file open at a time", "[checkpoint]") {
  const TestFolder folder("checkpoint-many");
  constexpr std::uint32_t kShards = 200;
  schemas::Manifest manifest = manifest_of({2, 1});
  manifest.keys.clear();
  for (std::uint32_t id = 0; id < kShards; ++id) {
    manifest.keys.push_back({id, fmt::format("k{}", id), base::Shape{4}});
  }
  const auto layout = SliceLayout::create(manifest.keys, kShards).value();
  std::map<std::uint32_t, std::vector<SliceRecord>> records;
  for (const SliceInfo& info : layout.slices()) {
    records[info.shard].push_back({info.id, {{base::make_host_buffer(info.bytes), {}}, 2, 2}});
  }
  for (std::uint32_t shard = 0; shard < kShards; ++shard) {
    manifest.files.push_back(
        write_shard(folder.path(), {{2, 1}, shard, kShards, manifest.keys, {}, records[shard]})
            .value());
  }
  // One slice lies elsewhere, as of a program that places slices differently.
  std::swap(manifest.files[3], manifest.files[150]);
  REQUIRE(write_manifest(folder.path(), manifest).ok());
  const auto checkpoint = Checkpoint::open_newest(folder.path(), CheckpointCheck::sizes).value();
  const auto open_files = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  const auto before = open_files();
  const auto files = checkpoint->files_by_shard(layout).value();
  CHECK(open_files() == before);
  REQUIRE(files.size() == kShards);
  for (std::uint32_t shard = 0; shard < kShards; ++shard) {
    const std::uint32_t file = shard == 3 ? 150 : shard == 150 ? 3 : shard;
    INFO(shard);
    CHECK(files[shard] == std::vector<std::uint32_t>{file});
  }
}

TEST_CASE("sizes alone tell a file that is cut off or missing", "[checkpoint]") {
  const TestFolder folder("checkpoint-sizes");
  write_pair(folder.path(), {2, 1}, 2.0F);
  write_pair(folder.path(), {4, 1}, 4.0F);
  const fs::path file = folder.path() / "step-4-g1-shard-1-of-2.safetensors";
  const auto step = [&] {
    return Checkpoint::open_newest(folder.path(), CheckpointCheck::sizes).value()->manifest().step;
  };
  CHECK(step() == 4);
  fs::resize_file(file, fs::file_size(file) - 1);
  CHECK(step() == 2);
  fs::remove(file);
  CHECK(step() == 2);
}

TEST_CASE("a checkpoint that was set aside is passed over, its generation is not used again",
          "[checkpoint]") {
  const TestFolder folder("checkpoint-aside");
  write_pair(folder.path(), {2, 1}, 2.0F);
  write_pair(folder.path(), {4, 2}, 4.0F);
  const auto newest = Checkpoint::open_newest(folder.path());
  REQUIRE(newest.ok());
  CHECK((*newest)->set_aside().ok());
  CHECK((*newest)->set_aside().ok());  // another server has found it as well
  CHECK(files_of(folder.path()).contains("step-4-g2.manifest.damaged"));
  CHECK(Checkpoint::open_newest(folder.path()).value()->manifest().step == 2);
  CHECK(highest_generation(folder.path()).value() == 2);
  CHECK(folder_manifests(folder.path()).set_aside);
  // A person may want to look at it until a newer one is complete.
  REQUIRE(make_room(folder.path(), {1, 2}, 3).ok());
  CHECK(files_of(folder.path()).size() == 6);
  write_pair(folder.path(), {5, 3}, 5.0F);
  REQUIRE(make_room(folder.path(), {1, 2}, 3).ok());
  CHECK(files_of(folder.path()).size() == 3);
}

}  // namespace
}  // namespace troupe::store
