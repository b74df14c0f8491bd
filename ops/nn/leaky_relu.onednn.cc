// SPDX-License-Identifier: Apache-2.0
// elu by oneDNN, in the layout that data already has.
#include "ops/support/onednn.h"

namespace troupe::ops {
namespace {

base::Result<onednn::Plan> forward(const OpCall& call) {
  if (call.params.text("act_type") != "elu") {
    return base::error(base::Errc::unimplemented, "only elu");
  }
  const auto slope = static_cast<float>(call.params.real("slope"));
  return onednn::elementwise(call, {dnnl::algorithm::eltwise_elu, slope});
}

}  // namespace

std::span<const BackendKernel> kernels_leaky_relu_onednn() {
  static const std::vector<BackendKernel> kernels = {
      onednn::backend_kernel("leaky_relu", forward),
  };
  return kernels;
}

}  // namespace troupe::ops
