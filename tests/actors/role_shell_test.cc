// SPDX-License-Identifier: Apache-2.0
// The shell of every role: events in order, effects performed, questions answered or given up, and
// an exception that ends the process with a reason.
#include "actors/role_shell.h"

#include <sys/wait.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "base/clock.h"
#include "tests/support/catch.h"

namespace troupe::actors {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLong{20'000};

/// Adds numbers up, waits for a promise, or throws.
class SumState {
 public:
  struct Number {
    std::uint64_t value = 0;
  };
  struct Hold {
    std::shared_future<void> until;
  };
  struct Misfortune {};
  struct Added {
    std::uint64_t sum = 0;
  };
  using Event = std::variant<control::Tick, Number, Hold, Misfortune>;
  using Effect = std::variant<control::Note, Added, Hold>;

  std::vector<Effect> handle(const Event& event) {
    if (std::holds_alternative<Misfortune>(event)) static_cast<void>(std::vector<int>().at(1));
    if (const auto* hold = std::get_if<Hold>(&event)) return {*hold};
    if (const auto* number = std::get_if<Number>(&event)) {
      sum_ = sum_ * 10 + number->value;
      return {Added{sum_}};
    }
    ++ticks_;
    return {};
  }
  std::uint64_t sum() const { return sum_; }
  std::uint64_t ticks() const { return ticks_; }

 private:
  std::uint64_t sum_ = 0;
  std::uint64_t ticks_ = 0;
};

class SumRole final : public RoleShell<SumRole, SumState> {
 public:
  SumRole() : RoleShell("test role") { begin(system_, clock_, 5, {}); }
  ~SumRole() { end(); }
  using RoleShell::end;
  std::uint64_t told() const { return told_; }

 private:
  friend class RoleShell<SumRole, SumState>;
  using RoleShell::perform;
  void perform(const SumState::Added& added) { told_ = added.sum; }
  void perform(const SumState::Hold& hold) const { hold.until.wait(); }

  base::SteadyClock clock_;
  ActorSystem system_{1};
  std::atomic<std::uint64_t> told_{0};
};

std::uint64_t sum_of(const SumState& state) {
  return state.sum();
}

TEST_CASE("a role that rests has no ticks and still answers", "[shell]") {
  SumRole role;
  const auto ticks = [&role] {
    const auto answer = role.ask([](const SumState& state) { return state.ticks(); }, kLong);
    REQUIRE(answer.ok());
    return *answer;
  };
  const auto until = std::chrono::steady_clock::now() + kLong;
  while (ticks() < 3 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  REQUIRE(ticks() >= 3);
  role.rest();
  const std::uint64_t at_rest = ticks();
  std::this_thread::sleep_for(milliseconds(100));
  CHECK(ticks() == at_rest);
}

TEST_CASE("a role handles its events in order, and ticks", "[shell]") {
  SumRole role;
  for (const std::uint64_t value : {1, 2, 3, 4}) role.post(SumState::Number{value});
  const auto sum = role.ask(sum_of, kLong);
  REQUIRE(sum.ok());
  CHECK(*sum == 1'234);
  CHECK(role.told() == 1'234);
  const auto late = std::chrono::steady_clock::now() + kLong;
  const auto ticks = [&] {
    return *role.ask([](const SumState& state) { return state.ticks(); }, kLong);
  };
  while (ticks() < 3 && std::chrono::steady_clock::now() < late) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  CHECK(ticks() >= 3);
}

TEST_CASE("a question to a role that is busy or has ended is given up", "[shell]") {
  SumRole role;
  std::promise<void> release;
  role.post(SumState::Hold{release.get_future().share()});
  const auto busy = role.ask(sum_of, milliseconds(20));
  REQUIRE_FALSE(busy.ok());
  CHECK(busy.status().code() == base::Errc::deadline_exceeded);
  CHECK(busy.status().text() == "test role has not answered within 20 ms");
  release.set_value();
  CHECK(role.ask(sum_of, kLong).ok());
  role.end();
  CHECK(role.ask(sum_of, milliseconds(20)).status().code() == base::Errc::deadline_exceeded);
}

// Run by the next test, in a process of its own.
TEST_CASE("a role throws", "[.role-throws]") {
  SumRole role;
  role.post(SumState::Misfortune{});
  role.ask(sum_of, kLong).status();
  FAIL("the process should have ended");
}

TEST_CASE("an exception in a role ends the process, and the log says why", "[shell]") {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = "ulimit -c 0; exec '" + program + "' '[.role-throws]' 2>&1";
  FILE* child = ::popen(command.c_str(), "r");
  REQUIRE(child != nullptr);
  std::string output;
  std::array<char, 4'096> block{};
  while (const std::size_t bytes = std::fread(block.data(), 1, block.size(), child)) {
    output.append(block.data(), bytes);
  }
  const int status = ::pclose(child);
  INFO(output);
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
  CHECK(output.find("test role: exception: vector::_M_range_check") != std::string::npos);
}

}  // namespace
}  // namespace troupe::actors
