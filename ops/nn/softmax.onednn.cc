// SPDX-License-Identifier: Apache-2.0
// softmax, log_softmax and their gradients by oneDNN, on dense tensors.
#include "ops/nn/support.h"
#include "ops/support/onednn.h"

namespace troupe::ops {
namespace {

using onednn::Plan;

/// The call's algorithm, axis and (single) descriptor.
struct Problem {
  dnnl::algorithm algorithm{};
  int axis = 0;
  dnnl::memory::desc data;

  dnnl::softmax_v2_forward::primitive_desc forward() const {
    const dnnl::softmax_v2_forward::desc desc(dnnl::prop_kind::forward_training, algorithm, data,
                                              data, axis);
    return {desc, onednn::attributes(), onednn::cpu(), true};
  }
};

Problem describe_call(const OpCall& call) {
  const TensorDesc& data = call.outputs[0];
  const bool logarithm = call.op->name.starts_with("log_");
  return {logarithm ? dnnl::algorithm::softmax_log : dnnl::algorithm::softmax_accurate,
          resolve_axis(call.params.integer("axis"), data.shape).value(),
          onednn::describe(data.dtype, data.shape, base::Layout::dense())};
}

base::Result<Plan> forward(const OpCall& call) {
  return Plan{describe_call(call).forward(),
              {onednn::input(DNNL_ARG_SRC, 0), onednn::output(DNNL_ARG_DST, 0)}};
}

base::Result<Plan> backward(const OpCall& call) {
  const Problem p = describe_call(call);
  const auto hint = p.forward();
  if (!hint) return Plan{};
  using Backward = dnnl::softmax_v2_backward;
  const Backward::desc desc(p.algorithm, p.data, p.data, p.data, p.axis);
  return Plan{Backward::primitive_desc(desc, onednn::attributes(), onednn::cpu(), hint, true),
              {onednn::input(DNNL_ARG_DIFF_DST, 0), onednn::input(DNNL_ARG_DST, 1),
               onednn::output(DNNL_ARG_DIFF_SRC, 0)}};
}

}  // namespace

std::span<const BackendKernel> kernels_softmax_onednn() {
  static const std::vector<BackendKernel> kernels = {
      onednn::backend_kernel("softmax", forward),
      onednn::backend_kernel("log_softmax", forward),
      onednn::backend_kernel("softmax_backward", backward),
      onednn::backend_kernel("log_softmax_backward", backward),
  };
  return kernels;
}

}  // namespace troupe::ops
