// SPDX-License-Identifier: Apache-2.0
// dot and its gradients on GPUs, where no library takes them.
#include "ops/math/dot.h"

#include "ops/support/device_product.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

template <typename T>
ProductPlan<T> cut_dot(const OpCall& call, ScratchCut& scratch, T) {
  const Product p = product_of(call);
  DeviceProduct product{.rows = p.rows, .columns = p.columns, .inner = p.inner};
  product.x_inner_aside = p.x_inner == 1;
  product.y_columns_aside = p.y_column == 1;
  return plan_product<T>(cut_sums(product), scratch);
}

template <typename T>
base::Status run_dot(const OpCall& call, const KernelContext& context, const ProductPlan<T>& plan) {
  const Product p = product_of(call);
  const StridedMultiplier<T> multiplier{context.inputs[p.x_input].as<T>(),
                                        context.inputs[p.y_input].as<T>(),
                                        nullptr,
                                        p.x_row,
                                        p.x_inner,
                                        p.y_inner,
                                        p.y_column,
                                        p.columns,
                                        device_output<T>(call, context, 0)};
  return device_product(context, plan.product, multiplier, plan.partial);
}

KernelDef dot_device_kernel() {
  return product_device_kernel([](auto&&... x) { return run_dot(x...); },
                               [](auto&&... x) { return cut_dot(x...); });
}

}  // namespace

std::span<const BackendKernel> kernels_dot_cuda() {
  static const BackendKernel kernels[] = {{"dot", dot_device_kernel()},
                                          {"dot_backward_lhs", dot_device_kernel()},
                                          {"dot_backward_rhs", dot_device_kernel()}};
  return kernels;
}

}  // namespace troupe::ops
