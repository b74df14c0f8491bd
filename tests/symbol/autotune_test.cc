// SPDX-License-Identifier: Apache-2.0
// Tuning with made-up times, where each choice can be foretold, and with measured ones.
#include "symbol/autotune.h"

#include <array>
#include <atomic>
#include <cmath>
#include <set>

#include "tests/support/delayed_stream.h"
#include "tests/symbol/bound.h"

namespace troupe::symbol {
namespace {

constexpr double kEver = 1e9;  // seconds
/// Made-up times: of what should be chosen, and of others as the rule has it, times this. (Where
/// all take the same, the choice of one layout changes what is chosen next.)
constexpr double kBest = 1e-12, kSlower = 100;

/// resnet18 on small images. Each relu is a node of its own, so that calls have several nodes.
base::Result<std::unique_ptr<Executor>> bind(tests::TestRuntime& test, ExecutorOptions options,
                                             std::int64_t batch = 2) {
  options.fused = false;
  const Symbol net = make_network(table(), "resnet18", {.classes = 10}).value();
  return Executor::bind(test.runtime, net, make_bindings(test.runtime, net, {batch, 3, 32, 32}),
                        options);
}

ExecutorReport bound(tests::TestRuntime& test, const ExecutorOptions& options) {
  return bind(test, options).value()->report();
}

ExecutorOptions with(const Autotuner& tuner, ExecutorOptions options = {}) {
  options.kernels =
      std::make_shared<const KernelChoices>(KernelChoices{"tuned", "here", tuner.choices()});
  return options;
}

/// A tuner that has bound the network with these times.
Autotuner tuned(tests::TestRuntime& test, const MeasureFunction& measure, double seconds = kEver,
                ExecutorOptions options = {}, std::int64_t batch = 2) {
  Autotuner tuner(measure, test.clock, seconds);
  options.tuner = &tuner;
  const base::Status status = bind(test, options, batch).status();
  INFO(status.to_string());
  REQUIRE(status.ok());
  return tuner;
}

Alternative weighed(const std::string& maker, double seconds, double reorders) {
  return {maker, maker, {}, {}, 0, seconds, reorders};
}

TEST_CASE("the kernel that measures least is chosen, and a binding takes it",
          "[autotune][onednn]") {
  tests::TestRuntime test;
  std::set<std::string> run;
  bool stem_by_reference = false;
  const Autotuner tuner = tuned(test, [&](const ops::OpCall& call, const ops::Offer& offer) {
    run.insert(call.op->name + " " + offer.maker->name);
    const bool stem = call.op->name == "convolution" && call.inputs[0].shape[1] == 3;
    stem_by_reference = stem_by_reference || (stem && offer.maker->name == "reference");
    const bool wanted = call.op->name == "activation" && offer.maker->name == "reference";
    return wanted ? kBest : kSlower * offer.seconds;
  });
  CHECK(run.contains("activation reference"));
  CHECK(run.contains("reorder onednn"));
  CHECK(run.contains("convolution onednn"));
  CHECK_FALSE(stem_by_reference);  // it is far behind by rule
  CHECK(tuner.left() == 0);
  const auto choices = tuner.choices();
  std::size_t activations = 0;
  for (const auto& [call, choice] : choices) {
    INFO(call);
    CHECK(choice.seconds.contains(choice.kernel));
    CHECK(call.find(" reorder(") == std::string::npos);
    if (call.find(" activation(") == std::string::npos) continue;
    ++activations;
    CHECK(choice.kernel == "reference");
  }
  CHECK(activations >= 8);  // of four sizes, in training and prediction
  const ExecutorReport report = bound(test, with(tuner));
  // What is chosen for activations changes a few layouts, and so calls that nobody had weighed.
  CHECK(report.stored_choices >= 0.95 * double(report.nodes.size() - report.reorders.size()));
  for (const NodeReport& node : report.nodes) {
    if (node.op == "activation") CHECK(node.kernel == "reference");
  }
  const ExecutorReport plain = bound(test, {});
  CHECK(std::ranges::any_of(plain.nodes, [](const NodeReport& node) {
    return node.op == "activation" && node.kernel != "reference";
  }));
}

TEST_CASE("calls with a stored choice are not measured again", "[autotune]") {
  tests::TestRuntime test;
  std::size_t runs = 0;
  const auto measure = [&runs](const ops::OpCall& call, const ops::Offer& offer) {
    if (call.op->name != "reorder") ++runs;
    return kSlower * offer.seconds;
  };
  const Autotuner first = tuned(test, measure);
  CHECK(runs > 0);
  runs = 0;
  const Autotuner second = tuned(test, measure, kEver, with(first));
  CHECK(runs == 0);
  CHECK(second.choices().empty());
  CHECK(second.left() == 0);
}

TEST_CASE("without time all calls are left to the rule", "[autotune]") {
  tests::TestRuntime test;
  const auto measure = [](const ops::OpCall&, const ops::Offer&) { return 1.0; };
  const Autotuner tuner = tuned(test, measure, 0.0);
  CHECK(tuner.choices().empty());
  CHECK(tuner.left() > 20);
  const ExecutorReport plain = bound(test, {}), untuned = bound(test, with(tuner));
  REQUIRE(plain.nodes.size() == untuned.nodes.size());
  for (std::size_t i = 0; i < plain.nodes.size(); ++i) {
    CHECK(plain.nodes[i].kernel == untuned.nodes[i].kernel);
  }
}

TEST_CASE("once stopped, what was measured is kept and the rest is left to the rule",
          "[autotune]") {
  tests::TestRuntime test;
  std::atomic<bool> stop{false};
  int runs = 0;
  const auto measure = [&](const ops::OpCall&, const ops::Offer& offer) {
    stop.store(++runs == 5);
    return kSlower * offer.seconds;
  };
  Autotuner tuner(measure, test.clock, kEver, &stop);
  ExecutorOptions options;
  options.tuner = &tuner;
  REQUIRE(bind(test, options).ok());
  CHECK(runs == 5);
  CHECK(!tuner.choices().empty());
  CHECK(tuner.left() > 10);
  CHECK(tuner.failed() == 0);
}

TEST_CASE("a measurement begins if there is time for all its runs", "[autotune]") {
  base::ManualClock clock;
  constexpr double kNanoseconds = 1e9;
  double beside = 0, spent = 0;
  const auto measure = [&](const ops::OpCall&, const ops::Offer& offer) {
    const double seconds = beside + seconds_of_runs(offer.seconds);
    clock.advance_ns(static_cast<std::int64_t>(seconds * kNanoseconds));
    spent += seconds;
    return offer.seconds;
  };
  Autotuner tuner(measure, clock, 20);
  const ops::KernelDef maker{"a", {}};
  ops::OpCall call;
  call.op = &table().at("convolution");
  const auto runs = [&](const char* signature, double seconds) {
    const double before = spent;
    std::vector<ops::Offer> offers = {{&maker, maker.name, {}, {}, 0, seconds}};
    tuner.time(signature, call, offers);
    return spent > before;
  };
  CHECK(!runs("two of them are too long", 10));
  CHECK(runs("first", 2));
  CHECK(!runs("two of them take 16 of the 15 that are left", 8));
  // What does not grow with the kernel's own time is no factor of it.
  beside = 1;
  for (const char* small : {"a", "b", "c", "d"}) CHECK(runs(small, 1e-4));
  CHECK(runs("of four seconds", 4));
  CHECK(!runs("nothing is left for it", 2));
  CHECK(spent < 20);
}

TEST_CASE("kernels that cannot be run are left to the rule", "[autotune]") {
  tests::TestRuntime test;
  const Autotuner tuner =
      tuned(test, [](const ops::OpCall& call, const ops::Offer&) -> base::Result<double> {
        if (call.op->name != "pooling") return 1e-3;
        return base::error(base::Errc::invalid_argument, "no such numbers");
      });
  CHECK(tuner.left() == 0);
  CHECK(tuner.failed() > 0);
  for (const auto& [call, choice] : tuner.choices()) {
    CHECK(call.find(" pooling(") == std::string::npos);
  }
}

TEST_CASE("one kernel serves all nodes of a call: the cheapest in sum", "[autotune]") {
  const base::ManualClock clock;
  Autotuner tuner([](const ops::OpCall&, const ops::Offer& offer) { return offer.seconds; }, clock,
                  kEver);
  const ops::OpDef& op = table().at("convolution");
  std::vector<ops::KernelDef> makers = {{"a", {}}, {"b", {}}, {"c", {}}};
  std::vector<ops::Offer> offers;
  for (const ops::KernelDef& maker : makers) offers.push_back({&maker, maker.name, {}, {}, 0, 1.0});
  ops::OpCall call;
  call.op = &op;
  tuner.time("call", call, offers);
  tuner.weighed("call", {weighed("a", 1, 0), weighed("b", 2, 0), weighed("c", 0, 0)});
  CHECK(tuner.choices().at("call").kernel == "c");
  // "c" does not take the second node, and there "a" needs reorders unless it takes a slow way.
  tuner.weighed("call", {weighed("a", 1, 9), weighed("a", 4, 0), weighed("b", 2, 0)});
  CHECK(tuner.choices().at("call").kernel == "b");
  tuner.weighed("call", {weighed("a", 1, 0), weighed("b", 4, 0)});
  CHECK(tuner.choices().at("call").kernel == "a");
}

/// "plain" is the rule's; the others are taken by choice.
struct ByChoice {
  ByChoice() {
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      kernels[i].name = std::vector<std::string>{"plain", "good", "near", "bad"}[i];
      kernels[i].by_choice = i > 0;
      offers.push_back({&kernels[i], kernels[i].name, {}, {}, 0, 1.0});
    }
  }
  Names names() const {
    Names list;
    for (const ops::Offer& offer : offers) list.push_back(offer.kernel);
    return list;
  }
  std::array<ops::KernelDef, 4> kernels;
  std::vector<ops::Offer> offers;
};

TEST_CASE("of kernels by choice, only those that gain are weighed", "[autotune]") {
  const base::SteadyClock clock;
  const std::map<std::string, double> seconds = {{"plain", 3.0}, {"good", 2.0}, {"near", 2.95}};
  for (const bool measured : {true, false}) {
    Autotuner tuner(
        [&](const ops::OpCall&, const ops::Offer& each) -> base::Result<double> {
          if (measured && seconds.contains(each.kernel)) return seconds.at(each.kernel);
          return base::error(base::Errc::data_loss, "no");
        },
        clock, kEver);
    ByChoice call;
    tuner.time("call", {}, call.offers);
    CHECK(call.names() == (measured ? Names{"good", "plain"} : Names{"plain"}));
  }
}

TEST_CASE("a kernel that is wrong in one of a signature's calls is not chosen", "[autotune]") {
  const base::SteadyClock clock;
  bool wrong = false;
  Autotuner tuner(
      [&](const ops::OpCall&, const ops::Offer& each) -> base::Result<double> {
        if (each.kernel == "plain") return 3.0;
        if (wrong || each.kernel != "good") return base::error(base::Errc::data_loss, "no");
        return 2.0;
      },
      clock, kEver);
  ByChoice free, as_it_is;
  tuner.time("call", {}, free.offers);
  REQUIRE(free.names() == Names{"good", "plain"});
  tuner.weighed("call", {weighed("good", 2, 0), weighed("plain", 3, 0)});
  CHECK(tuner.choices().at("call").kernel == "good");
  wrong = true;
  tuner.time("call", {}, as_it_is.offers);
  CHECK(tuner.choices().empty());
}

TEST_CASE("measured choices compute what the rule's do", "[autotune]") {
  tests::DelayedStream stream;
  engine::EngineOptions streams;
  streams.streams = {&stream};
  tests::TestRuntime test(true, streams);
  ExecutorOptions options;
  if (GENERATE(false, true)) options.device = stream.device();
  options.train = GENERATE(true, false);
  options.predict = !options.train;
  // The last statistics are those of a number of each image: of two they would make much of how
  // kernels round, above all Winograd's form.
  const std::int64_t batch = options.train ? 8 : 2;
  options.winograd = !options.train;
  const auto measure = [&test](const ops::OpCall& call, const ops::Offer& offer) {
    const auto seconds = measure_on(test.runtime)(call, offer);
    INFO(call.op->name << " " << offer.kernel << ": " << seconds.status().to_string());
    CHECK((seconds.ok() && *seconds > 0 && std::isfinite(*seconds)));
    return seconds;
  };
  const Autotuner tuner = tuned(test, measure, kEver, options, batch);
  CHECK(tuner.left() == 0);
  const auto output = [&](const ExecutorOptions& bound) {
    const auto executor = bind(test, bound, batch).value();
    REQUIRE(executor->forward(bound.train).ok());
    return bytes_of(executor->outputs().front());
  };
  const double apart = distance<float>(output(options), output(with(tuner, options)));
  INFO("apart by " << apart);
  CHECK(apart < (options.train ? 3e-3 : 1e-4));
}

}  // namespace
}  // namespace troupe::symbol
