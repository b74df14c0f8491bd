// SPDX-License-Identifier: Apache-2.0
// silu and its gradient by oneDNN, in the layout that data already has.
#include "ops/support/onednn.h"

namespace troupe::ops {
namespace {

using onednn::Plan;

/// x * sigmoid(alpha * x).
constexpr onednn::Elementwise kSwish{dnnl::algorithm::eltwise_swish, 1};

base::Result<Plan> forward(const OpCall& call) {
  return onednn::elementwise(call, kSwish);
}

base::Result<Plan> backward(const OpCall& call) {
  return onednn::elementwise_gradient(call, kSwish);
}

}  // namespace

std::span<const BackendKernel> kernels_silu_onednn() {
  static const std::vector<BackendKernel> kernels = {
      onednn::backend_kernel("silu", forward),
      onednn::backend_kernel("silu_backward", backward),
  };
  return kernels;
}

}  // namespace troupe::ops
