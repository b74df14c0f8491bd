// SPDX-License-Identifier: Apache-2.0
// Greedy packing: pieces are placed one after the other, each in a gap between those that are
// there at the same time. Which order is best depends on the network, so several are tried, and
// then what stuck out of the best one is placed earlier.
#include "symbol/pack.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace troupe::symbol {

namespace {

/// Pairs of pieces that are looked at before the best packing so far is taken; a few packings of
/// 5,000 nodes' pieces take less than a second. Where one has more pairs, there is a quicker way.
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

/// Bytes below the top of an arena that nobody uses.
class Holes {
 public:
  /// Takes the tightest hole, or what lies at the top; returns the offset.
  std::size_t take(std::size_t bytes) {
    const auto tightest = by_size_.lower_bound({bytes, 0});
    if (tightest == by_size_.end()) {
      const std::size_t offset = top_;
      top_ += bytes;
      return offset;
    }
    const auto [room, offset] = *tightest;
    erase(offset, room);
    if (room > bytes) insert(offset + bytes, room - bytes);
    return offset;
  }
  /// Gives back what was taken, and joins it with the holes beside it.
  void give(std::size_t offset, std::size_t bytes) {
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && next->first == offset + bytes) {
      const std::size_t more = next->second;
      erase(offset + bytes, more);
      bytes += more;
    }
    next = by_offset_.lower_bound(offset);
    if (next != by_offset_.begin() && std::prev(next)->first + std::prev(next)->second == offset) {
      const auto [before, more] = *std::prev(next);
      erase(before, more);
      offset = before;
      bytes += more;
    }
    insert(offset, bytes);
  }
  std::size_t top() const { return top_; }

 private:
  void insert(std::size_t offset, std::size_t bytes) {
    by_offset_.emplace(offset, bytes);
    by_size_.emplace(bytes, offset);
  }
  void erase(std::size_t offset, std::size_t bytes) {
    by_offset_.erase(offset);
    by_size_.erase({bytes, offset});
  }

  std::size_t top_ = 0;
  std::map<std::size_t, std::size_t> by_offset_;
  std::set<std::pair<std::size_t, std::size_t>> by_size_;
};

/// Places pieces in the order of their first nodes, as an allocator would. Takes n log n steps.
std::size_t place_in_time(std::vector<Piece>& pieces) {
  std::vector<std::size_t> order(pieces.size()), ends(pieces.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return pieces[a].first < pieces[b].first; });
  ends = order;
  std::stable_sort(ends.begin(), ends.end(),
                   [&](std::size_t a, std::size_t b) { return pieces[a].last < pieces[b].last; });
  Holes holes;
  auto done = ends.begin();
  for (const std::size_t index : order) {
    for (; pieces[*done].last < pieces[index].first; ++done) {
      holes.give(pieces[*done].offset, pieces[*done].bytes);
    }
    pieces[index].offset = holes.take(pieces[index].bytes);
  }
  return holes.top();
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
  const std::size_t packings = kPairsMax / pairs;
  if (packings == 0) return place_in_time(pieces);
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
