// SPDX-License-Identifier: Apache-2.0
// Who may ask what: every right against every token, and what is wrong with a token.
#include "control/access.h"

#include "tests/control/access_support.h"
#include "tests/support/catch.h"

namespace troupe::control {
namespace {

using base::Errc;
using Catch::Contains;
using Catch::Matchers::StartsWith;
using testing::ControlWorld;
using testing::Guarded;
using testing::holder_of;
using testing::submit_of;
using testing::token_of;
using trust::Right;

constexpr std::array kRights{Right::read, Right::submit, Right::stop, Right::join, Right::admin};

Caller caller_with(const std::string& text) {
  Caller caller;
  caller.address = "10.0.0.5:4711";
  caller.token = base::sha256(text);
  return caller;
}

TEST_CASE("a token gives its rights and no other") {
  Access access;
  access.set({true,
              {token_of("r", "ann", {Right::read}), token_of("s", "ben", {Right::submit}),
               token_of("t", "cid", {Right::stop}), token_of("j", "eve", {Right::join}),
               token_of("a", "dan", {Right::admin})}});
  const std::vector<std::string> texts{"r", "s", "t", "j", "a"};
  for (std::size_t token = 0; token < texts.size(); ++token) {
    for (std::size_t right = 0; right < kRights.size(); ++right) {
      const auto status = access.check(caller_with(texts[token]), kRights[right]);
      CHECK(status.ok() == (token == right || texts[token] == "a"));
      if (!status.ok()) {
        CHECK(status.code() == Errc::permission_denied);
        CHECK_THAT(status.text(), Contains("gives no right to"));
      }
    }
  }
  CHECK(access.name_of(caller_with("s")) == "ben");
  CHECK(access.name_of(caller_with("?")).empty());
}

TEST_CASE("what is wrong with a token is said") {
  KnownToken old = token_of("o", "ann", {Right::read});
  old.refused = base::error(Errc::permission_denied, "it was withdrawn on a day");
  Access access;
  CHECK(access.check({}, Right::admin).ok());  // nobody has made one, and nobody needs one
  access.set({true, {old, token_of("r", "ann", {Right::read})}});
  CHECK_THAT(access.check({}, Right::read).text(), Contains("a token is missing"));
  CHECK_THAT(access.check(caller_with("x"), Right::read).text(), Contains("does not know"));
  CHECK_THAT(access.check(caller_with("o"), Right::read).text(),
             Contains("'ann': it was withdrawn on a day"));
  Caller other = caller_with("r");
  other.holder = holder_of(trust::Role::person, "ben");
  CHECK_THAT(access.check(other, Right::read).text(), Contains("is not of person 'ben'"));
  other.holder->name = "ann";
  CHECK(access.check(other, Right::read).ok());
  other.holder->role = trust::Role::agent;
  CHECK_THAT(access.check(other, Right::read).text(), Contains("agent 'ann' is no person"));
}

TEST_CASE("the id of an ended job is free for its owner, and for who may stop others' jobs") {
  Guarded world(trust::Role::person, "ann");
  const auto answer = [&](PeerId peer, std::uint32_t devices) {
    schemas::JobSubmit submit = submit_of("x");
    submit.job_text = ControlWorld::job_text(ControlWorld::job_spec(1, devices, 1));
    CHECK(world.drop(peer, submit).empty());
    REQUIRE(world.sent.size() == 1);
    return std::get<schemas::JobSubmitted>(world.sent[0].message);
  };
  world.drop(1, schemas::PersonHello{"s"});
  CHECK(answer(1, 1).code == Errc::ok);
  CHECK_THAT(answer(1, 2).text, Contains("job 'x' is pending and has other content"));
  world.drop(1, schemas::JobStop{"x"});
  world.link(2, trust::Role::person, "ben");
  world.drop(2, schemas::PersonHello{"u"});
  CHECK(answer(2, 2).text == "job 'x' of ann stopped and has other content: choose another --id");
  CHECK(answer(1, 2).code == Errc::ok);
}

TEST_CASE("without the right nothing is done, and the answer says so") {
  Guarded world(trust::Role::person, "ann");
  const std::vector<schemas::Message> questions{
      submit_of("x"),        schemas::JobQuery{},         schemas::JobQuery{"x"},
      schemas::JobStop{"x"}, schemas::JobCheckpoint{"x"}, schemas::DenyList{"pem"}};
  for (const schemas::Message& question : questions) {
    world.link(1, trust::Role::person, "ann");
    CHECK_THAT(world.drop(1, question), Contains("a token is missing"));
    CHECK(world.sent.empty());
    CHECK(world.audits.empty());  // by this certificate anybody could fill the disk
  }
  world.link(1, trust::Role::person, "ann");
  CHECK(world.drop(1, schemas::PersonHello{"r"}).empty());
  CHECK_THAT(world.drop(1, submit_of("x")), Contains("gives no right to submit; it gives read"));
  REQUIRE(world.audits.size() == 1);
  CHECK(world.audits[0].who == "person 'ann'");
  CHECK(world.audits[0].what == "wants to submit job 'x'");
  CHECK(world.audits[0].from == "10.0.0.5:4711");
  CHECK_FALSE(world.audits[0].refused.ok());
  // What it has sent before it learned that is not heard, whatever it shows.
  world.drop(1, schemas::PersonHello{"a"});
  CHECK(world.drop(1, submit_of("x")).empty());
  CHECK(world.drop(1, schemas::JobQuery{}).empty());
  CHECK(world.sent.empty());
  world.link(1, trust::Role::person, "ann");
  world.drop(1, schemas::PersonHello{"r"});
  CHECK(world.drop(1, schemas::JobQuery{}).empty());
  CHECK(world.sent.size() == 1);
  CHECK(world.state.jobs().empty());
  CHECK(world.lists.empty());
  world.drop(1, schemas::PersonHello{"a"});
  CHECK(world.drop(1, schemas::DenyList{"pem"}).empty());
  REQUIRE(world.lists.size() == 1);
  CHECK(world.lists[0].pem == "pem");
  CHECK(world.lists[0].change.who == "person 'ann'");
  CHECK(world.lists[0].change.from == "10.0.0.5:4711");
}

TEST_CASE("refusals of one person are told, but not without end") {
  Guarded world(trust::Role::person, "ann");
  std::size_t told = 0;
  const auto refuse = [&](const std::string& token) {
    world.link(1, trust::Role::person, "ann");
    world.drop(1, schemas::PersonHello{token});
    CHECK_FALSE(world.drop(1, submit_of("x")).empty());
    told += world.audits.size();
  };
  for (int i = 0; i < 100; ++i) refuse("r");
  CHECK(told == Access::kRefusalsMax);
  refuse("t");  // another's token, stolen
  CHECK(told == Access::kRefusalsMax + 1);
  const auto numbers = [&](const CoordinatorEvent& event) {
    std::vector<Audit> said;
    for (const CoordinatorEffect& effect : world.state.handle(event)) {
      if (const auto* audit = std::get_if<Audit>(&effect)) said.push_back(*audit);
    }
    return said;
  };
  CHECK(numbers(Tick{Access::kWindowMs - 1}).empty());
  SECTION("the others are a number, when a while is over, though nobody asks any more") {
    const auto said = numbers(Tick{Access::kWindowMs});
    REQUIRE(said.size() == 1);
    CHECK(said[0].who == "person 'ann'");
    CHECK(said[0].what == "more refusals of a token of 'ann' are left out: 80");
    CHECK(said[0].from == "10.0.0.5:4711");
    CHECK(numbers(Tick{2 * Access::kWindowMs}).empty());
    refuse("r");
    CHECK(world.audits.at(0).what == "wants to submit job 'x'");
  }
  SECTION("or when the token goes") {
    const auto said = numbers(TokensRead{true, {token_of("t", "ben", {Right::stop})}});
    REQUIRE(said.size() == 1);
    CHECK(said[0].what == "more refusals of a token of 'ann' are left out: 80");
    CHECK(numbers(Tick{Access::kWindowMs}).empty());
  }
}

TEST_CASE("while tokens cannot be read nobody may, and hears that") {
  Access access;
  access.set({true, {}, true});
  CHECK_THAT(access.check(caller_with("r"), Right::read).text(),
             Contains("the coordinator cannot read its tokens"));
}

TEST_CASE("a job with a word that a terminal would obey is refused") {
  Guarded world(trust::Role::person, "ann");
  world.drop(1, schemas::PersonHello{"s"});
  const auto answer_to = [&](const schemas::JobSpec& spec) {
    CHECK(world.drop(1, schemas::JobSubmit{"x", ControlWorld::job_text(spec), ""}).empty());
    REQUIRE(world.sent.size() == 1);
    return std::get<schemas::JobSubmitted>(world.sent[0].message);
  };
  const schemas::JobSpec plain = ControlWorld::job_spec(1, 1, 1);
  const auto answer = [&](const std::string& folder) {
    schemas::JobSpec spec = plain;
    spec.checkpoint.dir = folder;
    return answer_to(spec);
  };
  for (const char* folder : {"/a\x1b]0;title\x07", "/a\nid b", "/\u009b31m", "/\x7f"}) {
    const schemas::JobSubmitted refused = answer(folder);
    CHECK(refused.code == Errc::invalid_argument);
    CHECK_THAT(refused.text, Contains("checkpoint.dir: '/") && Contains("a control character"));
    CHECK(refused.text.find_first_of("\x1b\n\x7f") == std::string::npos);
  }
  const std::string obeyed = "a\x1b[2J";
  schemas::JobSpec kernels = plain, optimizer = plain, rule = plain;
  kernels.numerics.kernels = optimizer.train.optimizer.name = obeyed;
  rule.train.keys = {{"fc*", 0.5, {}}, {obeyed, 0.5, {}}};
  for (const auto& [key, spec] :
       {std::pair("numerics.kernels", &kernels), std::pair("train.optimizer.name", &optimizer),
        std::pair("train.keys.match", &rule)}) {
    CHECK(answer_to(*spec).text == std::string(key) + ": 'a?[2J' has a control character");
  }
  CHECK(world.state.jobs().empty());
  CHECK(answer("/caf\u00e9 \xe9").code == Errc::ok);  // not every name of a folder is UTF-8
}

TEST_CASE("whose job it is goes with every look at its folder") {
  Guarded world(trust::Role::person, "ann");
  schemas::AgentHello agent;
  agent.name = "a";
  agent.version = std::string("1");
  agent.slots = 1;
  world.link(3, trust::Role::agent, "a");
  world.drop(3, agent);
  world.drop(1, schemas::PersonHello{"s"});
  std::size_t probes = 0;
  for (const CoordinatorEffect& effect : world.state.handle(PeerSaid{1, submit_of("x")})) {
    const auto* probe = std::get_if<ProbeFolder>(&effect);
    if (probe == nullptr) continue;
    ++probes;
    CHECK(probe->owner == "ann");
  }
  CHECK(probes == 1);
}

TEST_CASE("whose job it is decides about the look for its start") {
  Guarded world(trust::Role::person, "ann");
  schemas::AgentHello agent;
  agent.name = "a";
  agent.version = std::string("1");
  agent.slots = 1;
  world.link(3, trust::Role::agent, "a");
  world.drop(3, agent);
  world.drop(1, schemas::PersonHello{"s"});
  schemas::JobSpec spec = ControlWorld::job_spec(1, 1, 1);
  spec.checkpoint.dir.clear();
  std::string owner;
  for (const CoordinatorEffect& effect :
       world.state.handle(PeerSaid{1, schemas::JobSubmit{"x", ControlWorld::job_text(spec), ""}})) {
    if (const auto* find = std::get_if<FindStart>(&effect)) owner = find->owner;
  }
  CHECK(owner == "ann");
}

TEST_CASE("a person's own job needs the right to submit, another's the right to stop") {
  Guarded world(trust::Role::person, "ann");
  world.link(2, trust::Role::person, "ben");
  world.drop(1, schemas::PersonHello{"s"});
  world.drop(2, schemas::PersonHello{"t"});
  CHECK(world.drop(1, submit_of("x")).empty());
  REQUIRE(world.audits.size() == 1);
  CHECK(world.audits[0].what == "submits job 'x' of 1 rank");
  CHECK(world.audits[0].refused.ok());
  CHECK(world.drop(1, submit_of("y")).empty());
  CHECK(world.drop(2, schemas::JobStop{"y"}).empty());
  CHECK(world.audits.back().who == "person 'ben'");
  CHECK(world.drop(1, schemas::JobStop{"x"}).empty());
  world.link(3, trust::Role::person, "ann");
  CHECK_THAT(world.drop(3, schemas::JobStop{"x"}), Contains("a token is missing"));
  CHECK_THAT(world.drop(1, schemas::JobStop{"none"}), Contains("no right to stop"));
}

TEST_CASE("a withdrawn token ends at once what was linked with it") {
  Guarded world(trust::Role::person, "ann");
  world.drop(1, schemas::PersonHello{"r"});
  CHECK(world.drop(1, schemas::JobQuery{}).empty());
  KnownToken gone = token_of("r", "ann", {Right::read});
  gone.refused = base::error(Errc::permission_denied, "it was withdrawn");
  world.state.handle(TokensRead{true, {gone}});
  CHECK_THAT(world.drop(1, schemas::JobQuery{}), Contains("it was withdrawn"));
}

TEST_CASE("agents are who their certificates say, and no people, people are no agents") {
  Guarded world(trust::Role::agent, "a");
  schemas::AgentHello hello;
  hello.name = "b";
  hello.version = "1";
  hello.slots = 1;
  CHECK_THAT(world.drop(1, hello), Contains("agent 'a' may not join as agent 'b'"));
  world.link(2, trust::Role::person, "ann");
  hello.name = "ann";
  CHECK_THAT(world.drop(2, hello), Contains("person 'ann' may not join as agent 'ann'"));
  world.link(3, trust::Role::agent, "a");
  hello.name = "a";
  CHECK(world.drop(3, hello).empty());
  REQUIRE(world.audits.size() == 1);
  CHECK(world.audits[0].who == "agent 'a'");
  for (const schemas::Message& message :
       {schemas::Message(submit_of("x")), schemas::Message(schemas::JobQuery{}),
        schemas::Message(schemas::DenyList{"pem"})}) {
    world.link(3, trust::Role::agent, "a");
    CHECK_THAT(world.drop(3, message), Contains("agent 'a' is no person"));
    CHECK(world.audits.empty());
  }
  world.link(3, trust::Role::agent, "a");
  CHECK_THAT(world.drop(3, schemas::PersonHello{"a"}), Contains("does not take that"));
  CHECK(world.state.jobs().empty());
}

TEST_CASE("without certificates an agent needs a token, too, as soon as people do") {
  Guarded world(trust::Role::person, "ann");
  schemas::AgentHello hello;
  hello.name = "a";
  hello.version = "1";
  hello.slots = 1;
  PeerId peer = 1;
  const auto join = [&](const std::string& token) {
    world.state.handle(PeerLinked{++peer, "10.0.0.5", "10.0.0.5:4711", std::nullopt});
    if (!token.empty()) world.drop(peer, schemas::PersonHello{token});
    return world.drop(peer, hello);
  };
  CHECK_THAT(join(""), StartsWith("agent 'a': a token is missing"));
  CHECK_THAT(join("t"), Contains("gives no right to join"));
  CHECK(world.state.counts().agents == 0);
  CHECK(join("j").empty());
  CHECK(world.state.counts().agents == 1);
  REQUIRE(world.audits.size() == 1);
  CHECK(world.audits[0].who == "person 'ann'");
  CHECK(world.audits[0].what == "agent 'a' joins with 1 slot");
  hello.name = "b";
  world.state.handle(TokensRead{true, {}, true});
  CHECK_THAT(join("a"), Contains("cannot read its tokens"));
  CHECK(world.code == Errc::unavailable);  // it tries again
  world.state.handle(TokensRead{false, {}});
  CHECK(join("").empty());
  CHECK(world.state.counts().agents == 2);
}

TEST_CASE("what is revoked goes to all agents, and to those that join later") {
  Guarded world(trust::Role::agent, "a");
  schemas::AgentHello hello;
  hello.name = "a";
  hello.version = "1";
  hello.slots = 1;
  world.drop(1, hello);
  std::vector<PeerId> told;
  std::vector<Audit> audits;
  const auto tell = [&](const DenyListRead& read) {
    told.clear();
    audits.clear();
    for (const CoordinatorEffect& effect : world.state.handle(read)) {
      const auto* send = std::get_if<Send<PeerId>>(&effect);
      if (send != nullptr && std::holds_alternative<schemas::DenyList>(send->message)) {
        told.push_back(send->to);
      }
      if (const auto* audit = std::get_if<Audit>(&effect)) audits.push_back(*audit);
    }
  };
  tell({7, base::error(Errc::permission_denied, "not signed"), ""});
  CHECK(told == std::vector<PeerId>{7});  // who has handed it in learns why not
  tell({7, {}, "list 1", Audit{"person 'ann'", "hands it in", "10.0.0.5:4711"}});
  CHECK(told == std::vector<PeerId>{7, 1});
  REQUIRE(audits.size() == 1);
  CHECK(audits[0].who == "person 'ann'");  // though she has gone meanwhile
  tell({0, {}, "list 1"});
  CHECK(told.empty());
  world.link(2, trust::Role::agent, "b");
  hello.name = "b";
  world.drop(2, hello);
  REQUIRE(world.sent.size() == 2);
  CHECK(std::get<schemas::DenyList>(world.sent[1].message).pem == "list 1");
  tell({0, {}, "list 2"});
  CHECK(told == std::vector<PeerId>{1, 2});
  CHECK(audits.empty());  // it was there before this coordinator was
}

}  // namespace
}  // namespace troupe::control
