// SPDX-License-Identifier: Apache-2.0
// The frame of own kernels for GPUs on dense tensors.
#include "ops/support/device_blocks.h"

#include <memory>

#include "ops/support/function_kernel.h"

namespace troupe::ops {
namespace {

using base::Layout;
using base::Result;

/// The call with dense layouts; unimplemented where a tensor has another one.
Result<OpCall> dense_call(OpCall call) {
  for (auto* group : {&call.inputs, &call.outputs}) {
    for (TensorDesc& tensor : *group) {
      if (!tensor.layout.is_dense() && !tensor.any_layout) {
        return base::error(base::Errc::unimplemented, "needs dense tensors, got {}",
                           tensor.layout.to_string());
      }
      tensor.layout = Layout::dense();
    }
  }
  return call;
}

}  // namespace

KernelDef dense_device_kernel(std::function<base::Status(const OpCall&, const KernelContext&)> run,
                              std::function<std::size_t(const OpCall&)> scratch) {
  const auto make = [run = std::move(run), scratch = std::move(scratch)](
                        const OpCall& call) -> Result<std::unique_ptr<Kernel>> {
    TROUPE_TRY(with_real(call.inputs.front().dtype, [](auto) { return base::Status(); }));
    TROUPE_TRY_ASSIGN(OpCall dense, dense_call(call));
    const std::size_t bytes = scratch(dense);
    return std::unique_ptr<Kernel>(
        std::make_unique<FunctionKernel>("cuda", std::move(dense), run, bytes));
  };
  KernelDef kernel{"cuda", make};
  kernel.takes_16_bits = true;
  kernel.on_gpus = true;
  return kernel;
}

}  // namespace troupe::ops
