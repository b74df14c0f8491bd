// SPDX-License-Identifier: Apache-2.0
// The fence of generation and view, and letters that are repeated until answered.
#include "actors/mail.h"

#include <catch2/catch.hpp>

#include "tests/actors/state_fixture.h"

namespace troupe::actors {
namespace {

using namespace testing;
using schemas::Role;
using Verdict = Mail::Verdict;

constexpr schemas::ActorId kRank{Role::worker, 0};

struct Fixture {
  JobPlan plan = small_plan();
  EffectList<DeviceEffect> effects;
  Mail mail{plan, {Role::device_server, 0}, effects};

  Verdict judge(schemas::Envelope envelope) { return mail.judge(envelope); }
  Verdict from_rank(std::uint64_t generation, std::uint64_t view) {
    schemas::Envelope envelope = letter(plan, kRank, schemas::Finished{});
    envelope.generation = generation;
    envelope.view = view;
    return judge(envelope);
  }
  void open() {
    CHECK(judge(letter(plan, kCoordinator, small_placement(plan))) == Verdict::done);
    CHECK(judge(letter(plan, kCoordinator, schemas::TrainingStart{0, 16})) == Verdict::opened);
  }
};

TEST_CASE("a role opens with placement and start, in any order, and keeps what came before") {
  Fixture f;
  CHECK(f.from_rank(3, 1) == Verdict::done);
  CHECK_FALSE(f.mail.parked().has_value());
  CHECK(f.judge(letter(f.plan, kCoordinator, schemas::TrainingStart{0, 16})) == Verdict::done);
  CHECK(f.judge(letter(f.plan, kCoordinator, small_placement(f.plan))) == Verdict::opened);
  CHECK(f.mail.rules().steps.total == 8);
  CHECK(f.mail.parked().has_value());
  CHECK_FALSE(f.mail.parked().has_value());
}

TEST_CASE("other generations are dropped, lower views refused, higher ones parked") {
  Fixture f;
  f.open();
  CHECK(f.from_rank(3, 1) == Verdict::take);
  CHECK(f.from_rank(2, 1) == Verdict::done);
  CHECK(f.from_rank(4, 1) == Verdict::done);
  CHECK(f.effects.take().empty());
  CHECK(f.mail.counters().other_generation == 2);

  CHECK(f.from_rank(3, 2) == Verdict::done);
  CHECK_FALSE(f.mail.parked().has_value());
  CHECK(f.judge(letter(f.plan, kCoordinator, small_placement(f.plan, 2))) == Verdict::moved);
  CHECK(f.mail.parked()->view == 2);

  CHECK(f.from_rank(3, 1) == Verdict::done);
  const auto refused = sent<schemas::StaleView>(f.effects.take());
  REQUIRE(refused.size() == 1);
  CHECK(refused[0].first == kRank);
  CHECK(refused[0].second.current == 2);
  CHECK(f.judge(letter(f.plan, kCoordinator, small_placement(f.plan, 2))) == Verdict::done);
}

TEST_CASE("parking is bounded") {
  Fixture f;
  for (std::size_t i = 0; i < kParkedEnvelopesMax + 10; ++i) f.from_rank(3, 1);
  f.open();
  std::size_t kept = 0;
  while (f.mail.parked()) ++kept;
  CHECK(kept == kParkedEnvelopesMax);
}

TEST_CASE("a view that moves ranks, and one that places too few, fail the role by name") {
  Fixture f;
  f.open();
  schemas::Placement moved = small_placement(f.plan, 2);
  moved.machine_of_rank[0] = 1;
  f.judge(letter(f.plan, kCoordinator, moved));
  const auto effects = f.effects.take();
  REQUIRE(sent<schemas::ActorFailed>(effects).size() == 1);
  CHECK(sent<schemas::ActorFailed>(effects)[0].second.text.find("view 2 moves ranks") !=
        std::string::npos);
  CHECK(of_kind<Fail>(effects).size() == 1);
  CHECK(f.from_rank(3, 2) == Verdict::done);  // deaf from then on

  Fixture g;
  schemas::Placement few = small_placement(g.plan);
  few.machine_of_rank.pop_back();
  g.judge(letter(g.plan, kCoordinator, few));
  g.judge(letter(g.plan, kCoordinator, schemas::TrainingStart{0, 16}));
  CHECK(of_kind<Fail>(g.effects.take()).size() == 1);
}

TEST_CASE("the end of the job is told once") {
  Fixture f;
  f.open();
  f.judge(letter(f.plan, kCoordinator, schemas::JobEnd{base::Errc::cancelled, "stopped"}));
  const auto ends = of_kind<End>(f.effects.take());
  REQUIRE(ends.size() == 1);
  CHECK(ends[0].status.code() == base::Errc::cancelled);
  f.judge(letter(f.plan, kCoordinator, schemas::JobEnd{}));
  CHECK(f.effects.take().empty());
}

TEST_CASE("letters are repeated with pauses that double up to the longest") {
  base::Limits limits;
  limits.retry_first_ms = 10;
  limits.retry_most_ms = 40;
  Outbox<int> outbox(limits);
  CHECK(outbox.keep(1, {kRank, schemas::Finished{}, {}}, 0));
  CHECK_FALSE(outbox.keep(1, {kRank, schemas::Finished{}, {}}, 0));
  std::vector<std::uint64_t> times;
  for (std::uint64_t now = 0; now <= 160; ++now) {
    outbox.resend(now, [&](const Letter&) { times.push_back(now); });
  }
  CHECK(times == std::vector<std::uint64_t>{10, 30, 70, 110, 150});
  CHECK(outbox.answered(1));
  CHECK_FALSE(outbox.answered(1));
}

}  // namespace
}  // namespace troupe::actors
