// SPDX-License-Identifier: Apache-2.0
// fused_pointwise on GPUs where NVRTC does not compile it, and on the host in their place: step
// after step, each over the whole of its tensors.
#include "ops/pointwise_chain.h"
#include "ops/roofline.h"
#include "ops/support/chain_kernel.h"
#include "ops/support/device_kernel.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

KernelDef step_by_step_kernel() {
  KernelDef kernel{"cuda", [](const OpCall& call) {
                     return make_chain_kernel("cuda", call, ChainForm::device);
                   }};
  kernel.seconds = [](const OpCall& call) {
    return roofline_seconds(call) * static_cast<double>(chain_of(call.params).steps.size());
  };
  kernel.takes_16_bits = any_16_bits;
  kernel.on_gpus = true;
  return kernel;
}

}  // namespace

std::span<const BackendKernel> kernels_fused_pointwise_cuda() {
  static const BackendKernel kernels[] = {{"fused_pointwise", step_by_step_kernel()}};
  return kernels;
}

}  // namespace troupe::ops
