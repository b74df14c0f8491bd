// SPDX-License-Identifier: Apache-2.0
// pooling and its gradient on GPUs. Each element of the gradient gathers from the windows that it
// lies in, in their order.
#include "ops/nn/pooling.h"

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
  const std::int64_t start = w.position(window, 0);
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
struct PoolingPlanes {
  DeviceWindow rows, columns;
  std::int64_t channels;

  TROUPE_HOST_DEVICE static PoolingPlace place(std::int64_t i, std::int64_t channels,
                                               std::int64_t rows, std::int64_t columns) {
    const std::int64_t at = i / channels, line = at / columns;
    return {line / rows, line % rows, at % columns, i % channels};
  }
  TROUPE_HOST_DEVICE PoolingPlace input_place(std::int64_t i) const {
    return place(i, channels, rows.input, columns.input);
  }
  TROUPE_HOST_DEVICE PoolingPlace output_place(std::int64_t i) const {
    return place(i, channels, rows.output, columns.output);
  }
  TROUPE_HOST_DEVICE std::int64_t input(const PoolingPlace& at, std::int64_t row,
                                        std::int64_t column) const {
    return ((at.plane * rows.input + row) * columns.input + column) * channels + at.channel;
  }
  TROUPE_HOST_DEVICE std::int64_t output(const PoolingPlace& at, std::int64_t row,
                                         std::int64_t column) const {
    return ((at.plane * rows.output + row) * columns.output + column) * channels + at.channel;
  }
};

/// One window: its maximum, the first of equals but the last NaN, and where that is.
template <typename T, typename Index>
struct PoolingMaxAt {
  using W = Wide<T>;
  PoolingPlanes v;
  const T* data;
  DeviceOutput<T> out;
  Index* indices;

  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    const PoolingPlace at = v.output_place(i);
    const PoolingRange ys = pooling_range(v.rows, at.row, true);
    const PoolingRange xs = pooling_range(v.columns, at.column, true);
    W best = std::numeric_limits<W>::lowest();
    std::int64_t where = -1;
    for (std::int64_t y = ys.begin; y < ys.end; ++y) {
      for (std::int64_t x = xs.begin; x < xs.end; ++x) {
        const auto value = static_cast<W>(data[v.input(at, y, x)]);
        if (where >= 0 && !(value > best) && value == value) continue;
        best = value;
        where = (y - ys.start) * v.columns.kernel + x - xs.start;
      }
    }
    out.store(i, best);
    if (indices != nullptr) indices[i] = static_cast<Index>(where < 0 ? 0 : where);
  }
};

template <typename T>
struct PoolingMeanAt {
  PoolingPlanes v;
  bool count_pad;
  const T* data;
  DeviceOutput<T> out;

  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    const PoolingPlace at = v.output_place(i);
    const PoolingRange ys = pooling_range(v.rows, at.row, count_pad);
    const PoolingRange xs = pooling_range(v.columns, at.column, count_pad);
    Wide<T> sum = 0;
    for (std::int64_t y = ys.begin; y < ys.end; ++y) {
      for (std::int64_t x = xs.begin; x < xs.end; ++x) {
        sum += static_cast<Wide<T>>(data[v.input(at, y, x)]);
      }
    }
    out.store(i, sum / static_cast<Wide<T>>(pooling_divisor(ys, xs)));
  }
};

/// Adds up share(window's offset, its row and column) over the windows around input element i.
template <typename W, typename Share>
TROUPE_HOST_DEVICE W pooling_gather(const PoolingPlanes& v, std::int64_t i, const Share& share) {
  const PoolingPlace at = v.input_place(i);
  const DeviceWindow &rows = v.rows, &columns = v.columns;
  W sum = 0;
  for (std::int64_t row = rows.first(at.row); row <= rows.last(at.row); ++row) {
    for (std::int64_t column = columns.first(at.column); column <= columns.last(at.column);
         ++column) {
      const std::int64_t tap = (at.row - rows.position(row, 0)) * columns.kernel + at.column -
                               columns.position(column, 0);
      sum += share(v.output(at, row, column), row, column, tap);
    }
  }
  return sum;
}

/// The gradient of each window whose maximum was here.
template <typename T, typename Index>
struct PoolingMaxGradientAt {
  using W = Wide<T>;
  PoolingPlanes v;
  const T* gradient;
  const Index* indices;
  DeviceOutput<T> out;

  TROUPE_HOST_DEVICE W operator()(std::int64_t window, std::int64_t, std::int64_t,
                                  std::int64_t tap) const {
    return indices[window] == tap ? static_cast<W>(gradient[window]) : W{0};
  }
  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    out.store(i, pooling_gather<W>(v, i, *this));
  }
};

/// This element's share in the gradient of each window.
template <typename T>
struct PoolingMeanGradientAt {
  using W = Wide<T>;
  PoolingPlanes v;
  bool count_pad;
  const T* gradient;
  DeviceOutput<T> out;

  TROUPE_HOST_DEVICE W operator()(std::int64_t window, std::int64_t row, std::int64_t column,
                                  std::int64_t) const {
    const std::int64_t divisor = pooling_divisor(pooling_range(v.rows, row, count_pad),
                                                 pooling_range(v.columns, column, count_pad));
    return static_cast<W>(gradient[window]) / static_cast<W>(divisor);
  }
  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    out.store(i, pooling_gather<W>(v, i, *this));
  }
};

PoolingPlanes pooling_planes(const Pooling& v, const TensorDesc& output) {
  return {device_window(v.window[0], v.input[0], v.output[0]),
          device_window(v.window[1], v.input[1], v.output[1]),
          is_channels_last(output) ? output.shape[1] : 1};
}

template <typename T>
base::Status run_pooling(const OpCall& call, const KernelContext& context, T) {
  const Pooling v = read_pooling(call.params, call.inputs[0].shape, call.outputs[0].shape);
  const PoolingPlanes planes = pooling_planes(v, call.outputs[0]);
  const T* data = context.inputs[0].as<T>();
  const auto out = device_output<T>(call, context, 0);
  const std::int64_t count = context.outputs[0].elements();
  if (!v.max) {
    return for_each_index(context, count, PoolingMeanAt<T>{planes, v.count_pad, data, out});
  }
  const auto run_max = [&]<typename Index>(Index* indices) {
    return for_each_index(context, count, PoolingMaxAt<T, Index>{planes, data, out, indices});
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
    return for_each_index(context, count,
                          PoolingMeanGradientAt<T>{planes, v.count_pad, gradient, out});
  }
  const auto run_max = [&]<typename Index>(const Index* indices) {
    return for_each_index(context, count,
                          PoolingMaxGradientAt<T, Index>{planes, gradient, indices, out});
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
