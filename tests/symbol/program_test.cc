// SPDX-License-Identifier: Apache-2.0
// Programs keep an engine free to choose: whatever order their variables allow, the bits are the
// same, though values lie in each other's bytes. And errors stay with the values they belong to.
#include "symbol/program.h"

#include <algorithm>
#include <random>
#include <utility>

#include "engine/program.h"
#include "tests/symbol/bound.h"

namespace troupe::symbol {
namespace {

using base::Errc;

/// Holds operations back until somebody waits, then runs them on a serial engine in an order of its
/// own: any that the variables allow.
class ShuffledEngine final : public engine::Engine {
 public:
  /// `latest`: always the youngest operation that may run; else one by chance.
  ShuffledEngine(unsigned seed, bool latest, base::Clock& clock)
      : inner_(engine::make_serial_engine({}, clock)), random_(seed), latest_(latest) {}
  ~ShuffledEngine() override { run_all(); }

  engine::Variable new_variable(std::string_view label) override {
    return inner_->new_variable(label);
  }
  bool owns(const engine::Variable& variable) const override { return inner_->owns(variable); }
  void push(const engine::Operation& operation, engine::SyncFunction function) override {
    Held& held = held_.emplace_back();
    held.name = operation.name;
    held.lists[0].assign(operation.reads.begin(), operation.reads.end());
    held.lists[1].assign(operation.writes.begin(), operation.writes.end());
    held.lists[2].assign(operation.overwrites.begin(), operation.overwrites.end());
    held.operation = operation;
    held.function = std::move(function);
  }
  void push_async(const engine::Operation& operation, engine::AsyncFunction function) override {
    run_all();
    inner_->push_async(operation, std::move(function));
  }
  void push_stream(const engine::Operation& operation, engine::StreamFunction function) override {
    push(operation, std::move(function));
  }
  base::Status wait(const engine::Variable& variable) override {
    run_all();
    return inner_->wait(variable);
  }
  base::Status wait_all() override {
    run_all();
    return inner_->wait_all();
  }
  void cancel(std::string_view reason) override { inner_->cancel(reason); }
  std::string dump() const override { return inner_->dump(); }
  engine::EngineCounters counters() const override { return inner_->counters(); }
  engine::Program compile(engine::Recording recording) override {
    return inner_->compile(std::move(recording));
  }
  int team(const engine::Lane& lane) const override { return inner_->team(lane); }

  /// How often a younger operation overtook an older one.
  std::size_t overtakings() const { return overtakings_; }

 private:
  struct Held {
    std::string name;
    std::vector<engine::Variable> lists[3];  // reads, writes, overwrites
    engine::Operation operation;
    engine::SyncFunction function;
  };

  /// True when `younger` must wait for `older`.
  static bool waits(const Held& younger, const Held& older) {
    for (int a = 0; a < 3; ++a) {
      for (int b = 0; b < 3; ++b) {
        if (a == 0 && b == 0) continue;
        for (const engine::Variable& variable : younger.lists[a]) {
          for (const engine::Variable& other : older.lists[b]) {
            if (variable == other) return true;
          }
        }
      }
    }
    return false;
  }

  void run_all() {
    std::vector<std::vector<std::size_t>> followers(held_.size());
    std::vector<std::size_t> blocked(held_.size(), 0), ready;
    for (std::size_t i = 0; i < held_.size(); ++i) {
      for (std::size_t k = 0; k < i; ++k) {
        if (!waits(held_[i], held_[k])) continue;
        followers[k].push_back(i);
        ++blocked[i];
      }
      if (blocked[i] == 0) ready.push_back(i);
    }
    while (!ready.empty()) {
      const auto latest = std::max_element(ready.begin(), ready.end());
      const auto any = ready.begin() + static_cast<std::ptrdiff_t>(random_() % ready.size());
      const auto chosen = latest_ ? latest : any;
      const std::size_t index = *chosen;
      overtakings_ += *std::min_element(ready.begin(), ready.end()) < index ? 1 : 0;
      ready.erase(chosen);
      run(held_[index]);
      for (const std::size_t follower : followers[index]) {
        if (--blocked[follower] == 0) ready.push_back(follower);
      }
    }
    held_.clear();
  }

  void run(Held& held) {
    held.operation.name = held.name;
    held.operation.reads = held.lists[0];
    held.operation.writes = held.lists[1];
    held.operation.overwrites = held.lists[2];
    inner_->push(held.operation, std::move(held.function));
  }

  std::unique_ptr<engine::Engine> inner_;
  std::mt19937 random_;
  const bool latest_;
  std::size_t overtakings_ = 0;
  std::vector<Held> held_;
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

TEST_CASE("every order that the variables allow gives the same bits") {
  base::SteadyClock clock;
  for (const std::string network : {"tiny-bn", "resnet18"}) {
    INFO(network);
    const base::Shape data =
        network == "tiny-bn" ? base::Shape{2, 1, 12, 12} : base::Shape{1, 3, 32, 32};
    const Symbol net = make_network(table(), network, {.classes = 10}).value();
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

}  // namespace
}  // namespace troupe::symbol
