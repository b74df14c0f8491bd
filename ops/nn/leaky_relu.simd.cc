// SPDX-License-Identifier: Apache-2.0
// leaky, and the gradients of leaky, elu and selu, with the widest vectors of the machine, with the
// reference's bits; elu, selu, gelu and its gradient of f32.
#include "ops/nn/leaky_relu.h"
#include "ops/support/flat_kernel.h"
#include "ops/support/pointwise_functions.h"
#include "ops/table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/nn/leaky_relu.simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/support/elements-inl.h"
#include "ops/support/exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::ops::HWY_NAMESPACE {

/// The first input where the last one, which may be the same, is above zero; elsewhere its
/// multiple.
template <typename T>
struct LeakyElements : ElementsCall {
  const T* passed = input<T>(0);
  const T* sign = input<T>(call.inputs.size() - 1);
  Computed<T> slope = static_cast<Computed<T>>(call.params.real("slope"));
  ElementsOutput<T> out{{call, context}};

  template <typename D>
  HWY_INLINE void operator()(D d, std::int64_t i) const {
    const auto x = load(d, passed + i);
    const auto above = hn::Gt(load(d, sign + i), hn::Zero(d));
    out.store(d, hn::IfThenElse(above, x, hn::Mul(hn::Set(d, slope), x)), i);
  }
};

/// What elu and selu multiply with: x above zero, e^x - 1 below.
template <typename T>
struct EluNumbers {
  explicit EluNumbers(const Params& params) {
    const bool selu = params.text("act_type") == "selu";
    above = static_cast<T>(selu ? pointwise::kSeluScale : 1.0);
    depth = static_cast<T>(selu ? pointwise::kSeluDepth : params.real("slope"));
  }
  T above, depth;
};

/// Of elu and selu: output_gradient times `above` where the output is above zero, elsewhere times
/// the output's height over its lowest value.
template <typename T>
struct EluBackwardElements : ElementsCall {
  EluNumbers<Computed<T>> of{call.params};
  const T* gradient = input<T>(0);
  const T* output = input<T>(1);
  ElementsOutput<T> out{{call, context}};

  template <typename D>
  HWY_INLINE void operator()(D d, std::int64_t i) const {
    const auto y = load(d, output + i);
    const auto factor = hn::IfThenElse(hn::Gt(y, hn::Zero(d)), hn::Set(d, of.above),
                                       hn::Add(y, hn::Set(d, of.depth)));
    out.store(d, hn::Mul(load(d, gradient + i), factor), i);
  }
};

/// elu and selu.
template <typename T>
struct EluElements : ElementsCall {
  EluNumbers<Computed<T>> of{call.params};
  const T* data = input<T>(0);
  ElementsOutput<T> out{{call, context}};

  template <typename D>
  HWY_INLINE void operator()(D d, std::int64_t i) const {
    const auto x = load(d, data + i);
    const auto below = hn::Mul(hn::Set(d, of.depth), expm1_below_zero(d, x));
    const auto positive = hn::Gt(x, hn::Zero(d));
    out.store(d, hn::IfThenElse(positive, hn::Mul(hn::Set(d, of.above), x), below), i);
  }
};

/// The normal distribution up to x, and its density at x times the square root of 2 pi.
template <typename D>
struct Normal {
  hn::Vec<D> below, density;

  /// By erfc(u) for u >= 0, a polynomial of t = 1 / (1 + p u) times e^-u^2: 7.1.26 in Abramowitz
  /// and Stegun, Handbook of Mathematical Functions (1964); off by at most 1.5e-7. Here u is
  /// abs(x) / sqrt(2), which is part of p, and the factors are halved.
  HWY_INLINE Normal(D d, hn::Vec<D> x) {
    const auto one = hn::Set(d, 1.0F);
    const auto t = hn::Div(one, hn::MulAdd(hn::Abs(x), hn::Set(d, 0.231641888F), one));
    density = exp_of(d, hn::Mul(hn::Mul(x, x), hn::Set(d, -0.5F)));
    auto sum = hn::MulAdd(t, hn::Set(d, 0.5307027145F), hn::Set(d, -0.7265760135F));
    sum = hn::MulAdd(sum, t, hn::Set(d, 0.7107068705F));
    sum = hn::MulAdd(sum, t, hn::Set(d, -0.142248368F));
    sum = hn::MulAdd(sum, t, hn::Set(d, 0.127414796F));
    const auto outside = hn::Mul(hn::Mul(sum, t), density);
    below = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), outside, hn::Sub(one, outside));
  }
};

/// gelu.
template <typename T>
struct GeluElements : ElementsCall {
  const T* data = input<T>(0);
  ElementsOutput<T> out{{call, context}};

  template <typename D>
  HWY_INLINE void operator()(D d, std::int64_t i) const {
    const auto x = load(d, data + i);
    out.store(d, hn::Mul(x, Normal<D>(d, x).below), i);
  }
};

/// Its gradient.
template <typename T>
struct GeluBackwardElements : ElementsCall {
  const T* gradient = input<T>(0);
  const T* data = input<T>(1);
  ElementsOutput<T> out{{call, context}};

  template <typename D>
  HWY_INLINE void operator()(D d, std::int64_t i) const {
    const auto x = load(d, data + i);
    const Normal<D> normal(d, x);
    const auto scaled = hn::Mul(x, hn::Set(d, 0.398942280F));  // 1 / sqrt(2 pi)
    const auto slope = hn::MulAdd(scaled, normal.density, normal.below);
    out.store(d, hn::Mul(load(d, gradient + i), slope), i);
  }
};

base::Status run_gelu(const OpCall& call, const KernelContext& context) {
  return run_f32_elements<GeluElements>(call, context);
}
base::Status run_gelu_backward(const OpCall& call, const KernelContext& context) {
  return run_f32_elements<GeluBackwardElements>(call, context);
}
base::Status run_elu(const OpCall& call, const KernelContext& context) {
  return run_f32_elements<EluElements>(call, context);
}
base::Status run_leaky(const OpCall& call, const KernelContext& context) {
  return run_elements<LeakyElements>(call, context);
}
base::Status run_elu_backward(const OpCall& call, const KernelContext& context) {
  return run_elements<EluBackwardElements>(call, context);
}

}  // namespace troupe::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::ops {

HWY_EXPORT(run_gelu);
HWY_EXPORT(run_gelu_backward);
HWY_EXPORT(run_elu);
HWY_EXPORT(run_leaky);
HWY_EXPORT(run_elu_backward);

namespace {

bool is_leaky(const OpCall& call) {
  return call.params.text("act_type") == "leaky";
}

base::Status run_forward(const OpCall& call, const KernelContext& context) {
  return HWY_DYNAMIC_DISPATCH(run_leaky)(call, context);
}
base::Status run_backward(const OpCall& call, const KernelContext& context) {
  return is_leaky(call) ? HWY_DYNAMIC_DISPATCH(run_leaky)(call, context)
                        : HWY_DYNAMIC_DISPATCH(run_elu_backward)(call, context);
}

base::Status run_gelu_forward(const OpCall& call, const KernelContext& context) {
  return HWY_DYNAMIC_DISPATCH(run_gelu)(call, context);
}
base::Status run_gelu_gradient(const OpCall& call, const KernelContext& context) {
  return HWY_DYNAMIC_DISPATCH(run_gelu_backward)(call, context);
}

base::Status run_elu_forward(const OpCall& call, const KernelContext& context) {
  return HWY_DYNAMIC_DISPATCH(run_elu)(call, context);
}

base::Status accepts_elu(const OpCall& call) {
  const std::string& type = call.params.text("act_type");
  if (type == "elu" || type == "selu") return not_f64(call);
  return base::error(base::Errc::unimplemented, "only elu and selu");
}
base::Status accepts_gelu(const OpCall& call) {
  if (call.params.text("act_type") == "gelu") return not_f64(call);
  return base::error(base::Errc::unimplemented, "only gelu");
}
base::Status accepts_forward(const OpCall& call) {
  if (is_leaky(call)) return {};
  return base::error(base::Errc::unimplemented, "only leaky");
}
base::Status accepts_backward(const OpCall& call) {
  if (is_leaky(call) || gradient_reads_output(call.params)) return {};
  return base::error(base::Errc::unimplemented, "only leaky, and what reads the output");
}

}  // namespace

std::span<const BackendKernel> kernels_leaky_relu_simd() {
  static const std::vector<BackendKernel> kernels = {
      {"leaky_relu", flat_kernel("simd", run_forward, accepts_forward)},
      {"leaky_relu", flat_kernel("simd:exp", run_elu_forward, accepts_elu)},
      {"leaky_relu", flat_kernel("simd:exp", run_gelu_forward, accepts_gelu)},
      {"leaky_relu_backward", flat_kernel("simd", run_backward, accepts_backward)},
      {"leaky_relu_backward", flat_kernel("simd:exp", run_gelu_gradient, accepts_gelu)},
  };
  return kernels;
}

}  // namespace troupe::ops
#endif  // HWY_ONCE
