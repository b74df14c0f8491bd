// SPDX-License-Identifier: Apache-2.0
// reorder on GPUs, between any two dense or blocked layouts: each place of the output finds its
// element. Places of padding get zero.
#include <array>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "ops/support/device_copy.h"
#include "ops/support/function_kernel.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

/// One digit of an axis's index in a layout: index / unit % extent, `stride` places apart.
struct LayoutDigit {
  int axis = 0;
  std::int64_t stride = 1;
  Divider extent, unit;
};

/// All digits of a layout, innermost first.
struct LayoutDigits {
  static constexpr int kMost = base::kRankMax + 4;  // and the inner blocks
  int count = 0;
  LayoutDigit list[kMost];

  void add(int axis, std::int64_t extent, std::int64_t* units) {
    std::int64_t stride = 1;
    if (count > 0) stride = list[count - 1].stride * list[count - 1].extent.divisor();
    list[count++] = {axis, stride, Divider(extent), Divider(units[axis])};
    units[axis] *= extent;
  }
};

LayoutDigits layout_digits(const base::Layout& layout, const base::Shape& shape) {
  LayoutDigits digits;
  std::int64_t units[base::kRankMax];
  std::fill_n(units, base::kRankMax, 1);
  if (layout.is_dense()) {
    for (int axis = shape.rank() - 1; axis >= 0; --axis) digits.add(axis, shape[axis], units);
    return digits;
  }
  for (auto block = layout.blocks.rbegin(); block != layout.blocks.rend(); ++block) {
    digits.add(block->axis, block->size, units);
  }
  for (auto axis = layout.order.rbegin(); axis != layout.order.rend(); ++axis) {
    digits.add(*axis, layout.padded[*axis] / units[*axis], units);
  }
  return digits;
}

/// Between two layouts of tensors with these extents.
struct ReorderMap {
  LayoutDigits from, to;
  int rank = 0;
  std::int64_t extent[base::kRankMax] = {};

  /// Where the element of this place is read; -1: it is padding.
  TROUPE_HOST_DEVICE std::int64_t source(std::int64_t place) const {
    std::int64_t index[base::kRankMax] = {};
    for (int i = 0; i < to.count; ++i) {
      const LayoutDigit& digit = to.list[i];
      const Divider::Digits at = digit.extent.digits(place);
      index[digit.axis] += at.remainder * digit.unit.divisor();
      place = at.quotient;
    }
    for (int axis = 0; axis < rank; ++axis) {
      if (index[axis] >= extent[axis]) return -1;
    }
    std::int64_t offset = 0;
    for (int i = 0; i < from.count; ++i) {
      const LayoutDigit& digit = from.list[i];
      offset += digit.extent.remainder(digit.unit.quotient(index[digit.axis])) * digit.stride;
    }
    return offset;
  }
};

template <typename Bits>
struct ReorderAt {
  const Bits* in;
  Bits* out;
  ReorderMap map;

  TROUPE_HOST_DEVICE void operator()(std::int64_t place) const {
    const std::int64_t from = map.source(place);
    out[place] = from < 0 ? Bits{0} : in[from];
  }
};

/// Axes from the outermost to the innermost; none for a layout with blocks or padding.
std::vector<int> plain_order(const base::Layout& layout, const base::Shape& shape) {
  std::vector<int> order(static_cast<std::size_t>(shape.rank()));
  std::iota(order.begin(), order.end(), 0);
  if (layout.is_dense()) return order;
  if (!layout.blocks.empty()) return {};
  for (const int axis : order) {
    if (layout.padded[axis] != shape[axis]) return {};
  }
  return {layout.order.begin(), layout.order.end()};
}

/// Between two orders of the axes, in the output's; empty `from` or `to`: none.
std::optional<CopyMap> permutation_map(const std::vector<int>& from, const std::vector<int>& to,
                                       const base::Shape& shape) {
  if (from.empty() || to.empty()) return std::nullopt;
  const auto strides = [&](const std::vector<int>& order) {
    std::array<std::int64_t, base::kRankMax> result{};
    std::int64_t stride = 1;
    for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
      result.at(static_cast<std::size_t>(*axis)) = stride;
      stride *= shape[*axis];
    }
    return result;
  };
  const auto read = strides(from), written = strides(to);
  CopyMap map;
  for (const int axis : to) {
    const auto i = static_cast<std::size_t>(axis);
    map.add(shape[axis], read[i], written[i]);
  }
  return map;
}

base::Status run_reorder(const OpCall& call, const KernelContext& context) {
  const base::Layout &from = call.inputs[0].layout, &to = call.outputs[0].layout;
  if (from == to) return move_all(context);
  const base::Shape& shape = call.outputs[0].shape;
  if (const auto moves = permutation_map(plain_order(from, shape), plain_order(to, shape), shape)) {
    return with_moved(context.outputs[0].dtype, [&](auto zero) {
      using Bits = decltype(zero);
      return copy_elements(context, *moves, context.inputs[0].raw<Bits>(),
                           DeviceOutput<Bits>{context.outputs[0].raw<Bits>(), false});
    });
  }
  ReorderMap map{layout_digits(from, shape), layout_digits(to, shape), shape.rank(), {}};
  std::copy_n(shape.dims().data(), shape.rank(), map.extent);
  const base::TensorView& out = context.outputs[0];
  return with_moved(out.dtype, [&](auto zero) {
    using Bits = decltype(zero);
    return for_each_index(context, out.bytes() / static_cast<std::int64_t>(sizeof(Bits)),
                          ReorderAt<Bits>{context.inputs[0].raw<Bits>(), out.raw<Bits>(), map});
  });
}

base::Result<std::unique_ptr<Kernel>> make_reorder(const OpCall& call) {
  OpCall fixed = call;
  if (fixed.outputs[0].any_layout) fixed.outputs[0].layout = fixed.inputs[0].layout;
  for (const TensorDesc* tensor : {&fixed.inputs[0], &fixed.outputs[0]}) {
    if (tensor->layout.kind != base::Layout::Kind::opaque) continue;
    return base::error(base::Errc::unimplemented, "opaque layout {}", tensor->layout.to_string());
  }
  return std::unique_ptr<Kernel>(
      std::make_unique<FunctionKernel>("cuda", std::move(fixed), run_reorder));
}

KernelDef reorder_device_kernel() {
  KernelDef kernel = moving_kernel({"cuda", make_reorder});
  kernel.on_gpus = true;
  return kernel;
}

}  // namespace

std::span<const BackendKernel> kernels_reorder_cuda() {
  static const BackendKernel kernels[] = {{"reorder", reorder_device_kernel()}};
  return kernels;
}

}  // namespace troupe::ops
