// SPDX-License-Identifier: Apache-2.0
// Cost of one no-op in a flow graph of oneTBB, in the graphs that engine_bench.cc replays: a graph
// is made once, started by one message, and waited for. Counter per_op. Built where oneTBB is.
#include <benchmark/benchmark.h>
#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>

#include <cstddef>
#include <cstdint>
#include <deque>

namespace troupe {
namespace {

namespace flow = oneapi::tbb::flow;
using Node = flow::continue_node<flow::continue_msg>;

constexpr int kRuns = 20;

/// Nodes that do nothing.
class Graph {
 public:
  Node& add() {
    return nodes_.emplace_back(graph_, [](const flow::continue_msg&) {});
  }
  void run() {
    nodes_.front().try_put(flow::continue_msg());
    graph_.wait_for_all();
  }
  std::size_t size() const { return nodes_.size(); }

 private:
  flow::graph graph_;
  std::deque<Node> nodes_;
};

void measure(benchmark::State& state, Graph& graph) {
  const oneapi::tbb::global_control threads(oneapi::tbb::global_control::max_allowed_parallelism,
                                            static_cast<std::size_t>(state.range(0)));
  for (auto unused : state) {
    static_cast<void>(unused);
    for (int i = 0; i < kRuns; ++i) graph.run();
  }
  const auto each = static_cast<std::int64_t>(kRuns * graph.size());
  state.counters["per_op"] =
      benchmark::Counter(static_cast<double>(each * state.iterations()),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void flow_chain(benchmark::State& state) {
  constexpr int kLength = 1000;
  Graph graph;
  Node* last = &graph.add();
  for (int i = 1; i < kLength; ++i) {
    Node& next = graph.add();
    flow::make_edge(*last, next);
    last = &next;
  }
  measure(state, graph);
}

/// One node, eight behind it, one behind these, and so on.
void flow_fan_out_in(benchmark::State& state) {
  constexpr int kGroups = 111;
  Graph graph;
  Node* last = &graph.add();
  for (int group = 0; group < kGroups; ++group) {
    Node* readers[8];
    for (Node*& reader : readers) {
      reader = &graph.add();
      flow::make_edge(*last, *reader);
    }
    last = &graph.add();
    for (Node* reader : readers) flow::make_edge(*reader, *last);
  }
  measure(state, graph);
}

BENCHMARK(flow_chain)->Arg(1)->Arg(2)->UseRealTime()->MeasureProcessCPUTime();
BENCHMARK(flow_fan_out_in)->Arg(1)->Arg(2)->UseRealTime()->MeasureProcessCPUTime();

}  // namespace
}  // namespace troupe
