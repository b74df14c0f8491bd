// SPDX-License-Identifier: Apache-2.0
// softmax_output's probabilities by oneDNN, where the classes of a row are neighbours in memory.
#include "ops/support/onednn.h"

namespace troupe::ops {
namespace {

base::Result<onednn::Plan> forward(const OpCall& call) {
  const TensorDesc& data = call.inputs[0];
  const int rank = data.shape.rank();
  if (call.params.boolean("multi_output") && rank > 2) {
    return base::error(base::Errc::unimplemented, "classes are not the innermost axis");
  }
  const int split = call.params.boolean("preserve_shape") ? rank - 1 : 1;
  const base::Shape rows{data.shape.elements(0, split), data.shape.elements(split, rank)};
  const auto matrix = onednn::describe(data.dtype, rows, base::Layout::dense());
  onednn::Plan plan{onednn::describe_primitive<onednn::SoftmaxForward>(
                        onednn::attributes(), dnnl::prop_kind::forward_training,
                        dnnl::algorithm::softmax_accurate, matrix, matrix, 1),
                    {onednn::input(DNNL_ARG_SRC, 0), onednn::output(DNNL_ARG_DST, 0)}};
  plan.guarded_input = 0;
  plan.guarded_rows = {rows[0], rows[1]};
  return plan;
}

}  // namespace

std::span<const BackendKernel> kernels_softmax_output_onednn() {
  static const std::vector<BackendKernel> kernels = {
      onednn::backend_kernel("softmax_output", forward)};
  return kernels;
}

}  // namespace troupe::ops
