// SPDX-License-Identifier: Apache-2.0
// Envelopes go to the open sink, and close() waits for those on their way.
#include "actors/post_office.h"

#include <chrono>
#include <future>
#include <thread>

#include "tests/support/catch.h"

namespace troupe::actors {
namespace {

constexpr schemas::ActorId kActor{schemas::Role::worker, 7};

schemas::Envelope letter() {
  schemas::Envelope envelope;
  envelope.to = kActor;
  return envelope;
}

TEST_CASE("the newest sink gets the envelopes, nobody's are counted") {
  PostOffice office;
  office.post(letter());
  int first = 0;
  int second = 0;
  office.open(kActor, [&first](schemas::Envelope) { ++first; });
  office.post(letter());
  office.open(kActor, [&second](schemas::Envelope) { ++second; });
  office.post(letter());
  office.close(kActor);
  office.post(letter());
  CHECK(first == 1);
  CHECK(second == 1);
  CHECK(office.dropped() == 2);
}

TEST_CASE("close returns after the sink") {
  PostOffice office;
  std::promise<void> entered;
  std::promise<void> release;
  office.open(kActor, [&](schemas::Envelope) {
    entered.set_value();
    release.get_future().wait();
  });
  std::thread sender([&office] { office.post(letter()); });
  entered.get_future().wait();
  auto closed = std::async(std::launch::async, [&office] { office.close(kActor); });
  CHECK(closed.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout);
  release.set_value();
  closed.wait();
  sender.join();
}

}  // namespace
}  // namespace troupe::actors
