// SPDX-License-Identifier: Apache-2.0
// A link that takes nothing for a while: what is sent once waits, progress is not heaped up.
#include "cluster/control_outflow.h"

#include <vector>

#include "tests/support/catch.h"

namespace troupe::cluster {
namespace {

schemas::Envelope envelope_of(schemas::Message message) {
  schemas::Envelope envelope;
  envelope.message = std::move(message);
  return envelope;
}

TEST_CASE("behind a full link messages wait in order, and only some reports of progress") {
  actors::Outflow outflow;
  bool room = false;
  std::size_t progress = 0, done = 0;
  outflow.begin([&](schemas::Envelope& envelope) {
    if (!room) return false;
    ++(std::holds_alternative<schemas::ProgressReport>(envelope.message) ? progress : done);
    return true;
  });
  constexpr std::size_t kMany = 10'000;
  for (std::size_t i = 0; i < kMany; ++i) {
    post_control(outflow, envelope_of(schemas::ProgressReport{}));
    post_control(outflow, envelope_of(schemas::ActorDone{}));
  }
  CHECK(outflow.waiting() < kMany + 2'000);
  room = true;
  outflow.drained();
  CHECK(outflow.waiting() == 0);
  CHECK(done == kMany);
  CHECK(progress > 0);
  CHECK(progress < 2'000);
}

}  // namespace
}  // namespace troupe::cluster
