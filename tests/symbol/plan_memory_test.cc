// SPDX-License-Identifier: Apache-2.0
// The planner: random graphs keep every value intact until its last reader, sharing never costs
// memory, in-place rules hold.
#include "symbol/plan_memory.h"

#include <map>
#include <random>

#include "tests/support/catch.h"
#include "tests/support/test_runtime.h"

namespace troupe::symbol {
namespace {

const ops::OpTable& table() {
  return tests::test_operators();
}

/// A graph of `count` random calls and the request for it.
struct RandomPlan {
  explicit RandomPlan(unsigned seed, bool share) {
    std::mt19937 random(seed);
    Builder builder(table(), graph);
    std::vector<Value> values{builder.add_variable("x"), builder.add_variable("y")};
    for (int i = 0; i < 40; ++i) {
      builder.set_prefix(fmt::format("n{}", i));
      const auto any = [&] {
        const std::size_t back = std::min<std::size_t>(values.size(), 6);
        return values[values.size() - 1 - random() % back];
      };
      const bool binary = random() % 2 == 0;
      values.push_back(binary ? builder.add1("add", {any(), any()}) : builder.add1("exp", {any()}));
    }
    graph.heads = {values.back(), values[values.size() / 2]};
    request.graph = &graph;
    request.share = share;
    for (std::size_t v = 0; v < values.size(); ++v) {
      const std::size_t kind = random() % 3;
      request.value_kind.push_back(static_cast<int>(kind));
      request.value_bytes.push_back(1000 * (kind + 1) * (kind + 1));
      request.external.push_back(graph.nodes[v].is_variable());
      request.scratch_bytes.push_back(!request.external.back() && random() % 4 == 0 ? 500 : 0);
    }
    for (Value head : graph.heads) request.external[static_cast<std::size_t>(head.node)] = true;
  }

  Graph graph;
  PlanRequest request;
};

TEST_CASE("no value is overwritten before its last reader") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    RandomPlan random(seed, true);
    const MemoryPlan plan = plan_memory(random.request);
    std::map<int, std::size_t> holds;  // block -> the value whose bytes it has
    for (std::size_t i = 0; i < random.graph.nodes.size(); ++i) {
      const GraphNode& node = random.graph.nodes[i];
      for (Value input : node.inputs) {
        const auto v = static_cast<std::size_t>(input.node);
        if (!random.request.external[v]) REQUIRE(holds[plan.value_block[v]] == v);
      }
      if (node.is_variable()) continue;
      if (const int scratch = plan.scratch_block[i]; scratch >= 0) {
        for (Value input : node.inputs) {
          REQUIRE(plan.value_block[static_cast<std::size_t>(input.node)] != scratch);
        }
        REQUIRE(plan.value_block[i] != scratch);
        REQUIRE(plan.blocks[static_cast<std::size_t>(scratch)].bytes >=
                random.request.scratch_bytes[i]);
        holds[scratch] = SIZE_MAX;
      }
      if (random.request.external[i]) {
        REQUIRE(plan.value_block[i] == -1);
        continue;
      }
      const int block = plan.value_block[i];
      REQUIRE(plan.blocks[static_cast<std::size_t>(block)].bytes >= random.request.value_bytes[i]);
      int occurrences = 0;
      for (Value input : node.inputs) {
        const auto v = static_cast<std::size_t>(input.node);
        if (plan.value_block[v] != block) continue;
        ++occurrences;
        REQUIRE(random.request.value_kind[v] == random.request.value_kind[i]);
      }
      REQUIRE(occurrences <= 1);
      holds[block] = i;
    }
  }
}

TEST_CASE("blocks do not overlap, and sharing saves memory") {
  std::size_t shared = 0, unshared = 0;
  for (unsigned seed = 0; seed < 50; ++seed) {
    const MemoryPlan plan = plan_memory(RandomPlan(seed, true).request);
    std::size_t end = 0;
    for (const Block& block : plan.blocks) {
      CHECK(block.offset == end);
      CHECK(block.offset % kBlockAlignment == 0);
      end = block.offset + block.bytes;
    }
    CHECK(end == plan.arena_bytes);
    const MemoryPlan alone = plan_memory(RandomPlan(seed, false).request);
    CHECK(alone.in_place == 0);
    CHECK(alone.arena_bytes == alone.unshared_bytes);
    CHECK(alone.unshared_bytes == plan.unshared_bytes);
    CHECK(plan.arena_bytes <= alone.arena_bytes);
    shared += plan.arena_bytes;
    unshared += alone.arena_bytes;
  }
  CHECK(shared * 2 < unshared);
}

}  // namespace
}  // namespace troupe::symbol
