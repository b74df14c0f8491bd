// SPDX-License-Identifier: Apache-2.0
// The coordinator's mailbox and clock.
#include "actors/coordinator.h"

#include <utility>

namespace troupe::actors {
namespace {

/// How often deadlines are looked at; all are seconds long.
constexpr std::uint64_t kTickMs = 500;

}  // namespace

Coordinator::Coordinator(ActorSystem& system, const base::Clock& clock, CoordinatorPorts& ports,
                         const control::CoordinatorOptions& options)
    : RoleShell("coordinator", options), ports_(ports) {
  begin(system, clock, kTickMs, options.limits);
}

void Coordinator::hear(control::PeerSaid said) {
  backlog_.enter();
  post(std::move(said));
}

void Coordinator::handle(Event event) {
  const bool heard = std::holds_alternative<control::PeerSaid>(event);
  RoleShell::handle(std::move(event));
  if (heard) backlog_.leave();
}

}  // namespace troupe::actors
