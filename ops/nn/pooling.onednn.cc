// SPDX-License-Identifier: Apache-2.0
// Mean pooling and both gradients by oneDNN, in the layout that data already has. Its maxima drop
// NaN, so those are ours (pooling.simd.cc); the workspace of their gradient is our output
// `indices`: the tap of each maximum, in the output's layout.
#include "ops/nn/pooling.h"

#include "ops/support/layout_map.h"
#include "ops/support/onednn.h"

namespace troupe::ops {
namespace {

using base::Errc;
using base::Layout;
using onednn::Plan;

struct Problem {
  Pooling v;
  onednn::PoolingOperation operation;
};

/// An error where the library's pooling means something else.
base::Result<Problem> describe_call(const Params& p, const TensorDesc& data,
                                    const TensorDesc& output, const Layout& layout) {
  Problem problem;
  const Pooling v = problem.v = read_pooling(p, data.shape, output.shape);
  if (v.empty_window()) return base::error(Errc::unimplemented, "a window outside the input");
  if (!v.max && v.count_pad && v.overhangs()) {
    return base::error(Errc::unimplemented, "a mean's window hangs over the padding");
  }
  if (v.window[0].kernel > INT32_MAX / v.window[1].kernel) {
    return base::error(Errc::unimplemented, "a window whose area the library counts in 32 bits");
  }
  onednn::PoolingOperation& operation = problem.operation;
  operation.algorithm = v.max         ? dnnl::algorithm::pooling_max
                        : v.count_pad ? dnnl::algorithm::pooling_avg_include_padding
                                      : dnnl::algorithm::pooling_avg_exclude_padding;
  operation.data = onednn::describe(data.dtype, data.shape, layout_for(layout, data.shape));
  operation.output = onednn::describe(output.dtype, output.shape, layout_for(layout, output.shape));
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const Window& w = v.window[axis];
    operation.strides.push_back(w.stride);
    operation.kernel.push_back(w.kernel);
    operation.left.push_back(w.pad);
    operation.right.push_back(
        std::max(w.pad, w.position(v.output[axis] - 1, w.kernel) - v.input[axis]));
  }
  return problem;
}

/// Taps of a window that the library adds up in one f32, at most: behind them sums lose digits.
constexpr std::int64_t kTapsMost = 4'096;

base::Result<Plan> forward(const OpCall& call) {
  TROUPE_TRY_ASSIGN(const Problem p, describe_call(call.params, call.inputs[0], call.outputs[0],
                                                   followed_layout({&call.inputs[0]})));
  if (p.v.max) return base::error(Errc::unimplemented, "the library's maximum drops NaN");
  if (p.v.window[0].kernel * p.v.window[1].kernel > kTapsMost) {
    return base::error(Errc::unimplemented, "means of more than {} taps, in f32", kTapsMost);
  }
  return Plan{onednn::describe_pooling(p.operation),
              {onednn::input(DNNL_ARG_SRC, 0), onednn::output(DNNL_ARG_DST, 0)}};
}

base::Result<Plan> backward(const OpCall& call) {
  // Rather than where the gradient comes from: the layout that pooling had on its way forward.
  const Layout layout = call.inputs.size() > 2 ? followed_layout({&call.inputs[2], &call.inputs[0]})
                                               : followed_layout({&call.inputs[0]});
  TROUPE_TRY_ASSIGN(const Problem p,
                    describe_call(call.params, call.inputs[1], call.inputs[0], layout));
  if (call.inputs[0].dtype == base::DType::bf16 && p.v.windows_overlap()) {
    return base::error(Errc::unimplemented, "sums of overlapping windows, rounded at each");
  }
  if (p.v.max && layout.is_dense()) {
    return base::error(Errc::unimplemented, "the library looks at every tap of a dense window");
  }
  const auto hint = onednn::describe_pooling(p.operation);
  if (!hint) return Plan{};
  Plan plan{onednn::describe_pooling_gradient(hint, p.operation),
            {onednn::input(DNNL_ARG_DIFF_DST, 0), onednn::output(DNNL_ARG_DIFF_SRC, 0)}};
  if (p.v.max) plan.arguments.push_back(onednn::input(DNNL_ARG_WORKSPACE, 2));
  return plan;
}

}  // namespace

std::span<const BackendKernel> kernels_pooling_onednn() {
  static const std::vector<BackendKernel> kernels = {
      onednn::backend_kernel("pooling", forward),
      onednn::backend_kernel_of_bf16("pooling", forward),
      onednn::backend_kernel("pooling_backward", backward),
      onednn::backend_kernel_of_bf16("pooling_backward", backward),
  };
  return kernels;
}

}  // namespace troupe::ops
