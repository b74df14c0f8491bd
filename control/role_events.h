// SPDX-License-Identifier: Apache-2.0
// The events and effects that the state machines of several roles have in common, under one set of
// names. Plain values. What a single role adds stands beside its machine.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "schemas/messages.h"

namespace troupe::control {

/// Event: time passes, on a monotonic clock; several times per limits.retry_first_ms.
struct Tick {
  std::uint64_t now_ms = 0;
};

/// Effect: hand a message to one of the machine's partners. `Address` is how the machine names
/// them: an actor of the job, a link's other end, a child process.
template <typename Address>
struct Send {
  Address to{};
  schemas::Message message;
};

/// Effect: write a line to the log.
struct Note {
  bool warning = false;
  std::string text;
  bool detail = false;  ///< only for who asks for more
};

/// Effect: this role cannot go on. Whoever must know has been told by a Send before it.
struct Fail {
  base::Status status;
};

/// Effect: the role's work is over; ok, or why it ended early. Nothing follows it.
struct End {
  base::Status status;
};

}  // namespace troupe::control
