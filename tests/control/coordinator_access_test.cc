// SPDX-License-Identifier: Apache-2.0
// How long agents and people keep what they may, how much they may ask for, and what is written of
// it.
#include <fmt/format.h>

#include "tests/control/access_support.h"
#include "tests/support/catch.h"

namespace troupe::control {
namespace {

using base::Errc;
using Catch::Contains;
using Catch::Matchers::StartsWith;
using testing::Guarded;
using testing::submit_of;
using testing::token_of;
using trust::Right;

TEST_CASE("an ended job goes on for its owner, and for who may stop others' jobs") {
  Guarded world(trust::Role::person, "ann");
  world.link(2, trust::Role::person, "ben");
  world.link(3, trust::Role::person, "ann");
  world.drop(1, schemas::PersonHello{"s"});
  world.drop(2, schemas::PersonHello{"u"});
  world.drop(3, schemas::PersonHello{"a"});
  const auto submit = [&](PeerId peer, const std::string& id) {
    CHECK(world.drop(peer, submit_of(id)).empty());
    REQUIRE(world.sent.size() == 1);
    return std::get<schemas::JobSubmitted>(world.sent[0].message);
  };
  CHECK(submit(1, "x").code == Errc::ok);
  CHECK(submit(2, "x").code == Errc::ok);  // it waits, and nothing has happened
  CHECK(world.audits.empty());
  CHECK(world.drop(1, schemas::JobStop{"x"}).empty());
  const schemas::JobSubmitted refused = submit(2, "x");
  CHECK(refused.code == Errc::already_exists);
  CHECK(refused.text == "job 'x' of ann stopped: choose another --id");
  CHECK(world.state.jobs().at(0).phase == schemas::JobPhase::stopped);
  CHECK(submit(1, "x").code == Errc::ok);
  CHECK(world.state.jobs().at(0).phase == schemas::JobPhase::pending);
  CHECK(submit(2, "y").code == Errc::ok);
  CHECK(world.drop(2, schemas::JobStop{"y"}).empty());
  CHECK(submit(1, "y").text == "job 'y' of ben stopped: choose another --id");
  CHECK(submit(3, "y").code == Errc::ok);
}

TEST_CASE("one person makes so many changes a minute, and is told the limit then") {
  Guarded world(trust::Role::person, "ann");
  world.drop(1, schemas::PersonHello{"s"});
  std::size_t lines = 0;
  const auto submit = [&](PeerId peer) {
    CHECK(world.drop(peer, submit_of("x")).empty());
    lines += world.audits.size();
    REQUIRE(world.sent.size() == 1);
    return std::get<schemas::JobSubmitted>(world.sent[0].message);
  };
  const auto stop = [&](PeerId peer) {
    CHECK(world.drop(peer, schemas::JobStop{"x"}).empty());
    lines += world.audits.size();
    REQUIRE(world.sent.size() == 1);
    return std::get<schemas::JobList>(world.sent[0].message);
  };
  for (std::uint64_t i = 0; i < Access::kChangesMax / 2; ++i) {
    CHECK(submit(1).code == Errc::ok);
    CHECK(submit(1).code == Errc::ok);  // the same again changes nothing
    if (i + 1 < Access::kChangesMax / 2) CHECK(stop(1).code == Errc::ok);
  }
  world.link(2, trust::Role::person, "ann");  // over another link, too
  world.drop(2, schemas::PersonHello{"s"});
  CHECK(stop(2).code == Errc::ok);
  CHECK(lines == Access::kChangesMax);
  const schemas::JobSubmitted refused = submit(1);
  CHECK(refused.code == Errc::resource_exhausted);
  CHECK(refused.text ==
        "person 'ann' has made 600 changes within 60 s, which is the limit for one person: try "
        "again in a minute");
  CHECK(world.state.jobs().at(0).phase == schemas::JobPhase::stopped);
  world.link(3, trust::Role::person, "ben");
  world.drop(3, schemas::PersonHello{"u"});
  CHECK(world.drop(3, submit_of("y")).empty());
  CHECK(std::get<schemas::JobSubmitted>(world.sent.at(0).message).code == Errc::ok);
  CHECK(lines == Access::kChangesMax);
  world.state.handle(Tick{Access::kWindowMs});
  world.link(1, trust::Role::person, "ann");
  world.drop(1, schemas::PersonHello{"s"});
  CHECK(submit(1).code == Errc::ok);
  for (std::uint64_t i = 1; i < Access::kChangesMax; ++i) {
    world.drop(1, submit_of(fmt::format("z{}", i)));
  }
  CHECK(stop(1).code == Errc::resource_exhausted);
  CHECK(world.state.jobs().at(1).phase == schemas::JobPhase::pending);
}

TEST_CASE("joins are changes, of a token's person or of the agent that its certificate names") {
  Guarded world(trust::Role::person, "ann");
  schemas::AgentHello hello;
  hello.version = "1";
  hello.slots = 1;
  PeerId peer = 10;
  const auto join = [&](const std::string& name, const std::string& token) {
    ++peer;
    if (token.empty()) {
      world.link(peer, trust::Role::agent, name);
    } else {
      world.state.handle(PeerLinked{peer, "10.0.0.5", "10.0.0.5:4711", std::nullopt});
      world.drop(peer, schemas::PersonHello{token});
    }
    hello.name = name;
    const std::string why = world.drop(peer, hello);
    if (why.empty()) world.state.handle(PeerLost{peer, "it left"});
    return why;
  };
  for (std::uint64_t i = 0; i < Access::kChangesMax; ++i) {
    CHECK(join(fmt::format("a{}", i), "j").empty());
    CHECK(join("c", "").empty());
  }
  CHECK_THAT(join("b", "j"), StartsWith("person 'ann' has made 600 changes within 60 s"));
  CHECK(world.code == Errc::unavailable);  // it tries again
  CHECK_THAT(join("c", ""), StartsWith("agent 'c' has made 600 changes within 60 s"));
  CHECK(join("d", "").empty());
  world.state.handle(Tick{Access::kWindowMs});
  CHECK(join("b", "j").empty());
  CHECK(join("c", "").empty());
}

TEST_CASE("who asks for lists of jobs on and on is dropped, and nobody else is") {
  Guarded world(trust::Role::person, "ann");
  world.drop(1, schemas::PersonHello{"r"});
  for (std::uint64_t i = 0; i < Access::kListsMax; ++i) {
    CHECK(world.drop(1, schemas::JobQuery{"", i % 2 == 0}).empty());
    CHECK(world.sent.size() == 1);
  }
  CHECK(world.drop(1, schemas::JobQuery{"x"}).empty());  // one job is no list
  CHECK(world.drop(1, schemas::JobQuery{}) ==
        "person 'ann' has asked for 100 lists of jobs within 1 s, which is the limit for one "
        "person");
  CHECK(world.code == Errc::resource_exhausted);
  CHECK(world.sent.empty());
  CHECK(world.drop(1, schemas::JobQuery{}).empty());  // it is not heard any more
  CHECK(world.sent.empty());
  world.link(2, trust::Role::person, "ann");  // over another link, too
  world.drop(2, schemas::PersonHello{"r"});
  CHECK_FALSE(world.drop(2, schemas::JobQuery{}).empty());
  world.state.handle(Tick{Access::kListsWindowMs});
  world.link(3, trust::Role::person, "ann");
  world.drop(3, schemas::PersonHello{"r"});
  CHECK(world.drop(3, schemas::JobQuery{}).empty());
  CHECK(world.sent.size() == 1);
}

TEST_CASE("an agent whose certificate has ended gets nothing new until it shows another one") {
  Guarded world(trust::Role::agent, "a");
  const base::Status ended = base::error(Errc::permission_denied, "its certificate held until now");
  schemas::AgentHello hello;
  hello.name = "a";
  hello.version = "1";
  hello.slots = 1;
  const bool before = GENERATE(true, false);  // it has joined, too
  if (before) world.state.handle(CertificateJudged{1, ended});
  CHECK(world.drop(1, hello).empty());
  world.state.handle(CertificateJudged{1, ended});
  world.state.handle(CertificateJudged{1, ended});
  CHECK(world.state.machines().at(0).withheld == "its certificate held until now");
  world.link(2, trust::Role::person, "ann");
  world.drop(2, schemas::PersonHello{"s"});
  CHECK(world.drop(2, submit_of("x")).empty());
  const auto text = [&] { return world.state.jobs().at(0).text; };
  CHECK_THAT(text(), Contains("1 agent offers none, 'a': its certificate held until now"));
  // Its own words change nothing.
  CHECK(world.drop(1, schemas::AgentOffer{"it is tired"}).empty());
  CHECK_THAT(text(), Contains("'a': it is tired"));
  CHECK(world.drop(1, schemas::AgentOffer{""}).empty());
  CHECK_THAT(text(), Contains("'a': its certificate held until now"));
  CHECK(world.state.jobs().at(0).phase == schemas::JobPhase::pending);
  world.state.handle(CertificateJudged{1, {}});
  CHECK(world.state.machines().at(0).withheld.empty());
  CHECK(world.state.jobs().at(0).phase != schemas::JobPhase::pending);
  // What runs there stays.
  const auto phase = world.state.jobs().at(0).phase;
  world.state.handle(CertificateJudged{1, ended});
  CHECK(world.state.jobs().at(0).phase == phase);
  CHECK(world.state.counts().agents == 1);
  world.state.handle(CertificateJudged{77, ended});  // it has gone meanwhile
}

TEST_CASE("a person whose certificate has ended is refused over a link that is up") {
  Guarded world(trust::Role::person, "ann");
  world.drop(1, schemas::PersonHello{"a"});
  CHECK(world.drop(1, schemas::JobQuery{}).empty());
  world.state.handle(
      CertificateJudged{1, base::error(Errc::permission_denied, "it held until now")});
  CHECK(world.drop(1, schemas::JobQuery{}) == "person 'ann': it held until now");
  CHECK(world.code == Errc::permission_denied);
  CHECK(world.sent.empty());
}

TEST_CASE("each agent that joined has a line when it goes, with why") {
  Guarded world(trust::Role::agent, "a");
  schemas::AgentHello hello;
  hello.name = "a";
  hello.version = "1";
  hello.slots = 1;
  CHECK(world.drop(1, hello).empty());
  world.link(2, trust::Role::agent, "b");  // it has not joined
  const auto lines = [&](const CoordinatorEvent& event) {
    std::vector<Audit> said;
    for (const CoordinatorEffect& effect : world.state.handle(event)) {
      if (const auto* audit = std::get_if<Audit>(&effect)) said.push_back(*audit);
    }
    return said;
  };
  CHECK(lines(PeerLost{2, "it left"}).empty());
  const auto said = lines(PeerLost{1, "its certificate was revoked"});
  REQUIRE(said.size() == 1);
  CHECK(said[0].who == "agent 'a'");
  CHECK(said[0].what == "agent 'a' is gone: its certificate was revoked");
  CHECK(said[0].from == "10.0.0.5:4711");
  // One that is given up goes once.
  world.link(3, trust::Role::agent, "a");
  hello.process_token = 7;
  CHECK(world.drop(3, hello).empty());
  world.state.handle(PeerCut{3, "closed"});
  world.link(4, trust::Role::agent, "a");
  const auto again = lines(PeerSaid{4, hello});
  REQUIRE(again.size() == 2);
  CHECK(again[0].what == "agent 'a' is gone: its link was cut, and it has joined anew");
  CHECK(again[1].what == "agent 'a' joins with 1 slot");
  CHECK(lines(PeerLost{3, "closed"}).empty());
}

TEST_CASE("without certificates an agent stays as long as its token gives the right to join") {
  Guarded world(trust::Role::person, "ann");
  world.state.handle(TokensRead{false, {}});
  schemas::AgentHello hello;
  hello.version = "1";
  hello.slots = 1;
  const auto join = [&](PeerId peer, const std::string& name, const std::string& token) {
    world.state.handle(PeerLinked{peer, "10.0.0.5", "10.0.0.5:4711", std::nullopt});
    if (!token.empty()) world.drop(peer, schemas::PersonHello{token});
    hello.name = name;
    CHECK(world.drop(peer, hello).empty());
  };
  join(2, "a", "j");
  join(3, "b", "");  // nobody needs a token yet
  world.link(4, trust::Role::agent, "c");
  hello.name = "c";
  CHECK(world.drop(4, hello).empty());
  std::vector<std::string> dropped;
  const auto read = [&](const TokensRead& tokens) {
    dropped.clear();
    for (const CoordinatorEffect& effect : world.state.handle(tokens)) {
      if (const auto* drop = std::get_if<DropPeer>(&effect)) dropped.push_back(drop->reason.text());
    }
    return dropped.size();
  };
  KnownToken known = token_of("j", "ann", {Right::join});
  CHECK(read({true, {}, true}) == 0);  // they cannot be read, and nobody can be judged
  CHECK(world.state.counts().agents == 3);
  // What runs where nobody needed a token goes on there, and nothing new begins.
  CHECK(read({true, {known}}) == 0);
  CHECK(world.state.counts().agents == 3);
  CHECK_THAT(world.state.machines().at(1).withheld,
             StartsWith("it joined before tokens were made"));
  CHECK(world.state.counts().cpus.withheld == 1);
  CHECK(read({false, {}}) == 0);
  CHECK(world.state.machines().at(1).withheld.empty());
  // A day that has come ends what is new, and what runs goes on.
  known.refused = base::error(Errc::permission_denied, "it was valid until a day");
  CHECK(read({true, {known}}) == 0);
  CHECK(world.state.counts().agents == 3);
  CHECK(world.state.machines().at(0).withheld ==
        "token 1a2b3c4d of 'ann': it was valid until a day: start it anew with --token");
  CHECK(world.state.counts().cpus.withheld == 2);
  known.refused = base::error(Errc::permission_denied, "it was withdrawn");
  known.token.withdrawn = 1;
  REQUIRE(read({true, {known}}) == 1);
  CHECK_THAT(dropped[0], StartsWith("agent 'a': token 1a2b3c4d of 'ann': it was withdrawn"));
  CHECK(world.state.counts().agents == 2);
  CHECK(world.state.counts().cpus.withheld == 1);  // the certificate of 'c' says who it is
  CHECK(read({true, {known}}) == 0);
}

}  // namespace
}  // namespace troupe::control
