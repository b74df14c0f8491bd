// SPDX-License-Identifier: Apache-2.0
// Views: values that are parts of others have their bytes, and results have the bits that they have
// with copies.
#include "symbol/views.h"

#include <cstdio>
#include <map>
#include <sstream>

#include "tests/support/delayed_stream.h"
#include "tests/symbol/bound.h"

namespace troupe::symbol {
namespace {

using base::Shape;

/// Where each value of an executor's last pass lies, by name.
std::map<std::string, std::string> places(const Executor& executor) {
  std::map<std::string, std::string> found;
  std::istringstream lines(executor.dump());
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view kBegin = "      writes ";
    if (!line.starts_with(kBegin)) continue;
    const std::string rest = line.substr(kBegin.size());
    found[rest.substr(0, rest.find(' '))] = rest.substr(rest.rfind(' ') + 1);
  }
  return found;
}

TEST_CASE("networks of joined and cut values have the bits that copies give") {
  for (const std::int64_t batch : {1, 3}) {
    const auto run = [&](ExecutorOptions options, bool threaded,
                         const engine::EngineOptions& engine = {}) {
      Bound bound(parted(), {batch, 3, 8, 8}, options, threaded, engine);
      Results results = bound.step(5);
      CHECK(bound.step(5) == results);
      REQUIRE(bound.executor->forward(false).ok());
      results["prediction"] = bytes_of(bound.executor->outputs()[0]);
      return results;
    };
    for (const bool reference : {true, false}) {
      ExecutorOptions options;
      options.reference_only = reference;
      options.memory = MemoryMode::none;
      const Results copied = run(options, false);
      for (const MemoryMode memory : {MemoryMode::in_place, MemoryMode::share, MemoryMode::both}) {
        options.memory = memory;
        CHECK(run(options, false) == copied);
        CHECK(run(options, true) == copied);
      }
      for (const Recompute recompute : {Recompute::cheap, Recompute::sqrt}) {
        options.recompute = recompute;
        CHECK(run(options, true) == copied);
      }
      tests::DelayedStream stream;
      engine::EngineOptions delayed;
      delayed.streams = {&stream};
      options.device = {base::DeviceKind::delayed, 0};
      CHECK(run(options, true, delayed) == copied);
    }
  }
}

TEST_CASE("parts lie in their whole for one sample, and are copied for several") {
  for (const std::int64_t batch : {1, 3}) {
    ExecutorOptions options;
    options.train = false;
    options.reference_only = true;
    options.sub_batch = batch;
    const Bound bound(parted(), {batch, 3, 8, 8}, options);
    const auto lies = places(*bound.executor);
    INFO(bound.executor->dump());
    const auto byte = [&](const std::string& value) {
      INFO(value);
      REQUIRE(lies.contains(value));
      return std::stoll(lies.at(value).substr(std::string_view("arena+").size()));
    };
    const std::int64_t channel = 8 * 8 * sizeof(float);
    const auto is_part = [&](const std::string& part, const std::string& whole,
                             std::int64_t channels) {
      return byte(part) == byte(whole) + channels * channel;
    };
    CHECK(is_part("a_output", "ab_output", 0) == (batch == 1));
    CHECK(is_part("b_output", "ab_output", 16) == (batch == 1));
    CHECK(is_part("tail_output", "ab_output", 32) == (batch == 1));
    CHECK(is_part("ab_output", "all_output", 80) == (batch == 1));
    CHECK(is_part("e_output", "all_output", 16) == (batch == 1));
    CHECK(is_part("parts_output1", "d_output", 16) == (batch == 1));
    // `a` is in the other whole already; what is cut off from `d` stays there.
    CHECK(!is_part("a_output", "all_output", 32));
    CHECK(!is_part("parts_output0", "all_output", 0));
    // Half a row of 20 numbers does not begin a line.
    CHECK((byte("halves_output0") == byte("fc_output")) == (batch == 1));
    CHECK(byte("halves_output1") != byte("fc_output") + 40);
  }
}

TEST_CASE("a batch in parts of one sample has the whole's bits, and its concats have views") {
  for (const bool reference : {true, false}) {
    ExecutorOptions options;
    options.train = false;
    options.reference_only = reference;
    options.sub_batch = 3;
    Bound whole(parted(), {3, 3, 8, 8}, options);
    options.sub_batch = 1;
    Bound parts(parted(), {3, 3, 8, 8}, options);
    CHECK(parts.executor->report().sub_batch == 1);
    const auto lies = places(*parts.executor);
    CHECK(lies.at("a_output") == lies.at("ab_output"));
    for (Bound* bound : {&whole, &parts}) REQUIRE(bound->executor->forward(false).ok());
    CHECK(bytes_of(parts.executor->outputs()[0]) == bytes_of(whole.executor->outputs()[0]));
  }
}

TEST_CASE("an error in a part fails the pass, and the next one is clean") {
  Bound bound(parted(), {1, 3, 8, 8});
  const Results before = bound.step();
  for (const std::string damaged : {"a_weight", "b_weight"}) {
    const ndarray::NDArray& source = bound.executor->arguments().at(damaged);
    const Bytes content = bytes_of(source);
    bound.test.engine->push({.name = "fails", .overwrites = {&source.variable(), 1}},
                            [](engine::RunContext&) {
                              return base::error(base::Errc::data_loss, "record 7 is damaged");
                            });
    REQUIRE(bound.executor->forward(true).ok());
    CHECK(mentions(bound.executor->outputs()[0].wait(), {"record 7"}));
    REQUIRE(source.write(content).ok());
    CHECK(bound.step() == before);
  }
}

TEST_CASE("GoogLeNet copies no part of its concats when it predicts one image") {
  ExecutorOptions options;
  options.train = false;
  const Symbol net = make_network(table(), "googlenet", {.classes = 10}).value();
  const Bound bound(net, {1, 3, 224, 224}, options);
  const auto lies = places(*bound.executor);
  int concats = 0;
  for (const NodeReport& node : bound.executor->report().nodes) {
    if (node.op != "concat") continue;
    ++concats;
    const std::string whole = node.outputs[0].substr(0, node.outputs[0].find(' '));
    const std::int64_t begin = std::stoll(lies.at(whole).substr(6));
    std::int64_t at = begin;
    for (const std::string& input : node.inputs) {
      INFO(input);
      CHECK(std::stoll(lies.at(input.substr(0, input.find(' '))).substr(6)) == at);
      long long channels = 0, height = 0, width = 0;
      REQUIRE(std::sscanf(input.c_str(), "%*s (1, %lld, %lld, %lld)", &channels, &height, &width) ==
              3);
      at += channels * height * width * 4;
    }
  }
  CHECK(concats == 9);
}

}  // namespace
}  // namespace troupe::symbol
