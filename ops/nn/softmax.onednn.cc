// SPDX-License-Identifier: Apache-2.0
// softmax, log_softmax and their gradients by oneDNN, on dense tensors whose classes are
// neighbours.
#include "ops/nn/support.h"
#include "ops/support/onednn.h"

namespace troupe::ops {
namespace {

using onednn::Plan;

/// The call's algorithm, axis, (single) descriptor and rows.
struct Problem {
  dnnl::algorithm algorithm{};
  int axis = 0;
  dnnl::memory::desc data;
  Rows rows;

  onednn::SoftmaxForward::primitive_desc forward() const {
    return onednn::describe_primitive<onednn::SoftmaxForward>(
        onednn::attributes(), dnnl::prop_kind::forward_training, algorithm, data, data, axis);
  }
};

bool is_logarithm(const OpCall& call) {
  return call.op->name.starts_with("log_");
}

base::Result<Problem> describe_call(const OpCall& call) {
  const TensorDesc& data = call.outputs[0];
  const int axis = resolve_axis(call.params.integer("axis"), data.shape).value();
  if (data.shape.elements(axis + 1, data.shape.rank()) != 1) {
    return base::error(base::Errc::unimplemented, "classes are not the innermost axis");
  }
  return Problem{
      is_logarithm(call) ? dnnl::algorithm::softmax_log : dnnl::algorithm::softmax_accurate, axis,
      onednn::describe(data.dtype, data.shape, base::Layout::dense()),
      Rows{data.shape.elements(0, axis), data.shape[axis]}};
}

base::Result<Plan> forward(const OpCall& call) {
  TROUPE_TRY_ASSIGN(const Problem p, describe_call(call));
  Plan plan{p.forward(), {onednn::input(DNNL_ARG_SRC, 0), onednn::output(DNNL_ARG_DST, 0)}};
  plan.guarded_input = 0;
  plan.guarded_rows = p.rows;
  return plan;
}

base::Result<Plan> backward(const OpCall& call) {
  TROUPE_TRY_ASSIGN(const Problem p, describe_call(call));
  const auto hint = p.forward();
  if (!hint) return Plan{};
  Plan plan{onednn::describe_gradient<onednn::SoftmaxBackward>(hint, p.algorithm, p.data, p.data,
                                                               p.data, p.axis),
            {onednn::input(DNNL_ARG_DIFF_DST, 0), onednn::input(DNNL_ARG_DST, 1),
             onednn::output(DNNL_ARG_DIFF_SRC, 0)}};
  if (is_logarithm(call)) {  // the other one is a product with the output
    plan.guarded_input = 1;
    plan.guarded_rows = p.rows;
  }
  return plan;
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
