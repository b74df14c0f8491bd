// SPDX-License-Identifier: Apache-2.0
// Errors, abandoned completions and cancelling.
#include <atomic>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/parallel.h"
#include "tests/engine/support.h"
#include "tests/support/catch.h"

namespace troupe::engine {
namespace {

using base::Errc;
using base::Status;

Status nothing(RunContext&) {
  return {};
}

/// What foreign code in a function may do; ours does not.
template <typename E>
[[noreturn]] void raise(E exception) {
  std::rethrow_exception(std::make_exception_ptr(std::move(exception)));
}

SyncFunction fails(std::string text) {
  return [text = std::move(text)](RunContext&) { return Status(Errc::not_finite, text); };
}

TEST_CASE("an error skips what depends on it and reaches who waits") {
  Fixture f(GENERATE(true, false));
  const Variable a = f.variable("a");
  const Variable b = f.variable("b");
  const Variable c = f.variable("c");
  bool ran = false;
  f.push("bad", {}, {a}, fails("[bad] first"));
  f.push("heir", {a}, {b}, [&](RunContext&) {
    ran = true;
    return Status();
  });
  f.push("free", {}, {c}, nothing);
  CHECK(f.engine->wait(b).text() == "[bad] first");
  CHECK(f.engine->wait(a).text() == "[bad] first");
  CHECK(f.engine->wait(c).ok());
  CHECK_FALSE(ran);
  CHECK(f.engine->wait_all().ok());                     // reported already
  CHECK(f.engine->wait(a).code() == Errc::not_finite);  // and still carried
}

TEST_CASE("the first error stays, and an update in place inherits it") {
  Fixture f(GENERATE(true, false));
  const Variable w = f.variable("w");
  const Variable x = f.variable("x");
  f.push("one", {}, {w}, fails("one"));
  f.push("two", {}, {x}, fails("two"));
  f.push("update", {x}, {w}, nothing);
  CHECK(f.engine->wait(w).text() == "one");
  CHECK(f.engine->wait(x).text() == "two");
  f.push("both", {}, {w, x}, nothing);
  CHECK(f.engine->wait(w).text() == "one");
  CHECK(f.engine->wait(x).text() == "two");
}

TEST_CASE("wait_all reports each error once, the oldest first") {
  Fixture f(GENERATE(true, false));
  const Variable x = f.variable("x");
  const Variable y = f.variable("y");
  f.push("read only", {x}, {}, fails("nobody else would know"));
  CHECK(f.engine->wait_all().text() == "nobody else would know");
  f.push("one", {}, {x}, fails("one"));
  CHECK(f.engine->wait(x).text() == "one");
  f.push("two", {}, {y}, fails("two"));
  CHECK(f.engine->wait_all().text() == "two");
  CHECK(f.engine->wait_all().ok());
}

TEST_CASE("overwriting the whole variable clears its error") {
  Fixture f(GENERATE(true, false));
  const Variable x = f.variable("x");
  const Variable y = f.variable("y");
  f.push("bad", {}, {x}, fails("bad"));
  bool ran = false;
  auto good = [&](RunContext&) {
    ran = true;
    return Status();
  };
  f.engine->push({.name = "good", .overwrites = {&x, 1}}, good);
  CHECK(f.engine->wait(x).ok());
  CHECK(ran);
  f.push("bad", {}, {x}, fails("again"));
  ran = false;
  f.push("partial", {}, {x}, good);
  CHECK(f.engine->wait(x).text() == "again");
  CHECK_FALSE(ran);
  // Read and overwritten: the old value matters, so its error does.
  f.engine->push({.name = "square", .reads = {&x, 1}, .overwrites = {&x, 1}}, good);
  CHECK(f.engine->wait(x).text() == "again");
  // An overwriting operation that is skipped replaces the error by the one it inherited.
  f.push("bad", {}, {y}, fails("other"));
  f.engine->push({.name = "copy", .reads = {&y, 1}, .overwrites = {&x, 1}}, good);
  CHECK(f.engine->wait(x).text() == "other");
  CHECK_FALSE(ran);
}

TEST_CASE("each written variable is overwritten or not by itself") {
  Fixture f(GENERATE(true, false));
  const Variable part = f.variable("part");
  const Variable whole = f.variable("whole");
  f.push("bad", {}, {whole}, fails("bad"));
  f.engine->push({.name = "both", .writes = {&part, 1}, .overwrites = {&whole, 1}}, nothing);
  CHECK(f.engine->wait(whole).ok());
  CHECK(f.engine->wait(part).ok());
  f.push("bad", {}, {part}, fails("worse"));
  f.engine->push({.name = "both", .writes = {&part, 1}, .overwrites = {&whole, 1}}, nothing);
  CHECK(f.engine->wait(whole).text() == "worse");  // it was skipped
  // Named in both lists: the old value matters.
  f.engine->push({.name = "twice", .writes = {&part, 1}, .overwrites = {&part, 1}}, nothing);
  CHECK(f.engine->wait(part).text() == "worse");
}

TEST_CASE("an exception becomes the error of the operation that threw it") {
  Fixture f(GENERATE(true, false), {.threads = 2});
  const Variable x = f.variable("x");
  const Variable y = f.variable("y");
  f.push("at", {}, {x}, [](RunContext&) {
    static_cast<void>(std::vector<int>(1).at(7));
    return Status();
  });
  f.push("heir", {x}, {y}, nothing);
  const Status thrown = f.engine->wait(y);
  CHECK(thrown.code() == Errc::internal);
  CHECK(thrown.text().starts_with("[at] its function threw "));
  f.engine->push({.name = "memory", .overwrites = {&x, 1}},
                 [](RunContext&) -> Status { raise(std::bad_alloc()); });
  CHECK(f.engine->wait(x).code() == Errc::resource_exhausted);
  f.engine->push({.name = "number", .overwrites = {&x, 1}},
                 [](RunContext&) -> Status { raise(7); });
  CHECK(f.engine->wait(x).text() ==
        "[number] its function threw something that is no std::exception");
  // Out of a team of threads, too.
  f.engine->push({.name = "team", .overwrites = {&x, 1}}, [](RunContext& context) {
    base::parallel_chunks(context.team, 8, [](std::int64_t chunk) {
      if (chunk % 4 == 3) raise(std::runtime_error("one of the team"));
    });
    return Status();
  });
  CHECK(f.engine->wait(x).text() == "[team] its function threw one of the team");
  f.engine->push({.name = "good", .overwrites = {&x, 1}}, nothing);
  CHECK(f.engine->wait(x).ok());
}

TEST_CASE("an exception of an asynchronous function ends its operation once") {
  Fixture f(GENERATE(true, false));
  const Variable x = f.variable("x");
  f.push_async("dropped", {}, {x}, [](RunContext&, Completion) { raise(std::bad_alloc()); });
  CHECK(f.engine->wait(x).text().starts_with("[dropped] its function threw "));
  Completion kept;
  f.engine->push_async({.name = "kept", .lane = kPriority, .overwrites = {&x, 1}},
                       [&](RunContext&, Completion completion) {
                         kept = std::move(completion);
                         raise(std::runtime_error("late"));
                       });
  CHECK(f.engine->wait(x).text() == "[kept] its function threw late");
  kept.complete();  // too late, and harmless
  f.engine->push_async({.name = "done", .lane = kPriority, .overwrites = {&x, 1}},
                       [](RunContext&, Completion completion) {
                         completion.complete();
                         raise(std::runtime_error("after the end"));
                       });
  CHECK(f.engine->wait(x).text() == "[done] its function threw after the end");
  CHECK(f.engine->counters().asynchronous_in_flight == 0);
  CHECK(f.engine->counters().completed == 3);
}

TEST_CASE("variables know their engine, and whether it stands") {
  Variable last;
  CHECK_FALSE(last.engine_stands());
  {
    Fixture f(GENERATE(true, false));
    Fixture other(true);
    last = f.variable("x");
    CHECK(last.engine_stands());
    CHECK(f.engine->owns(last));
    CHECK_FALSE(other.engine->owns(last));
    CHECK_FALSE(f.engine->owns(Variable()));
    CHECK(other.engine->wait(last).code() == Errc::invalid_argument);
    CHECK(f.engine->wait(Variable()).code() == Errc::invalid_argument);
  }
  CHECK_FALSE(last.engine_stands());
}

TEST_CASE("an asynchronous error spreads, a dropped completion is an error") {
  Fixture f(GENERATE(true, false));
  const Variable x = f.variable("x");
  const Variable y = f.variable("y");
  f.push_async("pull", {}, {x}, [](RunContext&, Completion completion) {
    completion.complete(Status(Errc::unavailable, "no server"));
  });
  f.push_async("lost", {}, {y}, [](RunContext&, Completion) {});
  CHECK(f.engine->wait(x).text() == "no server");
  CHECK(f.engine->wait(y).code() == Errc::abandoned);
  CHECK(f.engine->wait(y).text().find("[lost]") == 0);
}

TEST_CASE("replacing a completion drops the one before") {
  Fixture f(GENERATE(true, false));
  const Variable x = f.variable("x");
  const Variable y = f.variable("y");
  Completion kept;
  for (const Variable& v : {x, y}) {
    f.push_async("op", {}, {v},
                 [&](RunContext&, Completion completion) { kept = std::move(completion); });
    if (v == x) {
      while (f.engine->counters().asynchronous_in_flight == 0) std::this_thread::yield();
    }
  }
  CHECK(f.engine->wait(x).code() == Errc::abandoned);
  while (f.engine->counters().asynchronous_in_flight == 0) std::this_thread::yield();
  kept.complete();
  CHECK(f.engine->wait(y).ok());
}

TEST_CASE("cancel ends outstanding operations, skips the others, ignores late completions") {
  Fixture f(GENERATE(true, false));
  const Variable x = f.variable("x");
  const Variable y = f.variable("y");
  Completion late;
  std::atomic<bool> begun{false};
  bool ran = false;
  f.push_async("pull", {}, {x}, [&](RunContext&, Completion completion) {
    late = std::move(completion);
    begun = true;
  });
  f.push("heir", {x}, {y}, [&](RunContext&) {
    ran = true;
    return Status();
  });
  while (!begun) std::this_thread::yield();
  f.engine->cancel("job 7 ends");
  CHECK(f.engine->wait(y).code() == Errc::cancelled);
  CHECK(f.engine->wait(x).text() == "job 7 ends");
  late.complete();
  CHECK(f.engine->wait(x).code() == Errc::cancelled);
  f.push_async("later", {}, {y}, [&](RunContext&, Completion) { ran = true; });
  CHECK(f.engine->wait(y).code() == Errc::cancelled);
  CHECK_FALSE(ran);
}

TEST_CASE("a completion may come after its engine is gone") {
  Completion late;
  {
    Fixture f(GENERATE(true, false));
    const Variable x = f.variable("x");
    std::atomic<bool> begun{false};
    f.push_async("pull", {}, {x}, [&](RunContext&, Completion completion) {
      late = std::move(completion);
      begun = true;
    });
    while (!begun) std::this_thread::yield();
    f.engine->cancel("end");
  }
  late.complete();
  CHECK_FALSE(late);
}

TEST_CASE("cancel races with completions: each operation ends once") {
  for (int round = 0; round < 20; ++round) {
    Fixture f(true);
    constexpr int kCount = 50;
    std::vector<Completion> completions(kCount);
    std::vector<Variable> variables;
    std::atomic<int> begun{0};
    for (int i = 0; i < kCount; ++i) {
      variables.push_back(f.variable("v"));
      f.push_async("op", {}, {variables.back()}, [&, i](RunContext&, Completion completion) {
        completions[static_cast<std::size_t>(i)] = std::move(completion);
        ++begun;
      });
    }
    while (begun < kCount) std::this_thread::yield();
    std::thread completer([&] {
      for (Completion& completion : completions) completion.complete();
    });
    f.engine->cancel("race");
    completer.join();
    const Status end = f.engine->wait_all();
    CHECK(end.code() == Errc::cancelled);
    CHECK(f.engine->counters().completed == kCount);
    for (const Variable& v : variables) {
      const Status status = f.engine->wait(v);
      CHECK((status.ok() || status.code() == Errc::cancelled));
    }
  }
}

}  // namespace
}  // namespace troupe::engine
