// SPDX-License-Identifier: Apache-2.0
// softmax_output's probabilities with the widest vectors of the machine, along any axis.
#include "ops/nn/softmax_output.h"

#include "ops/support/flat_kernel.h"
#include "ops/table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/nn/softmax_output.simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/nn/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::ops::HWY_NAMESPACE {

base::Status run_softmax_output(const OpCall& call, const KernelContext& context) {
  const auto* data = context.inputs[0].as<float>();
  return run_softmax_form<SoftmaxForm>(call, context,
                                       softmax_output_axis(call.params, call.inputs[0].shape),
                                       {data, data, context.outputs[0].as<float>()});
}

}  // namespace troupe::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::ops {

HWY_EXPORT(run_softmax_output);

std::span<const BackendKernel> kernels_softmax_output_simd() {
  static const std::vector<BackendKernel> kernels = {
      {"softmax_output",
       flat_kernel_of_f32("simd", [](const OpCall& call, const KernelContext& context) {
         return HWY_DYNAMIC_DISPATCH(run_softmax_output)(call, context);
       })}};
  return kernels;
}

}  // namespace troupe::ops
#endif  // HWY_ONCE
