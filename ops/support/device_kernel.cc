// SPDX-License-Identifier: Apache-2.0
// The frame of own kernels for GPUs.
#include "ops/support/device_kernel.h"

#include "ops/support/flat_kernel.h"

namespace troupe::ops {

KernelDef device_kernel(std::function<base::Status(const OpCall&, const KernelContext&)> run) {
  const auto make =
      [run = std::move(run)](const OpCall& call) -> base::Result<std::unique_ptr<Kernel>> {
    TROUPE_TRY(with_real(call.outputs.front().dtype, [](auto) { return base::Status(); }));
    return make_flat("cuda", call, run);
  };
  KernelDef kernel{"cuda", make};
  kernel.takes_16_bits = any_16_bits;
  kernel.on_gpus = true;
  return kernel;
}

}  // namespace troupe::ops
