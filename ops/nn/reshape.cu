// SPDX-License-Identifier: Apache-2.0
// reshape, flatten, expand_dims and reshape_like on GPUs: a copy, unless memory is shared.
#include "ops/support/device_copy.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

base::Status run_reshape(const OpCall&, const KernelContext& context) {
  return move_all(context);
}

}  // namespace

std::span<const BackendKernel> kernels_reshape_cuda() {
  static const BackendKernel kernels[] = {{"reshape", any_device_kernel(run_reshape)},
                                          {"flatten", any_device_kernel(run_reshape)},
                                          {"expand_dims", any_device_kernel(run_reshape)},
                                          {"reshape_like", any_device_kernel(run_reshape)}};
  return kernels;
}

}  // namespace troupe::ops
