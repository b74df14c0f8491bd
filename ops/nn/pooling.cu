// SPDX-License-Identifier: Apache-2.0
// pooling and its gradient on GPUs. Each element of the gradient gathers from the windows that it
// lies in, in their order.
#include "ops/nn/pooling.h"

#include <algorithm>
#include <limits>

#include "ops/nn/device_window.h"
#include "ops/support/channels_last.h"
#include "ops/support/device_blocks.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

/// A range of positions inside the input, from where its window starts, and what a mean divides by.
struct PoolingRange {
  std::int64_t start, begin, end, divisor;
};

TROUPE_HOST_DEVICE inline PoolingRange pooling_range(const DeviceWindow& w, std::int64_t window,
                                                     bool count_pad) {
  const std::int64_t start = w.start(window);
  const std::int64_t edge = w.input + w.pad;
  const std::int64_t stop = start + w.kernel < edge ? start + w.kernel : edge;
  const std::int64_t begin = start > 0 ? start : 0, end = stop < w.input ? stop : w.input;
  const std::int64_t inside = end > begin ? end - begin : 0;
  return {start, begin, end, count_pad ? stop - start : inside};
}

TROUPE_HOST_DEVICE inline std::int64_t pooling_divisor(const PoolingRange& rows,
                                                       const PoolingRange& columns) {
  const std::int64_t divisor = rows.divisor * columns.divisor;
  return divisor > 1 ? divisor : 1;
}

/// Elements as (plane, row, column, channel): channels are 1 where each has planes of its own.
struct PoolingPlace {
  std::int64_t plane, row, column, channel;
};
/// How the elements of one of the two tensors lie.
struct PoolingLayout {
  Divider rows, columns, channels;

  TROUPE_HOST_DEVICE PoolingPlace place(std::int64_t i) const {
    const Divider::Digits at = channels.digits(i), line = columns.digits(at.quotient);
    const Divider::Digits plane = rows.digits(line.quotient);
    return {plane.quotient, plane.remainder, line.remainder, at.remainder};
  }
  /// Offset of the element at (row, column), in the plane and channel of `at`.
  TROUPE_HOST_DEVICE std::int64_t offset(const PoolingPlace& at, std::int64_t row,
                                         std::int64_t column) const {
    return ((at.plane * rows.divisor() + row) * columns.divisor() + column) * channels.divisor() +
           at.channel;
  }
};
struct PoolingPlanes {
  DeviceWindow rows, columns;
  PoolingLayout input, output;
};

/// Neighbouring elements of one window's place, in as many channels: one, or a pack of T.
template <typename T, int Size>
struct PoolingPack {
  Wide<T> values[Size];

  TROUPE_HOST_DEVICE static PoolingPack load(const T* data, std::int64_t i) {
    PoolingPack result;
    if constexpr (Size == 1) {
      result.values[0] = static_cast<Wide<T>>(data[i]);
    } else {
      const DevicePack<T> pack = pack_at(data, i);
      TROUPE_UNROLL
      for (int k = 0; k < Size; ++k) result.values[k] = static_cast<Wide<T>>(pack.values[k]);
    }
    return result;
  }
  TROUPE_HOST_DEVICE void store(const DeviceOutput<T>& out, std::int64_t i) const {
    if constexpr (Size == 1) {
      out.store(i, values[0]);
    } else {
      out.store_pack(i, values);
    }
  }
};
/// Indices of `Size` neighbouring windows.
template <typename Index, int Size>
struct alignas(std::min<std::size_t>(Size * sizeof(Index), 16)) PoolingTaps {
  Index values[Size];
};

/// One window, or those of a pack of channels: the maximum, the first of equals but the last NaN,
/// and where that is.
template <typename T, typename Index>
struct PoolingMaxAt {
  using W = Wide<T>;
  PoolingPlanes v;
  const T* data;
  DeviceOutput<T> out;
  Index* indices;

  template <int Size>
  TROUPE_HOST_DEVICE void windows(std::int64_t i) const {
    const PoolingPlace at = v.output.place(i);
    const PoolingRange ys = pooling_range(v.rows, at.row, true);
    const PoolingRange xs = pooling_range(v.columns, at.column, true);
    PoolingPack<T, Size> best;
    PoolingTaps<Index, Size> where;
    TROUPE_UNROLL
    for (int k = 0; k < Size; ++k) best.values[k] = std::numeric_limits<W>::lowest();
    TROUPE_UNROLL
    for (int k = 0; k < Size; ++k) where.values[k] = 0;
    bool first = true;
    for (std::int64_t y = ys.begin; y < ys.end; ++y) {
      for (std::int64_t x = xs.begin; x < xs.end; ++x) {
        const auto found = PoolingPack<T, Size>::load(data, v.input.offset(at, y, x));
        const auto tap = static_cast<Index>((y - ys.start) * v.columns.kernel + x - xs.start);
        TROUPE_UNROLL
        for (int k = 0; k < Size; ++k) {
          const W value = found.values[k];
          if (!first && !(value > best.values[k]) && value == value) continue;
          best.values[k] = value;
          where.values[k] = tap;
        }
        first = false;
      }
    }
    best.store(out, i);
    if (indices != nullptr) *reinterpret_cast<PoolingTaps<Index, Size>*>(indices + i) = where;
  }
  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const { windows<1>(i); }
  TROUPE_HOST_DEVICE void pack(std::int64_t i) const { windows<DevicePack<T>::kSize>(i); }
};

template <typename T>
struct PoolingMeanAt {
  PoolingPlanes v;
  bool count_pad;
  const T* data;
  DeviceOutput<T> out;

  template <int Size>
  TROUPE_HOST_DEVICE void windows(std::int64_t i) const {
    const PoolingPlace at = v.output.place(i);
    const PoolingRange ys = pooling_range(v.rows, at.row, count_pad);
    const PoolingRange xs = pooling_range(v.columns, at.column, count_pad);
    PoolingPack<T, Size> sums{};
    for (std::int64_t y = ys.begin; y < ys.end; ++y) {
      for (std::int64_t x = xs.begin; x < xs.end; ++x) {
        const auto found = PoolingPack<T, Size>::load(data, v.input.offset(at, y, x));
        TROUPE_UNROLL
        for (int k = 0; k < Size; ++k) sums.values[k] += found.values[k];
      }
    }
    const auto divisor = static_cast<Wide<T>>(pooling_divisor(ys, xs));
    TROUPE_UNROLL
    for (int k = 0; k < Size; ++k) sums.values[k] /= divisor;
    sums.store(out, i);
  }
  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const { windows<1>(i); }
  TROUPE_HOST_DEVICE void pack(std::int64_t i) const { windows<DevicePack<T>::kSize>(i); }
};

/// Calls add(window's offset, its row and column, its tap that is here) for the windows around
/// input element i.
template <typename Add>
TROUPE_HOST_DEVICE void pooling_gather(const PoolingPlanes& v, std::int64_t i, const Add& add) {
  const PoolingPlace at = v.input.place(i);
  const std::int64_t first_row = v.rows.first(at.row), last_row = v.rows.last(at.row);
  const std::int64_t first = v.columns.first(at.column), last = v.columns.last(at.column);
  for (std::int64_t row = first_row; row <= last_row; ++row) {
    for (std::int64_t column = first; column <= last; ++column) {
      const std::int64_t tap =
          (at.row - v.rows.start(row)) * v.columns.kernel + at.column - v.columns.start(column);
      add(v.output.offset(at, row, column), row, column, tap);
    }
  }
}

/// The gradient of each window whose maximum was here.
template <typename T, typename Index>
struct PoolingMaxGradientAt {
  PoolingPlanes v;
  const T* gradient;
  const Index* indices;
  DeviceOutput<T> out;

  template <int Size>
  TROUPE_HOST_DEVICE void elements(std::int64_t i) const {
    PoolingPack<T, Size> sums{};
    pooling_gather(v, i, [&](std::int64_t window, std::int64_t, std::int64_t, std::int64_t tap) {
      const auto share = PoolingPack<T, Size>::load(gradient, window);
      const auto where = *reinterpret_cast<const PoolingTaps<Index, Size>*>(indices + window);
      TROUPE_UNROLL
      for (int k = 0; k < Size; ++k) {
        sums.values[k] += where.values[k] == tap ? share.values[k] : Wide<T>{0};
      }
    });
    sums.store(out, i);
  }
  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const { elements<1>(i); }
  TROUPE_HOST_DEVICE void pack(std::int64_t i) const { elements<DevicePack<T>::kSize>(i); }
};

/// The same where windows lie side by side (windows_tile), for all elements of a window.
template <typename T, typename Index>
struct PoolingMaxTileAt {
  PoolingPlanes v;
  const T* gradient;
  const Index* indices;
  DeviceOutput<T> out;

  template <int Size>
  TROUPE_HOST_DEVICE void elements(std::int64_t window) const {
    const PoolingPlace at = v.output.place(window);
    const std::int64_t top = at.row * v.rows.kernel, left = at.column * v.columns.kernel;
    const auto share = PoolingPack<T, Size>::load(gradient, window);
    const auto where = *reinterpret_cast<const PoolingTaps<Index, Size>*>(indices + window);
    std::int64_t tap = 0;
    for (std::int64_t row = top; row < top + v.rows.kernel; ++row) {
      for (std::int64_t column = left; column < left + v.columns.kernel; ++column, ++tap) {
        PoolingPack<T, Size> values;
        TROUPE_UNROLL
        for (int k = 0; k < Size; ++k) {
          values.values[k] = where.values[k] == tap ? share.values[k] : Wide<T>{0};
        }
        values.store(out, v.input.offset(at, row, column));
      }
    }
  }
  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const { elements<1>(i); }
  TROUPE_HOST_DEVICE void pack(std::int64_t i) const { elements<DevicePack<T>::kSize>(i); }
};

/// True when each element of an axis is in one window.
bool windows_tile(const DeviceWindow& w) {
  const bool side_by_side = w.stride.divisor() == w.kernel || w.output == 1;
  return side_by_side && w.pad == 0 && w.output * w.kernel == w.input;
}

/// This element's share in the gradient of each window.
template <typename T>
struct PoolingMeanGradientAt {
  PoolingPlanes v;
  bool count_pad;
  const T* gradient;
  DeviceOutput<T> out;

  template <int Size>
  TROUPE_HOST_DEVICE void elements(std::int64_t i) const {
    PoolingPack<T, Size> sums{};
    pooling_gather(
        v, i, [&](std::int64_t window, std::int64_t row, std::int64_t column, std::int64_t) {
          const auto share = PoolingPack<T, Size>::load(gradient, window);
          const auto divisor = static_cast<Wide<T>>(pooling_divisor(
              pooling_range(v.rows, row, count_pad), pooling_range(v.columns, column, count_pad)));
          TROUPE_UNROLL
          for (int k = 0; k < Size; ++k) sums.values[k] += share.values[k] / divisor;
        });
    sums.store(out, i);
  }
  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const { elements<1>(i); }
  TROUPE_HOST_DEVICE void pack(std::int64_t i) const { elements<DevicePack<T>::kSize>(i); }
};

/// For data and output of one layout.
PoolingPlanes pooling_planes(const Pooling& v, const TensorDesc& output) {
  const Divider channels(is_channels_last(output) ? output.shape[1] : 1);
  return {device_window(v.window[0], v.input[0], v.output[0]),
          device_window(v.window[1], v.input[1], v.output[1]),
          {Divider(v.input[0]), Divider(v.input[1]), channels},
          {Divider(v.output[0]), Divider(v.output[1]), channels}};
}

/// f for all `count` elements of one tensor; by packs, where channels are neighbours and packs may
/// lie at all `places` (null: none is read there).
template <typename T, typename F, typename... P>
base::Status walk_pooling(const KernelContext& context, std::int64_t count,
                          const PoolingPlanes& planes, const F& f, const P*... places) {
  constexpr int kSize = DevicePack<T>::kSize;
  const bool packs = planes.input.channels.divisor() % kSize == 0 && (packs_align(places) && ...);
  return for_each_pack<T>(context, count, packs, f);
}

template <typename T>
base::Status run_pooling(const OpCall& call, const KernelContext& context, T) {
  const Pooling v = read_pooling(call.params, call.inputs[0].shape, call.outputs[0].shape);
  const PoolingPlanes planes = pooling_planes(v, call.outputs[0]);
  const T* data = context.inputs[0].as<T>();
  const auto out = device_output<T>(call, context, 0);
  const std::int64_t count = context.outputs[0].elements();
  if (!v.max) {
    return walk_pooling<T>(context, count, planes, PoolingMeanAt<T>{planes, v.count_pad, data, out},
                           data, out.data);
  }
  const auto run_max = [&]<typename Index>(Index* indices) {
    return walk_pooling<T>(context, count, planes,
                           PoolingMaxAt<T, Index>{planes, data, out, indices}, data, out.data,
                           indices);
  };
  if (context.outputs.size() < 2) return run_max(static_cast<std::uint8_t*>(nullptr));
  const base::TensorView& indices = context.outputs[1];
  return indices.dtype == base::DType::u8 ? run_max(indices.as<std::uint8_t>())
                                          : run_max(indices.as<std::int32_t>());
}

template <typename T>
base::Status run_pooling_gradient(const OpCall& call, const KernelContext& context, T) {
  const Pooling v = read_pooling(call.params, call.inputs[1].shape, call.inputs[0].shape);
  const PoolingPlanes planes = pooling_planes(v, call.outputs[0]);
  const T* gradient = context.inputs[0].as<T>();
  const auto out = device_output<T>(call, context, 0);
  const std::int64_t count = context.outputs[0].elements();
  if (!v.max) {
    return walk_pooling<T>(context, count, planes,
                           PoolingMeanGradientAt<T>{planes, v.count_pad, gradient, out}, gradient,
                           out.data);
  }
  const auto run_max = [&]<typename Index>(const Index* indices) {
    if (windows_tile(planes.rows) && windows_tile(planes.columns)) {
      return walk_pooling<T>(context, context.inputs[0].elements(), planes,
                             PoolingMaxTileAt<T, Index>{planes, gradient, indices, out}, gradient,
                             out.data, indices);
    }
    return walk_pooling<T>(context, count, planes,
                           PoolingMaxGradientAt<T, Index>{planes, gradient, indices, out}, gradient,
                           out.data, indices);
  };
  const base::TensorView& indices = context.inputs[2];
  return indices.dtype == base::DType::u8 ? run_max(indices.as<std::uint8_t>())
                                          : run_max(indices.as<std::int32_t>());
}

}  // namespace

std::span<const BackendKernel> kernels_pooling_cuda() {
  static const BackendKernel kernels[] = {
      {"pooling",
       planes_device_kernel(always_may_be_last, [](auto&&... x) { return run_pooling(x...); })},
      {"pooling_backward", planes_device_kernel(always_may_be_last, [](auto&&... x) {
         return run_pooling_gradient(x...);
       })}};
  return kernels;
}

}  // namespace troupe::ops
