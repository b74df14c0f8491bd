// SPDX-License-Identifier: Apache-2.0
// The planner, in three steps: pieces with their lives, along the order of nodes; their offsets
// (pack.h); and the order that re-use of bytes asks for.
#include "symbol/plan_memory.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "symbol/value_numbers.h"
#include "symbol/views.h"

namespace troupe::symbol {

namespace {

bool shares(MemoryMode mode) {
  return mode == MemoryMode::share || mode == MemoryMode::both;
}

/// Walks along the nodes and gives values and scratch their pieces, without offsets.
class Lives {
 public:
  /// `oldest`: of several inputs that an output may replace, the one whose piece began first; else
  /// the one that the operator names first.
  Lives(const PlanRequest& request, const ValueNumbers& numbers, const ViewGroups& groups,
        bool oldest)
      : request_(request),
        graph_(*request.graph),
        numbers_(numbers),
        groups_(groups),
        oldest_(oldest),
        uses_(numbers.size(), 0),
        pieces_(numbers.size(), -1) {
    plan_.value_piece.assign(numbers_.size(), -1);
    plan_.value_offset.assign(numbers_.size(), 0);
    plan_.scratch_piece.assign(graph_.nodes.size(), -1);
  }

  MemoryPlan find() {
    for (const GraphNode& node : graph_.nodes) {
      for (std::size_t k = 0; k < node.inputs.size(); ++k) {
        if (node.reads(k)) ++uses_[groups_.group(numbers_[node.inputs[k]])];
      }
    }
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!graph_.nodes[i].is_variable()) visit(i);
    }
    return std::move(plan_);
  }

 private:
  /// The piece of an input that `node` is the last to read and may overwrite with `output`.
  int in_place_piece(const GraphNode& node, int output, std::size_t value) const {
    if (!goes_in_place(request_.mode) || !groups_.is_whole(value)) return -1;
    int found = -1;
    for (const auto& [from, to] : node.op->in_place) {
      const auto index = static_cast<std::size_t>(from);
      if (to != output || index >= node.inputs.size()) continue;
      const std::size_t input = numbers_[node.inputs[index]];
      const int piece = plan_.value_piece[input];
      const bool last = uses_[groups_.group(input)] == 1 && node.reads(index);
      const bool taken = std::find(taken_.begin(), taken_.end(), piece) != taken_.end();
      const bool fits =
          request_.value_kind[input] == request_.value_kind[value] && groups_.is_whole(input);
      if (piece < 0 || !last || !fits || taken) continue;
      if (found < 0 || (oldest_ && piece < found)) found = piece;
    }
    return found;
  }

  int add_piece(std::size_t node, std::size_t bytes) {
    plan_.pieces.push_back({bytes, node, node, 0});
    return static_cast<int>(plan_.pieces.size()) - 1;
  }

  static std::size_t bytes_of(std::size_t value_bytes) {
    return piece_bytes(std::max<std::size_t>(value_bytes, 1));
  }

  /// The piece of a value's group, which takes no other's.
  int own_piece(std::size_t node, std::size_t value) {
    return add_piece(node, bytes_of(groups_.bytes(groups_.group(value))));
  }

  bool gathered(std::size_t value) const {
    return !request_.gathered.empty() && request_.gathered[value] && !request_.external[value];
  }

  void begin_gathered(std::size_t node) {
    for (std::size_t value = 0; value < numbers_.size(); ++value) {
      if (!gathered(value)) continue;
      plan_.value_piece[value] = pieces_[groups_.group(value)] = own_piece(node, value);
    }
  }

  void visit(std::size_t index) {
    const GraphNode& node = graph_.nodes[index];
    taken_.clear();
    if (index == request_.gathered_from) begin_gathered(index);
    for (std::size_t value = numbers_.begin(index); value < numbers_.end(index); ++value) {
      if (request_.external[value]) continue;
      plan_.unshared_bytes += bytes_of(request_.value_bytes[value]);
      if (gathered(value)) {
        extend(plan_.value_piece[value], index);
      } else {
        give_piece(index, value);
      }
    }
    if (request_.scratch_bytes[index] > 0) {
      const std::size_t bytes = piece_bytes(request_.scratch_bytes[index]);
      plan_.unshared_bytes += bytes;
      plan_.scratch_piece[index] = add_piece(index, bytes);
    }
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      if (!node.reads(k)) continue;
      const std::size_t input = numbers_[node.inputs[k]];
      --uses_[groups_.group(input)];
      extend(plan_.value_piece[input], index);
    }
  }

  void give_piece(std::size_t index, std::size_t value) {
    const GraphNode& node = graph_.nodes[index];
    int& piece = pieces_[groups_.group(value)];
    if (piece < 0) {
      piece = in_place_piece(node, static_cast<int>(value - numbers_.begin(index)), value);
      if (piece >= 0) taken_.push_back(piece);
    }
    if (piece < 0) piece = own_piece(index, value);
    plan_.value_piece[value] = piece;
    plan_.value_offset[value] = groups_.offset(value);
    extend(piece, index);
    const bool begins = plan_.pieces[static_cast<std::size_t>(piece)].first == index;
    if (!begins && overlaps_input(node, value)) ++plan_.in_place;
  }

  /// The value lies where one does that `node` reads.
  bool overlaps_input(const GraphNode& node, std::size_t value) const {
    const std::size_t begin = plan_.value_offset[value], bytes = request_.value_bytes[value];
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      const std::size_t input = numbers_[node.inputs[k]];
      const std::size_t other = plan_.value_offset[input];
      if (plan_.value_piece[input] != plan_.value_piece[value] || !node.reads(k)) continue;
      if (begin < other + request_.value_bytes[input] && other < begin + bytes) return true;
    }
    return false;
  }

  void extend(int piece, std::size_t node) {
    if (piece >= 0) plan_.pieces[static_cast<std::size_t>(piece)].last = node;
  }

  const PlanRequest& request_;
  const Graph& graph_;
  const ValueNumbers& numbers_;
  const ViewGroups& groups_;
  const bool oldest_;
  std::vector<int> uses_;    // per group: reads that are still to come
  std::vector<int> pieces_;  // per group; -1: nobody has written it yet
  std::vector<int> taken_;   // pieces of inputs that this node's outputs took over
  MemoryPlan plan_;
};

/// Sets of nodes as rows of bits; of more than kNodesMax nodes nothing is known.
class NodeSets {
 public:
  explicit NodeSets(std::size_t nodes)
      : words_(nodes > kNodesMax ? 0 : (nodes + kBits - 1) / kBits), bits_(words_ * nodes, 0) {}

  bool contains(std::size_t set, std::size_t node) const {
    return words_ > 0 && (bits_[set * words_ + node / kBits] >> node % kBits & 1) != 0;
  }
  void insert(std::size_t set, std::size_t node) {
    if (words_ > 0) bits_[set * words_ + node / kBits] |= std::uint64_t{1} << node % kBits;
  }
  /// Adds all of set `other`.
  void unite(std::size_t set, std::size_t other) {
    for (std::size_t w = 0; w < words_; ++w) bits_[set * words_ + w] |= bits_[other * words_ + w];
  }

 private:
  static constexpr std::size_t kBits = 64;
  static constexpr std::size_t kNodesMax = 16384;  // 32 MiB of bits
  const std::size_t words_;
  std::vector<std::uint64_t> bits_;
};

/// Who had the bytes of an arena last.
class Owners {
 public:
  /// All owners of [begin, end), each once, from now on with another one: instead of them, or, with
  /// `beside`, in addition.
  std::vector<std::size_t> replace(std::size_t begin, std::size_t end, std::size_t owner,
                                   bool beside) {
    std::set<std::size_t> before;
    split(end);
    for (auto range = split(begin); range->first < end; ++range) {
      before.insert(range->second.begin(), range->second.end());
      if (!beside) range->second.clear();
      range->second.push_back(owner);
    }
    return {before.begin(), before.end()};
  }

 private:
  using Ranges = std::map<std::size_t, std::vector<std::size_t>>;

  /// The range that begins at `at`.
  Ranges::iterator split(std::size_t at) {
    const auto next = ranges_.upper_bound(at);
    return ranges_.try_emplace(next, at, std::prev(next)->second);
  }

  Ranges ranges_{{0, {}}};  // by their begin; each ends where the next one begins
};

/// Finds what each piece must come after. Walks along the nodes and knows, per node, which others
/// are done before it begins.
class Precedence {
 public:
  Precedence(const PlanRequest& request, const ValueNumbers& numbers, MemoryPlan& plan)
      : request_(request),
        graph_(*request.graph),
        numbers_(numbers),
        plan_(plan),
        users_(plan.pieces.size()),
        done_(graph_.nodes.size()) {}

  void find() {
    plan_.after.assign(plan_.pieces.size(), {});
    early_.assign(plan_.pieces.size(), false);
    for (std::size_t value = 0; value < numbers_.size(); ++value) {
      const int piece = plan_.value_piece[value];
      if (piece >= 0 && is_gathered(value)) early_[static_cast<std::size_t>(piece)] = true;
    }
    std::size_t next = 0;  // pieces are in the order of their first nodes
    for (std::size_t node = 0; node < graph_.nodes.size(); ++node) {
      if (graph_.nodes[node].is_variable()) continue;
      follow_values(node);
      const std::size_t begin = next;
      while (next < plan_.pieces.size() && plan_.pieces[next].first == node) ++next;
      for (std::size_t piece = begin; piece < next; ++piece) take_over(piece);
      for (std::size_t piece = begin; piece < next; ++piece) {
        if (!early_[piece]) users_[piece].push_back(node);
      }
    }
  }

 private:
  bool optional(std::size_t node) const {
    return !request_.optional.empty() && request_.optional[node];
  }

  bool is_gathered(std::size_t value) const {
    return !request_.gathered.empty() && request_.gathered[value];
  }

  /// `node` begins when `other` and all before it are done.
  void follow(std::size_t node, std::size_t other) {
    if (done_.contains(node, other)) return;
    done_.insert(node, other);
    if (!optional(other)) done_.unite(node, other);
  }

  /// What reading its inputs, and writing in place, makes a node wait for.
  void follow_values(std::size_t node) {
    const std::vector<Value>& inputs = graph_.nodes[node].inputs;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (!graph_.nodes[node].reads(k) || graph_.node(inputs[k]).is_variable()) continue;
      follow(node, node_index(inputs[k]));
      if (const int piece = plan_.value_piece[numbers_[inputs[k]]]; piece >= 0) use(node, piece);
    }
    for (std::size_t value = numbers_.begin(node); value < numbers_.end(node); ++value) {
      const int piece = plan_.value_piece[value];
      if (piece < 0) continue;
      const bool begins = plan_.pieces[static_cast<std::size_t>(piece)].first == node;
      if (!is_gathered(value) && !begins) {
        std::vector<std::size_t>& users = users_[static_cast<std::size_t>(piece)];
        for (const std::size_t user : users) {
          if (user != node) follow(node, user);
        }
        if (!optional(node)) users.clear();  // who waits for this node has waited for them
      }
      if (is_gathered(value) || !begins) use(node, piece);
    }
  }

  void use(std::size_t node, int piece) {
    std::vector<std::size_t>& users = users_[static_cast<std::size_t>(piece)];
    if (users.empty() || users.back() != node) users.push_back(node);
  }

  /// Looks at those whose bytes piece `index` takes over. Those before them need no look: their
  /// users were waited for, unless by a node that may be left out.
  void take_over(std::size_t index) {
    const Piece& piece = plan_.pieces[index];
    std::vector<std::size_t> dead =
        owners_.replace(piece.offset, piece.end(), index, optional(piece.first));
    // From the one that lived longest: waiting for its users is often enough for the others.
    std::stable_sort(dead.begin(), dead.end(), [this](std::size_t a, std::size_t b) {
      return plan_.pieces[a].last > plan_.pieces[b].last;
    });
    for (const std::size_t other : dead) {
      const auto done = [&](std::size_t user) { return done_.contains(piece.first, user); };
      if (std::all_of(users_[other].begin(), users_[other].end(), done)) continue;
      plan_.after[index].push_back(other);
      for (const std::size_t user : users_[other]) follow(piece.first, user);
    }
  }

  const PlanRequest& request_;
  const Graph& graph_;
  const ValueNumbers& numbers_;
  MemoryPlan& plan_;
  std::vector<std::vector<std::size_t>> users_;  // per piece: nodes so far that read or write it
  std::vector<bool> early_;  // per piece: of a gathered value, begun for it by another node
  NodeSets done_;            // per node: those done before it begins
  Owners owners_;
};

}  // namespace

namespace {

/// All but offsets and what follows from them.
MemoryPlan find_lives(const PlanRequest& request, const ValueNumbers& numbers,
                      const ViewGroups& groups, bool oldest) {
  MemoryPlan plan = Lives(request, numbers, groups, oldest).find();
  plan.peak = largest_live_set(plan.pieces);
  return plan;
}

std::size_t sum_of_bytes(const std::vector<Piece>& pieces) {
  std::size_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.bytes;
  return bytes;
}

/// Groups, and the lives that follow from them.
struct Grouping {
  Grouping(const PlanRequest& request, const ValueNumbers& numbers, ViewKind kind)
      : groups(request, numbers, kind), lives(find_lives(request, numbers, groups, true)) {}

  ViewGroups groups;
  MemoryPlan lives;
};

/// A range keeps all bytes of its group in use, or takes them early: where that needs more memory
/// than copies do, there are only views of wholes.
Grouping choose_groups(const PlanRequest& request, const ValueNumbers& numbers) {
  Grouping any(request, numbers, ViewKind::any);
  if (!any.groups.any_ranges()) return any;
  Grouping whole(request, numbers, ViewKind::whole);
  const auto needed = [&request](const MemoryPlan& lives) {
    return shares(request.mode) ? lives.peak.bytes : sum_of_bytes(lives.pieces);
  };
  return needed(any.lives) > needed(whole.lives) ? whole : any;
}

/// Gives the pieces their offsets.
MemoryPlan place(MemoryPlan plan, MemoryMode mode) {
  if (shares(mode)) {
    plan.arena_bytes = pack(plan.pieces);
    return plan;
  }
  for (Piece& piece : plan.pieces) {
    piece.offset = plan.arena_bytes;
    plan.arena_bytes += piece.bytes;
  }
  return plan;
}

}  // namespace

PlanRequest plan_request(const PreparedGraph& prepared, std::vector<bool> external) {
  PlanRequest request;
  request.graph = &prepared.graph;
  request.external = std::move(external);
  const SubBatch& sub = prepared.sub_batch;
  if (sub.active()) {
    request.gathered = sub.sliced;
    const auto first = std::find(sub.nodes.begin(), sub.nodes.end(), true);
    request.gathered_from = static_cast<std::size_t>(first - sub.nodes.begin());
  }
  const auto alike = [&](std::size_t a, std::size_t b) {
    return prepared.shapes[a] == prepared.shapes[b] && prepared.dtypes[a] == prepared.dtypes[b] &&
           prepared.layouts[a] == prepared.layouts[b];
  };
  std::unordered_map<std::size_t, std::vector<std::size_t>> kinds;  // of the values of equal size
  for (std::size_t v = 0; v < prepared.numbers.size(); ++v) {
    const std::size_t element = base::dtype_size(prepared.dtypes[v]);
    const auto bytes =
        static_cast<std::size_t>(prepared.layouts[v].buffer_bytes(prepared.shapes[v], element));
    request.value_bytes.push_back(bytes);
    // The first value that looks the same lends its number.
    std::vector<std::size_t>& firsts = kinds[bytes];
    const auto kind = std::find_if(firsts.begin(), firsts.end(),
                                   [&](std::size_t first) { return alike(first, v); });
    request.value_kind.push_back(static_cast<int>(kind == firsts.end() ? v : *kind));
    if (kind == firsts.end()) firsts.push_back(v);
  }
  for (std::size_t node = 0; node < prepared.kernels.size(); ++node) {
    const auto& kernel = prepared.kernels[node];
    request.scratch_bytes.push_back(kernel == nullptr ? 0 : kernel->scratch_bytes());
    add_views(node, prepared.plans[node], request.views);
    if (!sub.active() || !sub.nodes[node]) continue;
    // A part of a value that has all samples is no place for others.
    std::erase_if(request.views, [&](const NodeView& of) {
      const auto input = static_cast<std::size_t>(of.view.input);
      return of.node == node &&
             sub.sliced[prepared.numbers[prepared.graph.nodes[node].inputs[input]]];
    });
  }
  return request;
}

std::vector<Alive> alive_at_peak(const Graph& graph, const MemoryPlan& plan) {
  const ValueNumbers numbers(graph);
  std::vector<std::optional<Value>> values(plan.pieces.size());
  for (std::size_t node = 0; node <= plan.peak.node && !plan.pieces.empty(); ++node) {
    for (int output = 0; output < graph.nodes[node].outputs; ++output) {
      const Value value{static_cast<std::int64_t>(node), output};
      const int piece = plan.value_piece[numbers[value]];
      if (piece >= 0) values[static_cast<std::size_t>(piece)] = value;
    }
  }
  std::vector<Alive> alive;
  for (std::size_t i = 0; i < plan.pieces.size(); ++i) {
    const Piece& piece = plan.pieces[i];
    if (piece.first > plan.peak.node || plan.peak.node > piece.last) continue;
    alive.push_back({piece.bytes, values[i]});
  }
  std::stable_sort(alive.begin(), alive.end(),
                   [](const Alive& a, const Alive& b) { return a.bytes > b.bytes; });
  return alive;
}

LiveSet planned_live_set(const PlanRequest& request) {
  const ValueNumbers numbers(*request.graph);
  return choose_groups(request, numbers).lives.peak;
}

MemoryPlan plan_memory(const PlanRequest& request) {
  const ValueNumbers numbers(*request.graph);
  // An old piece lies among what stays, so what takes it over leaves no hole there. Mostly.
  Grouping grouping = choose_groups(request, numbers);
  MemoryPlan plan = place(std::move(grouping.lives), request.mode);
  if (request.mode == MemoryMode::both && plan.arena_bytes > plan.peak.bytes) {
    MemoryPlan other = place(find_lives(request, numbers, grouping.groups, false), request.mode);
    if (other.arena_bytes < plan.arena_bytes) plan = std::move(other);
  }
  Precedence(request, numbers, plan).find();
  return plan;
}

}  // namespace troupe::symbol
