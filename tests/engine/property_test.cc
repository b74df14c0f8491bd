// SPDX-License-Identifier: Apache-2.0
// Random programs over integers: synchronous, asynchronous and stream operations mixed on all
// lanes, pushed one by one or compiled and replayed, give on the threaded and the serial engine
// what a plain loop gives, errors included.
#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/program.h"
#include "tests/engine/support.h"
#include "tests/support/catch.h"
#include "tests/support/delayed_stream.h"

namespace troupe::engine {
namespace {

using base::Errc;
using base::Status;
using tests::DelayedStream;

constexpr std::size_t kVariables = 6;
constexpr std::size_t kInner = 3;  // of each compiled part; their numbers follow the variables'

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

/// What becomes of a part of a program. Compiled steps share the lane and priority of the first.
enum class Form { pushed, compiled, on_stream };

/// Neighbouring steps.
struct Part {
  Form form = Form::pushed;
  int replays = 1;  ///< 1 for pushed ones
  std::vector<Step> steps;
};

bool contains(const std::vector<std::size_t>& list, std::size_t index) {
  return std::find(list.begin(), list.end(), index) != list.end();
}

/// The old value of variable `v` does not matter to `step`, which writes it.
bool is_overwritten(const Step& step, std::size_t v) {
  return contains(step.overwrites, v) && !contains(step.writes, v);
}

/// Plain memory per variable, as kernels see it, and per inner variable of each part.
struct State {
  explicit State(std::size_t parts) : inner(parts) {}

  std::int64_t& value(std::size_t part, std::size_t v) {
    return v < kVariables ? values[v] : inner[part][v - kVariables];
  }
  void apply(const Step& step, std::size_t part, std::size_t number) {
    std::uint64_t mixed = number;
    for (const std::size_t r : step.reads) mixed = mixed * 31 + std::uint64_t(value(part, r));
    for (const std::size_t w : step.writes) mixed = mixed * 31 + std::uint64_t(value(part, w));
    for (const auto* list : {&step.overwrites, &step.writes}) {
      for (const std::size_t w : *list) value(part, w) = std::int64_t(mixed + w);
    }
  }

  std::int64_t values[kVariables] = {1, 2, 3, 4, 5, 6};
  std::vector<std::array<std::int64_t, kInner>> inner;
};

struct Result {
  State state;
  std::vector<std::string> errors;  // per variable
};

rc::Gen<Step> any_step() {
  const auto indices = [](int max) {
    return rc::gen::resize(max, rc::gen::container<std::vector<std::size_t>>(
                                    rc::gen::inRange<std::size_t>(0, kVariables + kInner)));
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

rc::Gen<Part> any_part() {
  return rc::gen::map(
      rc::gen::build<Part>(
          rc::gen::set(&Part::form,
                       rc::gen::element(Form::pushed, Form::compiled, Form::on_stream)),
          rc::gen::set(&Part::replays, rc::gen::inRange(1, 5)),
          rc::gen::set(&Part::steps, rc::gen::container<std::vector<Step>>(any_step()))),
      [](Part part) {
        if (part.form != Form::pushed) return part;
        part.replays = 1;
        for (Step& step : part.steps) {
          for (auto* list : {&step.reads, &step.writes, &step.overwrites}) {
            for (std::size_t& v : *list) v %= kVariables;
          }
        }
        return part;
      });
}

std::size_t number_of(std::size_t part, std::size_t step) {
  return part * 1000 + step;
}

std::string error_of(std::size_t part, std::size_t step) {
  return fmt::format("step {} of part {}", step, part);
}

/// Runs a step without any engine. The first error counts in the order in which the lists name the
/// variables: overwrites, writes, reads.
void run_step_plainly(Result& result, const Step& step, std::size_t part, std::size_t number) {
  std::string error;
  for (const auto* list : {&step.overwrites, &step.writes, &step.reads}) {
    for (const std::size_t v : *list) {
      const bool counts = !is_overwritten(step, v) || contains(step.reads, v);
      if (error.empty() && counts) error = result.errors[v];
    }
  }
  if (error.empty()) {
    if (step.fails) {
      error = error_of(part, number);
    } else {
      result.state.apply(step, part, number_of(part, number));
    }
  }
  for (const auto* list : {&step.overwrites, &step.writes}) {
    for (const std::size_t w : *list) {
      if (result.errors[w].empty() || is_overwritten(step, w)) result.errors[w] = error;
    }
  }
}

/// The meaning of a program. Errors of inner variables last for one replay.
Result run_plainly(const std::vector<Part>& program) {
  Result result{State(program.size()), {}};
  for (std::size_t part = 0; part < program.size(); ++part) {
    for (int replay = 0; replay < program[part].replays; ++replay) {
      result.errors.resize(kVariables);
      result.errors.resize(kVariables + kInner);
      for (std::size_t i = 0; i < program[part].steps.size(); ++i) {
        run_step_plainly(result, program[part].steps[i], part, i);
      }
    }
  }
  result.errors.resize(kVariables);
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

/// An engine in the middle of a program.
struct Run {
  Run(bool threaded, std::size_t parts)
      : f(threaded, {.copy_threads = 2,
                     .engine_pending_operations_max = 64,
                     .streams = {&compute, &copies, &other}}),
        result{State(parts), {}} {
    for (std::size_t v = 0; v < kVariables; ++v) {
      variables.push_back(f.variable(fmt::format("v{}", v)));
    }
  }
  /// What a step's kernel does.
  std::function<Status()> work(const Step& step, std::size_t part, std::size_t number) {
    return [this, &step, part, number]() -> Status {
      if (step.fails) return Status(Errc::internal, error_of(part, number));
      result.state.apply(step, part, number_of(part, number));
      return {};
    };
  }
  /// What a step issues on a stream.
  StreamFunction issue(const Step& step, std::size_t part, std::size_t number) {
    return [work = work(step, part, number), fails = step.fails](RunContext& context) {
      if (fails) return work();  // at issue; an error of the device would break the whole stream
      context.stream->enqueue_host(work);
      return Status();
    };
  }
  static Lane lane(int kind, bool on_stream) {
    const Lane lanes[] = {kCompute, kCopy, kPriority};
    Lane lane = lanes[kind];
    if (on_stream) lane.device = {base::DeviceKind::delayed, kind == 2 ? 1 : 0};
    return lane;
  }
  void push(const Step& step, std::size_t part, std::size_t number);
  void replay(const Part& part, std::size_t number);

  DelayedStream compute{{.delay = std::chrono::microseconds(0)}};
  DelayedStream copies{{.delay = std::chrono::microseconds(0)}};
  DelayedStream other{
      {.device = {base::DeviceKind::delayed, 1}, .delay = std::chrono::microseconds(0)}};
  Finisher finisher;
  Fixture f;
  Result result;
  std::vector<Variable> variables;
};

/// In the way the step asks for.
void Run::push(const Step& step, std::size_t part, std::size_t number) {
  std::vector<Variable> reads;
  std::vector<Variable> writes;
  std::vector<Variable> overwrites;
  for (const std::size_t r : step.reads) reads.push_back(variables[r]);
  for (const std::size_t w : step.writes) writes.push_back(variables[w]);
  for (const std::size_t w : step.overwrites) overwrites.push_back(variables[w]);
  const Operation operation{.name = "step",
                            .reads = reads,
                            .writes = writes,
                            .lane = lane(step.lane, step.how == How::stream),
                            .priority = step.priority,
                            .overwrites = overwrites};
  const std::function<Status()> work = this->work(step, part, number);
  if (step.how == How::sync) {
    f.engine->push(operation, [work](RunContext&) { return work(); });
  } else if (step.how == How::async) {
    f.engine->push_async(operation, [this, work](RunContext&, Completion completion) {
      finisher.add(work, std::move(completion));
    });
  } else {
    f.engine->push_stream(operation, issue(step, part, number));
  }
}

/// The handle goes while replays are pending.
void Run::replay(const Part& part, std::size_t number) {
  const bool on_stream = part.form == Form::on_stream;
  const Step front = part.steps.empty() ? Step{} : part.steps.front();
  Recording recording("part", lane(front.lane, on_stream), on_stream);
  std::vector<Slot> slots;
  for (const Variable& variable : variables) slots.push_back(recording.port(variable));
  for (std::size_t i = 0; i < kInner; ++i) slots.push_back(recording.inner());
  for (std::size_t i = 0; i < part.steps.size(); ++i) {
    const Step& step = part.steps[i];
    InnerOperation operation{.name = "step"};
    for (const std::size_t r : step.reads) operation.reads.push_back(slots[r]);
    for (const std::size_t w : step.writes) operation.writes.push_back(slots[w]);
    for (const std::size_t w : step.overwrites) operation.overwrites.push_back(slots[w]);
    if (on_stream) {
      operation.function = issue(step, number, i);
      if (step.lane > 0) operation.addresses = [](RunContext&, auto&) { return Status(); };
    } else {
      operation.function = [work = work(step, number, i)](RunContext&) { return work(); };
    }
    recording.add(std::move(operation));
  }
  Program program = f.engine->compile(std::move(recording));
  for (int i = 0; i < part.replays; ++i) program.replay(front.priority);
}

Result run_on_engine(const std::vector<Part>& program, bool threaded) {
  Run run(threaded, program.size());
  for (std::size_t p = 0; p < program.size(); ++p) {
    if (program[p].form != Form::pushed) {
      run.replay(program[p], p);
      continue;
    }
    for (std::size_t i = 0; i < program[p].steps.size(); ++i) run.push(program[p].steps[i], p, i);
  }
  for (const Variable& variable : run.variables) {
    run.result.errors.push_back(run.f.engine->wait(variable).text());
  }
  static_cast<void>(run.f.engine->wait_all());
  return run.result;
}

TEST_CASE("random programs mean the same on every engine, pushed and compiled") {
  const bool holds = rc::check("engines agree with a plain loop", [] {
    const auto program = *rc::gen::container<std::vector<Part>>(rc::gen::scale(0.3, any_part()));
    const Result expected = run_plainly(program);
    for (const bool threaded : {true, false}) {
      const Result got = run_on_engine(program, threaded);
      for (std::size_t v = 0; v < kVariables; ++v) {
        RC_ASSERT(got.state.values[v] == expected.state.values[v]);
        RC_ASSERT(got.errors[v] == expected.errors[v]);
      }
      RC_ASSERT(got.state.inner == expected.state.inner);
    }
  });
  CHECK(holds);
}

}  // namespace
}  // namespace troupe::engine
