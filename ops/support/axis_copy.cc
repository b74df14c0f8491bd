// SPDX-License-Identifier: Apache-2.0
// Whole blocks lie one behind the other, as single places do in a dense tensor.
#include "ops/support/axis_copy.h"

#include "ops/op.h"
#include "ops/support/function_kernel.h"
#include "ops/support/layout_map.h"

namespace troupe::ops {
namespace {

using base::Errc;
using base::Layout;
using base::Result;
using base::Status;

/// Every tensor in the call's blocked layout. One that is not read counts only if it is free.
Result<OpCall> fixed_layouts(OpCall call) {
  std::vector<TensorDesc*> tensors;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const std::vector<int>& unread = call.op->shape_only_inputs;
    const bool read = std::find(unread.begin(), unread.end(), static_cast<int>(i)) == unread.end();
    if (read || call.inputs[i].any_layout) tensors.push_back(&call.inputs[i]);
  }
  for (TensorDesc& desc : call.outputs) tensors.push_back(&desc);
  const Layout layout =
      followed_layout(std::vector<const TensorDesc*>(tensors.begin(), tensors.end()));
  if (layout.kind != Layout::Kind::blocked) {
    return base::error(Errc::unimplemented, "in layout {}", layout.to_string());
  }
  for (TensorDesc* desc : tensors) {
    if (desc->shape.rank() != layout.padded.rank()) {
      return base::error(Errc::unimplemented, "shape {} in layout {}", desc->shape.to_string(),
                         layout.to_string());
    }
    const Layout own = layout_for(layout, desc->shape);
    if (!desc->any_layout && desc->layout != own) {
      return base::error(Errc::unimplemented, "layouts {} and {} are mixed",
                         desc->layout.to_string(), own.to_string());
    }
    desc->layout = own;
  }
  return call;
}

}  // namespace

AxisView axis_view(const TensorDesc& tensor, int axis) {
  const base::Shape& shape = tensor.shape;
  const Layout& layout = tensor.layout;
  TROUPE_CHECK(layout.kind != Layout::Kind::opaque, "opaque layouts have no axes");
  if (layout.is_dense()) {
    return {shape.elements(0, axis), shape[axis], shape.elements(axis + 1, shape.rank())};
  }
  AxisView view;
  view.block = block_along(layout, axis);
  std::int64_t* factor = &view.outer;
  for (const std::int32_t each : layout.order) {
    const std::int64_t blocks = layout.padded[each] / block_along(layout, each);
    if (each == axis) {
      view.extent = blocks;
      factor = &view.inner;
    } else {
      *factor *= blocks;
    }
  }
  for (const base::InnerBlock& block : layout.blocks) view.inner *= block.size;
  return view;
}

std::int64_t offset_along(const AxisView& view, std::int64_t at, std::size_t element) {
  if (view.outer != 1) return -1;
  return at / view.block * view.inner * static_cast<std::int64_t>(element);
}

KernelDef blocked_copy_kernel(std::function<Status(const OpCall&)> accepts,
                              std::function<Status(const OpCall&, const KernelContext&)> run) {
  const auto make = [accepts = std::move(accepts),
                     run = std::move(run)](const OpCall& call) -> Result<std::unique_ptr<Kernel>> {
    for (const WriteMode mode : call.modes) {
      if (mode != WriteMode::write) return base::error(Errc::unimplemented, "only writes");
    }
    TROUPE_TRY_ASSIGN(OpCall fixed, fixed_layouts(call));
    TROUPE_TRY(accepts(fixed));
    return std::unique_ptr<Kernel>(
        std::make_unique<FunctionKernel>("blocked", std::move(fixed), run));
  };
  return moving_kernel({"blocked", make});
}

}  // namespace troupe::ops
