// SPDX-License-Identifier: Apache-2.0
// Runtime: what arrays and executors run on, built by the program and passed down by reference.
// Many runtimes live in one process. It owns nothing; arrays and executors keep a copy of it.
#pragma once

#include "base/clock.h"
#include "engine/engine.h"
#include "ndarray/prepared_kernels.h"
#include "ops/table.h"
#include "storage/storage.h"

namespace troupe::ndarray {

/// References to the parts; each part states its own rules about threads.
/// Destroy arrays and executors first, then the engine, then the rest. An array or executor that
/// outlives its engine answers every call with failed_precondition.
struct Runtime {
  engine::Engine& engine;
  storage::Storage& storage;
  const ops::OpTable& ops;
  PreparedKernels& kernels;
  base::Clock& clock;
};

}  // namespace troupe::ndarray
