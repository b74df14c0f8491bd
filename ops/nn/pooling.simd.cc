// SPDX-License-Identifier: Apache-2.0
// Max pooling of f32 and bf16 with the widest vectors of the machine, in the layout that data has.
// NaN wins a window, and the last one gives the index, as in PyTorch; libraries drop it. Channels
// that are neighbours in memory (blocked layouts) are the lanes of vectors; where windows overlap,
// the winner of each row of data in each window is found once. In dense tensors the columns are the
// lanes: there the maxima over the rows of windows come first, then those over their columns.
#include <algorithm>
#include <limits>
#include <utility>

#include "ops/nn/pooling.h"
#include "ops/support/chunks.h"
#include "ops/support/layout_map.h"
#include "ops/table.h"

// What a window has shown is several vectors in one object, which scalable ones cannot form.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/nn/pooling.simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/nn/pooling-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::ops {
namespace HWY_NAMESPACE {

void max_pool_f32(const MaxPool<float>& p, const Range& range) {
  pool_all(p, range);
}
void max_pool_bf16(const MaxPool<base::BF16>& p, const Range& range) {
  pool_all(p, range);
}

}  // namespace HWY_NAMESPACE
}  // namespace troupe::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::ops {
namespace {

HWY_EXPORT(max_pool_f32);
HWY_EXPORT(max_pool_bf16);

using base::Errc;
using base::Layout;
using base::Result;
using base::Status;

void run_range(const MaxPool<float>& p, const Range& range) {
  HWY_DYNAMIC_DISPATCH(max_pool_f32)(p, range);
}
void run_range(const MaxPool<base::BF16>& p, const Range& range) {
  HWY_DYNAMIC_DISPATCH(max_pool_bf16)(p, range);
}

/// Channels are neighbours in blocks of one size along axis 1, or all of them (axis 1 innermost).
Result<PoolPlanes> read_layout(const OpCall& call, const Layout& layout) {
  PoolPlanes p;
  p.v = read_pooling(call.params, call.inputs[0].shape, call.outputs[0].shape);
  const std::int64_t images = call.inputs[0].shape[0];
  const std::int64_t channels = call.inputs[0].shape[1];
  p.blocks = channels;
  if (!layout.is_dense()) {
    const bool in_order = layout.order == base::Layout::Order{0, 1, 2, 3};
    const bool behind = layout.order == base::Layout::Order{0, 2, 3, 1};
    if (channels == 0) return base::error(Errc::unimplemented, "no channels");
    if (layout.kind == Layout::Kind::blocked && behind && layout.blocks.empty()) {
      p.inner = channels;
    } else if (layout.kind == Layout::Kind::blocked && in_order && layout.blocks.size() == 1 &&
               layout.blocks[0].axis == 1) {
      p.inner = layout.blocks[0].size;
    } else {
      return base::error(Errc::unimplemented, "layout {}", layout.to_string());
    }
    p.blocks = (channels + p.inner - 1) / p.inner;
    p.last_channels = channels - (p.blocks - 1) * p.inner;
  }
  p.v.planes = images * p.blocks;
  return p;
}

template <typename T>
class MaxPoolKernel final : public Kernel {
 public:
  MaxPoolKernel(const PoolPlanes& planes, std::vector<Layout> inputs, std::vector<Layout> outputs)
      : planes_(planes), inputs_(std::move(inputs)), outputs_(std::move(outputs)) {}

  std::string name() const override { return "simd"; }
  std::vector<Layout> input_layouts() const override { return inputs_; }
  std::vector<Layout> output_layouts() const override { return outputs_; }

  Status run(const KernelContext& context) const override {
    MaxPool<T> p{planes_};
    p.data = context.inputs[0].as<T>();
    p.output = context.outputs[0].as<T>();
    if (context.outputs.size() > 1) {
      const base::TensorView& indices = context.outputs[1];
      if (indices.dtype == base::DType::u8) {
        p.narrow = indices.as<std::uint8_t>();
      } else {
        p.wide = indices.as<std::int32_t>();
      }
    }
    const std::int64_t row = std::max<std::int64_t>(1, p.v.output[1] * p.inner);
    parallel_ranges(
        context, p.v.planes * p.v.output[0],
        [&](auto begin, auto end) {
          run_range(p, {begin, end});
        },
        std::max<std::int64_t>(1, kChunkElements / row));
    return {};
  }

 private:
  PoolPlanes planes_;
  std::vector<Layout> inputs_, outputs_;
};

Result<std::unique_ptr<Kernel>> make(const OpCall& call) {
  const TensorDesc& data = call.inputs[0];
  if (call.params.text("pool_type") != "max") {
    return base::error(Errc::unimplemented, "only max");
  }
  const bool bf16 = data.dtype == base::DType::bf16;
  if (!bf16 && data.dtype != base::DType::f32) {
    return base::error(Errc::unimplemented, "only f32 and bf16");
  }
  const Layout layout = followed_layout({&data});
  TROUPE_TRY_ASSIGN(PoolPlanes pool, read_layout(call, layout));
  if (pool.inner == 1 && pool.v.window[1].kernel > kPoolColumns) {
    return base::error(Errc::unimplemented, "a dense window of more than {} columns", kPoolColumns);
  }
  pool.add = !call.modes.empty() && call.modes[0] == WriteMode::add;
  std::vector<Layout> outputs;
  for (const TensorDesc& output : call.outputs) {
    outputs.push_back(layout_for(layout, output.shape));
    TROUPE_TRY(check_layout(output, outputs.back()));
  }
  std::vector<Layout> inputs = {layout_for(layout, data.shape)};
  if (bf16) {
    return std::unique_ptr<Kernel>(
        std::make_unique<MaxPoolKernel<base::BF16>>(pool, std::move(inputs), std::move(outputs)));
  }
  return std::unique_ptr<Kernel>(
      std::make_unique<MaxPoolKernel<float>>(pool, std::move(inputs), std::move(outputs)));
}

}  // namespace

std::span<const BackendKernel> kernels_pooling_simd() {
  static const std::vector<BackendKernel> kernels = {
      {"pooling", {.name = "simd", .make = make, .takes_16_bits = only_bf16}}};
  return kernels;
}

}  // namespace troupe::ops
#endif  // HWY_ONCE
