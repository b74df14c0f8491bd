// SPDX-License-Identifier: Apache-2.0
// batch_norm, its prediction form and its gradient of f32 and bf16 with the widest vectors of the
// machine, in the layout that data has. What binds them is memory: the statistics of the batch take
// one pass over data, by pieces that stay in the first cache and are joined in f64 (Chan, Golub and
// LeVeque 1979); sum and relu ride in the pass that normalises; and the gradient finds from data
// where relu was zero. One channel's passes follow each other while its numbers may be in a cache.
// Results depend on shapes and layouts alone.
#include <algorithm>
#include <cmath>
#include <utility>

#include "ops/nn/batch_norm.h"
#include "ops/roofline.h"
#include "ops/support/channel_rows.h"
#include "ops/support/layout_map.h"
#include "ops/support/streaming.h"
#include "ops/table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/nn/batch_norm.simd.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/nn/batch_norm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// run(d, T{}) with the tag of a call's lanes and the type of its numbers.
template <typename Run>
HWY_INLINE void with_types(const NormCall& c, Run&& run) {
  const auto with_lanes = [&](auto zero) HWY_ATTR {
    const hn::ScalableTag<float> widest;
    if (c.places.lanes == static_cast<std::int64_t>(hn::Lanes(widest))) {
      run(widest, zero);
    } else {
      run(hn::CappedTag<float, kNarrowLanes>(), zero);
    }
  };
  if (c.bf16) {
    with_lanes(base::BF16{});
  } else {
    with_lanes(float{});
  }
}

void measure(const NormCall& c, std::int64_t group, const NormParts& parts) {
  with_types(c, [&](auto d, auto zero) HWY_ATTR {
    for (std::int64_t part = parts.begin; part < parts.end; ++part) {
      measure_part<decltype(zero)>(d, c, group, part);
    }
  });
}

void normalise(const NormCall& c, std::int64_t group, const NormParts& parts) {
  with_types(c, [&](auto d, auto zero) HWY_ATTR {
    using D = decltype(d);
    using T = decltype(zero);
    const Scaling<D> normal(d, c, group);
    const auto choose = [&c](auto* streams, auto* stays) { return c.streams ? streams : stays; };
    const auto run =
        c.v.epilogue.sum
            ? choose(normalise_part<T, true, true, D>, normalise_part<T, true, false, D>)
            : choose(normalise_part<T, false, true, D>, normalise_part<T, false, false, D>);
    for (std::int64_t part = parts.end; part-- > parts.begin;) run(d, c, normal, group, part);
  });
  if (c.streams) hwy::FlushStream();
}

void sum_gradients(const NormCall& c, std::int64_t group, const NormParts& parts) {
  with_types(c, [&](auto d, auto zero) HWY_ATTR {
    using D = decltype(d);
    using T = decltype(zero);
    const Scaling<D> normal(d, c, group);
    const auto run = c.v.epilogue.relu ? sum_parts<T, true, D> : sum_parts<T, false, D>;
    for (std::int64_t part = parts.begin; part < parts.end; part += c.places.together) {
      const NormParts lot{part, std::min(part + c.places.together, parts.end)};
      run(d, c, normal, group, lot);
    }
  });
}

template <bool kStreams>
void differentiate_parts(const NormCall& c, std::int64_t group, const NormParts& parts) {
  with_types(c, [&](auto d, auto zero) HWY_ATTR {
    using D = decltype(d);
    using T = decltype(zero);
    const Scaling<D> normal(d, c, group);
    const Common<D> common(d, c, group);
    const auto choose = [&c](auto* global, auto* whole) { return c.v.global ? global : whole; };
    const auto run = c.v.epilogue.relu ? choose(differentiate_part<T, true, true, kStreams, D>,
                                                differentiate_part<T, true, false, kStreams, D>)
                                       : choose(differentiate_part<T, false, true, kStreams, D>,
                                                differentiate_part<T, false, false, kStreams, D>);
    for (std::int64_t part = parts.end; part-- > parts.begin;) {
      run(d, c, normal, common, group, part);
    }
  });
}

void differentiate(const NormCall& c, std::int64_t group, const NormParts& parts) {
  (c.streams ? differentiate_parts<true> : differentiate_parts<false>)(c, group, parts);
  if (c.streams) hwy::FlushStream();
}

}  // namespace troupe::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::ops {

HWY_EXPORT(measure);
HWY_EXPORT(normalise);
HWY_EXPORT(sum_gradients);
HWY_EXPORT(differentiate);

namespace {

using base::Errc;
using base::Layout;
using base::Result;
using base::Status;

/// Mean and variance of a group's channels from the moments of its parts.
void finish_moments(const NormCall& c, std::int64_t group) {
  const ChannelRows& p = c.places;
  for (std::int64_t i = 0; i < p.channels_of(group); ++i) {
    Moments whole;
    for (std::int64_t part = 0; part < p.parts; ++part) {
      const double* const moments = c.sums(group, part);
      const std::int64_t count =
          p.channels_aside ? p.rows_of(part) : p.rows_of(part) * p.lanes + p.rest;
      whole.join({static_cast<double>(count), moments[i], moments[p.row_channels() + i]});
    }
    const auto variance = static_cast<float>(whole.squares / whole.count);
    c.first[p.channel(group) + i] = static_cast<float>(whole.mean);
    // An infinite one would make all numbers beta, as if all were well.
    c.second[p.channel(group) + i] = std::isinf(variance) ? std::nanf("") : variance;
  }
}

/// Adds the sums of a group's parts, writes the vectors' gradients, and leaves what the gradient of
/// data needs of them in the first part's.
void finish_sums(const NormCall& c, std::int64_t group) {
  const ChannelRows& p = c.places;
  double* const sums = c.sums(group, 0);
  for (std::int64_t part = p.together; part < p.parts; part += p.together) {
    const double* const others = c.sums(group, part);
    for (std::int64_t i = 0; i < 2 * p.row_channels(); ++i) sums[i] += others[i];
  }
  const double share = 1.0 / static_cast<double>(c.v.count());
  for (std::int64_t i = 0; i < p.channels_of(group); ++i) {
    const std::int64_t channel = p.channel(group) + i;
    double &sum = sums[i], &products = sums[p.row_channels() + i];
    const double variance = static_cast<double>(c.variance[channel]) + c.v.eps;
    const double deviation = std::sqrt(variance);
    const double scale =
        (c.gamma == nullptr ? 1.0 : static_cast<double>(c.gamma[channel])) / deviation;
    c.first[channel] = c.v.fix_gamma ? 0.0F : static_cast<float>(products / deviation);
    c.second[channel] = static_cast<float>(sum);
    sum *= -scale * share;
    products *= -scale * share / variance;
  }
}

/// What the three kernels share: layouts, places and scratch.
class NormKernel : public Kernel {
 public:
  struct Plan {
    ChannelRows places;
    BatchNorm v;
    std::vector<Layout> inputs, outputs;
  };

  explicit NormKernel(Plan plan) : plan_(std::move(plan)) {}
  std::string name() const override { return "simd:norm"; }
  std::vector<Layout> input_layouts() const override { return plan_.inputs; }
  std::vector<Layout> output_layouts() const override { return plan_.outputs; }

 protected:
  std::size_t sums_bytes() const {
    const ChannelRows& p = plan_.places;
    return static_cast<std::size_t>(p.groups * p.parts * 2 * p.row_channels()) * sizeof(double);
  }
  NormCall start(const KernelContext& context) const {
    NormCall c;
    c.places = plan_.places;
    c.v = plan_.v;
    c.bf16 = context.outputs[0].dtype == base::DType::bf16;
    c.output = context.outputs[0].data;
    c.scratch = reinterpret_cast<double*>(context.scratch.data());
    return c;
  }
  const BatchNorm& values() const { return plan_.v; }
  /// Only memory that is not read for this is worth going past the caches.
  static bool streams(const NormCall& c, std::int64_t bytes) {
    const bool whole = c.places.padded && c.places.lanes == vector_lanes();
    return whole && worth_streaming(c.output, bytes) && c.output != c.data &&
           c.output != c.addend && c.output != c.gradient;
  }

 private:
  Plan plan_;
};

/// batch_norm and batch_norm_inference.
class ForwardKernel final : public NormKernel {
 public:
  using NormKernel::NormKernel;
  std::size_t scratch_bytes() const override { return values().global ? 0 : sums_bytes(); }

  Status run(const KernelContext& context) const override {
    NormCall c = start(context);
    c.data = context.inputs[0].data;
    if (!c.v.fix_gamma) c.gamma = context.inputs[1].as<float>();
    c.beta = context.inputs[2].as<float>();
    if (c.v.epilogue.sum) c.addend = context.inputs.back().data;
    const bool training = context.outputs.size() > 1;
    c.first = training ? context.outputs[1].as<float>() : nullptr;
    c.second = training ? context.outputs[2].as<float>() : nullptr;
    c.mean = c.v.global ? context.inputs[3].as<float>() : c.first;
    c.variance = c.v.global ? context.inputs[4].as<float>() : c.second;
    c.streams = streams(c, context.outputs[0].bytes());
    const auto measured = [&](auto group, auto begin, auto end) {
      if (!c.v.global) HWY_DYNAMIC_DISPATCH(measure)(c, group, {begin, end});
    };
    const auto finished = [&](auto group) {
      if (!c.v.global) {
        finish_moments(c, group);
      } else if (training) {
        const std::int64_t first = c.places.channel(group), count = c.places.channels_of(group);
        std::copy_n(c.mean + first, count, c.first + first);
        std::copy_n(c.variance + first, count, c.second + first);
      }
    };
    run_groups(context, c.places, measured, finished, [&](auto group, auto begin, auto end) {
      HWY_DYNAMIC_DISPATCH(normalise)(c, group, {begin, end});
    });
    return {};
  }
};

class BackwardKernel final : public NormKernel {
 public:
  using NormKernel::NormKernel;
  std::size_t scratch_bytes() const override { return sums_bytes(); }

  Status run(const KernelContext& context) const override {
    NormCall c = start(context);
    c.gradient = context.inputs[0].data;
    c.data = context.inputs[1].data;
    if (!c.v.fix_gamma) c.gamma = context.inputs[2].as<float>();
    c.mean = context.inputs[3].as<float>();
    c.variance = context.inputs[4].as<float>();
    if (c.v.epilogue.relu) c.beta = context.inputs[5].as<float>();
    c.first = context.outputs[1].as<float>();
    c.second = context.outputs[2].as<float>();
    c.streams = streams(c, context.outputs[0].bytes());
    run_groups(
        context, c.places,
        [&](auto group, auto begin, auto end) {
          HWY_DYNAMIC_DISPATCH(sum_gradients)(c, group, {begin, end});
        },
        [&](auto group) { finish_sums(c, group); },
        [&](auto group, auto begin, auto end) {
          HWY_DYNAMIC_DISPATCH(differentiate)(c, group, {begin, end});
        });
    return {};
  }
};

/// A call's places and layouts: tensors of data's shape have data's layout, vectors are dense.
Result<NormKernel::Plan> read_plan(const OpCall& call, std::size_t data_index) {
  const TensorDesc& data = call.inputs[data_index];
  const bool bf16 = data.dtype == base::DType::bf16;
  if (!call.device.host_memory() || (!bf16 && data.dtype != base::DType::f32)) {
    return base::error(Errc::unimplemented, "only f32 and bf16 on a CPU");
  }
  for (const WriteMode mode : call.modes) {
    if (mode != WriteMode::write) return base::error(Errc::unimplemented, "only writes");
  }
  if (data.shape.elements() == 0) return base::error(Errc::unimplemented, "empty tensor");
  std::vector<const TensorDesc*> tensors = {&data};
  for (const auto* list : {&call.inputs, &call.outputs}) {
    for (const TensorDesc& tensor : *list) {
      if (tensor.shape.rank() > 1) tensors.push_back(&tensor);
    }
  }
  NormKernel::Plan plan;
  plan.v = read_batch_norm(call, data.shape);
  const Layout layout = followed_layout(tensors);
  TROUPE_TRY_ASSIGN(plan.places, read_channel_rows(data.shape, plan.v.axis, layout));
  const auto settle = [&](const std::vector<TensorDesc>& list,
                          std::vector<Layout>& layouts) -> Status {
    for (const TensorDesc& tensor : list) {
      layouts.push_back(tensor.shape.rank() > 1 ? layout : Layout::dense());
      TROUPE_TRY(check_layout(tensor, layouts.back()));
    }
    return {};
  };
  TROUPE_TRY(settle(call.inputs, plan.inputs));
  TROUPE_TRY(settle(call.outputs, plan.outputs));
  return plan;
}

/// Vectors are f32, as a network's are.
bool only_data_in_bf16(const OpCall& call) {
  const auto fits = [](const TensorDesc& tensor) {
    return tensor.shape.rank() > 1 || tensor.dtype == base::DType::f32;
  };
  return only_bf16(call) && std::all_of(call.inputs.begin(), call.inputs.end(), fits) &&
         std::all_of(call.outputs.begin(), call.outputs.end(), fits);
}

Result<std::unique_ptr<Kernel>> forward(const OpCall& call) {
  TROUPE_TRY_ASSIGN(NormKernel::Plan plan, read_plan(call, 0));
  return std::unique_ptr<Kernel>(std::make_unique<ForwardKernel>(std::move(plan)));
}

Result<std::unique_ptr<Kernel>> backward(const OpCall& call) {
  TROUPE_TRY_ASSIGN(NormKernel::Plan plan, read_plan(call, 1));
  return std::unique_ptr<Kernel>(std::make_unique<BackwardKernel>(std::move(plan)));
}

}  // namespace

std::span<const BackendKernel> kernels_batch_norm_simd() {
  static const std::vector<BackendKernel> kernels = {
      {"batch_norm", {.name = "simd:norm", .make = forward, .takes_16_bits = only_data_in_bf16}},
      {"batch_norm_inference",
       {.name = "simd:norm", .make = forward, .takes_16_bits = only_data_in_bf16}},
      {"batch_norm_backward",
       {.name = "simd:norm", .make = backward, .takes_16_bits = only_data_in_bf16}},
  };
  return kernels;
}

}  // namespace troupe::ops
#endif  // HWY_ONCE
