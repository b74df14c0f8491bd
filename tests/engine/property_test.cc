// SPDX-License-Identifier: Apache-2.0
// Random programs over integers: synchronous, asynchronous and stream operations mixed on all lanes
// give on the threaded and the serial engine what a plain loop gives, errors included.
#include <rapidcheck.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/engine/support.h"
#include "tests/support/catch.h"
#include "tests/support/delayed_stream.h"

namespace troupe::engine {
namespace {

using base::Errc;
using base::Status;
using tests::DelayedStream;

constexpr std::size_t kVariables = 6;

enum class How { sync, async, stream };

/// values[w] = mix of all values named, for every written variable.
struct Step {
  How how = How::sync;
  int lane = 0;
  int priority = 0;
  bool fails = false;
  std::vector<std::size_t> reads;
  std::vector<std::size_t> writes;
  std::vector<std::size_t> overwrites;
};

bool contains(const std::vector<std::size_t>& list, std::size_t index) {
  return std::find(list.begin(), list.end(), index) != list.end();
}

/// The old value of variable `v` does not matter to `step`, which writes it.
bool is_overwritten(const Step& step, std::size_t v) {
  return contains(step.overwrites, v) && !contains(step.writes, v);
}

/// Plain memory per variable, as kernels see it.
struct State {
  std::int64_t values[kVariables] = {1, 2, 3, 4, 5, 6};

  void apply(const Step& step, std::size_t number) {
    std::uint64_t mixed = number;
    for (const std::size_t r : step.reads) mixed = mixed * 31 + std::uint64_t(values[r]);
    for (const std::size_t w : step.writes) mixed = mixed * 31 + std::uint64_t(values[w]);
    for (const auto* list : {&step.overwrites, &step.writes}) {
      for (const std::size_t w : *list) values[w] = std::int64_t(mixed + w);
    }
  }
};

struct Result {
  State state;
  std::vector<std::string> errors;  // per variable
};

rc::Gen<Step> any_step() {
  const auto indices = [](int max) {
    return rc::gen::resize(max, rc::gen::container<std::vector<std::size_t>>(
                                    rc::gen::inRange<std::size_t>(0, kVariables)));
  };
  return rc::gen::build<Step>(
      rc::gen::set(&Step::how, rc::gen::element(How::sync, How::async, How::stream)),
      rc::gen::set(&Step::lane, rc::gen::inRange(0, 3)),
      rc::gen::set(&Step::priority, rc::gen::inRange(-2, 3)),
      rc::gen::set(&Step::fails,
                   rc::gen::map(rc::gen::inRange(0, 12), [](int n) { return n == 0; })),
      rc::gen::set(&Step::reads, indices(4)), rc::gen::set(&Step::writes, indices(2)),
      rc::gen::set(&Step::overwrites, indices(2)));
}

/// The meaning of a program, without any engine. The first error counts in the order in which the
/// lists name the variables: overwrites, writes, reads.
Result run_plainly(const std::vector<Step>& program) {
  Result result;
  result.errors.resize(kVariables);
  for (std::size_t i = 0; i < program.size(); ++i) {
    const Step& step = program[i];
    std::string error;
    for (const auto* list : {&step.overwrites, &step.writes, &step.reads}) {
      for (const std::size_t v : *list) {
        const bool counts = !is_overwritten(step, v) || contains(step.reads, v);
        if (error.empty() && counts) error = result.errors[v];
      }
    }
    if (error.empty()) {
      if (step.fails) {
        error = fmt::format("step {}", i);
      } else {
        result.state.apply(step, i);
      }
    }
    for (const auto* list : {&step.overwrites, &step.writes}) {
      for (const std::size_t w : *list) {
        if (result.errors[w].empty() || is_overwritten(step, w)) result.errors[w] = error;
      }
    }
  }
  return result;
}

/// A thread that ends asynchronous operations some time later.
class Finisher {
 public:
  Finisher() : thread_([this] { run(); }) {}
  ~Finisher() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void add(std::function<Status()> work, Completion completion) {
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back({std::move(work), std::move(completion)});
    }
    changed_.notify_all();
  }

 private:
  struct Job {
    std::function<Status()> work;
    Completion completion;
  };

  void run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      // The youngest first: completions come in any order.
      Job job = std::move(jobs_.back());
      jobs_.pop_back();
      lock.unlock();
      Status status = job.work();
      job.completion.complete(std::move(status));
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool stopping_ = false;
  std::thread thread_;
};

/// Pushes one step so that `work` runs in the way the step asks for.
void push_step(Fixture& f, Finisher& finisher, const std::vector<Variable>& variables,
               const Step& step, std::function<Status()> work) {
  std::vector<Variable> reads;
  std::vector<Variable> writes;
  std::vector<Variable> overwrites;
  for (const std::size_t r : step.reads) reads.push_back(variables[r]);
  for (const std::size_t w : step.writes) writes.push_back(variables[w]);
  for (const std::size_t w : step.overwrites) overwrites.push_back(variables[w]);
  const Lane lanes[] = {kCompute, kCopy, kPriority};
  Operation operation{.name = "step",
                      .reads = reads,
                      .writes = writes,
                      .lane = lanes[step.lane],
                      .priority = step.priority,
                      .overwrites = overwrites};
  if (step.how == How::sync) {
    f.engine->push(operation, [work](RunContext&) { return work(); });
  } else if (step.how == How::async) {
    f.engine->push_async(operation, [&finisher, work](RunContext&, Completion completion) {
      finisher.add(work, std::move(completion));
    });
  } else {
    operation.lane.device = {base::DeviceKind::delayed, step.lane == 2 ? 1 : 0};
    f.engine->push_stream(operation, [work, fails = step.fails](RunContext& context) {
      if (fails) return work();  // at issue; an error of the device would break the whole stream
      context.stream->enqueue_host(work);
      return Status();
    });
  }
}

Result run_on_engine(const std::vector<Step>& program, bool threaded) {
  const auto no_delay = std::chrono::microseconds(0);
  DelayedStream compute({.delay = no_delay});
  DelayedStream copies({.delay = no_delay});
  DelayedStream other({.device = {base::DeviceKind::delayed, 1}, .delay = no_delay});
  Finisher finisher;
  Fixture f(threaded, {.copy_threads = 2,
                       .engine_pending_operations_max = 64,
                       .streams = {&compute, &copies, &other}});
  Result result;
  std::vector<Variable> variables;
  for (std::size_t v = 0; v < kVariables; ++v) {
    variables.push_back(f.variable(fmt::format("v{}", v)));
  }
  for (std::size_t i = 0; i < program.size(); ++i) {
    const Step* step = &program[i];
    push_step(f, finisher, variables, *step, [&result, step, i]() -> Status {
      if (step->fails) return Status(Errc::internal, fmt::format("step {}", i));
      result.state.apply(*step, i);
      return {};
    });
  }
  for (const Variable& variable : variables) {
    result.errors.push_back(f.engine->wait(variable).text());
  }
  static_cast<void>(f.engine->wait_all());
  return result;
}

TEST_CASE("random programs mean the same on every engine") {
  const bool holds = rc::check("engines agree with a plain loop", [] {
    const auto program = *rc::gen::scale(3.0, rc::gen::container<std::vector<Step>>(any_step()));
    const Result expected = run_plainly(program);
    for (const bool threaded : {true, false}) {
      const Result got = run_on_engine(program, threaded);
      for (std::size_t v = 0; v < kVariables; ++v) {
        RC_ASSERT(got.state.values[v] == expected.state.values[v]);
        RC_ASSERT(got.errors[v] == expected.errors[v]);
      }
    }
  });
  CHECK(holds);
}

}  // namespace
}  // namespace troupe::engine
