// SPDX-License-Identifier: Apache-2.0
// Programs keep an engine free to choose: whatever order their slots allow, the bits are the same,
// though values lie in each other's bytes. And errors stay with the values they belong to.
#include "symbol/program.h"

#include <algorithm>
#include <random>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "engine/program.h"
#include "tests/support/delayed_stream.h"
#include "tests/symbol/bound.h"

namespace troupe::symbol {
namespace {

using base::Errc;

/// A serial engine that runs the operations of a program in an order of its own: any that their
/// slots allow.
class ShuffledEngine final : public engine::Engine {
 public:
  /// `latest`: always the youngest operation that may run; else one by chance.
  ShuffledEngine(unsigned seed, bool latest, base::Clock& clock)
      : inner_(engine::make_serial_engine({}, clock)), random_(seed), latest_(latest) {}

  engine::Variable new_variable(std::string_view label) override {
    return inner_->new_variable(label);
  }
  bool owns(const engine::Variable& variable) const override { return inner_->owns(variable); }
  void push(const engine::Operation& operation, engine::SyncFunction function) override {
    inner_->push(operation, std::move(function));
  }
  void push_async(const engine::Operation& operation, engine::AsyncFunction function) override {
    inner_->push_async(operation, std::move(function));
  }
  void push_stream(const engine::Operation& operation, engine::StreamFunction function) override {
    inner_->push_stream(operation, std::move(function));
  }
  engine::Program compile(engine::Recording recording) override {
    shuffle(recording.operations());
    return inner_->compile(std::move(recording));
  }
  base::Status wait(const engine::Variable& variable) override { return inner_->wait(variable); }
  base::Status wait_all() override { return inner_->wait_all(); }
  void cancel(std::string_view reason) override { inner_->cancel(reason); }
  std::string dump() const override { return inner_->dump(); }
  engine::EngineCounters counters() const override { return inner_->counters(); }
  int team(const engine::Lane& lane) const override { return inner_->team(lane); }

  /// How often a younger operation overtook an older one.
  std::size_t overtakings() const { return overtakings_; }

 private:
  using Operations = std::vector<engine::InnerOperation>;

  /// True when `younger` must wait for `older`.
  static bool waits(const engine::InnerOperation& younger, const engine::InnerOperation& older) {
    const auto touches = [](const engine::InnerOperation& operation, engine::Slot slot,
                            bool write) {
      const auto has = [slot](const std::vector<engine::Slot>& list) {
        return std::ranges::any_of(list, [slot](auto s) { return s.number == slot.number; });
      };
      return has(operation.writes) || has(operation.overwrites) || (!write && has(operation.reads));
    };
    const auto meets = [&](const std::vector<engine::Slot>& list, bool write) {
      return std::ranges::any_of(list, [&](auto slot) { return touches(older, slot, write); });
    };
    return meets(younger.reads, true) || meets(younger.writes, false) ||
           meets(younger.overwrites, false);
  }

  void shuffle(Operations& operations) {
    std::vector<std::vector<std::size_t>> followers(operations.size());
    std::vector<std::size_t> blocked(operations.size(), 0), ready;
    for (std::size_t i = 0; i < operations.size(); ++i) {
      for (std::size_t k = 0; k < i; ++k) {
        if (!waits(operations[i], operations[k])) continue;
        followers[k].push_back(i);
        ++blocked[i];
      }
      if (blocked[i] == 0) ready.push_back(i);
    }
    Operations shuffled;
    while (!ready.empty()) {
      const auto latest = std::max_element(ready.begin(), ready.end());
      const auto any = ready.begin() + static_cast<std::ptrdiff_t>(random_() % ready.size());
      const auto chosen = latest_ ? latest : any;
      const std::size_t index = *chosen;
      overtakings_ += *std::min_element(ready.begin(), ready.end()) < index ? 1 : 0;
      ready.erase(chosen);
      shuffled.push_back(std::move(operations[index]));
      for (const std::size_t follower : followers[index]) {
        if (--blocked[follower] == 0) ready.push_back(follower);
      }
    }
    operations = std::move(shuffled);
  }

  std::unique_ptr<engine::Engine> inner_;
  std::mt19937 random_;
  const bool latest_;
  std::size_t overtakings_ = 0;
};

/// Two steps of training, the first of which stops half way, and a prediction, all pushed at once.
Results run(engine::Engine& engine, const Symbol& net, const base::Shape& data) {
  base::SteadyClock clock;
  storage::Storage storage;
  ndarray::PreparedKernels kernels;
  ndarray::Runtime runtime{engine, storage, table(), kernels, clock};
  const auto executor =
      Executor::bind(runtime, net, make_bindings(runtime, net, data, base::DType::f32)).value();
  REQUIRE(executor->set_step(3).ok());
  REQUIRE(executor->forward(true).ok());
  REQUIRE(executor->forward(true).ok());
  REQUIRE(executor->backward().ok());
  Results results = results_of(*executor);
  REQUIRE(executor->forward(true).ok());
  REQUIRE(executor->backward().ok());
  REQUIRE(executor->forward(true).ok());
  REQUIRE(executor->forward(false).ok());
  results["prediction"] = bytes_of(executor->outputs()[0]);
  REQUIRE(engine.wait_all().ok());
  return results;
}

TEST_CASE("every order that the slots allow gives the same bits") {
  base::SteadyClock clock;
  for (const std::string network : {"tiny-bn", "resnet18", "parted"}) {
    INFO(network);
    const base::Shape data =
        network == "tiny-bn" ? base::Shape{2, 1, 12, 12} : base::Shape{1, 3, 32, 32};
    const Symbol net =
        network == "parted" ? parted() : make_network(table(), network, {.classes = 10}).value();
    const auto serial = engine::make_serial_engine({}, clock);
    const Results expected = run(*serial, net, data);
    for (unsigned seed = 0; seed < 4; ++seed) {
      INFO(seed);
      ShuffledEngine shuffled(seed, seed == 0, clock);
      CHECK(run(shuffled, net, data) == expected);
      CHECK(shuffled.overtakings() > 0);
    }
  }
}

TEST_CASE("an error does not move to values that lie where the damaged ones lay") {
  Composer c(table());
  std::vector<Symbol> ends;
  for (const std::string name : {"a", "b"}) {
    Symbol x = c.variable(name);
    for (int i = 0; i < 4; ++i) x = c.call("add_scalar", "", {x}, {{"scalar", "1"}});
    ends.push_back(x);
  }
  const Symbol net = Symbol::group(ends);
  tests::TestRuntime test(GENERATE(false, true));
  Bindings bindings;
  bindings.arguments = {{"a", array(test, {40}, std::vector<double>(40, 1))},
                        {"b", array(test, {40}, std::vector<double>(40, 2))}};
  ExecutorOptions options;
  options.train = false;
  options.fused = false;  // many values, one in the place of another
  options.memory = MemoryMode::share;
  const auto executor = Executor::bind(test.runtime, net, bindings, options).value();
  REQUIRE(executor->report().arena_bytes * 3 <= executor->report().unshared_bytes);
  for (const std::string damaged : {"a", "b"}) {
    const ndarray::NDArray& source = executor->arguments().at(damaged);
    const std::vector<double> content = values(source);
    test.engine->push(
        {.name = "fails", .overwrites = {&source.variable(), 1}},
        [](engine::RunContext&) { return base::error(Errc::data_loss, "record 7 is damaged"); });
    REQUIRE(executor->forward(false).ok());
    const bool first = damaged == "a";
    CHECK(mentions(executor->outputs()[first ? 0 : 1].wait(), {"record 7"}));
    CHECK(executor->outputs()[first ? 1 : 0].wait().ok());
    CHECK(values(executor->outputs()[first ? 1 : 0])[39] == (first ? 6 : 5));
    REQUIRE(source.write(std::as_bytes(std::span<const double>(content))).ok());
    REQUIRE(executor->forward(false).ok());
    CHECK(values(executor->outputs()[0]) == std::vector<double>(40, 5));
    CHECK(values(executor->outputs()[1]) == std::vector<double>(40, 6));
  }
}

TEST_CASE("graphs of a late device read what each step's data and weights are") {
  for (const std::string network : {"lenet", "tiny-bn"}) {
    INFO(network);
    const base::Shape data =
        network == "lenet" ? base::Shape{3, 1, 28, 28} : base::Shape{4, 1, 12, 12};
    tests::DelayedStream stream;
    ExecutorOptions options;
    Bound host(network, data, options);
    options.device = {base::DeviceKind::delayed, 0};
    Bound late(network, data, options, true, engine::EngineOptions{.streams = {&stream}});
    for (int step = 0; step < 5; ++step) {
      for (const Bound* bound : {&host, &late}) {
        const auto& arguments = bound->executor->arguments();
        fill(arguments.at("data"), fmt::format("data {}", step), 0.0, 1.0);
        const auto weight = std::find_if(arguments.begin(), arguments.end(), [](const auto& each) {
          return each.first.ends_with("_weight");
        });
        REQUIRE(weight != arguments.end());
        fill(weight->second, fmt::format("weight {}", step), -0.1, 0.1);
      }
      CHECK(late.step(step) == host.step(step));
    }
    CHECK(stream.graphs() > 0);
    CHECK(stream.launches() >= 4 * stream.graphs());  // each but at the first step
  }
}

}  // namespace
}  // namespace troupe::symbol
