// SPDX-License-Identifier: Apache-2.0
// The fence of generation and view, and letters that wait for their answers.
#include "actors/mail.h"

#include "tests/actors/state_fixture.h"
#include "tests/support/catch.h"

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

TEST_CASE("what one peer may have waiting is bounded by bytes, and who sends more is named") {
  Fixture f;
  f.open();
  constexpr std::size_t kPayload = 1 << 20;
  const base::Buffer payload = base::make_host_buffer(kPayload);
  const auto park = [&](std::uint32_t rank) {
    schemas::Envelope envelope =
        letter(f.plan, {Role::worker, rank}, schemas::GradientPush{}, payload);
    envelope.view = 7;
    f.judge(std::move(envelope));
    return of_kind<Fail>(f.effects.take());
  };
  const std::uint64_t most = parked_bytes_max(f.plan.spec.limits);
  const std::size_t fit = most / (sizeof(schemas::Envelope) + kPayload);
  for (std::size_t i = 0; i < fit; ++i) REQUIRE(park(0).empty());
  CHECK(park(1).empty());  // each peer by itself
  const auto fails = park(0);
  REQUIRE(fails.size() == 1);
  CHECK(fails[0].status.text() == "[device server 0] worker 0 has sent more than " +
                                      std::to_string(most) + " bytes that wait for view 7");
}

TEST_CASE("what was parked makes room when its view comes") {
  Fixture f;
  f.open();
  constexpr std::size_t kPayload = 1 << 20;
  const base::Buffer payload = base::make_host_buffer(kPayload);
  const std::size_t fit =
      parked_bytes_max(f.plan.spec.limits) / (sizeof(schemas::Envelope) + kPayload);
  for (const std::uint64_t view : {2U, 3U}) {
    for (std::size_t i = 0; i < fit; ++i) {
      schemas::Envelope envelope = letter(f.plan, kRank, schemas::GradientPush{}, payload);
      envelope.view = view;
      f.judge(std::move(envelope));
    }
    CHECK(f.judge(letter(f.plan, kCoordinator, small_placement(f.plan, view))) == Verdict::moved);
    std::size_t kept = 0;
    while (f.mail.parked()) ++kept;
    CHECK(kept == fit);
  }
  CHECK(of_kind<Fail>(f.effects.take()).empty());
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

/// What an outbox does at each millisecond up to `end_ms`: "40 sends", "90 asks".
std::vector<std::string> what_happens(Outbox<int>& outbox, std::uint64_t from_ms,
                                      std::uint64_t end_ms) {
  std::vector<std::string> happened;
  for (std::uint64_t now = from_ms; now <= end_ms; ++now) {
    outbox.attend(
        now, [&](const Letter&) { happened.push_back(std::to_string(now) + " sends"); },
        [&](const Letter&) { happened.push_back(std::to_string(now) + " asks"); });
  }
  return happened;
}

base::Limits short_pauses() {
  base::Limits limits;
  limits.retry_first_ms = 10;
  limits.retry_most_ms = 40;
  limits.letter_ask_ms = 100;
  return limits;
}

/// One letter, sent at 0.
struct Letters {
  Letters() { CHECK(outbox.keep(1, {kRank, schemas::Finished{}, {}}, 0)); }
  Outbox<int> outbox{short_pauses()};
};

TEST_CASE("time alone never sends a letter again, it asks about it") {
  Letters f;
  CHECK_FALSE(f.outbox.keep(1, {kRank, schemas::Finished{}, {}}, 0));
  CHECK(what_happens(f.outbox, 0, 900) ==
        std::vector<std::string>{"100 asks", "200 asks", "400 asks", "800 asks"});
  CHECK(f.outbox.answered(1));
  CHECK_FALSE(f.outbox.answered(1));
  CHECK(what_happens(f.outbox, 901, 2'000).empty());
}

TEST_CASE("a letter that could not be taken goes again after a pause that doubles") {
  Letters f;
  f.outbox.not_ready(1, 0);
  CHECK(what_happens(f.outbox, 0, 50) == std::vector<std::string>{"10 sends"});
  f.outbox.not_ready(1, 50);
  CHECK(what_happens(f.outbox, 50, 80) == std::vector<std::string>{"70 sends"});
  f.outbox.not_ready(1, 80);
  f.outbox.not_ready(1, 100);
  CHECK(what_happens(f.outbox, 100, 300) == std::vector<std::string>{"140 sends", "240 asks"});
  f.outbox.not_ready(2, 300);  // of nobody's
}

TEST_CASE("a letter that never came goes again at once, and all of them in a new view") {
  Letters f;
  int used = 0;
  const auto count = [&](const Letter&) { ++used; };
  f.outbox.unknown(1, 50, count);  // nobody has asked
  CHECK(used == 0);
  CHECK(what_happens(f.outbox, 0, 100) == std::vector<std::string>{"100 asks"});
  f.outbox.unknown(1, 110, count);
  f.outbox.unknown(1, 110, count);  // the answer to an earlier question
  f.outbox.unknown(2, 110, count);  // of nobody's
  CHECK(used == 1);
  CHECK(what_happens(f.outbox, 110, 220) == std::vector<std::string>{"210 asks"});
  const schemas::ActorId other{Role::worker, 1};
  f.outbox.keep(2, {other, schemas::Finished{}, {}}, 220);
  f.outbox.ask_about(other, 220, count);
  CHECK(used == 2);
  f.outbox.send_again(220, count);
  CHECK(used == 4);
}

TEST_CASE("a push is asked about by name and without its bytes, what is small by itself") {
  Fixture f;
  f.open();
  f.mail.tick(1'000);
  Outbox<schemas::PushName> pushes(f.plan.spec.limits);
  schemas::GradientPush push;
  push.slice = {0, 1};
  push.node = {1, 0, 0, 1};
  push.step = 7;
  const schemas::ActorId owner{Role::parameter_server, 1};
  const schemas::PushName name = schemas::push_name(push, 0);
  pushes.keep(name, {owner, push, base::make_host_buffer(64)}, 1'000);
  f.mail.tick(1'000 + f.plan.spec.limits.letter_ask_ms);
  f.mail.attend(pushes);
  f.mail.ask_about(pushes, owner);
  f.mail.ask_about(pushes, kRank);
  const auto asked = f.effects.take();
  REQUIRE(sent<schemas::PushQuery>(asked).size() == 2);
  REQUIRE(asked.size() == 2);
  CHECK(sent<schemas::PushQuery>(asked)[0].first == owner);
  CHECK(schemas::push_name(sent<schemas::PushQuery>(asked)[0].second, 0) == name);
  CHECK(f.mail.counters().asked == 2);
  CHECK(f.mail.counters().repeated == 0);

  const auto answer = [&](schemas::PushResult result) {
    return f.mail.settle(pushes, {push.slice, push.node, push.step, result});
  };
  CHECK_FALSE(answer(schemas::PushResult::unknown));
  const auto again = f.effects.take();
  REQUIRE(sent<schemas::GradientPush>(again).size() == 1);
  CHECK(std::get<Send>(again[0]).envelope.payload.size() == 64);
  CHECK(f.mail.counters().repeated == 1);
  CHECK_FALSE(answer(schemas::PushResult::not_ready));
  CHECK(answer(schemas::PushResult::duplicate));
  CHECK_FALSE(answer(schemas::PushResult::unknown));  // late: nothing is left to send
  CHECK(f.effects.take().empty());

  Outbox<int> pulls(f.plan.spec.limits);
  pulls.keep(1, {owner, schemas::WeightPull{}, {}}, 0);
  f.mail.ask_about(pulls, owner);
  CHECK(sent<schemas::WeightPull>(f.effects.take()).size() == 1);
  f.mail.send_again(pulls);
  CHECK(sent<schemas::WeightPull>(f.effects.take()).size() == 1);
  CHECK(f.mail.counters().repeated == 2);
}

}  // namespace
}  // namespace troupe::actors
