// SPDX-License-Identifier: Apache-2.0
// Flat runs over dense or equally blocked tensors.
#include "ops/support/flat_kernel.h"

#include <algorithm>
#include <vector>

#include "ops/support/function_kernel.h"

namespace troupe::ops {
namespace {

using base::Errc;
using base::Layout;
using base::Result;
using base::Status;

/// Calls f for every tensor of a call until it gives an error.
template <typename F>
Status for_each_tensor(const OpCall& call, F&& f) {
  for (const auto* group : {&call.inputs, &call.outputs}) {
    for (const TensorDesc& desc : *group) TROUPE_TRY(f(desc));
  }
  return {};
}

/// An error unless the call can run flat over buffers of this layout.
Status check_flat(const OpCall& call, const Layout& layout) {
  const auto dense_only = [&layout] {
    return base::error(Errc::unimplemented, "needs dense tensors, got {}", layout.to_string());
  };
  if (layout.kind != Layout::Kind::blocked || !call.op->elementwise) return dense_only();
  TROUPE_TRY(for_each_tensor(call, [&](const TensorDesc& desc) -> Status {
    if (!desc.any_layout && desc.layout != layout) {
      return base::error(Errc::unimplemented, "layouts {} and {} are mixed",
                         desc.layout.to_string(), layout.to_string());
    }
    if (desc.shape != call.outputs.front().shape) {
      return base::error(Errc::unimplemented, "broadcasting needs dense tensors");
    }
    return {};
  }));
  const base::Shape& shape = call.outputs.front().shape;
  if (layout.buffer_bytes(shape, 1) == shape.elements()) return {};  // no padding
  const bool keeps_zero = call.op->maps_zero_to_zero && call.op->maps_zero_to_zero(call.params);
  return keeps_zero ? Status() : dense_only();
}

KernelDef make_definition(std::string name,
                          std::function<Status(const OpCall&, const KernelContext&)> run,
                          std::function<Status(const OpCall&)> accepts,
                          std::vector<base::DType> dtypes) {
  const auto make = [name, run = std::move(run), accepts = std::move(accepts),
                     dtypes](const OpCall& call) -> Result<std::unique_ptr<Kernel>> {
    const base::DType dtype = call.outputs.front().dtype;
    if (std::find(dtypes.begin(), dtypes.end(), dtype) == dtypes.end()) {
      return base::error(Errc::unimplemented, "no kernel for dtype {}", base::dtype_name(dtype));
    }
    if (accepts) TROUPE_TRY(accepts(call));
    return make_flat(name, call, run);
  };
  const bool bf16 = std::find(dtypes.begin(), dtypes.end(), base::DType::bf16) != dtypes.end();
  return {.name = std::move(name), .make = make, .takes_16_bits = bf16 ? only_bf16 : nullptr};
}

}  // namespace

Result<Layout> common_layout(const OpCall& call) {
  Layout fixed;
  Layout present;
  bool free = true;
  TROUPE_TRY(for_each_tensor(call, [&](const TensorDesc& desc) {
    free = free && desc.any_layout;
    if (!desc.layout.is_dense()) (desc.any_layout ? present : fixed) = desc.layout;
    return Status();
  }));
  if (!fixed.is_dense()) {
    TROUPE_TRY(check_flat(call, fixed));
    return fixed;
  }
  return free && !present.is_dense() && check_flat(call, present).ok() ? present : Layout::dense();
}

Status not_f64(const OpCall& call) {
  if (call.outputs.front().dtype != base::DType::f64) return {};
  return base::error(Errc::unimplemented, "not f64");
}

Result<std::unique_ptr<Kernel>> make_flat(
    const std::string& name, const OpCall& call,
    const std::function<Status(const OpCall&, const KernelContext&)>& run) {
  TROUPE_TRY_ASSIGN(const Layout layout, common_layout(call));
  OpCall fixed = call;
  for (auto* group : {&fixed.inputs, &fixed.outputs}) {
    for (TensorDesc& desc : *group) desc.layout = layout;
  }
  return std::unique_ptr<Kernel>(std::make_unique<FunctionKernel>(name, std::move(fixed), run));
}

KernelDef flat_kernel(std::string name,
                      std::function<Status(const OpCall&, const KernelContext&)> run,
                      std::function<Status(const OpCall&)> accepts) {
  return make_definition(std::move(name), std::move(run), std::move(accepts),
                         {base::DType::f32, base::DType::f64, base::DType::bf16});
}

KernelDef flat_kernel_of_f32(std::string name,
                             std::function<Status(const OpCall&, const KernelContext&)> run,
                             std::function<Status(const OpCall&)> accepts) {
  return make_definition(std::move(name), std::move(run), std::move(accepts), {base::DType::f32});
}

}  // namespace troupe::ops
