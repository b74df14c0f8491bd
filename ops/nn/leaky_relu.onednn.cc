// SPDX-License-Identifier: Apache-2.0
// elu, gelu and gelu's gradient by oneDNN, in the layout that data already has.
#include "ops/support/onednn.h"

namespace troupe::ops {
namespace {

using base::Errc;
using onednn::Elementwise;
using onednn::Plan;

constexpr Elementwise kGelu{dnnl::algorithm::eltwise_gelu_erf};

base::Result<Plan> forward(const OpCall& call) {
  const std::string& type = call.params.text("act_type");
  if (type == "gelu") return onednn::elementwise(call, kGelu);
  if (type != "elu") return base::error(Errc::unimplemented, "only elu and gelu");
  const auto slope = static_cast<float>(call.params.real("slope"));
  return onednn::elementwise(call, {dnnl::algorithm::eltwise_elu, slope});
}

base::Result<Plan> backward(const OpCall& call) {
  if (call.params.text("act_type") == "gelu") return onednn::elementwise_gradient(call, kGelu);
  return base::error(Errc::unimplemented, "only gelu: elu's gradient drops NaN");
}

}  // namespace

std::span<const BackendKernel> kernels_leaky_relu_onednn() {
  static const std::vector<BackendKernel> kernels = {
      onednn::backend_kernel("leaky_relu", forward),
      onednn::backend_kernel("leaky_relu_backward", backward),
  };
  return kernels;
}

}  // namespace troupe::ops
