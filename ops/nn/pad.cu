// SPDX-License-Identifier: Apache-2.0
// pad and its gradient on GPUs. The gradient gathers: each element adds the gradients of all
// places that hold it, in the order of the places.
#include "ops/nn/pad.h"
#include "ops/support/device_copy.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

/// The places along one axis of the output that hold one index of data: its own, and those before
/// and behind it.
struct PadPlaces {
  std::int64_t first = 0, before = 0, own = 0, behind = 0, last = 0;

  TROUPE_HOST_DEVICE PadPlaces(BorderMode mode, const Border& border, std::int64_t index)
      : own(border.before + index) {
    const std::int64_t end = border.extent - 1;
    if (mode == BorderMode::edge) {
      if (index == 0) before = border.before;
      if (index == end) behind = border.behind;
      first = 0;
      last = own + 1;
    } else if (mode == BorderMode::reflect) {
      if (index > 0 && index <= border.before) before = 1;
      if (index < end && end - index <= border.behind) behind = 1;
      first = border.before - index;
      last = border.before + 2 * end - index;
    }
  }
  TROUPE_HOST_DEVICE std::int64_t count() const { return before + 1 + behind; }
  /// The k-th, in ascending order.
  TROUPE_HOST_DEVICE std::int64_t operator[](std::int64_t k) const {
    if (k < before) return first + k;
    return k == before ? own : last + (k - before - 1);
  }
};

template <typename T>
struct PadGradientAt {
  const T* gradient;
  DeviceOutput<T> out;
  Borders borders;

  TROUPE_HOST_DEVICE PadPlaces places(int axis, std::int64_t& rest) const {
    const Border& border = borders[axis];
    const std::int64_t index = rest % border.extent;
    rest /= border.extent;
    return {borders.mode, border, index};
  }

  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    std::int64_t rest = i, count = 1;
    for (int axis = borders.rank - 1; axis >= 0; --axis) count *= places(axis, rest).count();
    Wide<T> sum{0};
    for (std::int64_t k = 0; k < count; ++k) {
      std::int64_t number = k, place = 0, stride = 1;
      rest = i;
      for (int axis = borders.rank - 1; axis >= 0; --axis) {
        const PadPlaces list = places(axis, rest);
        place += list[number % list.count()] * stride;
        number /= list.count();
        stride *= borders[axis].padded();
      }
      sum += static_cast<Wide<T>>(gradient[place]);
    }
    out.store(i, sum);
  }
};

template <typename T>
base::Status run_pad(const OpCall& call, const KernelContext& context, T) {
  const auto constant = static_cast<Wide<T>>(call.params.real("constant_value"));
  return for_each_index(context, call.outputs[0].shape.elements(),
                        BorderAt<T>{context.inputs[0].as<T>(), device_output<T>(call, context, 0),
                                    read_borders(call.params, call.inputs[0].shape), constant});
}

template <typename T>
base::Status run_pad_backward(const OpCall& call, const KernelContext& context, T) {
  const base::Shape& data = call.outputs[0].shape;
  return for_each_index(
      context, data.elements(),
      PadGradientAt<T>{context.inputs[0].as<T>(), device_output<T>(call, context, 0),
                       read_borders(call.params, data)});
}

}  // namespace

std::span<const BackendKernel> kernels_pad_cuda() {
  static const BackendKernel kernels[] = {
      {"pad", real_device_kernel([](auto&&... x) { return run_pad(x...); })},
      {"pad_backward", real_device_kernel([](auto&&... x) { return run_pad_backward(x...); })}};
  return kernels;
}

}  // namespace troupe::ops
