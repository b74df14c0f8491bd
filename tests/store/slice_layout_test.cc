// SPDX-License-Identifier: Apache-2.0
// Cutting keys into slices and placing them on shards.
#include "store/slice_layout.h"

#include <fmt/core.h>

#include "tests/support/catch.h"

namespace troupe::store {
namespace {

schemas::KeyInfo key(std::uint32_t id, std::int64_t elements) {
  schemas::KeyInfo info;
  info.id = id;
  info.name = fmt::format("k{}", id);
  info.shape = {elements};
  return info;
}

TEST_CASE("keys are cut by shape alone and whole slices balance the shards") {
  const std::vector<schemas::KeyInfo> keys{key(0, 10), key(1, 600'000), key(2, 100)};
  const auto layout = SliceLayout::create(keys, 2);
  REQUIRE(layout.ok());
  REQUIRE(layout->slices().size() == 5);
  CHECK(layout->of_key(1).size() == 3);
  CHECK(layout->info({1, 0}).bytes == kSliceBytes);
  CHECK(layout->info({1, 2}).offset == 2 * kSliceBytes / 4);
  CHECK(layout->info({1, 2}).elements == 600'000 - 2 * kSliceBytes / 4);
  CHECK(layout->info({1, 0}).shard == 0);
  CHECK(layout->info({1, 1}).shard == 1);
  CHECK(layout->info({1, 2}).shard == 0);
  CHECK(layout->info({2, 0}).shard == 1);
  CHECK(layout->info({0, 0}).shard == 1);
  CHECK(layout->first_shard() == 1);
  CHECK(layout->contains({1, 2}));
  CHECK_FALSE(layout->contains({1, 3}));
  CHECK_FALSE(layout->contains({3, 0}));

  const auto other = SliceLayout::create(keys, 3);
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(other->slices()[i].offset == layout->slices()[i].offset);
    CHECK(other->slices()[i].bytes == layout->slices()[i].bytes);
  }
}

TEST_CASE("a slice is cut in its dtype and says what travels") {
  schemas::KeyInfo half = key(0, 5);
  half.gradient_wire = base::DType::bf16;
  half.weight_wire = base::DType::f16;
  const auto layout = SliceLayout::create(std::vector{half, key(1, 1)}, 1, 16);
  REQUIRE(layout.ok());
  const auto slices = layout->of_key(0);
  REQUIRE(slices.size() == 2);
  CHECK(slices[0].bytes == 16);
  CHECK(slices[0].gradient_bytes == 8);
  CHECK(slices[0].weight_bytes == 8);
  CHECK(slices[1].offset == 4);
  CHECK(slices[1].gradient_bytes == 2);
  CHECK(layout->of_key(1)[0].gradient_bytes == 4);
  CHECK(layout->of_key(1)[0].weight_bytes == 4);
}

TEST_CASE("keys that cannot be cut are named") {
  const auto text = [](schemas::KeyInfo info) {
    return SliceLayout::create(std::vector{info}, 1).status().text();
  };
  schemas::KeyInfo rows = key(0, 4);
  rows.kind = schemas::KeyKind::rows;
  CHECK(text(rows).find("'k0': sparse rows") != std::string::npos);
  schemas::KeyInfo wider = key(0, 4);
  wider.gradient_wire = base::DType::f64;
  CHECK(text(wider) == "[slices] key 'k0' of dtype f32 cannot travel in f64");
  schemas::KeyInfo integers = key(0, 4);
  integers.dtype = integers.gradient_wire = base::DType::i32;
  integers.weight_wire = base::DType::f16;
  CHECK(text(integers) == "[slices] key 'k0' of dtype i32 cannot travel in f16");
  CHECK(text(key(0, 0)).find("no elements") != std::string::npos);
  schemas::KeyInfo huge = key(0, 0);
  huge.shape = {std::int64_t{1} << 32, std::int64_t{1} << 32};
  CHECK(text(huge) ==
        "[slices] key 'k0' of dtype f32: the shape (4294967296, 4294967296) has more than 2^40 "
        "elements");
  CHECK(text(key(1, 4)).find("id 1 at position 0") != std::string::npos);
  CHECK_FALSE(SliceLayout::create({}, 1).ok());
}

}  // namespace
}  // namespace troupe::store
