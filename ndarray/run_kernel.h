// SPDX-License-Identifier: Apache-2.0
// Running a prepared kernel on a lane: directly on a thread, as a host closure on a stream that
// runs closures, or by issuing on a library's stream. The one place that knows the difference, and
// the one place that tells a kernel what it runs on (ops::KernelContext).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/random.h"
#include "engine/engine.h"
#include "ops/kernel.h"

namespace troupe::ndarray {

/// True when work on `device` goes through stream lanes.
inline bool uses_stream(base::Device device) {
  return device.kind != base::DeviceKind::cpu;
}

/// Pushes `run`, a Status(engine::RunContext&): on a device that has streams it only issues on
/// RunContext::stream, else it does the work and sees no stream.
template <typename Run>
void push_on_lane(engine::Engine& engine, const engine::Operation& operation, Run run) {
  if (uses_stream(operation.lane.device)) {
    engine.push_stream(operation, std::move(run));
  } else {
    engine.push(operation, std::move(run));
  }
}

/// The memory of one run of a kernel. The caller owns everything; addresses are those of now.
struct KernelBuffers {
  std::span<const base::TensorView> inputs;   ///< in the layouts that the kernel was prepared for
  std::span<const base::TensorView> outputs;  ///< as `inputs`
  std::span<std::byte> scratch;               ///< at least Kernel::scratch_bytes(), aligned to 64
  /// Nothing of what the outputs hold matters, so a test device may garble it meanwhile.
  bool fresh = false;
};

/// Where an operator that draws takes its random numbers from; the others ignore it.
struct RandomDraw {
  base::RandomKey key;
  std::int64_t step = 0;
};

/// Runs or issues `kernel`; the errors of Kernel::run. Team, slots and stream are the lane's. The
/// calling thread is the lane's. On a CPU lane the work is done when this returns, and nothing is
/// allocated here. On a stream the views are copied, since the caller may reuse them before the
/// work runs; kernel, tensors and scratch must stay alive by their variables.
base::Status run_kernel(const std::shared_ptr<const ops::Kernel>& kernel,
                        const KernelBuffers& buffers, engine::RunContext& lane,
                        const RandomDraw& draw = {});

}  // namespace troupe::ndarray
