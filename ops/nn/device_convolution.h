// SPDX-License-Identifier: Apache-2.0
// The three passes of a convolution on GPUs as products, one for each group: what convolution's and
// deconvolution's kernels share. Operands are read from the tensors, where taps lie.
#pragma once

#include <cstdint>

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

/// Those of the calls of convolution's operators, and of deconvolution's, whose forward pass is the
/// data pass of its twin and the other way round.
inline ConvolutionTensors output_pass_tensors(const OpCall& call) {
  return {call.inputs[0], call.inputs[1], call.outputs[0]};
}
inline ConvolutionTensors data_pass_tensors(const OpCall& call) {
  return {call.outputs[0], call.inputs[1], call.inputs[0]};
}
inline ConvolutionTensors weight_pass_tensors(const OpCall& call) {
  return {call.inputs[1], call.outputs[0], call.inputs[0]};
}

/// A Convolution for devices; `in` and `out` count the channels of one group.
struct DeviceConvolution {
  std::int64_t in = 0, out = 0;
  DeviceWindow rows, columns;
  Divider input_plane, output_plane, taps;
  Divider input_columns, output_columns, kernel_columns;
  DevicePlaces data, weight, output;

  /// A place of two axes.
  struct At {
    std::int64_t y, x;
  };
  /// Where a window's first tap lies in data; may be in the padding.
  TROUPE_HOST_DEVICE At window(std::int64_t index) const {
    const Divider::Digits of = output_columns.digits(index);
    return {rows.start(of.quotient), columns.start(of.remainder)};
  }
  /// How far a tap lies behind the first.
  TROUPE_HOST_DEVICE At tap(std::int64_t index) const {
    const Divider::Digits of = kernel_columns.digits(index);
    return {of.quotient * rows.dilate, of.remainder * columns.dilate};
  }
  /// The place in a plane of data that a tap of a window reads; -1: in the padding.
  TROUPE_HOST_DEVICE std::int64_t read_at(At window, At tap) const {
    const std::int64_t y = window.y + tap.y, x = window.x + tap.x;
    return rows.inside(y) && columns.inside(x) ? y * columns.input + x : -1;
  }
  /// The window whose tap reads a place of data, as output's planes count them; -1: none.
  TROUPE_HOST_DEVICE std::int64_t window_at(At place, At tap) const {
    const std::int64_t y = rows.window_from(place.y - tap.y);
    const std::int64_t x = columns.window_from(place.x - tap.x);
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

  struct Row {
    std::int64_t weight;  ///< offsets, here and below
  };
  struct Column {
    std::int64_t data;
    DeviceConvolution::At window;
  };
  struct Term {
    std::int64_t weight, data;
    DeviceConvolution::At tap;
  };
  TROUPE_HOST_DEVICE Row row(std::int64_t group, std::int64_t filter) const {
    return {v.weight.at(group * v.out + filter, 0, 0)};
  }
  TROUPE_HOST_DEVICE Column column(std::int64_t group, std::int64_t column) const {
    const Divider::Digits of = v.output_plane.digits(column);  // sample, window
    return {v.data.at(of.quotient, group * v.in, 0), v.window(of.remainder)};
  }
  TROUPE_HOST_DEVICE Term term(std::int64_t i) const {
    const Divider::Digits of = v.taps.digits(i);  // channel, tap
    return {v.weight.at(0, of.quotient, of.remainder), v.data.at(0, of.quotient, 0),
            v.tap(of.remainder)};
  }
  TROUPE_HOST_DEVICE Number x(const Row& row, const Term& term) const {
    return static_cast<Number>(weight[row.weight + term.weight]);
  }
  TROUPE_HOST_DEVICE Number y(const Term& term, const Column& column) const {
    const std::int64_t at = v.read_at(column.window, term.tap);
    if (at < 0) return Number{0};
    return static_cast<Number>(data[column.data + term.data + at * v.data.place]);
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

  struct Row {
    std::int64_t weight;
  };
  struct Column {
    std::int64_t gradient;
    DeviceConvolution::At place;  ///< behind the padding
  };
  struct Term {
    std::int64_t weight, gradient;
    DeviceConvolution::At tap;
  };
  TROUPE_HOST_DEVICE Row row(std::int64_t group, std::int64_t channel) const {
    return {v.weight.at(group * v.out, channel, 0)};
  }
  TROUPE_HOST_DEVICE Column column(std::int64_t group, std::int64_t column) const {
    const Divider::Digits of = v.input_plane.digits(column);  // sample, place
    const Divider::Digits at = v.input_columns.digits(of.remainder);
    return {v.output.at(of.quotient, group * v.out, 0),
            {at.quotient + v.rows.pad, at.remainder + v.columns.pad}};
  }
  TROUPE_HOST_DEVICE Term term(std::int64_t i) const {
    const Divider::Digits of = v.taps.digits(i);  // filter, tap
    return {v.weight.at(of.quotient, 0, of.remainder), v.output.at(0, of.quotient, 0),
            v.tap(of.remainder)};
  }
  TROUPE_HOST_DEVICE Number x(const Row& row, const Term& term) const {
    return static_cast<Number>(weight[row.weight + term.weight]);
  }
  TROUPE_HOST_DEVICE Number y(const Term& term, const Column& column) const {
    const std::int64_t window = v.window_at(column.place, term.tap);
    if (window < 0) return Number{0};
    return static_cast<Number>(gradient[column.gradient + term.gradient + window * v.output.place]);
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

  struct Row {
    std::int64_t gradient;
  };
  struct Column {
    std::int64_t data;
    DeviceConvolution::At tap;
  };
  struct Term {
    std::int64_t gradient, data;
    DeviceConvolution::At window;
  };
  TROUPE_HOST_DEVICE Row row(std::int64_t group, std::int64_t filter) const {
    return {v.output.at(0, group * v.out + filter, 0)};
  }
  TROUPE_HOST_DEVICE Column column(std::int64_t group, std::int64_t column) const {
    const Divider::Digits of = v.taps.digits(column);  // channel, tap
    return {v.data.at(0, group * v.in + of.quotient, 0), v.tap(of.remainder)};
  }
  TROUPE_HOST_DEVICE Term term(std::int64_t i) const {
    const Divider::Digits of = v.output_plane.digits(i);  // sample, window
    return {v.output.at(of.quotient, 0, of.remainder), v.data.at(of.quotient, 0, 0),
            v.window(of.remainder)};
  }
  TROUPE_HOST_DEVICE Number x(const Row& row, const Term& term) const {
    return static_cast<Number>(gradient[row.gradient + term.gradient]);
  }
  TROUPE_HOST_DEVICE Number y(const Term& term, const Column& column) const {
    const std::int64_t at = v.read_at(term.window, column.tap);
    if (at < 0) return Number{0};
    return static_cast<Number>(data[term.data + column.data + at * v.data.place]);
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
