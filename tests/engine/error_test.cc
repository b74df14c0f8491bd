// SPDX-License-Identifier: Apache-2.0
// Errors, abandoned completions and cancelling.
#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/engine/support.h"

namespace troupe::engine {
namespace {

using base::Errc;
using base::Status;

Status nothing(RunContext&) {
  return {};
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
  const bool by_operation = GENERATE(true, false);
  const Variable x = f.variable("x");
  const Variable y = f.variable("y");
  f.push("bad", {}, {x}, fails("bad"));
  bool ran = false;
  auto good = [&](RunContext&) {
    ran = true;
    return Status();
  };
  if (!by_operation) f.engine->overwrite(x);
  f.engine->push({.name = "good", .writes = {&x, 1}, .overwrites = by_operation}, good);
  CHECK(f.engine->wait(x).ok());
  CHECK(ran);
  f.push("bad", {}, {x}, fails("again"));
  ran = false;
  f.push("partial", {}, {x}, good);  // the declaration was for one operation
  CHECK(f.engine->wait(x).text() == "again");
  CHECK_FALSE(ran);
  // Read and overwritten: the old value matters, so its error does.
  f.engine->push({.name = "square", .reads = {&x, 1}, .writes = {&x, 1}, .overwrites = true}, good);
  CHECK(f.engine->wait(x).text() == "again");
  // An overwriting operation that is skipped replaces the error by the one it inherited.
  f.push("bad", {}, {y}, fails("other"));
  f.engine->push({.name = "copy", .reads = {&y, 1}, .writes = {&x, 1}, .overwrites = true}, good);
  CHECK(f.engine->wait(x).text() == "other");
  CHECK_FALSE(ran);
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
