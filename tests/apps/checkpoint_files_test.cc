// SPDX-License-Identifier: Apache-2.0
// What agents and coordinators do with files: below their root alone, and a damaged copy is set
// aside. What is copied: tests/store/checkpoint_copy_test.cc.
#include "apps/checkpoint_files.h"

#include <filesystem>
#include <fstream>

#include "store/checkpoint.h"
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
    CHECK(files.collect(collect, nobody, {}).code() == Errc::permission_denied);
  }
  CHECK(fs::exists(folder.path() / "step-1-g1.manifest"));
  CHECK(files.read({1, "x", 1, "out", "step-1-g1.manifest", 0, 9}).status().code() ==
        Errc::invalid_argument);
  CHECK(files.read({1, "x", 1, root.string(), "step-1-g1.manifest", 0, 9}).status().code() ==
        Errc::not_found);
}

TEST_CASE("a copy is set aside when it is damaged, not when somebody says so",
          "[checkpoint_files]") {
  const TestFolder folder("checkpoint-check");
  schemas::Manifest manifest;
  manifest.step = 5;
  manifest.keys = {{0, "w", base::Shape{4}}};
  manifest.generation = 1;
  const auto shard =
      store::write_shard(folder.path(), {{5, 1}, 0, 1, manifest.keys, {}, {}}).value();
  manifest.files = {shard};
  REQUIRE(store::write_manifest(folder.path(), manifest).ok());
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
