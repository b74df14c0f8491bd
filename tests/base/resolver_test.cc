// SPDX-License-Identifier: Apache-2.0
// Names: the deadline is the caller's, one thread asks for each, the last good answer is kept.
#include "base/resolver.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <mutex>

namespace troupe::base {
namespace {

TEST_CASE("a number is its own answer, and nobody is asked", "[resolver]") {
  Resolver resolver([](const std::string&) -> Result<HostNumbers> {
    FAIL("asked for a number");
    return HostNumbers{};
  });
  CHECK(resolver.resolve("10.1.2.3", 1).value() == HostNumbers{"10.1.2.3"});
  CHECK(resolver.resolve("fd77::1", 1).value() == HostNumbers{"fd77::1"});
}

TEST_CASE("the system knows localhost, and refuses a name with its words", "[resolver]") {
  const HostNumbers numbers = look_up("localhost").value();
  CHECK_FALSE(numbers.empty());
  const Status status = look_up("no-such-host.invalid").status();
  CHECK(status.code() == Errc::unavailable);
  CHECK_THAT(status.text(), Catch::StartsWith("looking up 'no-such-host.invalid': "));
}

TEST_CASE("who waits for a name that hangs goes at the deadline", "[resolver]") {
  std::promise<void> go;
  const auto gone = std::make_shared<std::shared_future<void>>(go.get_future());
  const auto asked = std::make_shared<std::atomic<int>>(0);
  std::promise<HostNumbers> late;
  {
    Resolver resolver([gone, asked](const std::string&) -> Result<HostNumbers> {
      ++*asked;
      gone->wait();
      return HostNumbers{"10.0.0.1"};
    });
    const Status status = resolver.resolve("node1", 20).status();
    CHECK(status.code() == Errc::deadline_exceeded);
    CHECK(status.text() == "looking up 'node1': no answer within 20 ms");
    // The question is still open: nobody asks it again.
    resolver.ask("node1", [&late](const auto& numbers) { late.set_value(numbers.value()); });
    CHECK(*asked == 1);
  }
  go.set_value();
  CHECK(late.get_future().get() == HostNumbers{"10.0.0.1"});
}

TEST_CASE("the last good answer is kept where no new one comes", "[resolver]") {
  const auto good = std::make_shared<std::atomic<bool>>(true);
  Resolver resolver([good](const std::string& host) -> Result<HostNumbers> {
    if (*good) return HostNumbers{"10.0.0.1", "fd77::1"};
    return error(Errc::unavailable, "looking up '{}': no server answers", host);
  });
  const HostNumbers numbers{"10.0.0.1", "fd77::1"};
  CHECK(resolver.last("node1", 7).status().code() == Errc::deadline_exceeded);
  CHECK(resolver.resolve("node1", 20'000).value() == numbers);
  *good = false;
  CHECK(resolver.resolve("node1", 20'000).value() == numbers);
  CHECK(resolver.last("node1", 7).value() == numbers);
  CHECK(resolver.resolve("node2", 20'000).status().text() ==
        "looking up 'node2': no server answers");
}

}  // namespace
}  // namespace troupe::base
