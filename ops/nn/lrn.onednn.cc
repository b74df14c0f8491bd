// SPDX-License-Identifier: Apache-2.0
// lrn by oneDNN, in the layout that data already has. Its gradient would need a workspace that the
// way forward leaves behind, so that one is ours.
#include "ops/support/layout_map.h"
#include "ops/support/onednn.h"

namespace troupe::ops {
namespace {

using onednn::Plan;

base::Result<Plan> forward(const OpCall& call) {
  const TensorDesc& data = call.inputs[0];
  const Params& p = call.params;
  const auto real = [&p](const char* name) { return static_cast<float>(p.real(name)); };
  const onednn::LrnOperation operation{
      onednn::describe(data.dtype, data.shape, followed_layout({&data})), p.integer("nsize"),
      real("alpha"), real("beta"), real("knorm")};
  return Plan{onednn::describe_lrn(operation),
              {onednn::input(DNNL_ARG_SRC, 0), onednn::output(DNNL_ARG_DST, 0)}};
}

}  // namespace

std::span<const BackendKernel> kernels_lrn_onednn() {
  static const std::vector<BackendKernel> kernels = {onednn::backend_kernel("lrn", forward)};
  return kernels;
}

}  // namespace troupe::ops
