// SPDX-License-Identifier: Apache-2.0
// Copies of own kernels for GPUs on the host: by elements and by packs, wherever tensors begin.
#include "ops/support/device_copy.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/support/catch.h"

namespace troupe::ops {
namespace {

/// An axis as CopyMap::add() takes it.
struct Axis {
  std::int64_t extent, from, to;
};

CopyMap map_of(const std::vector<Axis>& axes) {
  CopyMap map;
  for (const Axis& each : axes) map.add(each.extent, each.from, each.to);
  return map;
}

/// (from, to) of all elements, by counting.
std::vector<std::pair<std::int64_t, std::int64_t>> places_of(const std::vector<Axis>& axes) {
  std::vector<std::pair<std::int64_t, std::int64_t>> places = {{0, 0}};
  for (const Axis& axis : axes) {
    std::vector<std::pair<std::int64_t, std::int64_t>> next;
    for (const auto& [from, to] : places) {
      for (std::int64_t i = 0; i < axis.extent; ++i) {
        next.emplace_back(from + i * axis.from, to + i * axis.to);
      }
    }
    places = std::move(next);
  }
  return places;
}

/// No file for devices copies this type (device_kernel.h, for_each_index).
using Number = std::int32_t;

constexpr std::int64_t kRoom = 4096;

/// Numbers that begin `shift` elements behind where a pack may lie.
struct Numbers {
  Numbers(std::int64_t shift, Number step) : memory(std::size_t(kRoom / 4 + 1)) {
    values = memory.front().values + shift;
    for (std::int64_t i = 0; i < kRoom; ++i) values[i] = static_cast<Number>(i) * step;
  }
  std::vector<DevicePack<Number>> memory;
  Number* values;
};

void check_copy(const std::vector<Axis>& axes, std::int64_t shift, bool adds) {
  const Numbers in(shift, 1);
  Numbers out(shift, -1), expected(shift, -1);
  for (const auto& [from, to] : places_of(axes)) {
    expected.values[to] = in.values[from] + (adds ? expected.values[to] : 0);
  }
  KernelContext context{};
  REQUIRE(copy_elements<Number>(context, map_of(axes), in.values, {out.values, adds}).ok());
  for (std::int64_t i = 0; i < kRoom; ++i) {
    if (out.values[i] != expected.values[i]) FAIL("element " << i << ", shift " << shift);
  }
}

TEST_CASE("copies go by packs only where whole packs lie on both sides", "[device_copy]") {
  const std::vector<std::pair<std::vector<Axis>, bool>> cases = {
      {{{1, 1, 1}}, false},               // one element
      {{{64, 1, 1}}, true},               // a row
      {{{6, 1, 1}}, false},               // no whole packs
      {{{5, 16, 40}, {8, 1, 1}}, true},   // a part of each row
      {{{5, 16, 42}, {8, 1, 1}}, false},  // rows begin anywhere
      {{{5, 18, 40}, {8, 1, 1}}, false},  // the same, where it is read
      {{{3, 100, 200}, {2, 20, 40}, {12, 1, 1}}, true},
      {{{4, 1, 8}, {8, 4, 1}}, false},    // a transpose
      {{{3, 0, 8}, {8, 1, 1}}, true},     // rows that repeat
      {{{0, 16, 16}, {8, 1, 1}}, false},  // nothing
  };
  for (const auto& [axes, packs] : cases) {
    INFO(axes.size() << " axes, the first of " << axes.front().extent);
    CHECK(map_of(axes).in_packs(4).has_value() == packs);
    for (const std::int64_t shift : {0, 1}) {
      for (const bool adds : {false, true}) check_copy(axes, shift, adds);
    }
  }
}

TEST_CASE("copies that turn neighbours into others go by tiles where whole packs lie on both sides",
          "[device_copy]") {
  struct Turned {
    std::vector<Axis> axes;
    int lines;  // of a tile; 0: none
    bool run = false;
  };
  const std::vector<Turned> cases = {
      {{{4, 1, 8}, {8, 4, 1}}, 4},                     // a transpose
      {{{16, 1, 32}, {32, 16, 1}}, 4},                 // of several tiles
      {{{3, 256, 256}, {16, 1, 16}, {16, 16, 1}}, 4},  // several of them
      {{{12, 1, 8}, {8, 12, 1}}, 4},
      {{{6, 1, 8}, {8, 6, 1}}, 0},   // no whole packs where it reads
      {{{8, 1, 6}, {6, 8, 1}}, 0},   // nor where it writes
      {{{8, 1, 10}, {8, 8, 1}}, 0},  // lines that begin anywhere
      {{{8, 1, 8}, {8, 10, 1}}, 0},
      {{{2, 66, 64}, {8, 1, 8}, {8, 8, 1}}, 0},
      {{{0, 1, 8}, {8, 4, 1}}, 0},          // nothing
      {{{20, 1, 3}, {3, 20, 1}}, 3, true},  // an image's channels, which are last then
      {{{2, 60, 60}, {20, 1, 3}, {3, 20, 1}}, 3, true},
      {{{8, 1, 2}, {2, 8, 1}}, 2, true},
      {{{8, 1, 4}, {4, 8, 1}}, 4, true},
      {{{8, 1, 5}, {5, 8, 1}}, 0},  // too many for a run
      {{{8, 1, 3}, {3, 9, 1}}, 0},  // channels that begin anywhere
      {{{2, 36, 38}, {12, 1, 3}, {3, 12, 1}}, 0},
      {{{3, 20, 1}, {20, 1, 3}}, 3, true},
  };
  for (const auto& [axes, lines, run] : cases) {
    INFO(axes.size() << " axes, the first of " << axes.front().extent << ", the last of "
                     << axes.back().extent);
    const auto tiles = copy_tiles(map_of(axes), 4);
    CHECK((tiles ? tiles->lines : 0) == lines);
    CHECK((tiles && tiles->run) == run);
    for (const std::int64_t shift : {0, 1}) {
      for (const bool adds : {false, true}) check_copy(axes, shift, adds);
    }
  }
}

}  // namespace
}  // namespace troupe::ops
