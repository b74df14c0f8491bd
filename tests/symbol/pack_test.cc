// SPDX-License-Identifier: Apache-2.0
// Packing: pieces that are needed at the same time do not overlap, and the arena is near the bound.
#include "symbol/pack.h"

#include <algorithm>
#include <random>

#include "tests/support/catch.h"

namespace troupe::symbol {
namespace {

constexpr std::size_t kLine = 64;

bool meet(std::size_t begin, std::size_t end, std::size_t other_begin, std::size_t other_end) {
  return begin < other_end && other_begin < end;
}

/// Checks `pieces` as they were packed into `bytes`.
void check_packed(const std::vector<Piece>& pieces, std::size_t bytes) {
  std::size_t end = 0, faults = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Piece& a = pieces[i];
    end = std::max(end, a.end());
    if (a.offset % kLine != 0) ++faults;
    for (std::size_t k = 0; k < i; ++k) {
      const Piece& b = pieces[k];
      const bool alive = meet(a.first, a.last + 1, b.first, b.last + 1);
      if (alive && meet(a.offset, a.end(), b.offset, b.end())) ++faults;
    }
  }
  CHECK(faults == 0);
  CHECK(bytes == end);
  CHECK(bytes >= largest_live_set(pieces).bytes);
}

/// Lives as in training: most values are short, some of the first half wait for their counterpart
/// in the second.
std::vector<Piece> random_pieces(unsigned seed, std::size_t nodes) {
  std::mt19937 random(seed);
  std::vector<Piece> pieces;
  for (std::size_t node = 0; node < nodes; ++node) {
    const bool waits = node < nodes / 2 && random() % 2 == 0;
    const std::size_t last = waits ? nodes - 1 - node : node + random() % 4;
    pieces.push_back({kLine * (1 + random() % 64), node, std::min(last, nodes - 1), 0});
    if (random() % 4 == 0) pieces.push_back({kLine * (1 + random() % 32), node, node, 0});
  }
  return pieces;
}

TEST_CASE("what is needed at the same time does not overlap, and the arena is near the bound") {
  for (unsigned seed = 0; seed < 40; ++seed) {
    INFO(seed);
    std::vector<Piece> pieces = random_pieces(seed, 60);
    const std::size_t bytes = pack(pieces);
    check_packed(pieces, bytes);
    CHECK(static_cast<double>(bytes) <= 1.05 * static_cast<double>(largest_live_set(pieces).bytes));
    std::vector<Piece> again = random_pieces(seed, 60);
    CHECK(pack(again) == bytes);
    for (std::size_t i = 0; i < pieces.size(); ++i) REQUIRE(again[i].offset == pieces[i].offset);
  }
}

TEST_CASE("the live set is what one node finds alive at most") {
  CHECK(largest_live_set({}).bytes == 0);
  CHECK(largest_live_set({{64, 0, 1, 0}, {128, 2, 2, 0}}).bytes == 128);
  CHECK(largest_live_set({{64, 0, 2, 0}, {128, 2, 2, 0}, {192, 3, 9, 0}}).bytes == 192);
  std::vector<Piece> none;
  CHECK(pack(none) == 0);
  std::vector<Piece> in_turns{{64, 0, 0, 0}, {192, 1, 1, 0}, {128, 2, 4, 0}, {64, 3, 4, 0}};
  CHECK(pack(in_turns) == 192);
}

TEST_CASE("pieces of thousands of nodes are packed near the bound") {
  std::vector<Piece> pieces = random_pieces(7, 5000);
  const std::size_t bytes = pack(pieces);
  check_packed(pieces, bytes);
  CHECK(static_cast<double>(bytes) <= 1.05 * static_cast<double>(largest_live_set(pieces).bytes));
  // So many are placed as they come, pair by pair no more.
  pieces = random_pieces(7, 20000);
  const std::size_t more = pack(pieces);
  check_packed(pieces, more);
  CHECK(static_cast<double>(more) <= 1.25 * static_cast<double>(largest_live_set(pieces).bytes));
}

}  // namespace
}  // namespace troupe::symbol
