// SPDX-License-Identifier: Apache-2.0
// How large a checkpoint may be: what is really written fits, and what is said beyond it does not.
#include "store/checkpoint_size.h"

#include <string>
#include <vector>

#include "storage/storage.h"
#include "store/checkpoint.h"
#include "store/shard_writer.h"
#include "tests/support/catch.h"
#include "tests/support/test_folder.h"

namespace troupe::store {
namespace {

using Catch::Contains;

struct World {
  storage::Storage storage;
  std::vector<schemas::KeyInfo> keys;
  std::vector<std::string> slots;

  schemas::ShardFile write(const TestFolder& folder, const SliceLayout& layout,
                           std::uint32_t shard) {
    const auto buffer = [&](std::uint64_t bytes) {
      return storage.pool(base::Device{}).allocate(bytes, "weights").value();
    };
    std::vector<SliceRecord> slices;
    for (const SliceInfo& info : layout.slices()) {
      if (info.shard != shard) continue;
      SliceRecord record{info.id, {}};
      record.state.updates = ~std::uint64_t{0};
      record.state.values.weight = buffer(info.bytes);
      const bool dense = keys[info.id.key].kind == schemas::KeyKind::dense;
      for (std::size_t i = 0; dense && i < slots.size(); ++i) {
        record.state.values.slots.push_back(buffer(info.bytes));
      }
      slices.push_back(std::move(record));
    }
    return write_shard(folder.path(), {{1, 1}, shard, layout.shards(), keys, slots, slices})
        .value();
  }
};

TEST_CASE("what a run writes is as large as it may be", "[checkpoint_size]") {
  World world;
  const std::string odd(40, '\x01');  // six characters each in a header
  world.keys = {{0, "w", base::Shape{600'000}}, {1, odd, base::Shape{}}, {2, "a", base::Shape{3}}};
  world.keys[2].kind = schemas::KeyKind::average;
  world.slots = {"mean", "variance"};
  for (const std::uint32_t shards : {1U, 3U, 8U}) {
    const TestFolder folder("checkpoint-size");
    schemas::Manifest manifest;
    manifest.keys = world.keys;
    manifest.optimizer_slots = world.slots;
    const SliceLayout layout = SliceLayout::create(world.keys, shards).value();
    for (std::uint32_t shard = 0; shard < shards; ++shard) {
      manifest.files.push_back(world.write(folder, layout, shard));
    }
    CHECK(check_sizes(manifest, 0).ok());
    const std::uint64_t most = checkpoint_bytes_most(world.keys, world.slots).value();
    CHECK(check_sizes(manifest, most).ok());
    CHECK(most < 3 * (600'000 * 4 + 50'000));
  }
}

TEST_CASE("files that are larger than the parameters are refused", "[checkpoint_size]") {
  schemas::Manifest manifest;
  manifest.step = 5;
  manifest.generation = 2;
  manifest.keys = {{0, "w", base::Shape{1'000}}};
  manifest.files.resize(2);
  manifest.files[0].bytes = 4'000;
  CHECK(check_sizes(manifest, 0).ok());
  manifest.files[1].bytes = std::uint64_t{1} << 30;
  const base::Status own = check_sizes(manifest, 0);
  CHECK(own.code() == base::Errc::data_loss);
  CHECK_THAT(own.text(), Contains("the manifest of step-5-g2 names files of 1073745824 bytes"));
  for (schemas::ShardFile& file : manifest.files) file.bytes = ~std::uint64_t{0};
  CHECK(check_sizes(manifest, 0).code() == base::Errc::data_loss);
}

TEST_CASE("the job's parameters count, not those that a manifest claims", "[checkpoint_size]") {
  schemas::Manifest manifest;
  manifest.keys = {{0, "w", base::Shape{std::int64_t{1} << 40}}};
  manifest.files.resize(1);
  manifest.files[0].bytes = std::uint64_t{1} << 40;
  CHECK(check_sizes(manifest, 0).ok());
  CHECK(check_sizes(manifest, 4'000'000).code() == base::Errc::data_loss);
  manifest.keys[0].shape = base::Shape{std::int64_t{1} << 40, 1'000};
  CHECK_THAT(check_sizes(manifest, 0).text(), Contains("key 'w' has the shape"));
}

}  // namespace
}  // namespace troupe::store
