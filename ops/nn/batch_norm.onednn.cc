// SPDX-License-Identifier: Apache-2.0
// batch_norm, its prediction form and its gradient by oneDNN, in the layout that data already has.
#include "ops/nn/batch_norm.h"

#include "ops/support/layout_map.h"
#include "ops/support/onednn.h"

namespace troupe::ops {
namespace {

using onednn::Plan;
using Flags = dnnl::normalization_flags;

struct Problem {
  BatchNorm v;
  onednn::BatchNormOperation operation;
};

/// `tensors` all have data's shape and get one layout.
base::Result<Problem> describe_call(const OpCall& call,
                                    std::initializer_list<const TensorDesc*> tensors) {
  const TensorDesc& data = **tensors.begin();
  const std::int64_t axis = call.params.integer("axis");
  if (axis != 1 && axis + data.shape.rank() != 1) {
    return base::error(base::Errc::unimplemented, "channels along axis {}", axis);
  }
  Problem problem;
  problem.v = read_batch_norm(call, data.shape);
  Flags flags = Flags::use_shift;
  if (!problem.v.fix_gamma) flags = flags | Flags::use_scale;
  if (problem.v.global) flags = flags | Flags::use_global_stats;
  problem.operation = {onednn::describe(data.dtype, data.shape, followed_layout(tensors)),
                       static_cast<float>(problem.v.eps), flags};
  return problem;
}

/// Training with the batch's statistics; with given ones their copies would be outputs too, which
/// the library does not make.
base::Result<Plan> forward(const OpCall& call) {
  TROUPE_TRY_ASSIGN(const Problem p, describe_call(call, {&call.inputs[0]}));
  if (p.v.global) return base::error(base::Errc::unimplemented, "use_global_stats in training");
  Plan plan{onednn::describe_batch_norm(dnnl::prop_kind::forward_training, p.operation),
            {onednn::input(DNNL_ARG_SRC, 0), onednn::input(DNNL_ARG_SHIFT, 2),
             onednn::output(DNNL_ARG_DST, 0), onednn::output(DNNL_ARG_MEAN, 1),
             onednn::output(DNNL_ARG_VARIANCE, 2)}};
  if (!p.v.fix_gamma) plan.arguments.push_back(onednn::input(DNNL_ARG_SCALE, 1));
  return plan;
}

base::Result<Plan> inference(const OpCall& call) {
  TROUPE_TRY_ASSIGN(const Problem p, describe_call(call, {&call.inputs[0]}));
  Plan plan{onednn::describe_batch_norm(dnnl::prop_kind::forward_inference, p.operation),
            {onednn::input(DNNL_ARG_SRC, 0), onednn::input(DNNL_ARG_SHIFT, 2),
             onednn::input(DNNL_ARG_MEAN, 3), onednn::input(DNNL_ARG_VARIANCE, 4),
             onednn::output(DNNL_ARG_DST, 0)}};
  if (!p.v.fix_gamma) plan.arguments.push_back(onednn::input(DNNL_ARG_SCALE, 1));
  return plan;
}

base::Result<Plan> backward(const OpCall& call) {
  TROUPE_TRY_ASSIGN(const Problem p, describe_call(call, {&call.inputs[1], &call.inputs[0]}));
  const auto hint = onednn::describe_batch_norm(dnnl::prop_kind::forward_training, p.operation);
  if (!hint) return Plan{};
  Plan plan{onednn::describe_batch_norm_gradient(hint, p.operation),
            {onednn::input(DNNL_ARG_DIFF_DST, 0), onednn::input(DNNL_ARG_SRC, 1),
             onednn::input(DNNL_ARG_MEAN, 3), onednn::input(DNNL_ARG_VARIANCE, 4),
             onednn::output(DNNL_ARG_DIFF_SRC, 0), onednn::output(DNNL_ARG_DIFF_SHIFT, 2)}};
  if (onednn::kBatchNormGradientTakesShift) {  // and does not read it: the mean stands in
    plan.arguments.push_back(onednn::input(DNNL_ARG_SHIFT, 3));
  }
  if (p.v.fix_gamma) {
    plan.zero_outputs = {1};
  } else {
    plan.arguments.push_back(onednn::input(DNNL_ARG_SCALE, 2));
    plan.arguments.push_back(onednn::output(DNNL_ARG_DIFF_SCALE, 1));
  }
  return plan;
}

}  // namespace

std::span<const BackendKernel> kernels_batch_norm_onednn() {
  static const std::vector<BackendKernel> kernels = {
      onednn::backend_kernel("batch_norm", forward),
      onednn::backend_kernel("batch_norm_inference", inference),
      onednn::backend_kernel("batch_norm_backward", backward),
  };
  return kernels;
}

}  // namespace troupe::ops
