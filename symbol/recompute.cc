// SPDX-License-Identifier: Apache-2.0
// Two ways to choose what is kept, tried in several sizes and judged by the live set that planning
// would find: single values, those first that take the most bytes a second; and segments, with
// single values again inside.
#include "symbol/recompute.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "base/units.h"
#include "symbol/clones.h"

namespace troupe::symbol {

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr int kFar = std::numeric_limits<int>::max() / 2;
/// The share of a step's time that cheap recomputation may take by the kernels' rules.
constexpr double kCheap = 0.04;
/// The same where products and convolutions are among it, for which the rules take too little. They
/// are looked at where the others leave a tenth of that, and taken where the plan is smaller by
/// kWorthProducts.
constexpr double kCheapProducts = 0.029, kWorthProducts = 0.92, kRoom = 0.9;
/// A plan that is less smaller than this is not worth any time.
constexpr double kWorthwhile = 0.99;
/// Of the smallest plans, as far as they differ by less than this, the quickest is taken.
constexpr double kAlike = 1.05;
/// How many clones may stand one behind another before a value: one that is made of many makes all
/// of them live again.
constexpr int kDepths[] = {1, 2, 3, 4, 6};
/// Of the live set: about how many bytes' values are dropped before it is measured again; of a
/// graph of more than kBatchNodes nodes more, in proportion, so that the time for the search grows
/// with the nodes, not with their square, up to kLargestBatch.
constexpr double kBatch = 0.007, kLargestBatch = 0.05;
constexpr std::size_t kBatchNodes = 1500;
/// Of the live set without recomputation: what a segment and the borders before it may take.
constexpr double kLargestSegment = 0.6, kSmallestSegment = 0.03, kSegmentStep = 0.87;

/// What is known of a draft's nodes.
struct Facts {
  Facts(const Cloner& cloner, const Draft& draft, const PlanRequest& request);

  struct Node {
    std::size_t outputs = 0;     // of its clone; 0: it must be kept where it is needed
    std::size_t bytes = 0;       // of those outputs, or of all
    bool late = false;           // a late node reads them
    bool early = false;          // another one does
    std::size_t last = 0;        // the last such one
    std::size_t first_late = 0;  // the first late one
    double cost = kInfinite;  // seconds of the clone, and of those before it that nobody else needs
    bool product = false;     // one of these is a product or a convolution
    std::vector<Value> reads;  // of its clone
  };
  /// The value needs no memory of the arena, or is a hidden output that stays.
  bool is_free(Value value) const {
    const Node& node = nodes[node_index(value)];
    const bool hidden = node.outputs > 0 && static_cast<std::size_t>(value.output) >= node.outputs;
    return hidden || request.external[numbers[value]];
  }
  bool is_candidate(std::size_t i) const { return nodes[i].late && nodes[i].cost < kInfinite; }

  const Draft& draft;
  const PlanRequest& request;
  ValueNumbers numbers;
  std::vector<Node> nodes;

 private:
  void find_outputs(const Cloner& cloner);
  void find_readers();
  void find_cost(const Cloner& cloner, std::size_t index);
};

Facts::Facts(const Cloner& cloner, const Draft& of, const PlanRequest& planned)
    : draft(of), request(planned), numbers(of.graph), nodes(of.graph.nodes.size()) {
  find_outputs(cloner);
  find_readers();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!nodes[i].early) nodes[i].outputs = 0;  // it would run for its clone alone
    find_cost(cloner, i);
  }
}

void Facts::find_outputs(const Cloner& cloner) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].outputs = cloner.outputs(draft, i);
    const auto first = request.external.begin() + static_cast<std::ptrdiff_t>(numbers.begin(i));
    const auto end = first + static_cast<std::ptrdiff_t>(nodes[i].outputs);
    if (std::find(first, end, true) != end) nodes[i].outputs = 0;
    const std::size_t all = numbers.end(i) - numbers.begin(i);
    const std::size_t counted = nodes[i].outputs > 0 ? nodes[i].outputs : all;
    for (std::size_t k = 0; k < counted; ++k) {
      nodes[i].bytes += request.value_bytes[numbers.begin(i) + k];
    }
  }
}

void Facts::find_readers() {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const GraphNode& node = draft.graph.nodes[i];
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      Node& from = nodes[node_index(node.inputs[k])];
      if (!node.reads(k) || is_free(node.inputs[k])) continue;
      if (!draft.is_late(i)) {
        from.early = true;
        from.last = i;
      } else if (!from.late) {
        from.late = true;
        from.first_late = i;
      }
    }
  }
}

void Facts::find_cost(const Cloner& cloner, std::size_t index) {
  Node& node = nodes[index];
  if (node.outputs == 0) return;
  const GraphNode call = cloner.call(draft, index);
  node.cost = cloner.plan(draft, index).seconds();
  node.product = call.op->multiplies_and_adds;
  for (std::size_t k = 0; k < call.inputs.size(); ++k) {
    const Value value = call.inputs[k];
    if (!call.reads(k)) continue;
    node.reads.push_back(value);
    const Node& from = nodes[node_index(value)];
    if (is_free(value) || from.late) continue;
    node.cost += from.cost;
    node.product = node.product || from.product;
  }
}

/// What is kept when the nodes `drop` need not be, as far as at most `depth` clones one behind
/// another make them.
std::vector<bool> keep_all_but(const Facts& facts, const std::vector<bool>& drop, int depth) {
  std::vector<bool> keep(facts.nodes.size(), true);
  std::vector<int> depths(facts.nodes.size(), kFar);
  for (std::size_t i = 0; i < facts.nodes.size(); ++i) {
    const Facts::Node& node = facts.nodes[i];
    int own = node.outputs > 0 ? 1 : kFar;
    for (const Value value : node.reads) {
      if (!facts.is_free(value)) own = std::max(own, depths[node_index(value)] + 1);
    }
    keep[i] = own > depth || (node.late && !drop[i]);
    if (keep[i]) own = node.late ? 0 : kFar;
    depths[i] = own;
  }
  return keep;
}

/// Nodes whose values could be recomputed, those first that give the most bytes a second.
std::vector<std::size_t> candidates(const Facts& facts, bool products) {
  std::vector<std::size_t> list;
  for (std::size_t i = 0; i < facts.nodes.size(); ++i) {
    if (facts.is_candidate(i) && (products || !facts.nodes[i].product)) list.push_back(i);
  }
  const auto gain = [&facts](std::size_t i) {
    return static_cast<double>(facts.nodes[i].bytes) / facts.nodes[i].cost;
  };
  std::stable_sort(list.begin(), list.end(),
                   [&gain](std::size_t a, std::size_t b) { return gain(a) > gain(b); });
  return list;
}

/// Cuts the forward pass: what is kept so that a segment and the borders before it take `most`
/// bytes or so. What follows the last border is kept.
std::vector<bool> keep_borders(const Facts& facts, double most) {
  const std::size_t count = facts.nodes.size();
  // Inside, what is not dear is recomputed again.
  std::vector<bool> cheap(count, false);
  for (const std::size_t i : candidates(facts, false)) cheap[i] = true;
  const std::vector<bool> held = keep_all_but(facts, cheap, 1);
  std::vector<double> inside(count + 1, 0.0), crossing(count + 1, 0.0);
  for (std::size_t i = 0; i < count; ++i) {
    const Facts::Node& node = facts.nodes[i];
    const auto bytes = static_cast<double>(node.bytes);
    inside[i + 1] = inside[i] + (node.late && held[i] ? bytes : 0.0);
    if (!node.early) continue;
    crossing[i] += bytes;
    crossing[node.last] -= bytes;
  }
  std::partial_sum(crossing.begin(), crossing.end(), crossing.begin());
  std::vector<bool> keep(count, true);
  std::size_t begin = 0;
  double borders = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    if (borders + inside[i + 1] - inside[begin] <= most) continue;
    // The thinnest place in the later half, the last of several.
    std::size_t cut = i;
    for (std::size_t at = i; at-- > begin + 1;) {
      if (inside[at + 1] - inside[begin] < (inside[i + 1] - inside[begin]) / 2) break;
      if (crossing[at] < crossing[cut]) cut = at;
    }
    for (std::size_t at = begin; at <= cut; ++at) {
      const Facts::Node& node = facts.nodes[at];
      if (node.outputs > 0 && node.last <= cut) keep[at] = false;
      if (node.early && node.last > cut) borders += static_cast<double>(node.bytes);
    }
    begin = cut + 1;
  }
  return keep;
}

/// The search for one graph.
class Search {
 public:
  /// `step_seconds`: of the graph without clones.
  Search(const Cloner& cloner, MemoryMode memory, double step_seconds)
      : cloner_(cloner),
        memory_(memory),
        original_(cloner.original()),
        request_(cloner.request(original_, memory)),
        facts_(cloner, original_, request_),
        peak_(planned_live_set(request_).bytes),
        step_seconds_(step_seconds) {}

  const Draft& original() const { return original_; }
  std::size_t arena(const Draft& draft) const {
    return plan_memory(cloner_.request(draft, memory_)).arena_bytes;
  }
  std::size_t peak(const Draft& draft) const {
    return planned_live_set(cloner_.request(draft, memory_)).bytes;
  }

  /// f(draft, live set) for drafts that recompute more and more values, until there are no more
  /// that would help; false: keep the last ones. `products`: those of products and convolutions,
  /// too.
  template <typename F>
  void for_values(bool products, int depth, F&& f) const;
  Draft cheap() const;
  /// f(draft) for drafts of segments, the longest first.
  template <typename F>
  void for_segments(F&& f) const;
  /// The quickest of those that take at most `alike` times the smallest one's bytes.
  Draft smallest(double alike) const;
  base::Result<Draft> fitting(std::size_t budget) const;

 private:
  Draft without(const std::vector<bool>& drop, int depth) const {
    return cloner_.clone(original_, keep_all_but(facts_, drop, depth));
  }
  base::Status too_small(std::size_t budget) const;

  const Cloner& cloner_;
  const MemoryMode memory_;
  const Draft original_;
  const PlanRequest request_;
  const Facts facts_;
  const std::size_t peak_;
  const double step_seconds_;
};

template <typename F>
void Search::for_values(bool products, int depth, F&& f) const {
  std::vector<std::size_t> list = candidates(facts_, products);
  std::vector<bool> drop(facts_.nodes.size(), false);
  LiveSet peak = planned_live_set(request_);
  std::size_t moment = peak.node;
  const std::size_t nodes = facts_.nodes.size();
  const double share = std::min(
      kLargestBatch, kBatch * static_cast<double>(std::max(nodes, kBatchNodes)) / kBatchNodes);
  while (true) {
    std::size_t bytes = 0;
    std::vector<std::size_t> batch;
    std::erase_if(list, [&](std::size_t i) {
      const Facts::Node& node = facts_.nodes[i];
      const bool helps = node.last < moment && moment < node.first_late;
      if (!helps || static_cast<double>(bytes) > share * static_cast<double>(peak.bytes))
        return false;
      bytes += node.bytes;
      batch.push_back(i);
      return true;
    });
    if (batch.empty()) return;
    for (const std::size_t i : batch) drop[i] = true;
    Draft draft = without(drop, depth);
    const LiveSet found = planned_live_set(cloner_.request(draft, memory_));
    // The node itself, or the late one that its clone stands before.
    std::size_t node = found.node;
    while (draft.clone[node]) ++node;
    const std::size_t then = draft.nodes[node];
    if (f(std::move(draft), found.bytes)) {
      peak = found;
      moment = then;
    } else {
      for (const std::size_t i : batch) drop[i] = false;
    }
  }
}

Draft Search::cheap() const {
  Draft best = original_;
  auto least = static_cast<std::size_t>(kWorthwhile * static_cast<double>(peak_));
  for (const bool products : {false, true}) {
    const double most = (products ? kCheapProducts : kCheap) * step_seconds_;
    if (products && best.seconds > kRoom * kCheapProducts * step_seconds_) break;
    if (products) least = static_cast<std::size_t>(kWorthProducts * static_cast<double>(least));
    const auto consider = [&](Draft draft, std::size_t bytes) {
      if (draft.seconds > most) return false;
      if (bytes < least) {
        least = bytes;
        best = std::move(draft);
      }
      return true;
    };
    for (const int depth : kDepths) for_values(products, depth, consider);
  }
  return best;
}

template <typename F>
void Search::for_segments(F&& f) const {
  for (double share = kLargestSegment; share > kSmallestSegment; share *= kSegmentStep) {
    const Draft cut =
        cloner_.clone(original_, keep_borders(facts_, share * static_cast<double>(peak_)));
    f(cut);
    const PlanRequest request = cloner_.request(cut, memory_);
    const Facts facts(cloner_, cut, request);
    std::vector<bool> drop(facts.nodes.size(), false);
    for (const std::size_t i : candidates(facts, false)) drop[i] = true;
    for (const int depth : {1, 3}) f(cloner_.clone(cut, keep_all_but(facts, drop, depth)));
  }
}

Draft Search::smallest(double alike) const {
  std::vector<std::pair<std::size_t, Draft>> found;
  std::size_t least = peak_;
  found.emplace_back(peak_, original_);
  for_segments([&](Draft draft) {
    const std::size_t bytes = peak(draft);
    least = std::min(least, bytes);
    const auto most = static_cast<std::size_t>(alike * static_cast<double>(least));
    // A draft is as large as the graph, so those that can no longer be chosen go at once.
    std::erase_if(found, [&](const auto& each) {
      const bool beaten = bytes <= each.first && draft.seconds < each.second.seconds;
      return each.first > most || beaten;
    });
    const auto as_good = [&](const auto& each) {
      return each.first <= bytes && each.second.seconds <= draft.seconds;
    };
    const bool chosen = bytes <= most && std::none_of(found.begin(), found.end(), as_good);
    if (chosen) found.emplace_back(bytes, std::move(draft));
  });
  const auto quickest = std::min_element(
      found.begin(), found.end(),
      [](const auto& a, const auto& b) { return a.second.seconds < b.second.seconds; });
  return std::move(quickest->second);
}

base::Result<Draft> Search::fitting(std::size_t budget) const {
  if (arena(original_) <= budget) return original_;
  std::optional<Draft> best;
  const auto consider = [&](Draft draft) {
    if (peak(draft) > budget) return false;
    if (best && best->seconds <= draft.seconds) return true;
    if (arena(draft) > budget) return false;
    best = std::move(draft);
    return true;
  };
  for (const int depth : kDepths) {
    for_values(true, depth, [&](Draft draft, std::size_t) { return !consider(std::move(draft)); });
  }
  for_segments(consider);
  if (best) return *std::move(best);
  return too_small(budget);
}

base::Status Search::too_small(std::size_t budget) const {
  const Draft draft = smallest(1.0);
  const MemoryPlan plan = plan_memory(cloner_.request(draft, memory_));
  std::vector<std::string> largest;
  constexpr std::size_t kNamed = 3;
  for (const Alive& alive : alive_at_peak(draft.graph, plan)) {
    if (largest.size() == kNamed) break;
    const std::string name =
        alive.value ? draft.graph.value_name(*alive.value) : std::string("its scratch");
    largest.push_back(fmt::format("{} ({})", name, base::format_bytes(alive.bytes)));
  }
  return base::error(base::Errc::resource_exhausted,
                     "no plan fits into the budget of {} for values and scratch; the smallest "
                     "found takes {} bytes ({}), without recomputation {}. At {} it needs most: {}",
                     base::format_bytes(budget), plan.arena_bytes,
                     base::format_bytes(plan.arena_bytes), base::format_bytes(arena(original_)),
                     draft.graph.nodes[plan.peak.node].name, fmt::join(largest, ", "));
}

base::Result<Draft> choose(const Search& search, const RecomputeOptions& options) {
  switch (options.policy) {
    case Recompute::none:
      return search.original();
    case Recompute::cheap:
      return search.cheap();
    case Recompute::sqrt:
      return search.smallest(kAlike);
    case Recompute::budget:
      return search.fitting(options.budget);
  }
  return search.original();
}

}  // namespace

base::Result<Recomputed> recompute(const ops::OpTable& table, PreparedGraph prepared,
                                   const RecomputeOptions& options) {
  Recomputed result;
  for (const NodePlan& plan : prepared.plans) result.step_seconds += plan.seconds();
  const bool shares = options.memory == MemoryMode::share || options.memory == MemoryMode::both;
  const bool wanted = options.policy == Recompute::budget || shares;
  const bool searches = options.policy != Recompute::none && wanted;
  if (!searches && !has_idle_outputs(prepared.graph)) {
    result.prepared = std::move(prepared);
    return result;
  }
  Cloner cloner(table, std::move(prepared));
  if (!searches) {
    TROUPE_TRY_ASSIGN(result.prepared, cloner.finish(cloner.original()));
    return result;
  }
  const Search search(cloner, options.memory, result.step_seconds);
  TROUPE_TRY_ASSIGN(const Draft draft, choose(search, options));
  result.clones = static_cast<int>(std::count(draft.clone.begin(), draft.clone.end(), true));
  result.seconds = draft.seconds;
  TROUPE_TRY_ASSIGN(result.prepared, cloner.finish(draft));
  return result;
}

}  // namespace troupe::symbol
