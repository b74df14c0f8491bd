// SPDX-License-Identifier: Apache-2.0
// ParameterServer: level 2 of a shard as an actor.
#pragma once

#include "actors/parameter_server_state.h"
#include "actors/server.h"

namespace troupe::actors {

/// Index: the shard. See Server.
using ParameterServer =
    Server<ParameterServerState, ParameterFigures, schemas::Role::parameter_server>;

}  // namespace troupe::actors
