// SPDX-License-Identifier: Apache-2.0
// The gradient of max pooling of dense f32 tensors, by the widest vectors of the machine, where
// windows are two columns wide and do not overlap.
#include <algorithm>

#include "ops/nn/pooling.h"
#include "ops/support/chunks.h"
#include "ops/support/flat_kernel.h"
#include "ops/table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/nn/pooling_backward.simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/support/lanes-inl.h"

#ifndef TROUPE_OPS_POOLING_BACKWARD_ONCE
#define TROUPE_OPS_POOLING_BACKWARD_ONCE
namespace troupe::ops {
/// The gradient of a call on dense tensors, whose windows lie side by side.
struct MaxSpread {
  Pooling v;
  const float* gradient = nullptr;
  const std::uint8_t* taps = nullptr;
  float* output = nullptr;
  bool add = false;
};
}  // namespace troupe::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace troupe::ops {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Writes the gradient of a window row's data; windows are two columns wide.
HWY_INLINE void spread_row(const MaxSpread& p, const float* gradient, const std::uint8_t* taps,
                           float* to) {
  const std::int64_t rows = p.v.window[0].kernel, width = p.v.input[1], count = p.v.output[1];
  const bool add = p.add;
  std::int64_t x = 0;
  with_tags([&](auto d) HWY_ATTR {
    using D = decltype(d);
    const auto step = static_cast<std::int64_t>(hn::Lanes(d));
    for (; x + step <= count; x += step) {
      const auto value = hn::Add(hn::LoadU(d, gradient + x), hn::Zero(d));  // -0 becomes 0
      const auto tap = hn::PromoteTo(Ints<D>(), hn::LoadU(hn::Rebind<std::uint8_t, D>(), taps + x));
      for (std::int64_t row = 0; row < rows; ++row) {
        const auto at = [&](std::int64_t column) HWY_ATTR {
          const auto here = hn::RebindMask(d, hn::Eq(tap, ints(d, 2 * row + column)));
          return hn::IfThenElseZero(here, value);
        };
        auto even = at(0), odd = at(1);
        float* const place = to + row * width + 2 * x;
        if (add) {
          hn::Vec<D> old_even, old_odd;
          hn::LoadInterleaved2(d, place, old_even, old_odd);
          even = hn::Add(old_even, even);
          odd = hn::Add(old_odd, odd);
        }
        hn::StoreInterleaved2(even, odd, d, place);
      }
    }
  });
}

/// Planes [begin, end).
void max_spread(const MaxSpread& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t rows = p.v.window[0].kernel, width = p.v.input[1];
  const std::int64_t windows = p.v.output[1], covered = 2 * windows;
  for (std::int64_t plane = begin; plane < end; ++plane) {
    float* const output = p.output + plane * p.v.input[0] * width;
    for (std::int64_t y = 0; y < p.v.output[0]; ++y) {
      const std::int64_t from = (plane * p.v.output[0] + y) * windows;
      spread_row(p, p.gradient + from, p.taps + from, output + y * rows * width);
    }
    if (p.add) continue;
    const std::int64_t covered_rows = p.v.output[0] * rows;
    for (std::int64_t y = 0; covered < width && y < covered_rows; ++y) {
      std::fill_n(output + y * width + covered, width - covered, 0.0F);
    }
    std::fill_n(output + covered_rows * width, (p.v.input[0] - covered_rows) * width, 0.0F);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace troupe::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::ops {
namespace {

HWY_EXPORT(max_spread);

using base::Errc;
using base::Status;

Status run_spread(const OpCall& call, const KernelContext& context) {
  MaxSpread p;
  p.v = read_pooling(call.params, call.inputs[1].shape, call.inputs[0].shape);
  p.gradient = context.inputs[0].as<float>();
  p.taps = context.inputs[2].as<std::uint8_t>();
  p.output = context.outputs[0].as<float>();
  p.add = !call.modes.empty() && call.modes[0] == WriteMode::add;
  const std::int64_t plane = std::max<std::int64_t>(1, p.v.input[0] * p.v.input[1]);
  parallel_ranges(
      context, p.v.planes,
      [&](auto begin, auto end) {
        HWY_DYNAMIC_DISPATCH(max_spread)
        (p, begin, end);
      },
      std::max<std::int64_t>(1, kChunkElements / plane));
  return {};
}

KernelDef spread_kernel() {
  const auto accepts = [](const OpCall& call) -> Status {
    if (call.params.text("pool_type") != "max" || call.inputs[2].dtype != base::DType::u8) {
      return base::error(Errc::unimplemented, "only max with indices of one byte");
    }
    const Pooling v = read_pooling(call.params, call.inputs[1].shape, call.inputs[0].shape);
    bool aside = v.window[1].kernel == 2;
    for (std::size_t axis = 0; axis < 2; ++axis) {
      const Window& w = v.window[axis];
      aside =
          aside && w.pad == 0 && w.stride == w.kernel && v.output[axis] * w.stride <= v.input[axis];
    }
    if (!aside)
      return base::error(Errc::unimplemented, "only windows side by side, 2 columns wide");
    return {};
  };
  return flat_kernel_of_f32("simd", run_spread, accepts);
}

}  // namespace

std::span<const BackendKernel> kernels_pooling_backward_simd() {
  static const std::vector<BackendKernel> kernels = {{"pooling_backward", spread_kernel()}};
  return kernels;
}

}  // namespace troupe::ops
#endif  // HWY_ONCE
