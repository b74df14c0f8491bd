// SPDX-License-Identifier: Apache-2.0
// activation and its gradient by oneDNN, in the layout that data already has.
#include "ops/support/onednn.h"

namespace troupe::ops {
namespace {

using onednn::Plan;

/// Only those whose gradient reads the output. The library's relu drops NaN, so that one is ours
/// (activation.simd.cc).
base::Result<dnnl::algorithm> function(const Params& p) {
  const std::string& type = p.text("act_type");
  if (type == "sigmoid") return dnnl::algorithm::eltwise_logistic_use_dst_for_bwd;
  if (type == "tanh") return dnnl::algorithm::eltwise_tanh_use_dst_for_bwd;
  return base::error(base::Errc::unimplemented, "no {} whose gradient reads the output", type);
}

base::Result<Plan> forward(const OpCall& call) {
  TROUPE_TRY_ASSIGN(const dnnl::algorithm f, function(call.params));
  return onednn::elementwise(call, f);
}

base::Result<Plan> backward(const OpCall& call) {
  TROUPE_TRY_ASSIGN(const dnnl::algorithm f, function(call.params));
  if (call.params.integer("num_gradients") > 1) {
    return base::error(base::Errc::unimplemented, "no sum of gradients");
  }
  return onednn::elementwise_gradient(call, f);
}

}  // namespace

std::span<const BackendKernel> kernels_activation_onednn() {
  static const std::vector<BackendKernel> kernels = {
      onednn::backend_kernel("activation", forward),
      onednn::backend_kernel("activation_backward", backward),
  };
  return kernels;
}

}  // namespace troupe::ops
