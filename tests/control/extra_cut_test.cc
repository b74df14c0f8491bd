// SPDX-License-Identifier: Apache-2.0
// The rounds of a cut out of turn: who is asked and told what, which wishes share a cut, and that
// every wish is settled once.
#include "control/extra_cut.h"

#include "tests/support/catch.h"

namespace troupe::control {
namespace {

using base::Errc;
using schemas::ActorId;
using schemas::CutQuery;
using schemas::CutReady;
using schemas::ExtraCutTaken;
using schemas::Role;
using Told = std::vector<std::pair<ActorId, schemas::Message>>;

/// Ranks on machines 0 and 2, two shards, 10 steps.
CutCast cast() {
  CutCast cast;
  cast.placement.machines = {"a", "b", "c"};
  cast.placement.machine_of_rank = {0, 2, 2};
  cast.placement.machine_of_shard = {0, 1};
  cast.steps_total = 10;
  cast.cut_ms = 500;
  return cast;
}

struct Cut {
  ExtraCut cut{cast()};
  Told told = {};
  std::vector<CutSettled> settled = {};

  void look() {
    for (const ExtraCut::Effect& effect : cut.take_effects()) {
      if (const auto* send = std::get_if<Send<ActorId>>(&effect)) {
        told.emplace_back(send->to, send->message);
      } else {
        settled.push_back(std::get<CutSettled>(effect));
      }
    }
  }
  void want(CutWish wish, bool last = false, std::uint64_t now_ms = 0) {
    cut.want({wish, last}, now_ms);
    look();
  }
  void ready(std::uint64_t number, std::uint32_t machine, std::uint64_t next) {
    cut.take(CutReady{number, machine, next});
    look();
  }
  void taken(std::uint64_t number) {
    cut.take(ExtraCutTaken{number, 0});
    cut.take(ExtraCutTaken{number, 1});
    look();
  }
  void report(std::uint64_t step, Errc code = Errc::ok) {
    cut.take(schemas::CheckpointReport{step, code == Errc::ok ? "path" : "", code, "why"});
    look();
  }
  Told take() { return std::exchange(told, {}); }
};

schemas::ExtraCut cut_of(const std::pair<ActorId, schemas::Message>& word) {
  return std::get<schemas::ExtraCut>(word.second);
}

TEST_CASE("device servers hold first, owners are told, then device servers go on") {
  Cut of;
  of.want(7);
  const Told asked = of.take();
  REQUIRE(asked.size() == 2);
  CHECK(asked[0].first == ActorId{Role::device_server, 0});
  CHECK(asked[1].first == ActorId{Role::device_server, 2});
  of.ready(1, 0, 5);
  of.ready(1, 0, 9);  // said twice: the first word counts
  of.ready(2, 2, 9);  // of another cut
  CHECK(of.take().empty());
  of.ready(1, 2, 4);
  const Told owners = of.take();
  REQUIRE(owners.size() == 2);
  for (std::uint32_t shard = 0; shard < 2; ++shard) {
    CHECK(owners[shard].first == ActorId{Role::parameter_server, shard});
    CHECK(cut_of(owners[shard]).step == 6);
  }
  of.cut.take(ExtraCutTaken{1, 0});
  of.look();
  CHECK(of.take().empty());
  of.taken(1);
  const Told hosts = of.take();
  REQUIRE(hosts.size() == 2);
  CHECK(hosts[1].first == ActorId{Role::device_server, 2});
  CHECK(cut_of(hosts[1]).step == 6);
  CHECK_FALSE(cut_of(hosts[1]).last);
  of.report(5);  // a planned one
  CHECK(of.settled.empty());
  of.report(6);
  REQUIRE(of.settled.size() == 1);
  CHECK(of.settled[0].wish == 7);
  CHECK(of.settled[0].status.ok());
  CHECK(of.settled[0].path == "path");
}

TEST_CASE("a wish joins the cut whose step is not chosen yet, else the next one") {
  Cut of;
  of.want(1);
  of.want(2);
  CHECK(of.take().size() == 2);
  of.ready(1, 0, 3);
  of.ready(1, 2, 3);
  of.want(3);
  of.want(4, true);
  of.taken(1);
  of.take();
  of.report(4);
  REQUIRE(of.settled.size() == 2);
  CHECK(of.settled[1].wish == 2);
  const Told next = of.take();
  REQUIRE(next.size() == 2);
  CHECK(std::get<CutQuery>(next[0].second).number == 2);
  of.ready(2, 0, 6);
  of.ready(2, 2, 6);
  const Told told = of.take();
  CHECK(cut_of(told[0]).last);
  // Nothing begins behind a last cut, so it is as good for whoever comes later.
  of.want(5);
  of.taken(2);
  of.report(7);
  CHECK(of.settled.size() == 5);
}

TEST_CASE("a cut goes no further than the job") {
  Cut of;
  of.want(1, true);
  of.report(10);  // the last step's checkpoint may be there before
  of.ready(1, 0, 10);
  of.ready(1, 2, 10);
  CHECK(cut_of(of.take().back()).step == 10);
  of.taken(1);
  REQUIRE(of.settled.size() == 1);
  CHECK(of.settled[0].step == 10);
}

TEST_CASE("a job that ends well in the middle of a cut has written what was wanted") {
  Cut of;
  const bool served = GENERATE(true, false);
  of.want(1, false);
  of.ready(1, 0, 3);
  if (served) of.ready(1, 2, 3);
  of.report(10);
  of.cut.end({});
  of.look();
  REQUIRE(of.settled.size() == 1);
  CHECK(of.settled[0].status.ok());
  CHECK(of.settled[0].step == 10);
}

TEST_CASE("a wish fails when the checkpoint does, late, or with the job") {
  Cut of;
  of.want(1, false, 100);
  SECTION("the checkpoint") {
    of.ready(1, 0, 3);
    of.ready(1, 2, 3);
    of.taken(1);
    of.report(4, Errc::resource_exhausted);
    REQUIRE(of.settled.size() == 1);
    CHECK(of.settled[0].status.code() == Errc::resource_exhausted);
    CHECK(of.settled[0].status.text() == "the checkpoint of step 4 could not be written: why");
  }
  SECTION("late; its cut goes on, and the next one waits for it") {
    of.ready(1, 0, 3);
    of.cut.tick(599);
    of.look();
    CHECK(of.settled.empty());
    of.cut.tick(600);
    of.look();
    REQUIRE(of.settled.size() == 1);
    CHECK(of.settled[0].status.text() ==
          "no checkpoint within limits.cut_ms 500: device server 2 on machine 'c' did not say how "
          "far its "
          "ranks are");
    of.ready(1, 2, 3);
    of.take();
    of.want(2, false, 700);
    of.taken(1);
    of.report(4);
    CHECK(std::get<CutQuery>(of.take().back().second).number == 2);
  }
  SECTION("the job") {
    of.cut.end(base::error(Errc::unavailable, "it died"));
    of.look();
    REQUIRE(of.settled.size() == 1);
    CHECK(of.settled[0].status.text() == "the job has ended: it died");
  }
}

}  // namespace
}  // namespace troupe::control
