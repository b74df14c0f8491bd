// SPDX-License-Identifier: Apache-2.0
// What agents and coordinators do with files: below their root alone, and a damaged copy is set
// aside. What is copied: tests/store/checkpoint_copy_test.cc.
#include "apps/checkpoint_files.h"

#include <filesystem>
#include <fstream>

#include "store/checkpoint.h"
#include "store/shard_writer.h"
#include "tests/support/catch.h"
#include "tests/support/test_folder.h"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;
using base::Errc;

TEST_CASE("files outside of the root are nobody's", "[checkpoint_files]") {
  const TestFolder folder("checkpoint-files");
  const fs::path root = folder.path() / "root";
  fs::create_directories(root);
  fs::create_directory_symlink(folder.path(), root / "out");
  std::ofstream(folder.path() / "step-1-g1.manifest");
  const cluster::CheckpointFiles files = checkpoint_files({"", fs::canonical(root).string()});
  const cluster::AskPiece nobody = [](const std::string&, std::uint64_t, std::uint64_t) {
    return base::Result<schemas::FilePiece>(base::error(Errc::internal, "it was asked"));
  };
  for (const fs::path& where : {folder.path(), root / "..", root / "out", root / "out" / "new"}) {
    const std::string text = where.string();
    INFO(text);
    CHECK(files.probe({"x", 1, text, ".probe-x", "n", true}).code == Errc::permission_denied);
    CHECK(files.read({1, "x", 1, text, "step-1-g1.manifest", 0, 9}).status().code() ==
          Errc::permission_denied);
    CHECK(files.place({"x", 1, text, "step-1-g1", {}}, nobody).code() == Errc::permission_denied);
    CHECK(files.drop({text, "step-2-g1", true}).code() == Errc::permission_denied);
    control::CollectCheckpoint collect;
    collect.folder = text;
    CHECK(files.collect(collect, {nobody}, {}).code() == Errc::permission_denied);
    CHECK(files.hold({"x", 1, text, 0}).status().code() == Errc::permission_denied);
    CHECK(files.newest(text).status().code() == Errc::permission_denied);
  }
  CHECK(fs::exists(folder.path() / "step-1-g1.manifest"));
  CHECK(files.read({1, "x", 1, "out", "step-1-g1.manifest", 0, 9}).status().code() ==
        Errc::invalid_argument);
  CHECK(files.read({1, "x", 1, root.string(), "step-1-g1.manifest", 0, 9}).status().code() ==
        Errc::not_found);
}

/// A checkpoint of one empty shard.
schemas::ShardFile write_checkpoint(const fs::path& folder, std::uint64_t step) {
  schemas::Manifest manifest;
  manifest.step = step;
  manifest.keys = {{0, "w", base::Shape{4}}};
  manifest.generation = 1;
  manifest.files = {store::write_shard(folder, {{step, 1}, 0, 1, manifest.keys, {}, {}}).value()};
  REQUIRE(store::write_manifest(folder, manifest).ok());
  return manifest.files[0];
}

TEST_CASE("names are told of all manifests, and of the newest one that is whole",
          "[checkpoint_files]") {
  const TestFolder folder("checkpoint-newest");
  const std::string text = folder.path().string();
  const cluster::CheckpointFiles files = checkpoint_files({});
  CHECK(files.newest(text)->step == 0);
  for (const std::uint64_t step : {10u, 20u, 30u, 40u, 50u}) write_checkpoint(text, step);
  fs::resize_file(folder.path() / write_checkpoint(text, 60).name, 1);
  fs::remove(folder.path() / write_checkpoint(text, 70).name);
  CHECK(files.newest(text)->step == 50);
  CHECK(files.newest(text)->generation == 1);
  const schemas::FolderProbeResult told = files.probe({"x", 1, text, ".probe-x", "n", true});
  std::vector<std::uint64_t> steps;
  for (const schemas::NamedCheckpoint& each : told.newest) steps.push_back(each.step);
  CHECK(steps == std::vector<std::uint64_t>{70, 60, 50, 40});
  CHECK(told.highest_generation == 1);
}

TEST_CASE("a folder of copies is held by one, by whatever path", "[checkpoint_files]") {
  const TestFolder folder("checkpoint-hold");
  const cluster::CheckpointFiles files = checkpoint_files({});
  const fs::path out = folder.path() / "out";
  fs::create_directories(out);
  fs::create_directory_symlink(out, folder.path() / "other");
  const control::HoldFolder other{"y", 1, (folder.path() / "other").string(), 0};
  {
    const auto held = files.hold({"x", 1, out.string(), 0});
    REQUIRE(held.ok());
    CHECK(files.hold(other).status().code() == Errc::already_exists);
  }
  CHECK(files.hold(other).ok());
  CHECK(fs::is_empty(out));
}

TEST_CASE("a copy is set aside when it is damaged, not when somebody says so",
          "[checkpoint_files]") {
  const TestFolder folder("checkpoint-check");
  const schemas::ShardFile shard = write_checkpoint(folder.path(), 5);
  const cluster::CheckpointFiles files = checkpoint_files({});
  const std::string checkpoint = (folder.path() / "step-5-g1").string();
  CHECK(files.check(checkpoint).ok());
  CHECK(fs::exists(checkpoint + ".manifest"));
  std::fstream(folder.path() / shard.name, std::ios::in | std::ios::out).seekp(3).put('x');
  CHECK(files.check(checkpoint).code() == Errc::data_loss);
  CHECK_FALSE(fs::exists(checkpoint + ".manifest"));
  CHECK(fs::exists(checkpoint + ".manifest.damaged"));
}

}  // namespace
}  // namespace troupe::apps
