// SPDX-License-Identifier: Apache-2.0
// Launching a prepared kernel on a lane: directly on a thread, as a host closure on a stream that
// runs closures, or by issuing on a library's stream. The one place that knows the difference.
#pragma once

#include <memory>

#include "engine/engine.h"
#include "ops/kernel.h"

namespace troupe::ndarray {

/// True when work on `device` goes through stream lanes.
inline bool uses_stream(base::Device device) {
  return device.kind != base::DeviceKind::cpu;
}

/// Runs or issues `kernel`. `arguments` names views, scratch and random numbers; team, slots and
/// stream are filled in from the lane. On a stream the views are copied, since the caller may reuse
/// them before the work runs; kernel, tensors and scratch must stay alive by their variables.
/// `fresh`: nothing of what the outputs hold matters, so a test device may garble it meanwhile.
base::Status launch(const std::shared_ptr<const ops::Kernel>& kernel, ops::KernelContext arguments,
                    engine::RunContext& lane, bool fresh);

}  // namespace troupe::ndarray
