// SPDX-License-Identifier: Apache-2.0
// The coordinator's mailbox and clock.
#include "actors/coordinator.h"

#include <utility>

namespace troupe::actors {
namespace {

/// How often deadlines are looked at; all are seconds long.
constexpr std::uint64_t kTickMs = 250;

}  // namespace

Coordinator::Coordinator(ActorSystem& system, const base::Clock& clock, CoordinatorPorts& ports,
                         control::CoordinatorOptions options)
    : RoleShell("coordinator", std::move(options)), ports_(ports) {
  begin(system, clock, kTickMs);
  // Before anybody can say anything: deadlines and ages count from a time that is known.
  post(control::Tick{static_cast<std::uint64_t>(clock.now_ms())});
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
