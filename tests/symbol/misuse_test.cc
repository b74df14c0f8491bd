// SPDX-License-Identifier: Apache-2.0
// What programs do wrong with symbols and executors: each an error that names it, never a crash.
#include <memory>
#include <utility>

#include "symbol/arena.h"
#include "tests/support/catch.h"
#include "tests/symbol/bound.h"

namespace troupe::symbol {
namespace {

using base::Errc;
using base::Shape;
using ndarray::NDArray;
using tests::TestRuntime;

TEST_CASE("an executor that outlives its engine answers with errors") {
  std::unique_ptr<Executor> executor;
  {
    Bound bound("lenet", {2, 1, 28, 28});
    static_cast<void>(bound.step());
    executor = std::move(bound.executor);
  }
  for (const base::Status& status :
       {executor->forward(true), executor->forward(false), executor->backward(),
        executor->set_step(1), executor->outputs()[0].wait()}) {
    CHECK(status.code() == Errc::failed_precondition);
    CHECK(status.text().find("has ended") != std::string::npos);
  }
  CHECK(executor->report().parameters > 0);
  executor.reset();
}

TEST_CASE("an executor keeps its own runtime") {
  TestRuntime test;
  const Symbol net = make_network(table(), "mlp").value();
  std::unique_ptr<Executor> executor;
  {
    auto runtime = std::make_unique<ndarray::Runtime>(test.runtime);
    Bindings bindings = make_bindings(*runtime, net, {4, 1, 5, 5});
    executor = Executor::bind(*runtime, net, std::move(bindings)).value();
  }
  REQUIRE(executor->forward(true).ok());
  REQUIRE(executor->backward().ok());
  CHECK(executor->outputs()[0].wait().ok());
}

TEST_CASE("arrays of another engine cannot be bound") {
  TestRuntime test;
  TestRuntime other;
  const Symbol net = make_network(table(), "mlp").value();
  const Bindings good = make_bindings(test.runtime, net, {4, 1, 5, 5});
  const auto bind = [&](const Bindings& bindings, const ExecutorOptions& options = {}) {
    return Executor::bind(test.runtime, net, bindings, options).status();
  };
  REQUIRE(bind(good).ok());
  Bindings bad = good;
  bad.arguments["fc1_bias"] =
      NDArray::zeros(other.runtime, good.arguments.at("fc1_bias").shape()).value();
  CHECK(bind(bad).text() == "bind: the array of 'fc1_bias' belongs to another engine");
  bad = good;
  bad.gradients["fc1_bias"] = NDArray::zeros(other.runtime, {128}).value();
  CHECK(bind(bad).code() == Errc::invalid_argument);
  bad = good;
  bad.outputs = {NDArray::zeros(other.runtime, {4, 10}).value()};
  CHECK(bind(bad).text() == "bind: the array of 'softmax_output' belongs to another engine");
  ExecutorOptions options;
  options.arena = std::make_shared<Arena>(other.runtime, base::Device{});
  CHECK(bind(good, options).text() == "bind: the arena belongs to another engine");
  options = {};
  options.step = NDArray::zeros(other.runtime, {}, base::DType::i64).value();
  CHECK(bind(good, options).text() == "bind: the array of 'step' belongs to another engine");
}

TEST_CASE("an output's array of a wrong shape, and a window of one extent, are errors with names") {
  TestRuntime test;
  const auto bind = [&test](const ops::Attributes& pooling) {
    Composer c(table());
    const Symbol act = c.call("activation", "act", {c.variable("data")}, {{"act_type", "relu"}});
    const Symbol net = c.finish(c.call("pooling", "pool", {act}, pooling)).value();
    Bindings bindings;
    for (NDArray* array : {&bindings.arguments["data"], &bindings.outputs.emplace_back()}) {
      *array = NDArray::zeros(test.runtime, {2, 3, 4, 4}).value();
    }
    return Executor::bind(test.runtime, net, bindings).status();
  };
  // The relu moves behind the pooling, whose output is what the program asked for.
  CHECK(bind({{"kernel", "(2, 2)"}}).text() ==
        "bind: pool_output is f32 (2, 3, 3, 3), its array is f32 (2, 3, 4, 4)");
  CHECK(mentions(bind({{"kernel", "(3,)"}, {"pooling_convention", "full"}}),
                 {"pool", "kernel is (3,)", "two extents"}));
}

TEST_CASE("an arena grows without holding two blocks, and keeps what it had when it cannot grow") {
  constexpr std::size_t kMiB = 1 << 20;
  base::SteadyClock clock;
  storage::Storage storage({.limit_bytes = 96 * kMiB});
  ndarray::PreparedKernels kernels;
  const auto engine = engine::make_threaded_engine({}, clock);
  ndarray::Runtime runtime{*engine, storage, table(), kernels, clock};
  Arena arena(runtime, {});
  REQUIRE(arena.reserve(40 * kMiB).ok());
  int user = 0;
  arena.claim(&user);
  REQUIRE(arena.reserve(64 * kMiB).ok());
  CHECK_FALSE(arena.claimed_by(&user));
  CHECK(arena.bytes() == 64 * kMiB);
  CHECK(arena.reserve(128 * kMiB).code() == Errc::resource_exhausted);
  CHECK(arena.bytes() == 64 * kMiB);
  REQUIRE(engine->wait(arena.memory()->variable).ok());
  CHECK(arena.memory()->buffer.size() == 64 * kMiB);
  CHECK(storage.statistics({}).peak_bytes == 64 * kMiB);
}

TEST_CASE("slices at odd addresses are bound where kernels take them, and refused elsewhere") {
  TestRuntime test;
  ops::OpDef wide;
  const Symbol net = wide_exponentials(wide);
  const NDArray all = array(test, {12}, std::vector<double>(12, 0.0));
  const auto bind = [&](const Symbol& symbol, std::int64_t begin) {
    Bindings bindings;
    bindings.arguments["data"] = all.slice(begin, begin + 4);
    return Executor::bind(test.runtime, symbol, std::move(bindings),
                          {.fused = false, .train = false})
        .status();
  };
  CHECK(bind(net, 4).ok());
  CHECK(mentions(bind(net, 3), {"the array of data begins at byte 24", "[exp first]",
                                "multiple of 16", "bind a copy"}));
  Composer c(table());
  CHECK(bind(c.finish(c.call("exp", "e", {c.variable("data")})).value(), 3).ok());
}

TEST_CASE("a symbol may outlive the table that made it") {
  Symbol net;
  {
    const auto table = std::make_unique<ops::OpTable>(ops::OpTable::build());
    Composer c(*table);
    net = c.finish(c.call("exp", "e", {c.variable("x")})).value();
  }
  const auto shapes = net.infer_shapes({{"x", Shape{2, 3}}});
  REQUIRE(shapes.ok());
  CHECK(shapes->outputs[0] == Shape{2, 3});
  CHECK(net.to_json().find("exp") != std::string::npos);
  // The definitions are those of every table.
  CHECK(&ops::OpTable::build().at("exp") == &table().at("exp"));
}

}  // namespace
}  // namespace troupe::symbol
