// SPDX-License-Identifier: Apache-2.0
// Stream operations on the delayed device: work runs after issue, in stream order, and nobody sees
// a value too early. Poisoned outputs make a missing wait visible as NaN.
#include <array>
#include <atomic>
#include <cmath>
#include <exception>
#include <future>
#include <limits>
#include <new>
#include <thread>
#include <vector>

#include "tests/engine/support.h"
#include "tests/support/catch.h"
#include "tests/support/delayed_stream.h"

namespace troupe::engine {
namespace {

using base::Status;
using tests::DelayedStream;

const Lane kDelayedCopy{{base::DeviceKind::delayed, 0}, LaneKind::copy};
const Lane kOther{{base::DeviceKind::delayed, 1}, LaneKind::compute};

std::span<std::byte> bytes_of(double& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

/// target = f(source) on the stream, its output poisoned until then.
StreamFunction apply(double* target, const double* source, double (*f)(double)) {
  return [=](RunContext& context) {
    context.stream->poison(bytes_of(*target));
    context.stream->enqueue_host([=] {
      *target = f(*source);
      return Status();
    });
    return Status();
  };
}

SyncFunction copy(double* target, const double* source) {
  return [=](RunContext&) {
    *target = *source;
    return Status();
  };
}

double plus_one(double x) {
  return x + 1;
}

TEST_CASE("a delayed stream runs closures after issue, in order, and events pass") {
  DelayedStream stream({.held = true});
  double value = 1;
  stream.poison(bytes_of(value));
  stream.enqueue_host([&] {
    value = std::isnan(value) ? 2 : -1;
    return Status();
  });
  const auto event = stream.record();
  CHECK_FALSE(event->passed());
  CHECK(value == 1);
  CHECK(stream.ran() == 0);
  stream.release();
  CHECK(event->wait_on_host().ok());
  CHECK(event->passed());
  CHECK(value == 2);
  stream.enqueue_host([] { return Status(base::Errc::internal, "broken"); });
  stream.enqueue_host([&] {
    value = 3;
    return Status();
  });
  CHECK(stream.record()->wait_on_host().text() == "broken");
  CHECK(event->wait_on_host().ok());
  CHECK(value == 2);
}

TEST_CASE("successors on the same lane are issued at once, the host waits") {
  DelayedStream stream({.held = true});
  Fixture f(true, EngineOptions{.streams = {&stream}});
  const Variable x = f.variable("x");
  const Variable y = f.variable("y");
  double value = 0;
  double copied = -1;
  for (int i = 0; i < 10; ++i)
    f.push_stream("add", {}, {x},
                  apply(&value, &value, [](double v) { return std::isnan(v) ? 1.0 : v + 1; }));
  f.push("copy", {x}, {y}, copy(&copied, &value));
  // All ten were issued while none has run.
  while (f.engine->counters().completed < 10) std::this_thread::yield();
  CHECK(stream.ran() == 0);
  CHECK(f.engine->dump().find("waits for its stream's event") != std::string::npos);
  // The lane the copy will run on is free meanwhile.
  const Variable z = f.variable("z");
  f.push("free", {}, {z}, [](RunContext&) { return Status(); });
  CHECK(f.engine->wait(z).ok());
  stream.release();
  CHECK(f.engine->wait(y).ok());
  CHECK(stream.ran() == 10);
  CHECK(copied == 1);  // poison made each predecessor NaN, so each wrote 1
}

TEST_CASE("another stream lane waits on the device") {
  const bool threaded = GENERATE(true, false);
  DelayedStream first({.held = threaded});  // the serial engine waits at once
  DelayedStream second({.device = {base::DeviceKind::delayed, 1}});
  Fixture f(threaded, EngineOptions{.streams = {&first, &second}});
  const Variable x = f.variable("x");
  const Variable y = f.variable("y");
  double a = 1;
  double b = 0;
  double c = 0;
  f.push_stream("a to b", {}, {x}, apply(&b, &a, plus_one));
  f.push_stream("b to c", {x}, {y}, apply(&c, &b, plus_one), kOther);
  while (f.engine->counters().completed < 2) std::this_thread::yield();  // both are issued
  CHECK(second.ran() == (threaded ? 0 : 1));
  first.release();
  CHECK(f.engine->wait(y).ok());
  CHECK(c == 3);
}

TEST_CASE("a writer waits for the readers of every stream") {
  DelayedStream first({.delay = std::chrono::milliseconds(2)});
  DelayedStream copies({.delay = std::chrono::milliseconds(1)});
  Fixture f(true, EngineOptions{.streams = {&first, &copies}});
  const Variable x = f.variable("x");
  const Variable a = f.variable("a");
  const Variable b = f.variable("b");
  double value = 1;
  double seen_a = 0;
  double seen_b = 0;
  f.push_stream("read on compute", {x}, {a}, apply(&seen_a, &value, plus_one));
  f.push_stream("read on copy", {x}, {b}, apply(&seen_b, &value, plus_one), kDelayedCopy);
  f.push("write on the host", {}, {x}, [&](RunContext&) {
    value = 100;
    return Status();
  });
  f.push_stream("read again", {x}, {a}, apply(&seen_a, &value, plus_one));
  f.push_stream("write on copy", {}, {x}, apply(&value, &seen_b, plus_one), kDelayedCopy);
  CHECK(f.engine->wait_all().ok());
  CHECK(seen_b == 2);
  CHECK(seen_a == 101);
  CHECK(value == 3);
}

// One thread waits for the events of a stream. If it took the most urgent operation first, the last
// closure would wait for ever for what stands behind it in that thread.
TEST_CASE(
    "who waits for an earlier event of a stream goes on first, however urgent the others are") {
  DelayedStream stream({.held = true});
  Fixture f(true, EngineOptions{.streams = {&stream}});
  std::array<Variable, 4> values, seen;
  std::promise<void> second;
  std::future_status waited = std::future_status::timeout;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = f.variable("value");
    seen[i] = f.variable("seen");
    f.push_stream("compute", {}, {values[i]}, [&, i](RunContext& context) {
      context.stream->enqueue_host([&, i] {
        if (i == 3) waited = second.get_future().wait_for(std::chrono::seconds(20));
        return Status();
      });
      return Status();
    });
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Operation operation{.name = "see",
                              .reads = {&values[i], 1},
                              .writes = {&seen[i], 1},
                              .lane = {{}, LaneKind::copy},
                              .priority = static_cast<int>(i) - 3};
    f.engine->push(operation, [&, i](RunContext&) {
      if (i == 1) second.set_value();
      return Status();
    });
  }
  stream.release();
  CHECK(f.engine->wait_all().ok());
  CHECK(waited == std::future_status::ready);
}

TEST_CASE("wait sees the stream's result, wait_all the streams' ends") {
  DelayedStream stream({.delay = std::chrono::milliseconds(2)});
  Fixture f(GENERATE(true, false), EngineOptions{.streams = {&stream}});
  const Variable x = f.variable("x");
  double value = 1;
  const double source = 1;
  f.push_stream("set", {}, {x}, apply(&value, &source, plus_one));
  CHECK(f.engine->wait(x).ok());
  CHECK(value == 2);
  for (int i = 0; i < 5; ++i) f.push_stream("set", {}, {x}, apply(&value, &source, plus_one));
  CHECK(f.engine->wait_all().ok());
  CHECK(stream.ran() == 6);
}

TEST_CASE("memory that stream work does not get is an error of the stream") {
  DelayedStream stream;
  stream.enqueue_host([]() -> Status {
    // As operator new does.
    std::rethrow_exception(std::make_exception_ptr(std::bad_alloc()));
  });
  const Status status = stream.record()->wait_on_host();
  CHECK(status.code() == base::Errc::resource_exhausted);
  CHECK_THAT(status.text(), Catch::Contains("stream work threw"));
}

TEST_CASE("an error of stream work reaches readers, wait and wait_all") {
  DelayedStream stream;
  Fixture f(GENERATE(true, false), EngineOptions{.streams = {&stream}});
  const Variable x = f.variable("x");
  const Variable y = f.variable("y");
  f.push_stream("bad", {}, {x}, [](RunContext& context) {
    context.stream->enqueue_host([] { return Status(base::Errc::internal, "[bad] on device"); });
    return Status();
  });
  const bool by_all = GENERATE(true, false);
  if (by_all) {
    CHECK(f.engine->wait_all().text() == "[bad] on device");
    CHECK(f.engine->wait_all().ok());
  }
  bool ran = false;
  f.push("heir", {x}, {y}, [&](RunContext&) {
    ran = true;
    return Status();
  });
  CHECK(f.engine->wait(y).text() == "[bad] on device");
  CHECK(f.engine->wait(x).text() == "[bad] on device");
  CHECK_FALSE(ran);
}

TEST_CASE("an error of stream work reaches another stream when its event has passed") {
  DelayedStream stream;
  DelayedStream other({.device = kOther.device});
  Fixture f(GENERATE(true, false), EngineOptions{.streams = {&stream, &other}});
  const Variable x = f.variable("x");
  const Variable y = f.variable("y");
  f.push_stream("bad", {}, {x}, [](RunContext& context) {
    context.stream->enqueue_host([] { return Status(base::Errc::internal, "[bad] on device"); });
    return Status();
  });
  while (f.engine->counters().completed < 1) std::this_thread::yield();  // it is issued
  CHECK_FALSE(stream.record()->wait_on_host().ok());
  double value = 0;
  f.push_stream("heir", {x}, {y}, apply(&value, &value, plus_one), kOther);
  CHECK(f.engine->wait(y).text() == "[bad] on device");
  CHECK(other.ran() == 0);
}

TEST_CASE("an error at issue is an ordinary error, skipped work is not issued") {
  DelayedStream stream;
  Fixture f(GENERATE(true, false), EngineOptions{.streams = {&stream}});
  const Variable x = f.variable("x");
  const Variable y = f.variable("y");
  double value = 0;
  f.push_stream("bad", {}, {x},
                [](RunContext&) { return Status(base::Errc::unimplemented, "no kernel"); });
  f.push_stream("heir", {x}, {y}, apply(&value, &value, plus_one));
  CHECK(f.engine->wait(y).text() == "no kernel");
  CHECK(stream.ran() == 0);
}

TEST_CASE("a stream lane bounds what is issued and not done") {
  DelayedStream stream({.held = true});
  Fixture f(true, EngineOptions{.streams = {&stream}, .stream_operations_max = 4});
  const Variable x = f.variable("x");
  double value = 0;
  std::atomic<int> issued{0};
  for (int i = 0; i < 20; ++i) {
    f.push_stream("add", {}, {x}, [&](RunContext& context) {
      ++issued;
      context.stream->enqueue_host([&] {
        value += 1;
        return Status();
      });
      return Status();
    });
  }
  while (issued < 5) std::this_thread::yield();
  CHECK(issued == 5);
  stream.release();
  CHECK(f.engine->wait_all().ok());
  CHECK(value == 20);
}

TEST_CASE("a kind without a stream of its own uses the device's first stream") {
  DelayedStream stream;
  Fixture f(GENERATE(true, false), EngineOptions{.streams = {&stream}});
  const Variable x = f.variable("x");
  double value = 1;
  f.push_stream("copy kind", {}, {x}, apply(&value, &value, [](double) { return 5.0; }),
                kDelayedCopy);
  double host = 0;
  const Variable y = f.variable("y");
  f.push("host function on the device's lane", {x}, {y}, copy(&host, &value), kDelayed);
  CHECK(f.engine->wait(y).ok());
  CHECK(host == 5);
}

}  // namespace
}  // namespace troupe::engine
