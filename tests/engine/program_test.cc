// SPDX-License-Identifier: Apache-2.0
// Programs: ports are awaited by the operations that use them and released by the last of these,
// replays come one behind the other, errors spread inside and out, handles may go at any time.
#include "engine/program.h"

#include <atomic>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/file.h"
#include "tests/engine/support.h"
#include "tests/support/catch.h"
#include "tests/support/delayed_stream.h"

namespace troupe::engine {
namespace {

using base::Errc;
using base::Status;
using tests::DelayedStream;

/// Writes down in which order operations run.
class Journal {
 public:
  SyncFunction note(std::string text) {
    return [this, text = std::move(text)](RunContext&) {
      const std::lock_guard lock(mutex_);
      text_ += text;
      return Status();
    };
  }
  std::string text() {
    const std::lock_guard lock(mutex_);
    return text_;
  }
  void wait_for(std::string_view text) {
    while (this->text() != text) std::this_thread::yield();
  }

 private:
  std::mutex mutex_;
  std::string text_;
};

SyncFunction fail(std::string text) {
  return [text = std::move(text)](RunContext&) { return Status(Errc::internal, text); };
}

/// An operation that holds a variable until the gate opens.
void hold_by(Fixture& f, const Variable& variable, std::shared_ptr<Completion>& completion) {
  completion = std::make_shared<Completion>();
  f.push_async("holder", {}, {variable},
               [completion](RunContext&, Completion given) { *completion = std::move(given); });
  while (f.engine->counters().asynchronous_in_flight == 0) std::this_thread::yield();
}

TEST_CASE("a program's operations run in order at each replay") {
  Fixture f(GENERATE(true, false));
  Journal journal;
  Recording recording("program", kCompute);
  const Slot a = recording.inner();
  const Slot b = recording.inner();
  recording.add({.name = "1", .overwrites = {a}, .function = journal.note("1")});
  recording.add({.name = "2", .reads = {a}, .overwrites = {b}, .function = journal.note("2")});
  recording.add({.name = "3", .reads = {b}, .writes = {a}, .function = journal.note("3")});
  Program program = f.engine->compile(std::move(recording));
  CHECK(program.size() == 3);
  for (int i = 0; i < 3; ++i) program.replay();
  CHECK(f.engine->wait_all().ok());
  CHECK(journal.text() == "123123123");
  const EngineCounters counters = f.engine->counters();
  CHECK(counters.pushed == 9);
  CHECK(counters.completed == 9);
  CHECK(counters.pending == 0);
  CHECK(counters.lanes[0].completed == 9);
}

TEST_CASE("an operation waits for its import port while others run") {
  Fixture f(GENERATE(true, false));
  Journal journal;
  const Variable w = f.variable("weight");
  Recording recording("forward", kCompute);
  const Slot x = recording.inner();
  const Slot y = recording.inner();
  const Slot port = recording.port(w);
  CHECK(recording.port(w).number == port.number);
  recording.add(
      {.name = "needs w", .reads = {port}, .overwrites = {x}, .function = journal.note("1")});
  recording.add({.name = "free", .overwrites = {y}, .function = journal.note("2")});
  recording.add({.name = "heir", .reads = {x, y}, .function = journal.note("3")});
  recording.add({.name = "free too", .reads = {y}, .function = journal.note("4")});
  Program program = f.engine->compile(std::move(recording));
  std::shared_ptr<Completion> completion;
  hold_by(f, w, completion);
  program.replay();
  program.replay();  // waits for the first one as a whole
  journal.wait_for("24");
  // Other work of the lane goes on, and the dump says what is awaited.
  const Variable z = f.variable("z");
  f.push("other", {}, {z}, journal.note("-"));
  CHECK(f.engine->wait(z).ok());
  const std::string dump = f.engine->dump();
  CHECK_THAT(dump, Catch::Contains("forward"));
  CHECK_THAT(dump, Catch::Contains("2 of 4 operations ended"));
  CHECK_THAT(dump, Catch::Contains("'weight' (to read), held by #1 holder (writes)"));
  CHECK_THAT(dump, Catch::Contains("0 of 4 operations ended"));
  CHECK_THAT(dump, Catch::Contains("'forward as a whole' (to write), held by #2 forward (writes)"));
  CHECK(f.engine->counters().pending == 1 + 2 + 4);
  completion->complete();
  CHECK(f.engine->wait_all().ok());
  CHECK(journal.text() == "24-131234");
}

TEST_CASE("a port is released behind the last operation that uses it, not at the end") {
  Fixture f(true);
  Gate gate;
  const Variable early = f.variable("early");
  const Variable late = f.variable("late");
  const Variable read = f.variable("read");
  Recording recording("backward", kCompute);
  const Slot a = recording.port(early);
  const Slot b = recording.port(late);
  const Slot r = recording.port(read);
  int value = 0;
  recording.add({.name = "write", .reads = {r}, .overwrites = {a}, .function = [&](RunContext&) {
                   ++value;
                   return Status();
                 }});
  recording.add({.name = "read", .reads = {a}, .function = [&](RunContext&) {
                   ++value;
                   return Status();
                 }});
  recording.add({.name = "slow", .overwrites = {b}, .function = [&](RunContext&) {
                   gate.pass();
                   return Status();
                 }});
  Program program = f.engine->compile(std::move(recording));
  program.replay();
  int seen = 0;
  const Variable done = f.variable("done");
  f.push(
      "outside", {early}, {done},
      [&](RunContext&) {
        seen = value;
        return Status();
      },
      kCopy);
  CHECK(f.engine->wait(done).ok());
  CHECK(seen == 2);
  CHECK(f.engine->wait(read).ok());
  bool wrote = false;
  f.push(
      "outside writer", {}, {read},
      [&](RunContext&) {
        wrote = true;
        return Status();
      },
      kCopy);
  CHECK(f.engine->wait(read).ok());
  CHECK(wrote);
  CHECK(f.engine->dump().find("2 of 3 operations ended") != std::string::npos);
  gate.open();
  CHECK(f.engine->wait(late).ok());
  CHECK(early.version() == 1);
}

TEST_CASE("errors spread through slots and ports, and last for one replay inside") {
  Fixture f(GENERATE(true, false));
  const Variable in = f.variable("in");
  const Variable out = f.variable("out");
  const Variable changed = f.variable("changed");
  bool fails = true;
  std::vector<int> ran(5);
  Recording recording("program", kCompute);
  const Slot x = recording.inner();
  const Slot y = recording.inner();
  const Slot i = recording.port(in);
  const Slot o = recording.port(out);
  const Slot c = recording.port(changed);
  const auto count = [&](std::size_t n) {
    return [&ran, n](RunContext&) {
      ++ran[n];
      return Status();
    };
  };
  recording.add({.name = "0", .overwrites = {x}, .function = [&](RunContext&) {
                   ++ran[0];
                   return fails ? Status(Errc::internal, "first") : Status();
                 }});
  recording.add({.name = "1", .reads = {x}, .overwrites = {o}, .function = count(1)});
  recording.add({.name = "2", .reads = {i}, .overwrites = {y}, .function = count(2)});
  recording.add({.name = "3", .reads = {y}, .writes = {c}, .function = count(3)});
  recording.add({.name = "4", .overwrites = {x}, .function = count(4)});
  Program program = f.engine->compile(std::move(recording));
  program.replay();
  CHECK(f.engine->wait(out).text() == "first");
  CHECK(f.engine->wait(changed).ok());
  CHECK(f.engine->wait_all().ok());  // wait() has reported it
  CHECK(ran == std::vector{1, 0, 1, 1, 1});
  fails = false;
  f.push("bad", {}, {in}, fail("outside"));
  program.replay();
  CHECK(f.engine->wait(out).ok());  // overwritten as a whole
  CHECK(f.engine->wait(changed).text() == "outside");
  CHECK(f.engine->wait_all().ok());
  CHECK(ran == std::vector{2, 1, 1, 1, 2});
  f.engine->push({.name = "good", .overwrites = {&in, 1}}, [](RunContext&) { return Status(); });
  program.replay();
  CHECK(f.engine->wait(in).ok());
  CHECK(f.engine->wait(changed).text() == "outside");  // written in part
  CHECK(ran == std::vector{3, 2, 2, 1, 3});
  const EngineCounters counters = f.engine->counters();
  CHECK(counters.failed == 2);
  CHECK(counters.skipped == 1 + 2 + 1);
}

TEST_CASE("a function of a program that throws ends its operation with an error") {
  Fixture f(GENERATE(true, false));
  const Variable out = f.variable("out");
  Recording recording("program", kCompute);
  recording.add({.name = "thrower",
                 .overwrites = {recording.port(out)},
                 .function = [](RunContext&) -> Status {
                   std::rethrow_exception(std::make_exception_ptr(std::runtime_error("oops")));
                 }});
  Program program = f.engine->compile(std::move(recording));
  program.replay();
  CHECK(f.engine->wait(out).text() == "[thrower] its function threw oops");
  CHECK(f.engine->wait_all().ok());
}

TEST_CASE("cancel skips what a replay has not begun") {
  Fixture f(true);
  Gate gate;
  Journal journal;
  const Variable out = f.variable("out");
  Recording recording("program", kCompute);
  const Slot o = recording.port(out);
  recording.add({.name = "slow", .overwrites = {o}, .function = [&](RunContext&) {
                   gate.pass();
                   return Status();
                 }});
  recording.add({.name = "late", .writes = {o}, .function = journal.note("late")});
  Program program = f.engine->compile(std::move(recording));
  program.replay();
  while (f.engine->dump().find("running") == std::string::npos) std::this_thread::yield();
  f.engine->cancel("the job ends");
  gate.open();
  CHECK(f.engine->wait(out).code() == Errc::cancelled);
  static_cast<void>(f.engine->wait_all());
  CHECK(journal.text().empty());
}

TEST_CASE("held variables are written from the first to the last operation and keep their errors") {
  Fixture f(true);
  Gate gate;
  Journal journal;
  const Variable arena = f.variable("arena");
  const auto make = [&](std::string text, bool waits) {
    Recording recording(text, kCompute);
    recording.hold(arena);
    recording.add({.name = text, .function = journal.note(text)});
    recording.add({.name = text, .function = [&gate, waits](RunContext&) {
                     if (waits) gate.pass();
                     return Status();
                   }});
    recording.add({.name = text, .function = journal.note(text)});
    return f.engine->compile(std::move(recording));
  };
  Program forward = make("f", true);
  Program backward = make("b", false);
  f.push("bad", {}, {arena}, fail("stays"));
  forward.replay();
  backward.replay();
  journal.wait_for("f");
  f.push("outside", {}, {}, journal.note("-"), kCopy);
  journal.wait_for("f-");
  gate.open();
  CHECK(f.engine->wait(arena).text() == "stays");
  CHECK(journal.text() == "f-fbb");
}

TEST_CASE("what is ready with the same or a higher priority goes between operations") {
  Fixture f(true);
  Gate begun;
  Gate gate;
  Journal journal;
  Recording recording("program", kCompute);
  recording.add({.name = "slow", .function = [&](RunContext&) {
                   begun.open();
                   gate.pass();
                   return Status();
                 }});
  for (int i = 0; i < 3; ++i) recording.add({.name = "p", .function = journal.note("p")});
  Program program = f.engine->compile(std::move(recording));
  program.replay();
  begun.pass();
  const auto push = [&](int priority, std::string text) {
    f.engine->push({.name = "other", .priority = priority}, journal.note(std::move(text)));
  };
  push(-1, "-");
  push(0, "0");
  push(1, "1");
  gate.open();
  CHECK(f.engine->wait_all().ok());
  CHECK(journal.text().substr(0, 1) == "1");
  CHECK(journal.text().find('0') < journal.text().rfind('p'));
  CHECK(journal.text().back() == '-');
}

TEST_CASE("a program's handle may go while its replays are pending") {
  const bool threaded = GENERATE(true, false);
  const auto owned = std::make_shared<int>(0);
  {
    Fixture f(threaded);
    const Variable w = f.variable("w");
    std::shared_ptr<Completion> completion;
    hold_by(f, w, completion);
    {
      Recording recording("program", kCompute);
      recording.add(
          {.name = "count", .reads = {recording.port(w)}, .function = [owned](RunContext&) {
             ++*owned;
             return Status();
           }});
      Program program = f.engine->compile(std::move(recording));
      program.replay();
      program.replay();
    }
    CHECK(owned.use_count() == 2);
    completion->complete();
    CHECK(f.engine->wait_all().ok());
    CHECK(*owned == 2);
    CHECK(owned.use_count() == 1);  // destroyed before the last replay counted as done
  }
  Program program;
  CHECK_FALSE(program.engine_stands());
  {
    Fixture f(threaded);
    const Variable w = f.variable("w");
    Recording recording("program", kCompute);
    recording.add({.name = "count", .reads = {recording.port(w)}, .function = [owned](RunContext&) {
                     ++*owned;
                     return Status();
                   }});
    program = f.engine->compile(std::move(recording));
    program.replay();
    CHECK(program.engine_stands());
  }
  CHECK(*owned == 3);
  CHECK_FALSE(program.engine_stands());
  program = {};
}

TEST_CASE("an empty program and ports that nobody uses hold nothing") {
  Fixture f(GENERATE(true, false));
  const Variable w = f.variable("w");
  Recording recording("program", kCompute);
  recording.port(w);
  Program program = f.engine->compile(std::move(recording));
  std::shared_ptr<Completion> completion;
  hold_by(f, w, completion);
  program.replay();
  CHECK(f.engine->counters().pending == 1);
  completion->complete();
  CHECK(f.engine->wait_all().ok());
}

TEST_CASE("a replay counts with its operations where pushers wait for room") {
  Fixture f(true, EngineOptions{.engine_pending_operations_max = 8});
  const Variable w = f.variable("w");
  std::atomic<std::uint64_t> most = 0;
  Recording recording("program", kCompute);
  for (int i = 0; i < 4; ++i) {
    recording.add({.name = "look", .writes = {recording.port(w)}, .function = [&](RunContext&) {
                     most = std::max(most.load(), f.engine->counters().pending);
                     return Status();
                   }});
  }
  Program program = f.engine->compile(std::move(recording));
  for (int i = 0; i < 50; ++i) program.replay();
  CHECK(f.engine->wait_all().ok());
  CHECK(most < 8 + 4);
  CHECK(f.engine->counters().completed == 200);
}

TEST_CASE("each inner operation has its entry in the trace") {
  const std::string path = std::string(TROUPE_BINARY_DIR) + "/engine_program_trace.json";
  {
    Fixture f(GENERATE(true, false), EngineOptions{.trace_path = path});
    Recording recording("program", kCompute);
    recording.add({.name = "convolution", .function = [](RunContext&) { return Status(); }});
    recording.add({.name = "relu", .function = [](RunContext&) { return Status(); }});
    Program program = f.engine->compile(std::move(recording));
    program.replay();
    program.replay();
  }
  const std::string text = base::read_text_file(path, 1 << 20).value();
  CHECK(text.find("\"convolution\"") != text.rfind("\"convolution\""));
  CHECK(text.find("\"relu\"") != text.rfind("\"relu\""));
  std::filesystem::remove(path);
}

TEST_CASE("a traced replay spreads errors and has no entry for what it skips") {
  const std::string path = std::string(TROUPE_BINARY_DIR) + "/engine_program_trace_error.json";
  {
    Fixture f(GENERATE(true, false), EngineOptions{.trace_path = path});
    const Variable out = f.variable("out");
    Recording recording("program", kCompute);
    const Slot x = recording.inner();
    recording.add({.name = "bad", .overwrites = {x}, .function = fail("first")});
    recording.add({.name = "heir",
                   .reads = {x},
                   .overwrites = {recording.port(out)},
                   .function = [](RunContext&) { return Status(); }});
    recording.add({.name = "free", .function = [](RunContext& context) {
                     *context.detail = R"({"op":"free"})";
                     return Status();
                   }});
    Program program = f.engine->compile(std::move(recording));
    program.replay();
    CHECK(f.engine->wait(out).text() == "first");
    CHECK(f.engine->wait_all().ok());
    CHECK(f.engine->counters().failed == 1);
    CHECK(f.engine->counters().skipped == 1);
  }
  const std::string text = base::read_text_file(path, 1 << 20).value();
  CHECK(text.find("\"bad\"") != std::string::npos);
  CHECK(text.find("\"args\":{\"op\":\"free\"}") != std::string::npos);
  CHECK(text.find("\"heir\"") == std::string::npos);
  std::filesystem::remove(path);
}

TEST_CASE("what is cancelled within a replay says so, whatever failed before it") {
  Fixture f(true);
  Gate begun, gate;
  const Variable out = f.variable("out");
  Recording recording("program", kCompute);
  const Slot x = recording.inner();
  recording.add({.name = "bad", .overwrites = {x}, .function = [&](RunContext&) {
                   begun.open();
                   gate.pass();
                   return Status(Errc::internal, "first");
                 }});
  recording.add({.name = "heir",
                 .reads = {x},
                 .overwrites = {recording.port(out)},
                 .function = [](RunContext&) { return Status(); }});
  Program program = f.engine->compile(std::move(recording));
  program.replay();
  begun.pass();
  f.engine->cancel("end");
  gate.open();
  CHECK(f.engine->wait(out).code() == Errc::cancelled);
  static_cast<void>(f.engine->wait_all());
  CHECK(f.engine->counters().failed == 1);
  CHECK(f.engine->counters().skipped == 1);
}

TEST_CASE("a program of host functions waits for the stream that wrote its port") {
  DelayedStream stream({.held = true});
  Fixture f(true, EngineOptions{.streams = {&stream}});
  const Variable w = f.variable("w");
  double value = 0;
  f.push_stream("set", {}, {w}, [&](RunContext& context) {
    context.stream->enqueue_host([&] {
      value = 5;
      return Status();
    });
    return Status();
  });
  while (f.engine->counters().completed < 1) std::this_thread::yield();  // issued
  Journal journal;
  double seen = 0;
  Recording recording("program", kCompute);
  recording.add({.name = "1", .reads = {recording.port(w)}, .function = [&](RunContext&) {
                   seen = value;
                   return Status();
                 }});
  recording.add({.name = "2", .function = journal.note("2")});
  Program program = f.engine->compile(std::move(recording));
  program.replay();
  journal.wait_for("2");
  CHECK_THAT(f.engine->dump(), Catch::Contains("'w' (its stream's event)"));
  stream.release();
  CHECK(f.engine->wait_all().ok());
  CHECK(seen == 5);
}

TEST_CASE("a program on a stream issues at once and orders other streams on the device") {
  const bool threaded = GENERATE(true, false);
  DelayedStream first({.held = threaded});
  DelayedStream second({.device = {base::DeviceKind::delayed, 1}, .held = threaded});
  Fixture f(threaded, EngineOptions{.streams = {&first, &second}, .stream_operations_max = 16});
  const Lane other{{base::DeviceKind::delayed, 1}, LaneKind::compute};
  const Variable in = f.variable("in");
  const Variable out = f.variable("out");
  double values[4] = {1, 0, 0, 0};
  const auto add = [&values](std::size_t to, std::size_t from) {
    return [&values, to, from](RunContext& context) {
      context.stream->enqueue_host([&values, to, from] {
        values[to] = values[from] + 1;
        return Status();
      });
      return Status();
    };
  };
  f.push_stream("set in", {}, {in}, add(0, 0), other);
  Recording recording("program", kDelayed, true);
  const Slot a = recording.inner();
  const Slot b = recording.inner();
  recording.add({.name = "free", .overwrites = {b}, .function = add(3, 3)});
  recording.add(
      {.name = "a", .reads = {recording.port(in)}, .overwrites = {a}, .function = add(1, 0)});
  recording.add(
      {.name = "out", .reads = {a, b}, .overwrites = {recording.port(out)}, .function = add(2, 1)});
  Program program = f.engine->compile(std::move(recording));
  program.replay();
  f.push_stream("after", {out}, {in}, add(0, 2), other);
  while (f.engine->counters().completed < 5) std::this_thread::yield();  // all are issued
  if (threaded) {
    first.release();
    while (first.ran() < 1) std::this_thread::yield();  // what needs no port runs
    CHECK(second.ran() == 0);
    second.release();
  }
  CHECK(f.engine->wait(in).ok());
  CHECK(values[2] == 4);
  CHECK(values[0] == 5);
  CHECK(f.engine->wait_all().ok());
}

TEST_CASE("an error of work that a program issued reaches readers of its ports") {
  DelayedStream stream;
  Fixture f(GENERATE(true, false), EngineOptions{.streams = {&stream}});
  const Variable out = f.variable("out");
  Recording recording("program", kDelayed, true);
  const Slot a = recording.inner();
  recording.add({.name = "bad", .overwrites = {a}, .function = [](RunContext& context) {
                   context.stream->enqueue_host([] { return Status(Errc::internal, "device"); });
                   return Status();
                 }});
  recording.add({.name = "out",
                 .reads = {a},
                 .overwrites = {recording.port(out)},
                 .function = [](RunContext&) { return Status(); }});
  Program program = f.engine->compile(std::move(recording));
  program.replay();
  CHECK(f.engine->wait(out).text() == "device");
}

}  // namespace
}  // namespace troupe::engine
