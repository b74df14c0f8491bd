// SPDX-License-Identifier: Apache-2.0
// A Runtime with everything behind it, for tests. Members die in the right order: engine first.
#pragma once

#include <memory>
#include <utility>

#include "ndarray/runtime.h"

namespace troupe::tests {

/// The operators of this build; building the table once keeps tests fast.
inline const ops::OpTable& test_operators() {
  static const ops::OpTable table = ops::OpTable::build();
  return table;
}

/// Clock, storage, kernels, engine and the Runtime on them.
struct TestRuntime {
  explicit TestRuntime(bool threaded = true, const engine::EngineOptions& options = {})
      : engine(threaded ? engine::make_threaded_engine(options, clock)
                        : engine::make_serial_engine(options, clock)) {}

  base::SteadyClock clock;
  storage::Storage storage;
  ndarray::PreparedKernels kernels;
  std::unique_ptr<engine::Engine> engine;
  ndarray::Runtime runtime{*engine, storage, test_operators(), kernels, clock};
};

}  // namespace troupe::tests
