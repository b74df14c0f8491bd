// SPDX-License-Identifier: Apache-2.0
// The order of a checkpoint's files: what exists after each step of writing, and after failures.
#include "store/checkpoint_writer.h"

#include <filesystem>
#include <fstream>
#include <set>

#include "tests/support/catch.h"
#include "tests/support/job_files.h"

namespace troupe::store {
namespace {

namespace fs = std::filesystem;

/// A run of generation 3 over two keys of one slice each, one per shard.
CheckpointRun two_shards(const fs::path& folder, std::uint32_t keep) {
  CheckpointRun run;
  run.folder = folder;
  run.generation = 3;
  run.retention = Retention{keep, 0};
  run.keys = {{0, "w", base::Shape{4}}, {1, "b", base::Shape{4}}};
  run.slots = {"momentum"};
  run.manifest = [keys = run.keys](
                     std::uint64_t step,
                     const schemas::TrainingStart& start) -> base::Result<schemas::Manifest> {
    if (step == 13) return base::error(base::Errc::data_loss, "no manifest of step 13");
    schemas::Manifest manifest;
    manifest.step = step;
    manifest.generation = 3;
    manifest.data.bytes = start.bytes;
    manifest.optimizer_slots = {"momentum"};
    manifest.keys = keys;
    return manifest;
  };
  return run;
}

base::Buffer four(float value) {
  base::Buffer buffer = base::make_host_buffer(4 * sizeof(float));
  for (float& element : buffer.as<float>()) element = value;
  return buffer;
}

base::Result<schemas::ShardFile> write(const CheckpointWriter& writer, std::uint64_t step,
                                       std::uint32_t shard) {
  const auto value = static_cast<float>(10 * step + shard);
  const std::vector<SliceRecord> slices = {
      {{shard, 0}, {{four(value), {four(-value)}}, step, step}}};
  return writer.write_shard(step, shard, 2, slices);
}

const schemas::TrainingStart kStart{0, 16, 4'000, 7};

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

TEST_CASE("a checkpoint exists from its manifest on, with every shard's tensors") {
  const TestFolder folder("writer-order");
  const CheckpointWriter writer(two_shards(folder.path(), 0));
  const auto first = write(writer, 2, 0);
  const auto second = write(writer, 2, 1);
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  CHECK(second->name == "step-2-g3-shard-1-of-2.safetensors");
  CHECK(Checkpoint::open_newest(folder.path()).status().code() == base::Errc::not_found);
  const auto path = writer.write_manifest(2, kStart, {*first, *second});
  REQUIRE(path.ok());
  CHECK(*path == (folder.path() / "step-2-g3").string());
  const auto checkpoint = Checkpoint::open_newest(folder.path());
  REQUIRE(checkpoint.ok());
  CHECK((*checkpoint)->manifest().files == std::vector<schemas::ShardFile>{*first, *second});
  CHECK((*checkpoint)->manifest().data.bytes == 4'000);
  const schemas::KeyInfo key = (*checkpoint)->manifest().keys[1];
  CHECK((*checkpoint)->dense(key, "").value() != (*checkpoint)->dense(key, "momentum").value());
}

TEST_CASE("old checkpoints go after the new manifest, and only then") {
  const TestFolder folder("writer-keep");
  const CheckpointWriter writer(two_shards(folder.path(), 1));
  REQUIRE(writer.write_manifest(2, kStart, {*write(writer, 2, 0), *write(writer, 2, 1)}).ok());
  const auto before = names_in(folder.path());
  const auto first = write(writer, 4, 0);
  const auto second = write(writer, 4, 1);
  for (const std::string& name : before) CHECK(names_in(folder.path()).count(name) == 1);
  REQUIRE(writer.write_manifest(4, kStart, {*first, *second}).ok());
  CHECK(names_in(folder.path()) ==
        std::set<std::string>{"step-4-g3.manifest", first->name, second->name});
}

TEST_CASE("what nobody needs goes before a file is written, what is complete stays") {
  const TestFolder folder("writer-room");
  const CheckpointWriter writer(two_shards(folder.path(), 1));
  REQUIRE(writer.write_manifest(2, kStart, {*write(writer, 2, 0), *write(writer, 2, 1)}).ok());
  const auto complete = names_in(folder.path());
  // Of an earlier run that ended while it wrote, and an old checkpoint that could not be removed.
  for (const char* name : {"step-9-g2-shard-0-of-2.safetensors", "step-1-g1.manifest",
                           "step-1-g1-shard-0-of-1.safetensors"}) {
    std::ofstream(folder.path() / name) << "x";
  }
  auto expected = complete;
  expected.insert(write(writer, 4, 0)->name);
  CHECK(names_in(folder.path()) == expected);
  // This run's unfinished files stay: another shard may still be at it.
  expected.insert(write(writer, 6, 1)->name);
  CHECK(names_in(folder.path()) == expected);
}

TEST_CASE("where others say what may go, a run removes nothing of runs before it") {
  const TestFolder folder("writer-copied");
  CheckpointRun run = two_shards(folder.path(), 1);
  run.retention.reset();
  const CheckpointWriter writer(run);
  // Its manifest is on another machine, so this may be the only whole file of it.
  std::ofstream(folder.path() / "step-9-g2-shard-1-of-2.safetensors") << "x";
  std::ofstream(folder.path() / "step-1-g1.manifest") << "x";
  auto expected = names_in(folder.path());
  for (const std::uint64_t step : {2u, 4u}) {
    const auto first = write(writer, step, 0);
    const auto second = write(writer, step, 1);
    REQUIRE(writer.write_manifest(step, kStart, {*first, *second}).ok());
    expected.insert({first->name, second->name, fmt::format("step-{}-g3.manifest", step)});
  }
  CHECK(names_in(folder.path()) == expected);
}

TEST_CASE("a checkpoint that was given up goes, manifest and files") {
  const TestFolder folder("writer-given-up");
  const CheckpointWriter writer(two_shards(folder.path(), 0));
  REQUIRE(writer.write_manifest(2, kStart, {*write(writer, 2, 0), *write(writer, 2, 1)}).ok());
  const auto complete = names_in(folder.path());
  REQUIRE(write(writer, 4, 0).ok());
  writer.remove(4);
  CHECK(names_in(folder.path()) == complete);
  writer.remove(4);
  REQUIRE(writer.write_manifest(6, kStart, {*write(writer, 6, 0), *write(writer, 6, 1)}).ok());
  writer.remove(6);
  CHECK(names_in(folder.path()) == complete);
}

TEST_CASE("a folder is asked for room and whether it takes files") {
  const TestFolder folder("writer-folder");
  const CheckpointWriter writer(two_shards(folder.path(), 1));
  std::ofstream(folder.path() / "step-9-g2-shard-0-of-2.safetensors") << "x";
  CHECK(writer.check_folder(1'000).ok());
  CHECK(names_in(folder.path()).size() == 1);  // whoever wrote it may be writing still
  const base::Status full = writer.check_folder(std::uint64_t{1} << 60);
  CHECK(full.code() == base::Errc::resource_exhausted);
  CHECK_THAT(full.text(), Catch::Contains(folder.path().string()) && Catch::Contains("are free"));
  // Nobody, not even root, makes files there.
  const base::Status closed = CheckpointWriter(two_shards("/proc/self/task", 1)).check_folder(1);
  CHECK_FALSE(closed.ok());
  CHECK_THAT(closed.text(), Catch::Contains("/proc/self/task"));
}

TEST_CASE("what cannot be written leaves the checkpoint before as it is") {
  const TestFolder folder("writer-fails");
  const CheckpointWriter writer(two_shards(folder.path(), 1));
  REQUIRE(writer.write_manifest(2, kStart, {*write(writer, 2, 0), *write(writer, 2, 1)}).ok());
  const auto refused =
      writer.write_manifest(13, kStart, {*write(writer, 13, 0), *write(writer, 13, 1)});
  CHECK(refused.status().text() == "no manifest of step 13");
  const auto newest = Checkpoint::open_newest(folder.path());
  REQUIRE(newest.ok());
  CHECK((*newest)->manifest().step == 2);
  const CheckpointWriter nowhere(two_shards(folder.path() / "missing", 1));
  CHECK_FALSE(write(nowhere, 2, 0).ok());
}

}  // namespace
}  // namespace troupe::store
