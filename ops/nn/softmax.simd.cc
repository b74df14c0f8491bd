// SPDX-License-Identifier: Apache-2.0
// softmax, log_softmax and their gradients with the widest vectors of the machine, along any axis.
#include "ops/support/flat_kernel.h"
#include "ops/table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/nn/softmax.simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/nn/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::ops::HWY_NAMESPACE {

template <typename Form>
base::Status run_form(const OpCall& call, const KernelContext& context) {
  const base::Shape& shape = call.outputs[0].shape;
  const ClassAxis axis =
      class_axis(shape, resolve_axis(call.params.integer("axis"), shape).value());
  const SoftmaxArrays arrays{context.inputs.front().as<float>(), context.inputs.back().as<float>(),
                             context.outputs[0].as<float>()};
  return run_softmax_form<Form>(call, context, axis, arrays);
}

base::Status run_softmax(const OpCall& call, const KernelContext& context) {
  return run_form<SoftmaxForm>(call, context);
}
base::Status run_log_softmax(const OpCall& call, const KernelContext& context) {
  return run_form<LogSoftmaxForm>(call, context);
}
base::Status run_softmax_backward(const OpCall& call, const KernelContext& context) {
  return run_form<SoftmaxBackwardForm>(call, context);
}
base::Status run_log_softmax_backward(const OpCall& call, const KernelContext& context) {
  return run_form<LogSoftmaxBackwardForm>(call, context);
}

}  // namespace troupe::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::ops {

HWY_EXPORT(run_softmax);
HWY_EXPORT(run_log_softmax);
HWY_EXPORT(run_softmax_backward);
HWY_EXPORT(run_log_softmax_backward);

std::span<const BackendKernel> kernels_softmax_simd() {
  const auto kernel = [](auto run) { return flat_kernel_of_f32("simd", run); };
  static const std::vector<BackendKernel> kernels = {
      {"softmax", kernel([](const OpCall& call, const KernelContext& context) {
         return HWY_DYNAMIC_DISPATCH(run_softmax)(call, context);
       })},
      {"log_softmax", kernel([](const OpCall& call, const KernelContext& context) {
         return HWY_DYNAMIC_DISPATCH(run_log_softmax)(call, context);
       })},
      {"softmax_backward", kernel([](const OpCall& call, const KernelContext& context) {
         return HWY_DYNAMIC_DISPATCH(run_softmax_backward)(call, context);
       })},
      {"log_softmax_backward", kernel([](const OpCall& call, const KernelContext& context) {
         return HWY_DYNAMIC_DISPATCH(run_log_softmax_backward)(call, context);
       })}};
  return kernels;
}

}  // namespace troupe::ops
#endif  // HWY_ONCE
