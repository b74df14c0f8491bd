// SPDX-License-Identifier: Apache-2.0
// full, zeros, ones, zeros_like and ones_like on GPUs.
#include "ops/support/device_kernel.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

template <typename T>
struct FillAt {
  T value;
  T* out;
  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const { out[i] = value; }
};

/// All elements are constant(params).
template <typename Constant>
KernelDef constant_device_kernel(Constant constant) {
  return real_device_kernel(
      [constant](const OpCall& call, const KernelContext& context, auto zero) {
        using T = decltype(zero);
        const T value = T(static_cast<Wide<T>>(constant(call.params)));
        return for_each_index(context, flat_elements<T>(context),
                              FillAt<T>{value, context.outputs[0].as<T>()});
      });
}

double constant_zero(const Params&) {
  return 0.0;
}
double constant_one(const Params&) {
  return 1.0;
}
double constant_value(const Params& params) {
  return params.real("value");
}

}  // namespace

std::span<const BackendKernel> kernels_constant_cuda() {
  static const BackendKernel kernels[] = {{"full", constant_device_kernel(constant_value)},
                                          {"zeros", constant_device_kernel(constant_zero)},
                                          {"ones", constant_device_kernel(constant_one)},
                                          {"zeros_like", constant_device_kernel(constant_zero)},
                                          {"ones_like", constant_device_kernel(constant_one)}};
  return kernels;
}

}  // namespace troupe::ops
