// SPDX-License-Identifier: Apache-2.0
// What waits for room in a link's queue: in order, none lost, none twice.
#include "actors/outflow.h"

#include <vector>

#include "tests/support/catch.h"

namespace troupe::actors {
namespace {

schemas::Envelope envelope_of(std::uint64_t number) {
  schemas::Envelope envelope;
  envelope.view = number;
  return envelope;
}

TEST_CASE("what a full link refuses waits in order until there is room") {
  std::vector<std::uint64_t> given;
  std::size_t room = 2;
  Outflow outflow;
  outflow.post(envelope_of(1));  // nobody gives it on yet
  CHECK(outflow.waiting() == 1);
  outflow.begin([&](schemas::Envelope& envelope) {
    if (given.size() == room) return false;
    given.push_back(envelope.view);
    return true;
  });
  for (std::uint64_t number = 2; number <= 5; ++number) outflow.post(envelope_of(number));
  CHECK(given == std::vector<std::uint64_t>{1, 2});
  CHECK(outflow.waiting() == 3);
  room = 4;
  outflow.drained();
  CHECK(given == std::vector<std::uint64_t>{1, 2, 3, 4});
  // There is room by now, but number 5 is first.
  room = 6;
  outflow.post(envelope_of(6));
  outflow.drained();
  CHECK(given == std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6});
  CHECK(outflow.waiting() == 0);
  room = 7;
  outflow.drained();
  outflow.post(envelope_of(7));
  CHECK(given.back() == 7);
}

}  // namespace
}  // namespace troupe::actors
