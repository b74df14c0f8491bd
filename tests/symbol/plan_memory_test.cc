// SPDX-License-Identifier: Apache-2.0
// The planner on random graphs: every value is intact until its last reader, and whatever order an
// engine runs the operations in; in-place rules hold; each mode does what it says.
#include "symbol/plan_memory.h"

#include <map>
#include <random>

#include "symbol/value_numbers.h"
#include "tests/support/catch.h"
#include "tests/support/test_runtime.h"

namespace troupe::symbol {
namespace {

constexpr MemoryMode kModes[] = {MemoryMode::none, MemoryMode::in_place, MemoryMode::share,
                                 MemoryMode::both};

const std::size_t kLine = piece_bytes(1);
constexpr std::size_t kUnit = 8;  // bytes; all sizes here are multiples

const ops::OpTable& table() {
  return tests::test_operators();
}

/// A graph of random calls and the request for it. Some operators have two outputs, some need only
/// the shape of an input; nodes that read variables alone may be optional, and are external then.
struct RandomPlan {
  RandomPlan(unsigned seed, MemoryMode mode, int calls = 60) {
    std::mt19937 random(seed);
    Builder builder(table(), graph);
    values = {builder.add_variable("x"), builder.add_variable("y")};
    for (int i = 0; i < calls; ++i) {
      builder.set_prefix(fmt::format("n{}", i));
      add_call(builder, random);
    }
    graph.heads = {values.back(), values[values.size() / 2]};
    request.graph = &graph;
    request.mode = mode;
    numbers = ValueNumbers(graph);
    for (std::size_t v = 0; v < numbers.size(); ++v) {
      // Those of the first kind end inside a line.
      const std::size_t kind = random() % 3;
      const std::size_t size = kind == 0 ? 1000 : 1024 * (kind + 1) * (kind + 1);
      request.value_kind.push_back(static_cast<int>(kind));
      request.value_bytes.push_back(random() % 20 == 0 ? 0 : size);
      // Values of one kind have one size.
      if (request.value_bytes.back() == 0) request.value_kind.back() = 3;
      request.external.push_back(false);
    }
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      const GraphNode& node = graph.nodes[i];
      bool early = !node.is_variable();
      for (Value input : node.inputs) early = early && graph.node(input).is_variable();
      request.optional.push_back(early && random() % 2 == 0);
      request.scratch_bytes.push_back(!node.is_variable() && random() % 4 == 0 ? 5000 : 0);
      for (std::size_t v = numbers.begin(i); v < numbers.end(i); ++v) {
        request.external[v] = node.is_variable() || request.optional[i];
      }
    }
    for (Value head : graph.heads) request.external[numbers[head]] = true;
    is_view.assign(graph.nodes.size(), false);
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) add_views(i);
  }

  /// Sizes of what a node gives that gives its inputs another shape, joins them or cuts them apart.
  /// It has a kind of its own, and is not large.
  void add_views(std::size_t node) {
    const auto& op = graph.nodes[node].op;
    if (op == nullptr || (op->name != "flatten" && op->name != "concat" && op->name != "split")) {
      return;
    }
    const std::vector<Value>& inputs = graph.nodes[node].inputs;
    const std::size_t begin = numbers.begin(node), count = numbers.end(node) - begin;
    std::size_t bytes = 0;
    for (const Value input : inputs) bytes += request.value_bytes[numbers[input]];
    if (bytes > 16384) return;
    is_view[node] = true;
    std::int64_t offset = 0;
    if (op->name == "split") {
      std::size_t left = request.value_bytes[numbers[inputs[0]]];
      for (std::size_t k = 0; k < count; ++k) {
        const std::size_t part = k + 1 < count ? left / 16 * kUnit : left;
        request.value_bytes[begin + k] = part;
        request.value_kind[begin + k] = static_cast<int>(begin + k) + 4;
        request.views.push_back({node, {0, static_cast<int>(k), offset, 0}});
        offset += static_cast<std::int64_t>(part);
        left -= part;
      }
      return;
    }
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      request.views.push_back({node, {static_cast<int>(k), 0, 0, offset}});
      offset += static_cast<std::int64_t>(request.value_bytes[numbers[inputs[k]]]);
    }
    request.value_bytes[begin] = static_cast<std::size_t>(offset);
    request.value_kind[begin] = static_cast<int>(begin) + 4;
  }

  void add_call(Builder& builder, std::mt19937& random) {
    const auto any = [&] {
      const std::size_t back = std::min<std::size_t>(values.size(), random() % 3 == 0 ? 30 : 4);
      return values[values.size() - 1 - random() % back];
    };
    switch (random() % 9) {
      case 0:
        values.push_back(builder.add1("reduce_to_like", {any(), any()}));
        return;
      case 1:
        for (Value value : builder.add("dropout", {any()}, {})) values.push_back(value);
        return;
      case 2:
        values.push_back(builder.add1("exp", {values[random() % 2]}));
        return;
      case 3:
        values.push_back(builder.add1("exp", {any()}));
        return;
      case 4:
        values.push_back(builder.add1("flatten", {any()}));
        return;
      case 5:
        values.push_back(builder.add1("concat", {any(), any(), any()}, {{"num_args", "3"}}));
        return;
      case 6:
        for (Value value : builder.add("split", {any()}, {{"num_outputs", "2"}})) {
          values.push_back(value);
        }
        return;
      default:
        values.push_back(builder.add1("add", {any(), any()}));
    }
  }

  Graph graph;
  std::vector<Value> values;
  ValueNumbers numbers;
  PlanRequest request;
  std::vector<bool> is_view;  // per node
};

/// What a value holds, unit by unit: a number that only units of the same content have.
using Content = std::vector<std::uint64_t>;

std::vector<Content> contents_of(const RandomPlan& random) {
  std::vector<Content> contents(random.numbers.size());
  std::uint64_t next = 0;
  for (std::size_t i = 0; i < random.graph.nodes.size(); ++i) {
    const GraphNode& node = random.graph.nodes[i];
    std::size_t taken = 0;  // units of the first input that outputs have
    for (std::size_t v = random.numbers.begin(i); v < random.numbers.end(i); ++v) {
      const std::size_t units = random.request.value_bytes[v] / kUnit;
      if (random.is_view[i]) {
        Content joined;
        for (const Value input : node.inputs) {
          const Content& part = contents[random.numbers[input]];
          joined.insert(joined.end(), part.begin(), part.end());
        }
        const auto first = joined.begin() + static_cast<std::ptrdiff_t>(taken);
        contents[v].assign(first, first + static_cast<std::ptrdiff_t>(units));
        taken += units;
      } else {
        for (std::size_t unit = 0; unit < units; ++unit) contents[v].push_back(next++);
      }
    }
  }
  return contents;
}

/// What an arena holds.
class Bytes {
 public:
  explicit Bytes(const MemoryPlan& plan) : plan_(plan), holds_(plan.arena_bytes / kUnit) {}

  void put(std::size_t value, const Content& content) {
    std::copy(content.begin(), content.end(), begin(value));
  }
  bool has(std::size_t value, const Content& content) {
    return std::equal(content.begin(), content.end(), begin(value));
  }
  void put_scratch(int piece, std::uint64_t mark) {
    const Piece& of = plan_.pieces[static_cast<std::size_t>(piece)];
    std::fill_n(at(of.offset), of.bytes / kUnit, mark);
  }
  bool has_scratch(int piece, std::uint64_t mark) {
    const Piece& of = plan_.pieces[static_cast<std::size_t>(piece)];
    const auto end = at(of.offset) + static_cast<std::ptrdiff_t>(of.bytes / kUnit);
    return std::all_of(at(of.offset), end, [&](std::uint64_t held) { return held == mark; });
  }

 private:
  Content::iterator at(std::size_t byte) {
    return holds_.begin() + static_cast<std::ptrdiff_t>(byte / kUnit);
  }
  Content::iterator begin(std::size_t value) {
    const auto piece = static_cast<std::size_t>(plan_.value_piece[value]);
    return at(plan_.pieces[piece].offset + plan_.value_offset[value]);
  }

  const MemoryPlan& plan_;
  Content holds_;
};

/// Runs the nodes in order and looks what is where. Returns how many values are less than their
/// piece.
int check_contents(const RandomPlan& random, const MemoryPlan& plan) {
  const std::vector<Content> contents = contents_of(random);
  Bytes bytes(plan);
  const PlanRequest& request = random.request;
  int in_place = 0, parts = 0;
  for (std::size_t i = 0; i < random.graph.nodes.size(); ++i) {
    const GraphNode& node = random.graph.nodes[i];
    if (node.is_variable()) continue;
    const std::size_t begin = random.numbers.begin(i), end = random.numbers.end(i);
    const auto read = [&](std::size_t k) {
      return node.reads(k) && !request.external[random.numbers[node.inputs[k]]];
    };
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      const std::size_t v = random.numbers[node.inputs[k]];
      if (read(k)) REQUIRE(bytes.has(v, contents[v]));
    }
    const std::uint64_t scratch_mark = UINT64_MAX - i;
    const int scratch = plan.scratch_piece[i];
    REQUIRE((scratch >= 0) == (request.scratch_bytes[i] > 0));
    if (scratch >= 0) {
      REQUIRE(plan.pieces[static_cast<std::size_t>(scratch)].bytes >= request.scratch_bytes[i]);
      bytes.put_scratch(scratch, scratch_mark);
    }
    for (std::size_t v = begin; v < end; ++v) {
      REQUIRE((plan.value_piece[v] < 0) == request.external[v]);
      if (request.external[v]) continue;
      const Piece& piece = plan.pieces[static_cast<std::size_t>(plan.value_piece[v])];
      REQUIRE(piece.bytes >= plan.value_offset[v] + request.value_bytes[v]);
      const std::size_t own = request.value_bytes[v];
      parts += own > 0 && piece.bytes >= own + kLine ? 1 : 0;
      bytes.put(v, contents[v]);
      bool shares = false;
      for (std::size_t k = 0; k < node.inputs.size(); ++k) {
        const std::size_t input = random.numbers[node.inputs[k]];
        const bool one_piece = read(k) && plan.value_piece[input] == plan.value_piece[v];
        const std::size_t end_of_input = plan.value_offset[input] + request.value_bytes[input];
        shares = shares || (one_piece && plan.value_offset[v] < end_of_input &&
                            plan.value_offset[input] < plan.value_offset[v] + own);
      }
      in_place += shares ? 1 : 0;
    }
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      const std::size_t v = random.numbers[node.inputs[k]];
      if (!read(k) || bytes.has(v, contents[v])) continue;
      // An output has taken its place.
      bool replaced = false;
      for (std::size_t output = begin; output < end; ++output) {
        replaced = replaced || (plan.value_piece[output] == plan.value_piece[v] &&
                                request.value_kind[output] == request.value_kind[v]);
      }
      REQUIRE(replaced);
    }
    if (scratch >= 0) REQUIRE(bytes.has_scratch(scratch, scratch_mark));
    for (std::size_t v = begin; v < end; ++v) {
      if (!request.external[v]) REQUIRE(bytes.has(v, contents[v]));
    }
  }
  CHECK(plan.in_place == in_place);
  return parts;
}

/// Which nodes an engine runs before which, and which of them touch the same bytes.
class Order {
 public:
  /// A run of the nodes that are in `runs`.
  Order(const RandomPlan& random, const MemoryPlan& plan, const std::vector<bool>& runs)
      : random_(random), plan_(plan), runs_(runs), before_(runs.size()), touched_(runs.size()) {}

  void check() {
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      if (random_.graph.nodes[i].is_variable() || !runs_[i]) continue;
      before_[i].assign(runs_.size(), false);
      use_variables(i);
      check_bytes(i);
    }
  }

 private:
  struct Touched {
    const Piece* piece;
    bool write;
  };
  /// A variable's users since it was written last, and that writer.
  struct Queue {
    std::vector<std::size_t> readers;
    std::size_t writer = SIZE_MAX;
  };

  void follow(std::size_t node, std::size_t other) {
    if (other == SIZE_MAX || other == node) return;
    before_[node][other] = true;
    for (std::size_t k = 0; k < other; ++k)
      before_[node][k] = before_[node][k] || before_[other][k];
  }
  void read(std::size_t node, int piece) {
    Queue& queue = queues_[piece];
    follow(node, queue.writer);
    queue.readers.push_back(node);
  }
  void write(std::size_t node, int piece) {
    Queue& queue = queues_[piece];
    follow(node, queue.writer);
    for (const std::size_t reader : queue.readers) follow(node, reader);
    queue = {{}, node};
  }
  void begin_piece(std::size_t node, int piece) {
    const auto index = static_cast<std::size_t>(piece);
    write(node, piece);
    touched_[node].push_back({&plan_.pieces[index], true});
    if (plan_.pieces[index].first != node) return;
    for (const std::size_t dead : plan_.after[index]) write(node, static_cast<int>(dead));
  }

  void use_variables(std::size_t i) {
    const GraphNode& node = random_.graph.nodes[i];
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      if (!node.reads(k) || random_.graph.node(node.inputs[k]).is_variable()) continue;
      const int piece = plan_.value_piece[random_.numbers[node.inputs[k]]];
      if (piece < 0) {  // an array outside: it has a variable of its own
        if (runs_[node_index(node.inputs[k])]) follow(i, node_index(node.inputs[k]));
        continue;
      }
      read(i, piece);
      touched_[i].push_back({&plan_.pieces[static_cast<std::size_t>(piece)], false});
    }
    for (std::size_t v = random_.numbers.begin(i); v < random_.numbers.end(i); ++v) {
      if (plan_.value_piece[v] >= 0) begin_piece(i, plan_.value_piece[v]);
    }
    if (plan_.scratch_piece[i] >= 0) begin_piece(i, plan_.scratch_piece[i]);
  }

  void check_bytes(std::size_t i) const {
    for (std::size_t other = 0; other < i; ++other) {
      for (const Touched& a : touched_[i]) {
        for (const Touched& b : touched_[other]) {
          const bool meet = a.piece->offset < b.piece->end() && b.piece->offset < a.piece->end();
          if (meet && (a.write || b.write)) REQUIRE(before_[i][other]);
        }
      }
    }
  }

  const RandomPlan& random_;
  const MemoryPlan& plan_;
  const std::vector<bool>& runs_;
  std::vector<std::vector<bool>> before_;
  std::vector<std::vector<Touched>> touched_;
  std::map<int, Queue> queues_;
};

TEST_CASE("no value is overwritten before its last reader") {
  int with_parts = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    for (const MemoryMode mode : kModes) {
      const RandomPlan random(seed, mode);
      const int parts = check_contents(random, plan_memory(random.request));
      if (mode == MemoryMode::both) with_parts += parts > 0 ? 1 : 0;
      if (!goes_in_place(mode)) CHECK(parts == 0);
    }
  }
  CHECK(with_parts > 50);
}

TEST_CASE("parts of a value lie in it, unless that needs more memory than copies do") {
  for (const bool kept : {false, true}) {
    Graph graph;
    Builder builder(table(), graph);
    const Value x = builder.add_variable("x");
    std::vector<Value> parts = {builder.add1("exp", {x}), builder.add1("log", {x})};
    // The other part is written when a long row of values that need more than both is gone.
    Value large = builder.add1("square", {x});
    large = builder.add1("copy", {large});
    if (kept) parts[1] = builder.add1("log", {large});
    const Value joined = builder.add1("concat", parts, {{"num_args", "2"}});
    graph.heads = {builder.add1("exp", {joined}), builder.add1("sum", {large})};
    const ValueNumbers numbers(graph);
    PlanRequest request;
    request.graph = &graph;
    for (std::size_t v = 0; v < numbers.size(); ++v) {
      request.value_kind.push_back(static_cast<int>(v));
      request.value_bytes.push_back(1024);
      request.external.push_back(v == 0);
    }
    request.value_bytes[numbers[joined]] = 2048;
    for (const Value value : {large, graph.nodes[node_index(large)].inputs[0]}) {
      request.value_bytes[numbers[value]] = 4096;
    }
    for (const Value head : graph.heads) request.external[numbers[head]] = true;
    request.scratch_bytes.assign(graph.nodes.size(), 0);
    const auto node = static_cast<std::size_t>(joined.node);
    request.views = {{node, {0, 0, 0, 0}}, {node, {1, 0, 0, 1024}}};
    const MemoryPlan plan = plan_memory(request);
    const int whole = plan.value_piece[numbers[joined]];
    CHECK((plan.value_piece[numbers[parts[0]]] == whole) == !kept);
    CHECK((plan.value_piece[numbers[parts[1]]] == whole) == !kept);
    CHECK(plan.value_offset[numbers[parts[1]]] == (kept ? 0 : 1024));
  }
}

TEST_CASE(
    "whoever takes over bytes runs behind all that used them, with optional nodes or without") {
  std::size_t waits = 0, pieces = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    const RandomPlan random(seed, MemoryMode::both);
    const MemoryPlan plan = plan_memory(random.request);
    for (const auto& before : plan.after) waits += before.size();
    pieces += plan.pieces.size();
    std::mt19937 coin(seed);
    std::vector<bool> all(random.graph.nodes.size(), true), some = all, few = all;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!random.request.optional[i]) continue;
      few[i] = false;
      some[i] = coin() % 2 == 0;
    }
    for (const auto& runs : {all, some, few}) Order(random, plan, runs).check();
  }
  // What is known from reading inputs is not said again.
  CHECK(waits > 0);
  CHECK(waits < pieces);
}

TEST_CASE("another shape of a value is the same bytes, whoever else reads it") {
  for (const bool read_later : {false, true}) {
    Graph graph;
    Builder builder(table(), graph);
    const Value data = builder.add1("exp", {builder.add_variable("x")}, {});
    const Value flat = builder.add1("flatten", {data}, {});
    graph.heads = {builder.add1("exp", {flat}, {})};
    if (read_later) graph.heads.push_back(builder.add1("log", {data}, {}));
    const ValueNumbers numbers(graph);
    PlanRequest request;
    request.graph = &graph;
    for (std::size_t v = 0; v < numbers.size(); ++v) {
      request.value_kind.push_back(v == numbers[data] ? 0 : 1);
      request.value_bytes.push_back(4096);
      request.external.push_back(false);
    }
    request.external[0] = true;
    for (const Value head : graph.heads) request.external[numbers[head]] = true;
    request.scratch_bytes.assign(graph.nodes.size(), 0);
    request.views = {{static_cast<std::size_t>(flat.node), {}}};
    const MemoryPlan plan = plan_memory(request);
    CHECK(plan.value_piece[numbers[data]] == plan.value_piece[numbers[flat]]);
  }
}

TEST_CASE("each mode shares as it says") {
  std::map<MemoryMode, std::size_t> sums;
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::map<MemoryMode, MemoryPlan> plans;
    for (const MemoryMode mode : kModes) {
      plans[mode] = plan_memory(RandomPlan(seed, mode).request);
      const MemoryPlan& plan = plans[mode];
      sums[mode] += plan.arena_bytes;
      CHECK(plan.unshared_bytes == plans[MemoryMode::none].unshared_bytes);
      CHECK(plan.peak.bytes == largest_live_set(plan.pieces).bytes);
      CHECK(plan.arena_bytes >= plan.peak.bytes);
      CHECK(plan.arena_bytes <= plan.unshared_bytes);
      std::size_t bytes = 0;
      for (const Piece& piece : plan.pieces) bytes += piece.bytes;
      const bool shares = mode == MemoryMode::share || mode == MemoryMode::both;
      if (!shares) CHECK(plan.arena_bytes == bytes);
    }
    CHECK(plans[MemoryMode::none].arena_bytes == plans[MemoryMode::none].unshared_bytes);
    CHECK(plans[MemoryMode::none].in_place == 0);
    CHECK(plans[MemoryMode::share].in_place == 0);
    CHECK(plans[MemoryMode::in_place].in_place > 0);
    CHECK(plans[MemoryMode::both].in_place > 0);
    const MemoryPlan& both = plans[MemoryMode::both];
    CHECK(both.arena_bytes * 10 <= both.peak.bytes * 11);
  }
  CHECK(sums[MemoryMode::in_place] < sums[MemoryMode::none]);
  CHECK(sums[MemoryMode::both] < sums[MemoryMode::share]);
  CHECK(sums[MemoryMode::share] * 2 < sums[MemoryMode::none]);
}

TEST_CASE("plans of thousands of nodes, which nobody compares pair by pair, are right too") {
  for (const int nodes : {5000, 40000}) {
    const RandomPlan random(1, MemoryMode::both, nodes);
    const MemoryPlan plan = plan_memory(random.request);
    check_contents(random, plan);
    CHECK(plan.arena_bytes * 4 <= plan.peak.bytes * 5);
  }
}

}  // namespace
}  // namespace troupe::symbol
