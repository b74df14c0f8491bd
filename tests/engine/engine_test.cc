// SPDX-License-Identifier: Apache-2.0
// The engine's contracts one by one, on both kinds of engine where they apply to both.
#include "engine/engine.h"

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/parallel.h"
#include "engine/core.h"
#include "tests/engine/support.h"
#include "tests/support/catch.h"

namespace troupe::engine {
namespace {

using base::Errc;
using base::Status;

TEST_CASE("writers of a variable run in push order, readers see the write before them") {
  Fixture f(GENERATE(true, false));
  const Variable x = f.variable("x");
  int value = 0;
  std::vector<int> seen(100, -1);
  for (int i = 0; i < 100; ++i) {
    f.push("write", {}, {x}, [&value, i](RunContext&) {
      value = i;
      return Status();
    });
    f.push(
        "read", {x}, {},
        [&value, &seen, i](RunContext&) {
          seen[static_cast<std::size_t>(i)] = value;
          return Status();
        },
        i % 2 == 0 ? kCopy : kPriority);
  }
  REQUIRE(f.engine->wait_all().ok());
  for (int i = 0; i < 100; ++i) CHECK(seen[static_cast<std::size_t>(i)] == i);
}

TEST_CASE("readers of a variable run together") {
  Fixture f(true);
  const Variable x = f.variable("x");
  Gate both;
  std::atomic<int> inside{0};
  auto meet = [&](RunContext&) {
    if (++inside == 2) both.open();
    both.pass();  // returns only when the other reader is inside as well
    return Status();
  };
  f.push("first", {x}, {}, meet, kCompute);
  f.push("second", {x}, {}, meet, kCopy);
  CHECK(f.engine->wait_all().ok());
}

TEST_CASE("operations that become ready together wake all threads of their lane") {
  Fixture f(true, EngineOptions{.copy_threads = 3});
  const Variable x = f.variable("x");
  Gate start;
  f.push("write", {}, {x}, [&](RunContext&) {
    start.pass();
    return Status();
  });
  Gate all;
  std::atomic<int> inside{0};
  for (int i = 0; i < 3; ++i) {
    f.push(
        "meet", {x}, {},
        [&](RunContext&) {
          if (++inside == 3) all.open();
          return all.pass_within(20) ? Status() : Status(Errc::deadline_exceeded, "alone");
        },
        kCopy);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the copy threads fall asleep
  start.open();
  CHECK(f.engine->wait_all().ok());
}

TEST_CASE("a reader that has one of its variables waits for the other") {
  Fixture f(true);
  const Variable x = f.variable("x");
  const Variable y = f.variable("y");
  const Variable z = f.variable("z");
  Gate reading;
  Gate writing;
  f.push("write y", {}, {y}, [&](RunContext&) {
    writing.pass();
    return Status();
  });
  f.push(
      "read x", {x}, {z},
      [&](RunContext&) {
        reading.pass();
        return Status();
      },
      kCopy);
  std::atomic<bool> ran{false};
  f.push(
      "read both", {x, y}, {},
      [&](RunContext&) {
        ran = true;
        return Status();
      },
      kPriority);
  reading.open();
  CHECK(f.engine->wait(z).ok());
  // Behind everything that the priority lane was given so far.
  f.push(
      "marker", {}, {z}, [](RunContext&) { return Status(); }, kPriority);
  CHECK(f.engine->wait(z).ok());
  CHECK_FALSE(ran);
  writing.open();
  CHECK(f.engine->wait_all().ok());
  CHECK(ran);
}

TEST_CASE("a variable named twice is one use, and a write of it counts") {
  Fixture f(GENERATE(true, false));
  const Variable x = f.variable("x");
  int runs = 0;
  for (int i = 0; i < 10; ++i) {
    f.push("twice", {x, x, x}, {x, x}, [&](RunContext&) {
      ++runs;
      return Status();
    });
  }
  CHECK(f.engine->wait(x).ok());
  CHECK(runs == 10);
}

TEST_CASE("a variable's version counts the operations pushed that write it") {
  Fixture f(GENERATE(true, false));
  const Variable x = f.variable("x");
  const Variable y = f.variable("y");
  const auto nothing = [](RunContext&) { return Status(); };
  CHECK(Variable().version() == 0);
  CHECK(x.version() == 0);
  f.push("write", {}, {x}, nothing);
  f.push("read and write", {x, y}, {x, x}, nothing);
  f.push("read", {x, y}, {}, nothing);
  f.engine->push({.name = "overwrite", .overwrites = {&x, 1}}, nothing);
  CHECK(x.version() == 3);  // pushed, whether or not it has run
  CHECK(y.version() == 0);
  CHECK(f.engine->wait_all().ok());
  CHECK(x.version() == 3);
  for (int i = 0; i < 3; ++i) {  // whoever had its place before
    const Variable fresh = f.variable("fresh");
    CHECK(fresh.version() == 0);
    f.push("write", {}, {fresh}, nothing);
    CHECK(f.engine->wait(fresh).ok());
  }
}

TEST_CASE("more variables than fit inline") {
  Fixture f(GENERATE(true, false));
  std::vector<Variable> many;
  for (int i = 0; i < 40; ++i) many.push_back(f.variable(fmt::format("v{}", i)));
  const Variable sum = f.variable("sum");
  int total = 0;
  int values[40] = {};
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < many.size(); ++i) {
      f.push("set", {}, {many[i]}, [&values, i](RunContext&) {
        ++values[i];
        return Status();
      });
    }
    f.push("add", many, {sum}, [&](RunContext&) {
      for (const int v : values) total += v;
      return Status();
    });
  }
  CHECK(f.engine->wait(sum).ok());
  CHECK(total == 40 * (1 + 2 + 3));
}

TEST_CASE("ready operations of one lane run by priority, then by age") {
  Fixture f(true);
  Gate gate;
  const Variable held = f.variable("held");
  f.push_gate(gate, held);
  std::vector<int> order;  // the compute lane has one thread
  int number = 0;
  for (const int priority : {0, -1, 5, 0, 7, 5, -1}) {
    const Variable own = f.variable("own");
    f.engine->push({.name = "op", .writes = {&own, 1}, .lane = kCompute, .priority = priority},
                   [&order, number](RunContext&) {
                     order.push_back(number);
                     return Status();
                   });
    ++number;
  }
  gate.open();
  CHECK(f.engine->wait_all().ok());
  CHECK(order == std::vector<int>{4, 2, 5, 0, 3, 1, 6});
}

TEST_CASE("the priority lane does not wait behind compute") {
  Fixture f(true);
  Gate gate;
  const Variable a = f.variable("a");
  const Variable b = f.variable("b");
  f.push("long", {}, {a}, [&](RunContext&) {
    gate.pass();
    return Status();
  });
  bool urgent = false;
  f.push(
      "urgent", {}, {b},
      [&](RunContext&) {
        urgent = true;
        return Status();
      },
      kPriority);
  CHECK(f.engine->wait(b).ok());
  CHECK(urgent);
  gate.open();
}

TEST_CASE("the compute lane leads a team of the asked size and keeps its slots") {
  Fixture f(GENERATE(true, false), EngineOptions{.threads = 2});
  CHECK(f.engine->team(kCompute) == 2);
  CHECK(f.engine->team(kCopy) == 1);
  const Variable x = f.variable("x");
  std::vector<int> teams;
  std::vector<int> counts;
  bool inside = true;
  for (int i = 0; i < 3; ++i) {
    f.push("look", {}, {x}, [&](RunContext& context) {
      teams.push_back(context.team);
      teams.push_back(base::thread_team());
      counts.push_back(++context.slots->get<int>(0));
      inside = inside && Engine::on_engine_thread() && context.stream == nullptr;
      return Status();
    });
  }
  CHECK(f.engine->wait(x).ok());
  CHECK(inside);
  CHECK(teams == std::vector<int>{2, 2, 2, 2, 2, 2});
  CHECK(counts == std::vector<int>{1, 2, 3});
  CHECK_FALSE(Engine::on_engine_thread());
}

TEST_CASE("functions may push") {
  Fixture f(GENERATE(true, false), EngineOptions{.engine_pending_operations_max = 4});
  const Variable x = f.variable("x");
  std::vector<int> order;
  f.push("outer", {}, {x}, [&](RunContext&) {
    order.push_back(0);
    // More than the limit: a pusher on an engine thread never waits.
    for (int i = 1; i <= 20; ++i) {
      f.push("inner", {}, {x}, [&order, i](RunContext&) {
        order.push_back(i);
        return Status();
      });
    }
    return Status();
  });
  CHECK(f.engine->wait_all().ok());
  while (f.engine->counters().pending > 0) CHECK(f.engine->wait_all().ok());
  REQUIRE(order.size() == 21);
  for (int i = 0; i <= 20; ++i) CHECK(order[static_cast<std::size_t>(i)] == i);
}

TEST_CASE("a pusher far ahead of a lane that stands still pushes on") {
  Fixture f(true);
  Gate gate;
  const Variable x = f.variable("x");
  f.push_gate(gate, x);
  constexpr int kPushed = 10'000;
  int order = 0;
  bool in_order = true;
  for (int i = 0; i < kPushed; ++i) {
    f.push("op", {}, {x}, [&order, &in_order, i](RunContext&) {
      in_order = in_order && order++ == i;
      return Status();
    });
  }
  CHECK(f.engine->counters().pending == kPushed + 1);
  gate.open();
  CHECK(f.engine->wait_all().ok());
  CHECK(in_order);
  CHECK(order == kPushed);
}

TEST_CASE("a pusher outside waits while the pending limit is exceeded") {
  Fixture f(true, EngineOptions{.engine_pending_operations_max = 16});
  Gate gate;
  const Variable x = f.variable("x");
  f.push_gate(gate, x);
  std::atomic<int> pushed{0};
  std::thread pusher([&] {
    for (int i = 0; i < 100; ++i) {
      f.push("op", {}, {x}, [](RunContext&) { return Status(); });
      ++pushed;
    }
  });
  while (f.engine->counters().pending < 16) std::this_thread::yield();
  CHECK(pushed < 100);
  CHECK(f.engine->counters().pending == 16);
  gate.open();
  pusher.join();
  CHECK(f.engine->wait_all().ok());
  CHECK(f.engine->counters().completed == 101);
}

TEST_CASE("a pusher that gave way keeps to the limit of memory that others reached meanwhile") {
  constexpr std::uint64_t kBytesMax = 1200;  // a pusher gives way at 1,024 operations
  Fixture f(true, EngineOptions{.engine_pending_bytes_max = kBytesMax});
  Gate gate;
  const Variable x = f.variable("x");
  f.push_gate(gate, x);
  const std::vector<Variable> writes = {x};
  const auto push = [&] {
    for (int i = 0; i < 1000; ++i) {
      f.engine->push({.name = "op", .writes = writes, .lane = kCompute, .bytes = 1},
                     [](RunContext&) { return Status(); });
    }
  };
  std::thread one(push), other(push);
  while (f.engine->counters().pending < kBytesMax + 1) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // longer than one gives way
  CHECK(f.engine->counters().pending == kBytesMax + 1);
  gate.open();
  one.join();
  other.join();
  CHECK(f.engine->wait_all().ok());
  CHECK(f.engine->counters().completed == 2001);
}

TEST_CASE("a pusher outside waits while the memory held by pending operations is exceeded") {
  Fixture f(true, EngineOptions{.engine_pending_bytes_max = 100});
  Gate gate;
  const Variable x = f.variable("x");
  f.push_gate(gate, x);
  const std::vector<Variable> writes = {x};
  const auto push = [&](std::uint64_t bytes) {
    f.engine->push({.name = "op", .writes = writes, .lane = kCompute, .bytes = bytes},
                   [](RunContext&) { return Status(); });
  };
  push(1000);  // alone it may hold more
  push(0);     // holds nothing, so it need not wait
  std::atomic<bool> pushed{false};
  std::thread pusher([&] {
    push(1);
    pushed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK_FALSE(pushed);
  CHECK(f.engine->counters().pending == 3);
  gate.open();
  pusher.join();
  CHECK(f.engine->wait_all().ok());
  CHECK(f.engine->counters().completed == 4);
}

TEST_CASE("many threads may push operations on crossing variables") {
  Fixture f(true, EngineOptions{.copy_threads = 2, .priority_threads = 2});
  const Variable a = f.variable("a");
  const Variable b = f.variable("b");
  int x = 0;
  int y = 0;
  auto both = [&](RunContext&) {
    ++x;
    ++y;
    return Status();
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        if (t % 2 == 0) {
          f.push("ab", {}, {a, b}, both, kCopy);
        } else {
          f.push("ba", {}, {b, a}, both, kPriority);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(f.engine->wait_all().ok());
  CHECK(x == 800);
  CHECK(y == 800);
}

TEST_CASE("a thousand outstanding asynchronous operations hold no thread") {
  Fixture f(GENERATE(true, false));
  std::vector<Variable> variables;
  std::vector<Completion> completions(1000);
  std::atomic<int> begun{0};
  for (std::size_t i = 0; i < completions.size(); ++i) {
    variables.push_back(f.variable("v"));
    f.push_async("send", {}, {variables[i]}, [&, i](RunContext&, Completion completion) {
      completions[i] = std::move(completion);
      ++begun;
    });
  }
  const Variable x = f.variable("x");
  bool ran = false;
  f.push(
      "other", {}, {x},
      [&](RunContext&) {
        ran = true;
        return Status();
      },
      kPriority);
  REQUIRE(f.engine->wait(x).ok());  // the one priority thread is free
  CHECK(ran);
  while (begun < 1000) std::this_thread::yield();
  CHECK(f.engine->counters().asynchronous_in_flight == 1000);
  std::atomic<int> after{0};
  for (const Variable& v : variables) {
    f.push("after", {v}, {}, [&](RunContext&) {
      ++after;
      return Status();
    });
  }
  CHECK(after == 0);
  std::thread other([&] {
    for (Completion& completion : completions) completion.complete();
  });
  CHECK(f.engine->wait_all().ok());
  other.join();
  CHECK(after == 1000);
  CHECK(f.engine->counters().asynchronous_in_flight == 0);
}

TEST_CASE("an asynchronous function may complete before it returns, and keeps its captures") {
  Fixture f(GENERATE(true, false));
  const Variable x = f.variable("x");
  auto alive = std::make_shared<int>(7);
  const std::weak_ptr<int> watch = alive;
  int seen = 0;
  f.push_async("inline", {}, {x}, [&seen, kept = std::move(alive)](RunContext&, Completion done) {
    done.complete();
    seen = *kept;
  });
  CHECK(f.engine->wait(x).ok());
  CHECK(seen == 7);
  CHECK(watch.expired());
}

TEST_CASE("handles may be dropped before their operations ran, or outlive the engine") {
  std::vector<Variable> outlives;
  int runs = 0;
  {
    Fixture f(GENERATE(true, false));
    for (int i = 0; i < 50; ++i) {
      const Variable x = f.variable("short-lived");
      for (int k = 0; k < 3; ++k) {
        f.push("op", {}, {x}, [&](RunContext&) {
          ++runs;
          return Status();
        });
      }
      if (i % 10 == 0) outlives.push_back(x);
    }
  }
  CHECK(runs == 150);
  CHECK(outlives.size() == 5);
}

TEST_CASE("counters add up") {
  Fixture f(GENERATE(true, false));
  const Variable x = f.variable("x");
  const Variable y = f.variable("y");
  f.push("good", {}, {y}, [](RunContext&) { return Status(); });
  f.push("bad", {}, {x}, [](RunContext&) { return Status(Errc::not_finite, "[bad] NaN"); });
  f.push("heir", {x}, {y}, [](RunContext&) { return Status(); });
  CHECK_FALSE(f.engine->wait_all().ok());
  const EngineCounters counters = f.engine->counters();
  CHECK(counters.pushed == 3);
  CHECK(counters.completed == 3);
  CHECK(counters.failed == 1);
  CHECK(counters.skipped == 1);
  CHECK(counters.pending == 0);
}

TEST_CASE("dump says what waits on what") {
  Fixture f(true);
  Gate gate;
  const Variable w = f.variable("w1");
  const Variable g = f.variable("g1");
  Completion sent;
  std::atomic<bool> begun{false};
  f.push_async("send", {g}, {}, [&](RunContext&, Completion completion) {
    sent = std::move(completion);
    begun = true;
  });
  f.push("forward", {}, {w}, [&](RunContext&) {
    gate.pass();
    return Status();
  });
  f.push("update", {w}, {g}, [](RunContext&) { return Status(); });
  while (!begun) std::this_thread::yield();
  std::string dump = f.engine->dump();
  while (dump.find("running") == std::string::npos ||
         dump.find("completion") == std::string::npos) {
    std::this_thread::yield();  // between the function's start and return
    dump = f.engine->dump();
  }
  CAPTURE(dump);
  CHECK(dump.find("engine: 3 pending, 1 asynchronous in flight\n") == 0);
  CHECK(dump.find("#1 send [cpu:0 priority]: waits for its completion\n") != std::string::npos);
  CHECK(dump.find("#2 forward [cpu:0 compute]: running\n") != std::string::npos);
  CHECK(dump.find("#3 update [cpu:0 compute]: waits for 'g1' (to write), held by #1 send (reads); "
                  "'w1' (to read), held by #2 forward (writes);\n") != std::string::npos);
  gate.open();
  sent.complete();
  CHECK(f.engine->wait_all().ok());
  CHECK(f.engine->dump() == "engine: 0 pending, 0 asynchronous in flight\n");
}

TEST_CASE("a dump names the oldest who hold a variable, and nobody who waits for it") {
  Fixture f(false);
  const Variable v = f.variable("v");
  std::vector<Completion> readers(5);
  for (Completion& reader : readers) {
    f.push_async("reader", {v}, {},
                 [&](RunContext&, Completion completion) { reader = std::move(completion); });
  }
  f.push("writer", {}, {v}, [](RunContext&) { return Status(); });
  f.push("later", {v}, {}, [](RunContext&) { return Status(); });
  CHECK_THAT(
      f.engine->dump(),
      Catch::Contains("#6 writer [cpu:0 compute]: waits for 'v' (to write), held by #1 reader "
                      "(reads), #2 reader (reads), #3 reader (reads) and others;\n"));
  for (std::size_t i = 0; i < 3; ++i) readers[i].complete();
  CHECK_THAT(f.engine->dump(),
             Catch::Contains("#7 later [cpu:0 compute]: waits for 'v' (to read), held by #4 reader "
                             "(reads), #5 reader (reads);\n"));
  for (std::size_t i = 3; i < 5; ++i) readers[i].complete();
  CHECK(f.engine->wait_all().ok());
  CHECK(f.engine->dump() == "engine: 0 pending, 0 asynchronous in flight\n");
}

TEST_CASE("a warning has the first lines of a dump, and says how many more there are") {
  CHECK(first_lines("e: 3 pending\n#1\n#2\n#3\n", 3) ==
        "e: 3 pending\n#1\n#2\n1 more with --verbose\n");
  CHECK(first_lines("e: 1 pending\n#1\n", 2) == "e: 1 pending\n#1\n");
  CHECK(first_lines("e: 0 pending\n", 2) == "e: 0 pending\n");
  CHECK(first_lines("", 2).empty());
}

}  // namespace
}  // namespace troupe::engine
