// SPDX-License-Identifier: Apache-2.0
// Messages of the control plane on their way to the agent or the coordinator: a link that is cut
// for a while fills its queue, and what is sent once must not be lost then. Any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "actors/outflow.h"
#include "base/log.h"
#include "link/link.h"
#include "schemas/messages.h"

namespace troupe::cluster {

/// Gives envelopes to `link`, which `whom` is at the other end of.
inline actors::Outflow::Give give_to(std::shared_ptr<link::Link> link, std::string whom) {
  return [link = std::move(link), whom = std::move(whom)](schemas::Envelope& envelope) {
    if (!link->has_room()) return false;
    const base::Status status = link->send(std::move(envelope));
    if (!status.ok()) base::log_warn("to {}: {}", whom, status.text());
    return true;
  };
}

/// Reports of progress, of which the next one says the same, go only while few messages wait: all
/// others are few.
inline void post_control(actors::Outflow& outflow, schemas::Envelope envelope) {
  constexpr std::size_t kProgressMost = 1'024;
  const bool progress = std::holds_alternative<schemas::ProgressReport>(envelope.message);
  if (progress && outflow.waiting() >= kProgressMost) return;
  outflow.post(std::move(envelope));
}

}  // namespace troupe::cluster
