// SPDX-License-Identifier: Apache-2.0
// dropout and its gradient on GPUs: the mask has the bits that it has on the CPU.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ops/nn/support.h"
#include "ops/support/device_copy.h"
#include "ops/support/device_random.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

/// Kept elements grow by this factor.
template <typename W>
W dropout_scale(const Params& p) {
  return static_cast<W>(p.real("p") < 1.0 ? 1.0 / (1.0 - p.real("p")) : 0.0);
}

/// Four elements in a row. `decisions` reads, for an element, the number of its decision.
template <typename T>
struct DropoutAt {
  const T* in;
  T* out;
  std::uint8_t* mask;
  std::int64_t elements;
  DevicePhilox philox;
  std::uint64_t limit;  ///< words below it drop
  Wide<T> scale;
  CopyMap decisions;

  TROUPE_HOST_DEVICE void operator()(std::int64_t four) const {
    PhiloxWords words{};
    std::int64_t block = -1;
    for (std::int64_t e = four * 4; e < four * 4 + 4 && e < elements; ++e) {
      const std::int64_t number = decisions.place(e).from;
      if (number / 4 != block) {
        block = number / 4;
        words = philox(static_cast<std::uint64_t>(block));
      }
      const bool kept = words.word[number % 4] >= limit;
      mask[e] = kept ? 1 : 0;
      out[e] = T(kept ? static_cast<Wide<T>>(in[e]) * scale : Wide<T>{0});
    }
  }
};

/// From elements to decisions, of which there is one along all of an axis in `axes`.
CopyMap dropout_decisions(const Params& p, const base::Shape& shape) {
  std::int64_t stride[base::kRankMax];
  std::fill_n(stride, base::kRankMax, 1);
  for (const std::int64_t axis : p.shape("axes").dims()) {
    stride[resolve_axis(axis, shape).value()] = 0;
  }
  std::int64_t next = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (stride[axis] == 0) continue;
    stride[axis] = next;
    next *= shape[axis];
  }
  CopyMap map;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    map.add(shape[axis], stride[axis], shape.elements(axis + 1, shape.rank()));
  }
  return map;
}

template <typename T>
base::Status run_dropout(const OpCall& call, const KernelContext& context, T) {
  const base::Shape& shape = call.inputs[0].shape;
  const auto limit = static_cast<std::uint64_t>(std::llround(call.params.real("p") * 0x1.0p32));
  return for_each_index(
      context, (shape.elements() + 3) / 4,
      DropoutAt<T>{context.inputs[0].as<T>(), context.outputs[0].as<T>(),
                   context.outputs[1].as<std::uint8_t>(), shape.elements(), device_philox(context),
                   limit, dropout_scale<Wide<T>>(call.params),
                   dropout_decisions(call.params, shape)});
}

template <typename T>
struct DropoutGradientAt {
  const T* gradient;
  const std::uint8_t* mask;
  T* out;
  Wide<T> scale;

  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    out[i] = T(mask[i] != 0 ? static_cast<Wide<T>>(gradient[i]) * scale : Wide<T>{0});
  }
};

template <typename T>
base::Status run_dropout_backward(const OpCall& call, const KernelContext& context, T) {
  return for_each_index(
      context, flat_elements<T>(context),
      DropoutGradientAt<T>{context.inputs[0].as<T>(), context.inputs[1].as<std::uint8_t>(),
                           context.outputs[0].as<T>(), dropout_scale<Wide<T>>(call.params)});
}

}  // namespace

std::span<const BackendKernel> kernels_dropout_cuda() {
  static const BackendKernel kernels[] = {
      {"dropout", real_device_kernel([](auto&&... x) { return run_dropout(x...); })},
      {"dropout_backward",
       real_device_kernel([](auto&&... x) { return run_dropout_backward(x...); })}};
  return kernels;
}

}  // namespace troupe::ops
