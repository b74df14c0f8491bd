// SPDX-License-Identifier: Apache-2.0
// Cost of one pushed no-op: independent, in a chain, fanned out and in, in a random graph, as
// asynchronous operation; threaded and serial engine. Counter per_op; aim: 200 ns. And of one that
// a program replays, with and without ports; aim: 30 ns. tbb_bench.cc has the same in oneTBB.
#include <benchmark/benchmark.h>
#include <sched.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/program.h"

namespace troupe::engine {
namespace {

constexpr int kOperations = 20'000;

base::Status nothing(RunContext&) {
  return {};
}

/// What range(0) of a benchmark says.
enum Kind : std::int64_t {
  kSerial,
  kThreaded,
  kApart,  ///< threaded, the pusher on one processor and the engine on the next
};

void run_on(std::size_t processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

cpu_set_t processors() {
  cpu_set_t set;
  sched_getaffinity(0, sizeof(set), &set);
  return set;
}

std::unique_ptr<Engine> make_engine(std::int64_t kind, base::Clock& clock) {
  if (kind == kSerial) return make_serial_engine({}, clock);
  std::unique_ptr<Engine> engine = make_threaded_engine({}, clock);
  if (kind != kApart) return engine;
  engine->push({.name = "go apart"}, [](RunContext&) {
    run_on(1);
    return base::Status();
  });
  TROUPE_CHECK(engine->wait_all().ok(), "the engine's thread did not go");
  run_on(0);
  return engine;
}

/// Fills variables and pushes kOperations no-ops per iteration.
class Bench {
 public:
  Bench(benchmark::State& state, int variables, int operations = kOperations)
      : state_(state), operations_(operations), engine_(make_engine(state.range(0), clock_)) {
    constexpr const char* kLabels[] = {"serial", "threaded", "two processors"};
    state.SetLabel(kLabels[state.range(0)]);
    for (int i = 0; i < variables; ++i) variables_.push_back(engine_->new_variable("v"));
  }
  ~Bench() {
    state_.counters["per_op"] =
        benchmark::Counter(static_cast<double>(operations_ * state_.iterations()),
                           benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
    sched_setaffinity(0, sizeof(processors_), &processors_);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  Engine& engine() { return *engine_; }
  const Variable& variable(std::size_t i) const { return variables_[i]; }
  void push(std::span<const Variable> reads, std::span<const Variable> writes) {
    engine_->push({.name = "nothing", .reads = reads, .writes = writes}, nothing);
  }
  void wait() { benchmark::DoNotOptimize(engine_->wait_all()); }

 private:
  benchmark::State& state_;
  const std::int64_t operations_;
  const cpu_set_t processors_ = processors();  // where the pusher may be again afterwards
  base::SteadyClock clock_;
  std::unique_ptr<Engine> engine_;
  std::vector<Variable> variables_;
};

void independent(benchmark::State& state) {
  Bench bench(state, 64);
  for (auto unused : state) {
    static_cast<void>(unused);
    for (std::size_t i = 0; i < kOperations; ++i) bench.push({}, {&bench.variable(i % 64), 1});
    bench.wait();
  }
}

void chain(benchmark::State& state) {
  Bench bench(state, 1);
  for (auto unused : state) {
    static_cast<void>(unused);
    for (int i = 0; i < kOperations; ++i) bench.push({}, {&bench.variable(0), 1});
    bench.wait();
  }
}

/// One writer, eight readers that each write their own, one that reads all eight, and so on.
void fan_out_in(benchmark::State& state) {
  Bench bench(state, 9);
  for (auto unused : state) {
    static_cast<void>(unused);
    for (std::size_t i = 0; i < kOperations; ++i) {
      if (i % 9 == 8) {
        bench.push({&bench.variable(1), 8}, {&bench.variable(0), 1});
      } else {
        bench.push({&bench.variable(0), 1}, {&bench.variable(1 + i % 9), 1});
      }
    }
    bench.wait();
  }
}

/// Two reads and one write out of 100 variables, the shape of a layer's operations.
void random_graph(benchmark::State& state) {
  constexpr std::size_t kVariables = 100;
  Bench bench(state, kVariables);
  std::mt19937 random(7);
  std::vector<Variable> picks;
  for (int i = 0; i < kOperations; ++i) {
    const std::size_t first = random() % kVariables;
    const std::size_t step = 1 + random() % 49;  // three different ones
    for (std::size_t k = 0; k < 3; ++k) {
      picks.push_back(bench.variable((first + k * step) % kVariables));
    }
  }
  for (auto unused : state) {
    static_cast<void>(unused);
    for (std::size_t i = 0; i < kOperations; ++i) {
      bench.push({&picks[3 * i], 2}, {&picks[3 * i + 2], 1});
    }
    bench.wait();
  }
}

void asynchronous(benchmark::State& state) {
  Bench bench(state, 64);
  for (auto unused : state) {
    static_cast<void>(unused);
    for (std::size_t i = 0; i < kOperations; ++i) {
      bench.engine().push_async({.name = "nothing", .writes = {&bench.variable(i % 64), 1}},
                                [](RunContext&, Completion done) { done.complete(); });
    }
    bench.wait();
  }
}

/// Push one, wait for it: the latency that a reader of a loss sees.
void round_trip(benchmark::State& state) {
  constexpr int kTrips = 200;
  Bench bench(state, 1, kTrips);
  for (auto unused : state) {
    static_cast<void>(unused);
    for (int i = 0; i < kTrips; ++i) {
      bench.push({}, {&bench.variable(0), 1});
      benchmark::DoNotOptimize(bench.engine().wait(bench.variable(0)));
    }
  }
}

constexpr int kReplays = 20;

/// Replays `recording` kReplays times per iteration.
void replay(benchmark::State& state, Bench& bench, Recording recording) {
  Program program = bench.engine().compile(std::move(recording));
  for (auto unused : state) {
    static_cast<void>(unused);
    for (int i = 0; i < kReplays; ++i) program.replay();
    bench.wait();
  }
}

InnerOperation no_op() {
  return {.name = "nothing", .function = nothing};
}

void replay_chain(benchmark::State& state) {
  constexpr int kLength = 1000;
  Bench bench(state, 1, kReplays * kLength);
  Recording recording("chain", Lane{});
  const Slot slot = recording.inner();
  for (int i = 0; i < kLength; ++i) {
    InnerOperation operation = no_op();
    operation.writes = {slot};
    recording.add(std::move(operation));
  }
  replay(state, bench, std::move(recording));
}

/// The graph of fan_out_in.
void replay_fan_out_in(benchmark::State& state) {
  constexpr int kLength = 999;
  Bench bench(state, 1, kReplays * kLength);
  Recording recording("fan", Lane{});
  std::vector<Slot> slots;
  for (int i = 0; i < 9; ++i) slots.push_back(recording.inner());
  for (std::size_t i = 0; i < kLength; ++i) {
    InnerOperation operation = no_op();
    if (i % 9 == 8) {
      operation.reads.assign(slots.begin() + 1, slots.end());
      operation.writes = {slots[0]};
    } else {
      operation.reads = {slots[0]};
      operation.writes = {slots[1 + i % 9]};
    }
    recording.add(std::move(operation));
  }
  replay(state, bench, std::move(recording));
}

/// A chain of range(1) operations with 20 ports: in turns a weight that is read and a gradient that
/// is written, spread evenly. With 20 operations each has one.
void replay_ports(benchmark::State& state) {
  constexpr std::size_t kPorts = 20;
  const auto length = static_cast<std::size_t>(state.range(1));
  Bench bench(state, kPorts, static_cast<int>(kReplays * length));
  Recording recording("ports", Lane{});
  const Slot slot = recording.inner();
  for (std::size_t i = 0; i < length; ++i) {
    InnerOperation operation = no_op();
    operation.writes = {slot};
    const std::size_t port = i * kPorts / length;
    const bool first = i == 0 || (i - 1) * kPorts / length != port;
    if (first && port % 2 == 0) operation.reads = {recording.port(bench.variable(port))};
    if (first && port % 2 != 0) operation.overwrites = {recording.port(bench.variable(port))};
    recording.add(std::move(operation));
  }
  replay(state, bench, std::move(recording));
}

BENCHMARK(independent)->Arg(1)->Arg(2)->Arg(0)->UseRealTime()->MeasureProcessCPUTime();
BENCHMARK(chain)->Arg(1)->Arg(2)->Arg(0)->UseRealTime()->MeasureProcessCPUTime();
BENCHMARK(fan_out_in)->Arg(1)->Arg(2)->Arg(0)->UseRealTime()->MeasureProcessCPUTime();
BENCHMARK(random_graph)->Arg(1)->Arg(2)->Arg(0)->UseRealTime()->MeasureProcessCPUTime();
BENCHMARK(asynchronous)->Arg(1)->Arg(2)->Arg(0)->UseRealTime()->MeasureProcessCPUTime();
BENCHMARK(round_trip)->Arg(1)->Arg(2)->Arg(0)->UseRealTime()->MeasureProcessCPUTime();
BENCHMARK(replay_chain)->Arg(1)->Arg(2)->Arg(0)->UseRealTime()->MeasureProcessCPUTime();
BENCHMARK(replay_fan_out_in)->Arg(1)->Arg(2)->Arg(0)->UseRealTime()->MeasureProcessCPUTime();
BENCHMARK(replay_ports)
    ->ArgsProduct({{1, 2, 0}, {1000, 20}})
    ->UseRealTime()
    ->MeasureProcessCPUTime();

}  // namespace
}  // namespace troupe::engine
