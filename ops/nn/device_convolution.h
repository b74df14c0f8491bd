// SPDX-License-Identifier: Apache-2.0
// The three passes of a convolution on GPUs as products, one for each group: what convolution's and
// deconvolution's kernels share. Operands are read from the tensors, where taps lie.
#pragma once

#include "ops/nn/convolution.h"
#include "ops/nn/device_linear.h"
#include "ops/nn/device_window.h"

namespace troupe::ops {

/// A Convolution for devices; `in` and `out` count the channels of one group.
struct DeviceConvolution {
  std::int64_t batch = 0, groups = 1, in = 0, out = 0;
  DeviceWindow rows, columns;

  TROUPE_HOST_DEVICE std::int64_t taps() const { return rows.kernel * columns.kernel; }
  TROUPE_HOST_DEVICE std::int64_t input_plane() const { return rows.input * columns.input; }
  TROUPE_HOST_DEVICE std::int64_t output_plane() const { return rows.output * columns.output; }

  /// The beginning of a channel of a group in data, and in output.
  TROUPE_HOST_DEVICE std::int64_t input(std::int64_t sample, std::int64_t group,
                                        std::int64_t channel) const {
    return ((sample * groups + group) * in + channel) * input_plane();
  }
  TROUPE_HOST_DEVICE std::int64_t output(std::int64_t sample, std::int64_t group,
                                         std::int64_t filter) const {
    return ((sample * groups + group) * out + filter) * output_plane();
  }
  /// The beginning of a filter's taps on one channel.
  TROUPE_HOST_DEVICE std::int64_t weight(std::int64_t group, std::int64_t filter,
                                         std::int64_t channel) const {
    return ((group * out + filter) * in + channel) * taps();
  }
  /// The place in a plane of data that tap `tap` of window `window` reads; -1: in the padding.
  TROUPE_HOST_DEVICE std::int64_t read_at(std::int64_t window, std::int64_t tap) const {
    const std::int64_t y = rows.position(window / columns.output, tap / columns.kernel);
    const std::int64_t x = columns.position(window % columns.output, tap % columns.kernel);
    return rows.inside(y) && columns.inside(x) ? y * columns.input + x : -1;
  }
  /// The window whose tap `tap` reads place `at` of a plane of data; -1: none.
  TROUPE_HOST_DEVICE std::int64_t window_at(std::int64_t at, std::int64_t tap) const {
    const std::int64_t y = rows.window_at(at / columns.input, tap / columns.kernel);
    const std::int64_t x = columns.window_at(at % columns.input, tap % columns.kernel);
    return y >= 0 && x >= 0 ? y * columns.output + x : -1;
  }
};

inline DeviceConvolution device_convolution(const Convolution& c) {
  return {c.batch,
          c.groups,
          c.in,
          c.out,
          device_window(c.window[0], c.input[0], c.output[0]),
          device_window(c.window[1], c.input[1], c.output[1])};
}

/// output = relu(addend + bias + sum over channels and taps); without what is null or false.
template <typename T>
struct ConvolutionMultiplier {
  using Number = Wide<T>;
  DeviceConvolution v;
  const T* data;
  const T* weight;
  const T* bias;
  const T* addend;
  bool relu;
  DeviceOutput<T> out;

  TROUPE_HOST_DEVICE Number x(std::int64_t group, std::int64_t filter, std::int64_t i) const {
    return static_cast<Number>(weight[v.weight(group, filter, 0) + i]);
  }
  TROUPE_HOST_DEVICE Number y(std::int64_t group, std::int64_t i, std::int64_t column) const {
    const std::int64_t sample = column / v.output_plane();
    const std::int64_t at = v.read_at(column % v.output_plane(), i % v.taps());
    if (at < 0) return Number{0};
    return static_cast<Number>(data[v.input(sample, group, i / v.taps()) + at]);
  }
  TROUPE_HOST_DEVICE void store(std::int64_t group, std::int64_t filter, std::int64_t column,
                                Number sum) const {
    const std::int64_t sample = column / v.output_plane();
    const std::int64_t at = v.output(sample, group, filter) + column % v.output_plane();
    if (bias != nullptr) sum += static_cast<Number>(bias[group * v.out + filter]);
    if (addend != nullptr) sum += static_cast<Number>(addend[at]);
    out.store(at, relu && sum <= Number{0} ? Number{0} : sum);
  }
};
inline DeviceProduct convolution_product(const Convolution& c) {
  return {.batches = c.groups,
          .rows = c.out,
          .columns = c.batch * c.output_plane(),
          .inner = c.in * c.taps()};
}

/// The gradient of data; `bias`, where it is not null, is added to its channels.
template <typename T>
struct ConvolutionDataMultiplier {
  using Number = Wide<T>;
  DeviceConvolution v;
  const T* gradient;
  const T* weight;
  const T* bias;
  DeviceOutput<T> out;

  TROUPE_HOST_DEVICE Number x(std::int64_t group, std::int64_t channel, std::int64_t i) const {
    const std::int64_t filter = i / v.taps();
    return static_cast<Number>(weight[v.weight(group, filter, channel) + i % v.taps()]);
  }
  TROUPE_HOST_DEVICE Number y(std::int64_t group, std::int64_t i, std::int64_t column) const {
    const std::int64_t sample = column / v.input_plane();
    const std::int64_t window = v.window_at(column % v.input_plane(), i % v.taps());
    if (window < 0) return Number{0};
    return static_cast<Number>(gradient[v.output(sample, group, i / v.taps()) + window]);
  }
  TROUPE_HOST_DEVICE void store(std::int64_t group, std::int64_t channel, std::int64_t column,
                                Number sum) const {
    const std::int64_t sample = column / v.input_plane();
    if (bias != nullptr) sum += static_cast<Number>(bias[group * v.in + channel]);
    out.store(v.input(sample, group, channel) + column % v.input_plane(), sum);
  }
};
inline DeviceProduct convolution_data_product(const Convolution& c) {
  return {.batches = c.groups,
          .rows = c.in,
          .columns = c.batch * c.input_plane(),
          .inner = c.out * c.taps()};
}

/// The gradient of weight.
template <typename T>
struct ConvolutionWeightMultiplier {
  using Number = Wide<T>;
  DeviceConvolution v;
  const T* gradient;
  const T* data;
  DeviceOutput<T> out;

  TROUPE_HOST_DEVICE Number x(std::int64_t group, std::int64_t filter, std::int64_t i) const {
    const std::int64_t sample = i / v.output_plane();
    return static_cast<Number>(gradient[v.output(sample, group, filter) + i % v.output_plane()]);
  }
  TROUPE_HOST_DEVICE Number y(std::int64_t group, std::int64_t i, std::int64_t column) const {
    const std::int64_t sample = i / v.output_plane();
    const std::int64_t at = v.read_at(i % v.output_plane(), column % v.taps());
    if (at < 0) return Number{0};
    return static_cast<Number>(data[v.input(sample, group, column / v.taps()) + at]);
  }
  TROUPE_HOST_DEVICE void store(std::int64_t group, std::int64_t filter, std::int64_t column,
                                Number sum) const {
    out.store(v.weight(group, filter, 0) + column, sum);
  }
};
inline DeviceProduct convolution_weight_product(const Convolution& c) {
  return {.batches = c.groups,
          .rows = c.out,
          .columns = c.in * c.taps(),
          .inner = c.batch * c.output_plane(),
          .y_columns_aside = false};
}
/// Where the output's gradient has its channels.
inline ClassAxis convolution_channels(const Convolution& c) {
  return {c.batch, c.groups * c.out, c.output_plane()};
}

}  // namespace troupe::ops
