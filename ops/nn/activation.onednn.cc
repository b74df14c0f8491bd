// SPDX-License-Identifier: Apache-2.0
// activation and its gradient by oneDNN, in the layout that data already has.
#include "ops/support/layout_map.h"
#include "ops/support/onednn.h"

namespace troupe::ops {
namespace {

using onednn::Plan;

/// The algorithm whose gradient reads the output; only these two. The library's relu drops NaN, so
/// that one is ours (activation.simd.cc).
base::Result<dnnl::algorithm> algorithm(const Params& p) {
  const std::string& type = p.text("act_type");
  if (type == "sigmoid") return dnnl::algorithm::eltwise_logistic_use_dst_for_bwd;
  if (type == "tanh") return dnnl::algorithm::eltwise_tanh_use_dst_for_bwd;
  return base::error(base::Errc::unimplemented, "no {} whose gradient reads the output", type);
}

base::Result<Plan> forward(const OpCall& call) {
  TROUPE_TRY_ASSIGN(const dnnl::algorithm kind, algorithm(call.params));
  const TensorDesc& data = call.inputs[0];
  const auto descriptor = onednn::describe(data.dtype, data.shape, followed_layout({&data}));
  return Plan{onednn::describe_elementwise(kind, descriptor),
              {onednn::input(DNNL_ARG_SRC, 0), onednn::output(DNNL_ARG_DST, 0)}};
}

base::Result<Plan> backward(const OpCall& call) {
  TROUPE_TRY_ASSIGN(const dnnl::algorithm kind, algorithm(call.params));
  const TensorDesc& output = call.inputs[1];
  const auto descriptor =
      onednn::describe(output.dtype, output.shape, followed_layout({&output, &call.inputs[0]}));
  const auto hint = onednn::describe_elementwise(kind, descriptor);
  if (!hint) return Plan{};
  return Plan{onednn::describe_elementwise_gradient(hint, kind, descriptor),
              {onednn::input(DNNL_ARG_DIFF_DST, 0), onednn::input(DNNL_ARG_DST, 1),
               onednn::output(DNNL_ARG_DIFF_SRC, 0)}};
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
