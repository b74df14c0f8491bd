// SPDX-License-Identifier: Apache-2.0
// The frame of kernels for GPUs that look at no element's type, or at all types.
#include "ops/support/device_copy.h"

#include "ops/support/flat_kernel.h"

namespace troupe::ops {

KernelDef any_device_kernel(std::function<base::Status(const OpCall&, const KernelContext&)> run) {
  KernelDef kernel{
      "cuda", [run = std::move(run)](const OpCall& call) { return make_flat("cuda", call, run); }};
  kernel.takes_16_bits = any_16_bits;
  kernel.on_gpus = true;
  return kernel;
}

}  // namespace troupe::ops
