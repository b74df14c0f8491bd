// SPDX-License-Identifier: Apache-2.0
// reorder by oneDNN, between any two layouts of tensors of f32 or bf16 that it can describe.
#include "ops/support/layout_map.h"
#include "ops/support/onednn.h"

namespace troupe::ops {
namespace {

base::Result<onednn::Plan> build(const OpCall& call) {
  const TensorDesc& from = call.inputs[0];
  const TensorDesc& to = call.outputs[0];
  const base::Layout present = followed_layout({&from});
  const auto source = onednn::describe(from.dtype, from.shape, present);
  const auto target = onednn::describe(to.dtype, to.shape, to.any_layout ? present : to.layout);
  return onednn::Plan{dnnl::reorder::primitive_desc(onednn::cpu(), source, onednn::cpu(), target,
                                                    onednn::attributes(), true),
                      {onednn::input(DNNL_ARG_FROM, 0), onednn::output(DNNL_ARG_TO, 0)}};
}

}  // namespace

std::span<const BackendKernel> kernels_reorder_onednn() {
  static const std::vector<BackendKernel> kernels = {
      onednn::backend_kernel("reorder", build), onednn::backend_kernel_of_bf16("reorder", build)};
  return kernels;
}

}  // namespace troupe::ops
