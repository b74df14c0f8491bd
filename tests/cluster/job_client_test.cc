// SPDX-License-Identifier: Apache-2.0
// A command's questions to a coordinator that is lost on the way: asked again they are the same
// question, for as long as the grace lasts.
#include "cluster/job_client.h"

#include "tests/link/link_support.h"

namespace troupe::cluster::test {
using namespace link;
using namespace link::test;
namespace {

/// Answers the questions from number `answers_from` on; ends the links of those before it, or does
/// nothing about them when `silent`.
struct Coordinator {
  explicit Coordinator(std::size_t first_answer, bool keep_silent = false)
      : answers_from(first_answer), silent(keep_silent), links(quick_limits(), pool) {
    const auto bound = links.listen(
        "127.0.0.1:0", {{Role::coordinator, 0}, "", "", 0},
        [this](const schemas::Hello&, const std::shared_ptr<Link>& link) {
          auto recorder = std::make_shared<Recorder>();
          recorder->answer = [this, link = std::weak_ptr(link)](const Envelope& envelope) {
            if (const auto held = link.lock()) handle(*held, envelope);
          };
          recorders.push_back(recorder);
          return Result<std::shared_ptr<LinkHandler>>(recorder);
        });
    REQUIRE(bound.ok());
    address = *bound;
  }
  void handle(Link& link, const Envelope& envelope) {
    questions.push_back(envelope.message);
    if (questions.size() <= answers_from && end) {
      Envelope refusal;
      refusal.message = *end;
      CHECK(link.send(std::move(refusal)).ok());
      return link.close(end->text);
    }
    if (questions.size() <= answers_from) {
      if (!silent) link.abort(Status(Errc::unavailable, "the coordinator is killed"));
      return;
    }
    Envelope answer;
    if (std::holds_alternative<schemas::JobSubmit>(envelope.message)) {
      answer.message = schemas::JobSubmitted{"job-1", Errc::ok, ""};
    } else if (std::holds_alternative<schemas::JobCheckpoint>(envelope.message)) {
      answer.message = schemas::JobCheckpointAnswer{Errc::ok, "the disk is full", 0, ""};
    } else if (std::holds_alternative<schemas::JobStop>(envelope.message)) {
      answer.message = schemas::JobList{Errc::ok, "the disk is full", {{.id = "job-1"}}};
    } else {
      answer.message = schemas::JobList{Errc::ok, "", {{.id = "job-1"}}};
    }
    CHECK(link.send(std::move(answer)).ok());
  }

  const std::size_t answers_from;
  const bool silent;
  std::optional<schemas::JobEnd> end;                // the answer to the questions before it
  std::vector<schemas::Message> questions;           // of the links' thread, as is the next
  std::vector<std::shared_ptr<Recorder>> recorders;  // by link
  CountingPool pool;
  std::string address;
  LinkSet links;
};

JobClientOptions options_for(const std::string& address) {
  JobClientOptions options;
  options.address = address;
  options.limits = quick_limits();
  return options;
}

TEST_CASE("a submission whose answer is lost is asked again and is one request", "[job_client]") {
  const bool silent = GENERATE(false, true);
  Coordinator coordinator(2, silent);
  JobClientOptions options = options_for(coordinator.address);
  if (silent) options.limits.request_ms = 500;
  int lost = 0;
  options.on_lost = [&](const Status& why, std::uint64_t left_ms) {
    ++lost;
    CHECK(why.code() == Errc::unavailable);
    CHECK(left_ms > 0);
  };
  auto client = JobClient::connect(std::move(options));
  REQUIRE(client.ok());
  const auto id = (*client)->submit("", {});
  REQUIRE(id.ok());
  CHECK(*id == "job-1");
  CHECK(lost == 1);
  client->reset();
  coordinator.links.stop();
  // A slow answer may be asked for once more than needed.
  REQUIRE(coordinator.questions.size() >= 3);
  const auto request = [&](std::size_t number) {
    return std::get<schemas::JobSubmit>(coordinator.questions[number]).request;
  };
  CHECK(request(0).size() == 32);
  CHECK(request(1) == request(0));
  CHECK(request(2) == request(0));
}

TEST_CASE("who was dropped asks again over another link where that may help", "[job_client]") {
  Coordinator coordinator(1);
  SECTION("a command that was paused, or whose link was given up") {
    const Errc code = GENERATE(Errc::deadline_exceeded, Errc::unavailable);
    coordinator.end = schemas::JobEnd{code, "it asked nothing for 10 ms"};
    JobClientOptions options = options_for(coordinator.address);
    std::string lost;
    options.on_lost = [&](const Status& why, std::uint64_t) { lost = why.text(); };
    auto client = JobClient::connect(std::move(options));
    REQUIRE(client.ok());
    const auto info = (*client)->query("job-1");
    REQUIRE(info.ok());
    CHECK(info->id == "job-1");
    CHECK(lost == "the coordinator has ended the link: it asked nothing for 10 ms");
  }
  SECTION("a refusal is the answer") {
    coordinator.end = schemas::JobEnd{Errc::permission_denied, "not you"};
    auto client = JobClient::connect(options_for(coordinator.address));
    REQUIRE(client.ok());
    const Status refused = (*client)->query("job-1").status();
    CHECK(refused.code() == Errc::permission_denied);
    CHECK(refused.text() == "not you");
  }
}

TEST_CASE("why there is no checkpoint is no error of the question", "[job_client]") {
  Coordinator coordinator(0);
  auto client = JobClient::connect(options_for(coordinator.address));
  REQUIRE(client.ok());
  const auto answer = (*client)->checkpoint("job-1");
  REQUIRE(answer.ok());
  CHECK(answer->path.empty());
  CHECK(answer->text == "the disk is full");
  const auto stopped = (*client)->stop("job-1", true);
  REQUIRE(stopped.ok());
  CHECK(stopped->info.id == "job-1");
  CHECK(stopped->uncut == "the disk is full");
  client->reset();
  coordinator.links.stop();
  CHECK(std::get<schemas::JobStop>(coordinator.questions.at(1)).checkpoint);
}

TEST_CASE("two submissions are two requests", "[job_client]") {
  Coordinator coordinator(0);
  auto client = JobClient::connect(options_for(coordinator.address));
  REQUIRE(client.ok());
  REQUIRE((*client)->submit("", {}).ok());
  REQUIRE((*client)->submit("", {}).ok());
  client->reset();
  coordinator.links.stop();
  CHECK(std::get<schemas::JobSubmit>(coordinator.questions[0]).request !=
        std::get<schemas::JobSubmit>(coordinator.questions[1]).request);
}

TEST_CASE("a coordinator that does not come back is waited for as long as the grace",
          "[job_client]") {
  auto coordinator = std::make_unique<Coordinator>(0);
  JobClientOptions options = options_for(coordinator->address);
  options.limits.coordinator_grace_ms = 300;
  int lost = 0;
  options.on_lost = [&](const Status&, std::uint64_t) { ++lost; };
  SECTION("until the grace is over") {
    auto client = JobClient::connect(std::move(options));
    REQUIRE(client.ok());
    REQUIRE((*client)->query("job-1").ok());
    coordinator.reset();
    CHECK((*client)->query("job-1").status().code() == Errc::unavailable);
    CHECK(lost == 1);
  }
  SECTION("until somebody ends the command") {
    options.limits.coordinator_grace_ms = 3'600'000;
    options.stop = [&] { return lost > 0; };
    auto client = JobClient::connect(std::move(options));
    REQUIRE(client.ok());
    REQUIRE((*client)->query("job-1").ok());
    coordinator.reset();
    CHECK((*client)->query("job-1").status().code() == Errc::cancelled);
  }
  SECTION("not at all when it was never there") {
    coordinator.reset();
    options.limits.coordinator_grace_ms = 3'600'000;
    auto client = JobClient::connect(std::move(options));
    REQUIRE(client.ok());
    CHECK((*client)->list().status().code() == Errc::unavailable);
    CHECK(lost == 0);
  }
}

TEST_CASE("a command says goodbye", "[job_client]") {
  Coordinator coordinator(0);
  auto client = JobClient::connect(options_for(coordinator.address));
  REQUIRE(client.ok());
  REQUIRE((*client)->list().ok());
  client->reset();
  REQUIRE(coordinator.recorders.size() == 1);
  CHECK(coordinator.recorders[0]->wait_down().ok());
  CHECK(coordinator.recorders[0]->cuts.empty());
}

TEST_CASE("a cluster is one question, also to a coordinator that knows jobs only", "[job_client]") {
  Coordinator coordinator(0);
  auto client = JobClient::connect(options_for(coordinator.address));
  REQUIRE(client.ok());
  const auto cluster = (*client)->cluster();
  REQUIRE(cluster.ok());
  CHECK(cluster->jobs.size() == 1);
  CHECK(cluster->machines.empty());
  client->reset();
  coordinator.links.stop();
  REQUIRE(coordinator.questions.size() >= 1);
  const auto& question = std::get<schemas::JobQuery>(coordinator.questions[0]);
  CHECK(question.id.empty());
  CHECK(question.cluster);
}

}  // namespace
}  // namespace troupe::cluster::test
