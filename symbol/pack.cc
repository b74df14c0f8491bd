// SPDX-License-Identifier: Apache-2.0
// Greedy packing: pieces are placed one after the other, each in a gap between those that are
// there at the same time. Which order is best depends on the network, so several are tried, and
// then what stuck out of the best one is placed earlier.
#include "symbol/pack.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace troupe::symbol {

namespace {

/// Pairs of pieces that are looked at before the best packing so far is taken; a few more packings
/// of 5,000 nodes' pieces take less than a second.
constexpr std::size_t kPairsMax = 120'000'000;
constexpr std::size_t kRoundsMax = 60;

enum class Fit { lowest, tightest };

/// An order of pieces and what came of it.
struct Packing {
  std::vector<std::size_t> order;
  Fit fit = Fit::lowest;
  std::vector<std::size_t> offsets;
  std::size_t bytes = std::numeric_limits<std::size_t>::max();
};

/// Where `piece` fits between `placed`, which are sorted by offset.
std::size_t gap(const std::vector<Piece>& placed, const Piece& piece, Fit fit) {
  std::size_t found = 0, tightest = std::numeric_limits<std::size_t>::max(), end = 0;
  for (const Piece& other : placed) {
    if (other.last < piece.first || other.first > piece.last) continue;
    if (other.offset >= end + piece.bytes) {
      const std::size_t room = other.offset - end;
      if (fit == Fit::lowest) return end;
      if (room < tightest) found = end;
      tightest = std::min(tightest, room);
    }
    end = std::max(end, other.end());
  }
  return tightest == std::numeric_limits<std::size_t>::max() ? end : found;
}

/// Fills in offsets and bytes; gives up, with bytes at the maximum, above `bytes_max`.
void place(const std::vector<Piece>& pieces, std::size_t bytes_max, Packing& packing) {
  std::vector<Piece> placed;
  placed.reserve(pieces.size());
  packing.offsets.assign(pieces.size(), 0);
  std::size_t bytes = 0;
  for (const std::size_t index : packing.order) {
    Piece piece = pieces[index];
    piece.offset = packing.offsets[index] = gap(placed, piece, packing.fit);
    bytes = std::max(bytes, piece.end());
    if (bytes > bytes_max) return;
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), piece,
                         [](const Piece& a, const Piece& b) { return a.offset < b.offset; }),
        piece);
  }
  packing.bytes = bytes;
}

/// All indices, those with the larger key first.
template <typename F>
std::vector<std::size_t> descending(const std::vector<Piece>& pieces, F&& key) {
  std::vector<std::size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return key(pieces[a]) > key(pieces[b]); });
  return order;
}

std::size_t nodes(const Piece& piece) {
  return piece.last - piece.first + 1;
}

std::vector<std::vector<std::size_t>> first_orders(const std::vector<Piece>& pieces) {
  return {
      descending(pieces, [](const Piece& p) { return p.bytes; }),
      descending(pieces, [](const Piece& p) { return nodes(p); }),
      descending(pieces,
                 [](const Piece& p) {
                   return static_cast<double>(p.bytes) * static_cast<double>(nodes(p));
                 }),
      descending(pieces, [](const Piece& p) { return p.last; }),
      descending(pieces, [](const Piece& p) { return ~p.first; }),
  };
}

/// Places what reaches above `bound` before everything else.
void promote(const std::vector<Piece>& pieces, std::size_t bound, Packing& packing) {
  std::stable_partition(packing.order.begin(), packing.order.end(), [&](std::size_t index) {
    return packing.offsets[index] + pieces[index].bytes > bound;
  });
}

}  // namespace

LiveSet largest_live_set(const std::vector<Piece>& pieces) {
  std::size_t nodes = 0;
  for (const Piece& piece : pieces) nodes = std::max(nodes, piece.last + 1);
  std::vector<std::size_t> begin(nodes, 0), end(nodes, 0);
  for (const Piece& piece : pieces) {
    begin[piece.first] += piece.bytes;
    end[piece.last] += piece.bytes;
  }
  std::size_t alive = 0;
  LiveSet largest;
  for (std::size_t node = 0; node < nodes; ++node) {
    alive += begin[node];
    if (alive > largest.bytes) largest = {node, alive};
    alive -= end[node];
  }
  return largest;
}

std::size_t pack(std::vector<Piece>& pieces) {
  const std::size_t bound = largest_live_set(pieces).bytes;
  const std::size_t pairs = pieces.size() * pieces.size() / 2 + 1;
  const std::size_t packings = std::max<std::size_t>(1, kPairsMax / pairs);
  Packing best;
  std::size_t tried = 0;
  for (auto& order : first_orders(pieces)) {
    for (const Fit fit : {Fit::lowest, Fit::tightest}) {
      if (best.bytes == bound || tried == packings) break;
      ++tried;
      Packing packing{order, fit, {}};
      place(pieces, best.bytes, packing);
      if (packing.bytes < best.bytes) best = std::move(packing);
    }
  }
  Packing next = best;
  for (std::size_t round = 0; round < kRoundsMax && best.bytes > bound && tried < packings;
       ++round) {
    ++tried;
    promote(pieces, bound, next);
    next.bytes = std::numeric_limits<std::size_t>::max();
    place(pieces, std::numeric_limits<std::size_t>::max(), next);
    if (next.bytes < best.bytes) best = next;
  }
  for (std::size_t i = 0; i < pieces.size(); ++i) pieces[i].offset = best.offsets[i];
  return best.bytes;
}

}  // namespace troupe::symbol
