// SPDX-License-Identifier: Apache-2.0
// reorder on GPUs, between any two dense or blocked layouts: each place of the output finds its
// element. Places of padding get zero.
#include <memory>
#include <optional>
#include <span>
#include <utility>

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

/// The same where both layouts only order whole axes; none for blocks and padding.
std::optional<CopyMap> permutation_map(const ReorderMap& map) {
  std::int64_t read[base::kRankMax] = {};
  for (const LayoutDigits* digits : {&map.from, &map.to}) {
    if (digits->count != map.rank) return std::nullopt;
    for (const LayoutDigit& digit : std::span(digits->list, std::size_t(map.rank))) {
      if (digit.extent.divisor() != map.extent[digit.axis]) return std::nullopt;
      if (digits == &map.from) read[digit.axis] = digit.stride;
    }
  }
  CopyMap moves;
  for (int i = map.rank - 1; i >= 0; --i) {
    const LayoutDigit& digit = map.to.list[i];
    moves.add(digit.extent.divisor(), read[digit.axis], digit.stride);
  }
  return moves;
}

base::Status run_reorder(const OpCall& call, const KernelContext& context) {
  const base::Layout &from = call.inputs[0].layout, &to = call.outputs[0].layout;
  if (from == to) return move_all(context);
  const base::Shape& shape = call.outputs[0].shape;
  ReorderMap map{layout_digits(from, shape), layout_digits(to, shape), shape.rank(), {}};
  std::copy_n(shape.dims().data(), shape.rank(), map.extent);
  const base::TensorView& out = context.outputs[0];
  const std::optional<CopyMap> moves = permutation_map(map);
  return with_moved(out.dtype, [&](auto zero) {
    using Bits = decltype(zero);
    const Bits* const in = context.inputs[0].raw<Bits>();
    if (moves) {
      return copy_elements(context, *moves, in, DeviceOutput<Bits>{out.raw<Bits>(), false});
    }
    return for_each_index(context, out.bytes() / static_cast<std::int64_t>(sizeof(Bits)),
                          ReorderAt<Bits>{in, out.raw<Bits>(), map});
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
