// SPDX-License-Identifier: Apache-2.0
// Questions for pieces of files: whose answer counts, and that every wait ends.
#include "cluster/piece_desk.h"

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "tests/support/catch.h"

namespace troupe::cluster {
namespace {

using base::Errc;
using schemas::FilePiece;
using Answer = base::Result<FilePiece>;

/// Keeps what is sent.
class RecordingLink final : public link::Link {
 public:
  base::Status send(schemas::Envelope envelope, std::int32_t) override {
    if (fails) return base::error(Errc::resource_exhausted, "the queue is full");
    number = std::get<schemas::PieceQuery>(envelope.message).number;
    return {};
  }
  bool has_room() override { return true; }
  void close(std::string) override {}
  void abort(base::Status) override {}
  link::LinkEnd peer() const override { return {}; }
  std::optional<trust::Identity> holder() const override { return std::nullopt; }
  std::int64_t holder_until() const override { return link::kNoEnd; }
  std::string address() const override { return ""; }
  link::LinkFigures stats() const override { return {}; }

  bool fails = false;
  std::atomic<std::uint64_t> number{0};  // of the last question
};

struct Desk {
  explicit Desk(std::uint64_t wait_ms = 60'000) : desk(wait_ms) {}
  /// Asks peer 7, on a thread of its own; returns when the question is out.
  std::future<Answer> ask() {
    link->number = 0;
    auto answer = std::async(std::launch::async, [this] {
      return desk.ask(batch, 7, link, {0, "x", 1, "", "file", 0, 9});
    });
    while (link->number == 0) std::this_thread::yield();
    return answer;
  }
  PieceDesk desk;
  PieceDesk::Batch batch = desk.open();
  std::shared_ptr<RecordingLink> link = std::make_shared<RecordingLink>();
};

FilePiece piece(std::uint64_t number, Errc code = Errc::ok) {
  return {number, code, code == Errc::ok ? "" : "no such file", 9, "123456789"};
}

TEST_CASE("every answer that counts is progress of its batch", "[piece_desk]") {
  Desk desk;
  int progress = 0;
  desk.batch = desk.desk.open([&progress] { ++progress; });
  auto answer = desk.ask();
  CHECK_FALSE(desk.desk.take(8, piece(desk.link->number)));
  CHECK(progress == 0);
  CHECK(desk.desk.take(7, piece(desk.link->number)));
  CHECK(answer.get().ok());
  CHECK(progress == 1);
  CHECK_FALSE(desk.desk.take(7, piece(desk.link->number)));
  CHECK(progress == 1);
}

TEST_CASE("the answer of the peer that was asked counts, once", "[piece_desk]") {
  Desk desk;
  auto answer = desk.ask();
  const std::uint64_t number = desk.link->number;
  CHECK_FALSE(desk.desk.take(8, piece(number)));      // somebody else
  CHECK_FALSE(desk.desk.take(7, piece(number + 1)));  // another question
  CHECK(desk.desk.take(7, piece(number)));
  CHECK_FALSE(desk.desk.take(7, piece(number)));
  CHECK(answer.get()->bytes == "123456789");
  auto refused = desk.ask();
  CHECK(desk.link->number != number);
  CHECK(desk.desk.take(7, piece(desk.link->number, Errc::not_found)));
  const Answer why = refused.get();
  CHECK(why.status().code() == Errc::not_found);
  CHECK(why.status().text() == "no such file");
}

TEST_CASE("a batch that nobody holds any more is closed", "[piece_desk]") {
  const auto desk = std::make_shared<PieceDesk>(60'000);
  const auto link = std::make_shared<RecordingLink>();
  const schemas::PieceQuery query{0, "x", 1, "", "file", 0, 9};
  auto batch = std::make_shared<OpenBatch>(desk);
  auto other = std::make_shared<OpenBatch>(desk);
  const PieceDesk::Batch number = other->number();
  auto asked =
      std::async(std::launch::async, [&, held = batch] { return held->ask(7, link, query); });
  while (link->number == 0) std::this_thread::yield();
  other.reset();
  CHECK(desk->ask(number, 7, link, query).status().code() == Errc::cancelled);
  desk->close(batch->number());
  CHECK(asked.get().status().code() == Errc::cancelled);
  CHECK(batch->ask(7, link, query).status().code() == Errc::cancelled);
}

TEST_CASE("a question ends when its link does, when nobody wants it, or in time", "[piece_desk]") {
  Desk desk;
  SECTION("the link is down") {
    auto answer = desk.ask();
    desk.desk.lost(8, base::Status(Errc::unavailable, "another"));
    desk.desk.lost(7, base::Status(Errc::unavailable, "cut"));
    const Answer gone = answer.get();
    CHECK(gone.status().code() == Errc::unavailable);
    CHECK(gone.status().text() == "its agent is gone: cut");
  }
  SECTION("its batch is closed") {
    auto answer = desk.ask();
    desk.desk.close(desk.batch);
    CHECK(answer.get().status().code() == Errc::cancelled);
    CHECK(desk.desk.ask(desk.batch, 7, desk.link, {}).status().code() == Errc::cancelled);
    desk.batch = desk.desk.open();
    auto next = desk.ask();
    CHECK(desk.desk.take(7, piece(desk.link->number)));
    CHECK(next.get().ok());
  }
  SECTION("the desk is closed") {
    auto answer = desk.ask();
    desk.desk.end();
    CHECK(answer.get().status().code() == Errc::cancelled);
    CHECK(desk.desk.ask(desk.batch, 7, desk.link, {}).status().code() == Errc::cancelled);
  }
  SECTION("it cannot go out") {
    desk.link->fails = true;
    CHECK(desk.desk.ask(desk.batch, 7, desk.link, {}).status().text() == "the queue is full");
    desk.link.reset();
    CHECK(desk.desk.ask(desk.batch, 7, desk.link, {}).status().code() == Errc::unavailable);
  }
  SECTION("nobody answers") {
    Desk hasty(20);
    auto answer = hasty.ask();
    const std::uint64_t number = hasty.link->number;
    const Answer late = answer.get();
    CHECK(late.status().code() == Errc::deadline_exceeded);
    CHECK(late.status().text() == "no word about file for 20 ms");
    CHECK_FALSE(hasty.desk.take(7, piece(number)));
  }
}

}  // namespace
}  // namespace troupe::cluster
