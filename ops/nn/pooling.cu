// SPDX-License-Identifier: Apache-2.0
// pooling and its gradient on GPUs. Each element of the gradient gathers from the windows that it
// lies in, in their order.
#include "ops/nn/pooling.h"

#include <limits>

#include "ops/nn/device_window.h"
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

/// One window: its maximum, the first of equals but the last NaN, and where that is.
template <typename T, typename Index>
struct PoolingMaxAt {
  using W = Wide<T>;
  DeviceWindow rows, columns;
  const T* data;
  DeviceOutput<T> out;
  Index* indices;

  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t plane = i / (rows.output * columns.output);
    const PoolingRange ys = pooling_range(rows, i / columns.output % rows.output, true);
    const PoolingRange xs = pooling_range(columns, i % columns.output, true);
    const T* const from = data + plane * rows.input * columns.input;
    W best = std::numeric_limits<W>::lowest();
    std::int64_t where = -1;
    for (std::int64_t y = ys.begin; y < ys.end; ++y) {
      for (std::int64_t x = xs.begin; x < xs.end; ++x) {
        const auto value = static_cast<W>(from[y * columns.input + x]);
        if (where >= 0 && !(value > best) && value == value) continue;
        best = value;
        where = (y - ys.start) * columns.kernel + x - xs.start;
      }
    }
    out.store(i, best);
    if (indices != nullptr) indices[i] = static_cast<Index>(where < 0 ? 0 : where);
  }
};

template <typename T>
struct PoolingMeanAt {
  DeviceWindow rows, columns;
  bool count_pad;
  const T* data;
  DeviceOutput<T> out;

  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t plane = i / (rows.output * columns.output);
    const PoolingRange ys = pooling_range(rows, i / columns.output % rows.output, count_pad);
    const PoolingRange xs = pooling_range(columns, i % columns.output, count_pad);
    const T* const from = data + plane * rows.input * columns.input;
    Wide<T> sum = 0;
    for (std::int64_t y = ys.begin; y < ys.end; ++y) {
      for (std::int64_t x = xs.begin; x < xs.end; ++x) {
        sum += static_cast<Wide<T>>(from[y * columns.input + x]);
      }
    }
    out.store(i, sum / static_cast<Wide<T>>(pooling_divisor(ys, xs)));
  }
};

/// Adds up share(window's offset, its row and column) over the windows around input element i.
template <typename W, typename Share>
TROUPE_HOST_DEVICE W pooling_gather(const DeviceWindow& rows, const DeviceWindow& columns,
                                    std::int64_t i, const Share& share) {
  const std::int64_t plane = i / (rows.input * columns.input);
  const std::int64_t y = i / columns.input % rows.input, x = i % columns.input;
  W sum = 0;
  for (std::int64_t row = rows.first(y); row <= rows.last(y); ++row) {
    for (std::int64_t column = columns.first(x); column <= columns.last(x); ++column) {
      const std::int64_t tap =
          (y - rows.position(row, 0)) * columns.kernel + x - columns.position(column, 0);
      sum += share((plane * rows.output + row) * columns.output + column, row, column, tap);
    }
  }
  return sum;
}

/// The gradient of each window whose maximum was here.
template <typename T, typename Index>
struct PoolingMaxGradientAt {
  using W = Wide<T>;
  DeviceWindow rows, columns;
  const T* gradient;
  const Index* indices;
  DeviceOutput<T> out;

  TROUPE_HOST_DEVICE W operator()(std::int64_t window, std::int64_t, std::int64_t,
                                  std::int64_t tap) const {
    return indices[window] == tap ? static_cast<W>(gradient[window]) : W{0};
  }
  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    out.store(i, pooling_gather<W>(rows, columns, i, *this));
  }
};

/// This element's share in the gradient of each window.
template <typename T>
struct PoolingMeanGradientAt {
  using W = Wide<T>;
  DeviceWindow rows, columns;
  bool count_pad;
  const T* gradient;
  DeviceOutput<T> out;

  TROUPE_HOST_DEVICE W operator()(std::int64_t window, std::int64_t row, std::int64_t column,
                                  std::int64_t) const {
    const std::int64_t divisor = pooling_divisor(pooling_range(rows, row, count_pad),
                                                 pooling_range(columns, column, count_pad));
    return static_cast<W>(gradient[window]) / static_cast<W>(divisor);
  }
  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    out.store(i, pooling_gather<W>(rows, columns, i, *this));
  }
};

template <typename T>
base::Status run_pooling(const OpCall& call, const KernelContext& context, T) {
  const Pooling v = read_pooling(call.params, call.inputs[0].shape, call.outputs[0].shape);
  const DeviceWindow rows = device_window(v.window[0], v.input[0], v.output[0]);
  const DeviceWindow columns = device_window(v.window[1], v.input[1], v.output[1]);
  const T* data = context.inputs[0].as<T>();
  const auto out = device_output<T>(call, context, 0);
  const std::int64_t count = context.outputs[0].elements();
  if (!v.max) {
    return for_each_index(context, count, PoolingMeanAt<T>{rows, columns, v.count_pad, data, out});
  }
  const auto run_max = [&]<typename Index>(Index* indices) {
    return for_each_index(context, count,
                          PoolingMaxAt<T, Index>{rows, columns, data, out, indices});
  };
  if (context.outputs.size() < 2) return run_max(static_cast<std::uint8_t*>(nullptr));
  const base::TensorView& indices = context.outputs[1];
  return indices.dtype == base::DType::u8 ? run_max(indices.as<std::uint8_t>())
                                          : run_max(indices.as<std::int32_t>());
}

template <typename T>
base::Status run_pooling_gradient(const OpCall& call, const KernelContext& context, T) {
  const Pooling v = read_pooling(call.params, call.inputs[1].shape, call.inputs[0].shape);
  const DeviceWindow rows = device_window(v.window[0], v.input[0], v.output[0]);
  const DeviceWindow columns = device_window(v.window[1], v.input[1], v.output[1]);
  const T* gradient = context.inputs[0].as<T>();
  const auto out = device_output<T>(call, context, 0);
  const std::int64_t count = context.outputs[0].elements();
  if (!v.max) {
    return for_each_index(context, count,
                          PoolingMeanGradientAt<T>{rows, columns, v.count_pad, gradient, out});
  }
  const auto run_max = [&]<typename Index>(const Index* indices) {
    return for_each_index(context, count,
                          PoolingMaxGradientAt<T, Index>{rows, columns, gradient, indices, out});
  };
  const base::TensorView& indices = context.inputs[2];
  return indices.dtype == base::DType::u8 ? run_max(indices.as<std::uint8_t>())
                                          : run_max(indices.as<std::int32_t>());
}

}  // namespace

std::span<const BackendKernel> kernels_pooling_cuda() {
  static const BackendKernel kernels[] = {
      {"pooling", blocks_device_kernel([](auto&&... x) { return run_pooling(x...); })},
      {"pooling_backward",
       blocks_device_kernel([](auto&&... x) { return run_pooling_gradient(x...); })}};
  return kernels;
}

}  // namespace troupe::ops
