// SPDX-License-Identifier: Apache-2.0
// DeviceServer: level 1 of a machine as an actor.
#pragma once

#include "actors/device_server_state.h"
#include "actors/server.h"

namespace troupe::actors {

/// Index: the machine. See Server.
using DeviceServer = Server<DeviceServerState, DeviceFigures, schemas::Role::device_server>;

}  // namespace troupe::actors
