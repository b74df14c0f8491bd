// SPDX-License-Identifier: Apache-2.0
// DeviceServer: the actor around a machine's DeviceServerState and the engine that adds for it.
// Made and destroyed by the thread that owns the job's parts.
#pragma once

#include <memory>

#include "actors/device_server_state.h"
#include "actors/server_compute.h"
#include "actors/server_observer.h"
#include "actors/worker.h"

namespace troupe::actors {

/// Level 1 of a machine.
class DeviceServer {
 public:
  DeviceServer(const JobParts& parts, const ServerJob& job, std::uint32_t machine,
               ServerObserver observer = {});
  ~DeviceServer();

  base::BufferPool& pool() { return compute_.pool(); }

 private:
  void handle(Event event);
  void run(Effect effect);

  const JobParts parts_;
  const schemas::ActorId self_;
  const ServerObserver observer_;
  DeviceServerState state_;  // the actor's alone
  std::unique_ptr<RoleActor> actor_;
  ServerCompute compute_;  // its effects post to actor_: destroyed before it
};

}  // namespace troupe::actors
