// SPDX-License-Identifier: Apache-2.0
// The three passes of a convolution on GPUs as products, one for each group: what convolution's and
// deconvolution's kernels share. Operands are read from the tensors, where taps lie.
#pragma once

#include "ops/nn/convolution.h"
#include "ops/nn/device_linear.h"
#include "ops/nn/device_window.h"
#include "ops/support/channels_last.h"

namespace troupe::ops {

/// Where the elements of a tensor of four axes lie: strides of a sample (of a weight: a filter), of
/// a channel and of a place in its plane.
struct DevicePlaces {
  std::int64_t sample = 0, channel = 0, place = 1;

  TROUPE_HOST_DEVICE std::int64_t at(std::int64_t own_sample, std::int64_t own_channel,
                                     std::int64_t own_place) const {
    return own_sample * sample + own_channel * channel + own_place * place;
  }
  /// Channels are neighbours in memory.
  bool last() const { return place != 1; }
};
/// Of a dense tensor, or one with its channels last.
inline DevicePlaces device_places(const TensorDesc& tensor) {
  const std::int64_t channels = tensor.shape[1], plane = tensor.shape.elements(2, 4);
  if (is_channels_last(tensor)) return {channels * plane, 1, channels};
  return {channels * plane, plane, 1};
}

/// The tensors of a convolution's three passes.
struct ConvolutionTensors {
  const TensorDesc& data;
  const TensorDesc& weight;
  const TensorDesc& output;
};

/// A Convolution for devices; `in` and `out` count the channels of one group.
struct DeviceConvolution {
  std::int64_t in = 0, out = 0;
  DeviceWindow rows, columns;
  Divider input_plane, output_plane, taps;
  Divider input_columns, output_columns, kernel_columns;
  DevicePlaces data, weight, output;

  /// The place in a plane of data that tap `tap` of window `window` reads; -1: in the padding.
  TROUPE_HOST_DEVICE std::int64_t read_at(std::int64_t window, std::int64_t tap) const {
    const Divider::Digits from = output_columns.digits(window), by = kernel_columns.digits(tap);
    const std::int64_t y = rows.position(from.quotient, by.quotient);
    const std::int64_t x = columns.position(from.remainder, by.remainder);
    return rows.inside(y) && columns.inside(x) ? y * columns.input + x : -1;
  }
  /// The window whose tap `tap` reads place `at` of a plane of data; -1: none.
  TROUPE_HOST_DEVICE std::int64_t window_at(std::int64_t at, std::int64_t tap) const {
    const Divider::Digits to = input_columns.digits(at), by = kernel_columns.digits(tap);
    const std::int64_t y = rows.window_at(to.quotient, by.quotient);
    const std::int64_t x = columns.window_at(to.remainder, by.remainder);
    return y >= 0 && x >= 0 ? y * columns.output + x : -1;
  }
};

inline DeviceConvolution device_convolution(const Convolution& c,
                                            const ConvolutionTensors& tensors) {
  return {.in = c.in,
          .out = c.out,
          .rows = device_window(c.window[0], c.input[0], c.output[0]),
          .columns = device_window(c.window[1], c.input[1], c.output[1]),
          .input_plane = Divider(c.input_plane()),
          .output_plane = Divider(c.output_plane()),
          .taps = Divider(c.taps()),
          .input_columns = Divider(c.input[1]),
          .output_columns = Divider(c.output[1]),
          .kernel_columns = Divider(c.window[1].kernel),
          .data = device_places(tensors.data),
          .weight = device_places(tensors.weight),
          .output = device_places(tensors.output)};
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
    const Divider::Digits of = v.taps.digits(i);  // channel, tap
    return static_cast<Number>(
        weight[v.weight.at(group * v.out + filter, of.quotient, of.remainder)]);
  }
  TROUPE_HOST_DEVICE Number y(std::int64_t group, std::int64_t i, std::int64_t column) const {
    const Divider::Digits of = v.taps.digits(i), window = v.output_plane.digits(column);
    const std::int64_t at = v.read_at(window.remainder, of.remainder);
    if (at < 0) return Number{0};
    return static_cast<Number>(data[v.data.at(window.quotient, group * v.in + of.quotient, at)]);
  }
  TROUPE_HOST_DEVICE void store(std::int64_t group, std::int64_t filter, std::int64_t column,
                                Number sum) const {
    const Divider::Digits window = v.output_plane.digits(column);
    const std::int64_t at = v.output.at(window.quotient, group * v.out + filter, window.remainder);
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
    const Divider::Digits of = v.taps.digits(i);  // filter, tap
    return static_cast<Number>(
        weight[v.weight.at(group * v.out + of.quotient, channel, of.remainder)]);
  }
  TROUPE_HOST_DEVICE Number y(std::int64_t group, std::int64_t i, std::int64_t column) const {
    const Divider::Digits of = v.taps.digits(i), place = v.input_plane.digits(column);
    const std::int64_t window = v.window_at(place.remainder, of.remainder);
    if (window < 0) return Number{0};
    return static_cast<Number>(
        gradient[v.output.at(place.quotient, group * v.out + of.quotient, window)]);
  }
  TROUPE_HOST_DEVICE void store(std::int64_t group, std::int64_t channel, std::int64_t column,
                                Number sum) const {
    const Divider::Digits place = v.input_plane.digits(column);
    if (bias != nullptr) sum += static_cast<Number>(bias[group * v.in + channel]);
    out.store(v.data.at(place.quotient, group * v.in + channel, place.remainder), sum);
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
    const Divider::Digits window = v.output_plane.digits(i);
    return static_cast<Number>(
        gradient[v.output.at(window.quotient, group * v.out + filter, window.remainder)]);
  }
  TROUPE_HOST_DEVICE Number y(std::int64_t group, std::int64_t i, std::int64_t column) const {
    const Divider::Digits window = v.output_plane.digits(i), of = v.taps.digits(column);
    const std::int64_t at = v.read_at(window.remainder, of.remainder);
    if (at < 0) return Number{0};
    return static_cast<Number>(data[v.data.at(window.quotient, group * v.in + of.quotient, at)]);
  }
  TROUPE_HOST_DEVICE void store(std::int64_t group, std::int64_t filter, std::int64_t column,
                                Number sum) const {
    const Divider::Digits of = v.taps.digits(column);  // channel, tap
    out.store(v.weight.at(group * v.out + filter, of.quotient, of.remainder), sum);
  }
};
inline DeviceProduct convolution_weight_product(const Convolution& c,
                                                const ConvolutionTensors& tensors) {
  return {.batches = c.groups,
          .rows = c.out,
          .columns = c.in * c.taps(),
          .inner = c.batch * c.output_plane(),
          .x_inner_aside = !device_places(tensors.output).last(),
          .y_columns_aside = device_places(tensors.data).last()};
}

}  // namespace troupe::ops
