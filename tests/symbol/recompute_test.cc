// SPDX-License-Identifier: Apache-2.0
// Recomputed values have the kept ones' bits, and what recomputation promises of memory holds.
#include "symbol/recompute.h"

#include <algorithm>
#include <set>

#include "ops/roofline.h"
#include "tests/symbol/bound.h"

namespace troupe::symbol {
namespace {

ExecutorOptions training(Recompute policy, std::size_t budget = 0) {
  ExecutorOptions options;
  options.predict = false;
  options.recompute = policy;
  options.budget = budget;
  return options;
}

/// Layers, half of them with dropout, for images of one channel.
Symbol with_dropout() {
  Composer c(table());
  Symbol net = c.variable("data");
  for (int layer = 1; layer <= 8; ++layer) {
    const auto name = [layer](const char* kind) { return fmt::format("{}{}", kind, layer); };
    net = c.call("convolution", name("conv"), {net},
                 {{"kernel", "(3, 3)"}, {"pad", "(1, 1)"}, {"num_filter", "48"}});
    net = c.call("batch_norm", name("norm"), {net});
    net = c.call("activation", name("act"), {net}, {{"act_type", "relu"}});
    if (layer % 2 == 0) net = c.call("dropout", name("drop"), {net}, {{"p", "0.3"}});
  }
  net = c.call("fully_connected", "scores", {net}, {{"num_hidden", "10"}});
  return c.finish(c.call("softmax_output", "softmax", {net})).value();
}

Symbol network(const std::string& name) {
  return name == "with dropout" ? with_dropout() : make_network(table(), name).value();
}

/// Steps with every policy against those in which all is kept.
void check_bits(const std::string& name, const base::Shape& data, bool reference, int threads) {
  const auto bound = [&](ExecutorOptions options) {
    options.reference_only = reference;
    return std::make_unique<Bound>(network(name), data, options, true,
                                   engine::EngineOptions{.threads = threads});
  };
  const auto bytes = [](const Bound& of) { return of.executor->report().arena_bytes; };
  const auto kept = bound(training(Recompute::none));
  const bool drops = name == "with dropout";  // whose masks are other ones at another step
  const Results first = kept->step(0), second = drops ? kept->step(1) : Results();
  CHECK(kept->executor->report().recomputed == 0);
  const std::size_t budget = (bytes(*kept) + bytes(*bound(training(Recompute::sqrt)))) / 2;
  for (const Recompute policy : {Recompute::cheap, Recompute::sqrt, Recompute::budget}) {
    INFO(name << " policy " << static_cast<int>(policy) << " reference " << reference << " threads "
              << threads);
    const auto recomputed = bound(training(policy, budget));
    CHECK(recomputed->step(0) == first);
    if (drops) CHECK(recomputed->step(1) == second);
    if (name == "mlp") continue;
    CHECK(recomputed->executor->report().recomputed > 0);
    CHECK(bytes(*recomputed) < bytes(*kept));
    if (policy == Recompute::budget) CHECK(bytes(*recomputed) <= budget);
  }
}

TEST_CASE("recomputed networks have the kept ones' bits") {
  for (const int threads : {1, 2}) {
    check_bits("mlp", {16, 1, 28, 28}, false, threads);
    check_bits("resnet18", {4, 3, 64, 64}, false, threads);
    check_bits("inception-bn", {2, 3, 64, 64}, false, threads);
    check_bits("googlenet", {2, 3, 64, 64}, false, threads);
    check_bits("with dropout", {16, 1, 28, 28}, false, threads);
    check_bits("resnet18", {2, 3, 32, 32}, true, threads);
    check_bits("with dropout", {4, 1, 28, 28}, true, threads);
  }
}

ExecutorReport report_of(const std::string& name, const base::Shape& data,
                         const ExecutorOptions& options) {
  return Bound(network(name), data, options).executor->report();
}

/// Nodes that compute something once more.
std::vector<NodeReport> clones_of(const ExecutorReport& report) {
  std::vector<NodeReport> clones;
  for (const NodeReport& node : report.nodes) {
    if (node.name.ends_with("_recomputed") || node.name.ends_with("_again")) clones.push_back(node);
  }
  return clones;
}

bool reads(const NodeReport& node, const NodeReport& from) {
  return std::ranges::any_of(node.inputs, [&from](const std::string& input) {
    return std::ranges::find(from.outputs, input) != from.outputs.end();
  });
}

TEST_CASE("every clone is there once, right before what reads it") {
  for (const char* name : {"resnet18", "inception-bn", "with dropout"}) {
    INFO(name);
    const bool small = std::string(name) == "with dropout";
    const base::Shape data = small ? base::Shape{16, 1, 28, 28} : base::Shape{4, 3, 64, 64};
    for (const Recompute policy : {Recompute::cheap, Recompute::sqrt}) {
      const ExecutorReport report = report_of(name, data, training(policy));
      const std::vector<NodeReport> clones = clones_of(report);
      CHECK(report.recomputed == static_cast<int>(clones.size()));
      CHECK(!clones.empty());
      std::set<std::string> names;
      for (const NodeReport& clone : clones) names.insert(clone.name);
      CHECK(names.size() == clones.size());
      for (const NodeReport& clone : clones) {
        INFO(clone.name);
        CHECK(clone.backward);
        // Masks are kept, and statistics, which states follow, come from one node.
        CHECK(clone.op != "dropout");
        CHECK(clone.op != "batch_norm");
        auto next = std::ranges::find(report.nodes, clone.name, &NodeReport::name) + 1;
        while (!reads(*next, clone) && names.contains(next->name)) ++next;
        CHECK(reads(*next, clone));
      }
    }
  }
}

TEST_CASE("a node whose hidden output its clone alone needs does not compute it") {
  const ExecutorReport report = report_of("googlenet", {8, 3, 96, 96}, training(Recompute::cheap));
  const auto outputs = [&report](const std::string& name) {
    const auto node = std::ranges::find(report.nodes, name, &NodeReport::name);
    REQUIRE(node != report.nodes.end());
    return node->outputs.size();
  };
  int cloned = 0;
  for (const NodeReport& clone : clones_of(report)) {
    if (clone.op != "pooling") continue;
    CHECK(clone.outputs.size() == 2);
    CHECK(outputs(clone.name.substr(0, clone.name.rfind('_'))) == 1);
    ++cloned;
  }
  CHECK(cloned > 0);
  CHECK(outputs("pool1") == 2);
}

TEST_CASE("hidden outputs that nobody reads are left out under every policy, and budgets know it") {
  Composer c(table());
  const Symbol data = c.variable("data");
  std::vector<Symbol> parts;
  for (const char* kernel : {"(3, 3)", "(1, 1)"}) {
    const std::string name = fmt::format("p{}", kernel[1]),
                      pad = kernel[1] == '3' ? "(1, 1)" : "()";
    const Symbol pool = c.call("pooling", name, {data}, {{"kernel", kernel}, {"pad", pad}});
    parts.push_back(c.call("flatten", name + "_flat", {pool}));
  }
  Symbol net = c.call("add", "sum", parts);
  net = c.call("fully_connected", "fc", {net}, {{"num_hidden", "10"}});
  net = c.finish(c.call("softmax_output", "softmax", {net})).value();
  std::size_t bytes = 0;
  for (const Recompute policy : {Recompute::none, Recompute::cheap, Recompute::budget}) {
    const ExecutorReport report =
        Bound(net, {32, 8, 32, 32}, training(policy, bytes)).executor->report();
    const auto pool = std::ranges::find(report.nodes, "p3", &NodeReport::name);
    REQUIRE(pool != report.nodes.end());
    CHECK(pool->outputs.size() == 1);
    CHECK(report.recomputed == 0);
    if (policy == Recompute::none) bytes = report.arena_bytes;
    CHECK(report.arena_bytes == bytes);
  }
}

TEST_CASE("training needs less memory with every policy, for the time that is said") {
  const auto report = [](const char* name, Recompute policy, std::size_t budget = 0) {
    return report_of(name, {8, 3, 224, 224}, training(policy, budget));
  };
  const auto share = [](const ExecutorReport& a, const ExecutorReport& b) {
    return static_cast<double>(a.arena_bytes) / static_cast<double>(b.arena_bytes);
  };
  for (const auto& [name, most] : {std::pair{"resnet50", 0.80}, {"inception-bn", 0.72}}) {
    INFO(name);
    const ExecutorReport kept = report(name, Recompute::none);
    const ExecutorReport cheap = report(name, Recompute::cheap);
    CHECK(kept.recomputed == 0);
    CHECK(kept.recompute_seconds == 0);
    CHECK(share(cheap, kept) <= most);
    CHECK(cheap.step_seconds == kept.step_seconds);
    CHECK(cheap.recompute_seconds > 0);
    CHECK(cheap.recompute_seconds <= 0.055 * cheap.step_seconds);
    const auto product = [](const NodeReport& node) { return node.multiply_adds > 0; };
    CHECK(std::ranges::none_of(clones_of(cheap), product));
  }
  // Its cheap values do not take the share of a step that they may: some products join them.
  const ExecutorReport kept_inception = report("googlenet", Recompute::none);
  const ExecutorReport cheap_inception = report("googlenet", Recompute::cheap);
  CHECK(share(cheap_inception, kept_inception) <= 0.66);
  CHECK(cheap_inception.recompute_seconds <= 0.043 * cheap_inception.step_seconds);
  const ExecutorReport kept = report("resnet200", Recompute::none);
  const ExecutorReport segments = report("resnet200", Recompute::sqrt);
  CHECK(share(segments, kept) <= 1.0 / 8);
  CHECK(segments.recompute_seconds <= 0.40 * segments.step_seconds);
  const ExecutorReport sixth = report("resnet200", Recompute::budget, kept.arena_bytes / 6);
  CHECK(sixth.arena_bytes <= kept.arena_bytes / 6);
  // With vectors of 8 numbers products take a little more of a step.
  CHECK(sixth.recompute_seconds <= (ops::vector_lanes() < 16 ? 0.335 : 0.33) * sixth.step_seconds);
  const ExecutorReport half = report("resnet200", Recompute::budget, kept.arena_bytes / 2);
  CHECK(half.arena_bytes <= kept.arena_bytes / 2);
  CHECK(half.recompute_seconds <= 0.08 * half.step_seconds);
  CHECK(report("resnet200", Recompute::budget, kept.arena_bytes).recomputed == 0);
}

TEST_CASE("a budget that nothing fits into is an error that says what takes the most") {
  tests::TestRuntime test;
  const Symbol net = make_network(table(), "resnet18").value();
  const auto bind = [&](std::size_t budget) {
    return Executor::bind(test.runtime, net, make_bindings(test.runtime, net, {4, 3, 64, 64}),
                          training(Recompute::budget, budget))
        .status();
  };
  CHECK(mentions(bind(1000), {"budget of 1000 B", "the smallest found takes ",
                              "without recomputation ", "_output ("}));
  CHECK(bind(1000).code() == base::Errc::resource_exhausted);
  CHECK(bind(std::size_t{1} << 40).ok());
}

TEST_CASE("where bytes are not used twice, nothing is recomputed") {
  ExecutorOptions options = training(Recompute::cheap);
  options.memory = MemoryMode::in_place;
  CHECK(report_of("resnet18", {4, 3, 64, 64}, options).recomputed == 0);
  options.memory = MemoryMode::share;
  CHECK(report_of("resnet18", {4, 3, 64, 64}, options).recomputed > 0);
}

}  // namespace
}  // namespace troupe::symbol
