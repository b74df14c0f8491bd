// SPDX-License-Identifier: Apache-2.0
// The frame of own kernels for GPUs that work in blocks of threads.
#include "ops/support/device_blocks.h"

#include <memory>

#include "ops/support/channels_last.h"
#include "ops/support/function_kernel.h"

namespace troupe::ops {
namespace {

using base::Layout;
using base::Result;

/// What all tensors of four axes lie as: channels last where the kernel knows that and one of them
/// does, or shall.
bool takes_channels_last(const OpCall& call, const MayBeLast& may_be_last) {
  if (!may_be_last || !may_be_last(call)) return false;
  bool last = false, dense = false;
  for (const auto* group : {&call.inputs, &call.outputs}) {
    for (const TensorDesc& tensor : *group) {
      if (tensor.shape.rank() != 4) continue;
      last = last || is_channels_last(tensor);
      dense = dense || (tensor.layout.is_dense() && !tensor.any_layout);
    }
  }
  return last && !dense;
}

}  // namespace

FixLayouts fix_together(MayBeLast may_be_last) {
  return [may_be_last = std::move(may_be_last)](OpCall call) -> Result<OpCall> {
    const bool last = takes_channels_last(call, may_be_last);
    for (auto* group : {&call.inputs, &call.outputs}) {
      for (TensorDesc& tensor : *group) {
        const Layout layout =
            last && tensor.shape.rank() == 4 ? channels_last(tensor.shape) : Layout::dense();
        if (tensor.layout != layout && !tensor.any_layout) {
          return base::error(base::Errc::unimplemented, "needs {} tensors, got {}",
                             last ? "channels-last" : "dense", tensor.layout.to_string());
        }
        tensor.layout = layout;
      }
    }
    return call;
  };
}

Result<OpCall> fix_each(OpCall call, std::optional<std::size_t> like) {
  const auto fits = [](const TensorDesc& tensor) {
    return tensor.layout.is_dense() || is_channels_last(tensor);
  };
  for (TensorDesc& input : call.inputs) {
    if (!fits(input) && input.any_layout) input.layout = Layout::dense();
  }
  for (TensorDesc& output : call.outputs) {
    if (!output.any_layout) continue;
    const bool last = like && is_channels_last(call.inputs[*like]) && output.shape.rank() == 4;
    output.layout = last ? channels_last(output.shape) : Layout::dense();
  }
  for (const auto* group : {&call.inputs, &call.outputs}) {
    for (const TensorDesc& tensor : *group) {
      if (fits(tensor)) continue;
      return base::error(base::Errc::unimplemented, "needs dense or channels-last tensors, got {}",
                         tensor.layout.to_string());
    }
  }
  return call;
}

KernelDef layouts_device_kernel(
    FixLayouts fix, std::function<base::Status(const OpCall&, const KernelContext&)> run,
    std::function<std::size_t(const OpCall&)> scratch) {
  const auto make = [fix = std::move(fix), run = std::move(run), scratch = std::move(scratch)](
                        const OpCall& call) -> Result<std::unique_ptr<Kernel>> {
    TROUPE_TRY(with_real(call.inputs.front().dtype, [](auto) { return base::Status(); }));
    TROUPE_TRY_ASSIGN(OpCall fixed, fix(call));
    const std::size_t bytes = scratch(fixed);
    return std::unique_ptr<Kernel>(
        std::make_unique<FunctionKernel>("cuda", std::move(fixed), run, bytes));
  };
  KernelDef kernel{"cuda", make};
  kernel.takes_16_bits = any_16_bits;
  kernel.on_gpus = true;
  return kernel;
}

}  // namespace troupe::ops
