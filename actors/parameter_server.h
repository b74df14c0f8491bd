// SPDX-License-Identifier: Apache-2.0
// ParameterServer: the actor around a shard's ParameterServerState and the engine that adds,
// updates and writes checkpoints for it. Made and destroyed by the thread that owns the job's
// parts.
#pragma once

#include <memory>

#include "actors/device_server.h"
#include "actors/parameter_server_state.h"

namespace troupe::actors {

/// Level 2, one shard.
class ParameterServer {
 public:
  ParameterServer(const JobParts& parts, const ServerJob& job, std::uint32_t shard,
                  ServerObserver observer = {});
  ~ParameterServer();

  base::BufferPool& pool() { return compute_.pool(); }

 private:
  void handle(Event event);
  void run(Effect effect);

  const JobParts parts_;
  const schemas::ActorId self_;
  const ServerObserver observer_;
  ParameterServerState state_;  // the actor's alone
  std::unique_ptr<RoleActor> actor_;
  ServerCompute compute_;  // its effects post to actor_: destroyed before it
};

}  // namespace troupe::actors
