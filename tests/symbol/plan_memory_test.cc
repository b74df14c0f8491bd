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
      const std::size_t kind = random() % 3;
      request.value_kind.push_back(static_cast<int>(kind));
      request.value_bytes.push_back(random() % 20 == 0 ? 0 : 1000 * (kind + 1) * (kind + 1));
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
  }

  void add_call(Builder& builder, std::mt19937& random) {
    const auto any = [&] {
      const std::size_t back = std::min<std::size_t>(values.size(), random() % 3 == 0 ? 30 : 4);
      return values[values.size() - 1 - random() % back];
    };
    switch (random() % 6) {
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
      default:
        values.push_back(builder.add1("add", {any(), any()}));
    }
  }

  Graph graph;
  std::vector<Value> values;
  ValueNumbers numbers;
  PlanRequest request;
};

/// What lies in each line of an arena.
class Lines {
 public:
  explicit Lines(const MemoryPlan& plan)
      : plan_(plan), holds_(plan.arena_bytes / kLine, SIZE_MAX) {}

  void put(int piece, std::size_t what) {
    for (std::size_t line = begin(piece); line < end(piece); ++line) holds_[line] = what;
  }
  bool has(int piece, std::size_t what) const {
    for (std::size_t line = begin(piece); line < end(piece); ++line) {
      if (holds_[line] != what) return false;
    }
    return true;
  }

 private:
  const Piece& of(int piece) const { return plan_.pieces[static_cast<std::size_t>(piece)]; }
  std::size_t begin(int piece) const { return of(piece).offset / kLine; }
  std::size_t end(int piece) const { return of(piece).end() / kLine; }

  const MemoryPlan& plan_;
  std::vector<std::size_t> holds_;
};

/// Runs the nodes in order and looks what is where.
void check_contents(const RandomPlan& random, const MemoryPlan& plan) {
  Lines lines(plan);
  const PlanRequest& request = random.request;
  int in_place = 0;
  for (std::size_t i = 0; i < random.graph.nodes.size(); ++i) {
    const GraphNode& node = random.graph.nodes[i];
    if (node.is_variable()) continue;
    const std::size_t begin = random.numbers.begin(i), end = random.numbers.end(i);
    const auto has_inputs = [&](bool outputs_written) {
      for (std::size_t k = 0; k < node.inputs.size(); ++k) {
        const std::size_t v = random.numbers[node.inputs[k]];
        if (!node.reads(k) || request.external[v]) continue;
        bool replaced = false;
        for (std::size_t output = begin; output < end && outputs_written; ++output) {
          if (plan.value_piece[output] != plan.value_piece[v]) continue;
          replaced = true;
          REQUIRE(request.value_kind[output] == request.value_kind[v]);
        }
        in_place += replaced ? 1 : 0;
        if (!replaced) REQUIRE(lines.has(plan.value_piece[v], v));
      }
    };
    has_inputs(false);
    const std::size_t scratch_mark = random.numbers.size() + i;
    const int scratch = plan.scratch_piece[i];
    REQUIRE((scratch >= 0) == (request.scratch_bytes[i] > 0));
    if (scratch >= 0) {
      REQUIRE(plan.pieces[static_cast<std::size_t>(scratch)].bytes >= request.scratch_bytes[i]);
      lines.put(scratch, scratch_mark);
    }
    for (std::size_t v = begin; v < end; ++v) {
      const int piece = plan.value_piece[v];
      REQUIRE((piece < 0) == request.external[v]);
      if (piece < 0) continue;
      REQUIRE(plan.pieces[static_cast<std::size_t>(piece)].bytes >= request.value_bytes[v]);
      lines.put(piece, v);
    }
    has_inputs(true);
    if (scratch >= 0) REQUIRE(lines.has(scratch, scratch_mark));
    for (std::size_t v = begin; v < end; ++v) {
      if (plan.value_piece[v] >= 0) REQUIRE(lines.has(plan.value_piece[v], v));
    }
  }
  CHECK(plan.in_place == in_place);
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
  for (unsigned seed = 0; seed < 200; ++seed) {
    for (const MemoryMode mode : kModes) {
      const RandomPlan random(seed, mode);
      check_contents(random, plan_memory(random.request));
    }
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

TEST_CASE("another shape of a value is the same bytes, unless somebody else reads it later") {
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
    const MemoryPlan plan = plan_memory(request);
    CHECK((plan.value_piece[numbers[data]] == plan.value_piece[numbers[flat]]) == !read_later);
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
    CHECK(plans[MemoryMode::in_place].in_place == plans[MemoryMode::both].in_place);
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
