// SPDX-License-Identifier: Apache-2.0
// lrn and its gradient on GPUs.
#include <cmath>

#include "ops/nn/support.h"
#include "ops/support/device_blocks.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

/// data as (samples, channels, places), and the numbers of a call.
template <typename W>
struct LrnNumbers {
  std::int64_t channels, places, half;
  W factor, beta, knorm;

  /// Sum of f(offset) over the channels of the window around the element at `i`.
  template <typename F>
  TROUPE_HOST_DEVICE W window(std::int64_t i, const F& f) const {
    const std::int64_t channel = i / places % channels;
    const std::int64_t before = channel < half ? channel : half;
    const std::int64_t behind = channels - 1 - channel < half ? channels - 1 - channel : half;
    W sum = 0;
    for (std::int64_t step = -before; step <= behind; ++step) sum += f(i + step * places);
    return sum;
  }
  /// base^-beta; the usual exponent by roots.
  TROUPE_HOST_DEVICE W power(W base) const {
    using std::pow, std::sqrt;
    constexpr W kUsual{0.75};
    if (beta != kUsual) return pow(base, -beta);
    const W root = sqrt(base);
    return W{1} / (root * sqrt(root));
  }
};

template <typename W>
LrnNumbers<W> lrn_numbers(const Params& p, const base::Shape& data) {
  const std::int64_t size = p.integer("nsize");
  return {data[1],
          data.elements(2, data.rank()),
          size / 2,
          static_cast<W>(p.real("alpha") / static_cast<double>(size)),
          static_cast<W>(p.real("beta")),
          static_cast<W>(p.real("knorm"))};
}

template <typename T>
struct LrnSquare {
  const T* data;
  TROUPE_HOST_DEVICE Wide<T> operator()(std::int64_t at) const {
    const auto x = static_cast<Wide<T>>(data[at]);
    return x * x;
  }
};

template <typename T>
struct LrnAt {
  LrnNumbers<Wide<T>> v;
  const T* data;
  DeviceOutput<T> out;

  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    const Wide<T> base = v.knorm + v.factor * v.window(i, LrnSquare<T>{data});
    out.store(i, static_cast<Wide<T>>(data[i]) * v.power(base));
  }
};

/// What the second pass of the gradient needs of each element: its power, and its share in the
/// gradients of its window.
template <typename T>
struct LrnShareAt {
  LrnNumbers<Wide<T>> v;
  const T* gradient;
  const T* data;
  Wide<T>* powers;
  Wide<T>* shares;

  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    const Wide<T> base = v.knorm + v.factor * v.window(i, LrnSquare<T>{data});
    powers[i] = v.power(base);
    shares[i] =
        static_cast<Wide<T>>(gradient[i]) * static_cast<Wide<T>>(data[i]) * powers[i] / base;
  }
};

template <typename W>
struct LrnShare {
  const W* shares;
  TROUPE_HOST_DEVICE W operator()(std::int64_t at) const { return shares[at]; }
};

template <typename T>
struct LrnGradientAt {
  LrnNumbers<Wide<T>> v;
  const T* gradient;
  const T* data;
  const Wide<T>* powers;
  const Wide<T>* shares;
  DeviceOutput<T> out;

  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    const Wide<T> sum = v.window(i, LrnShare<Wide<T>>{shares});
    const Wide<T> factor = Wide<T>{2} * v.factor * v.beta;
    const auto x = static_cast<Wide<T>>(data[i]);
    out.store(i, static_cast<Wide<T>>(gradient[i]) * powers[i] - factor * x * sum);
  }
};

template <typename T>
base::Status run_lrn(const OpCall& call, const KernelContext& context, T) {
  const base::Shape& shape = call.inputs[0].shape;
  return for_each_index(context, shape.elements(),
                        LrnAt<T>{lrn_numbers<Wide<T>>(call.params, shape),
                                 context.inputs[0].as<T>(), device_output<T>(call, context, 0)});
}

template <typename T>
struct LrnPlan {
  Wide<T>* powers;
  Wide<T>* shares;
};

template <typename T>
LrnPlan<T> cut_lrn(const OpCall& call, ScratchCut& scratch, T) {
  const std::int64_t elements = call.inputs[1].shape.elements();
  auto* const powers = scratch.take<Wide<T>>(elements);
  return {powers, scratch.take<Wide<T>>(elements)};
}

template <typename T>
base::Status run_lrn_gradient(const OpCall& call, const KernelContext& context,
                              const LrnPlan<T>& plan) {
  const base::Shape& shape = call.inputs[1].shape;
  const auto v = lrn_numbers<Wide<T>>(call.params, shape);
  const T* gradient = context.inputs[0].as<T>();
  const T* data = context.inputs[1].as<T>();
  TROUPE_TRY(for_each_index(context, shape.elements(),
                            LrnShareAt<T>{v, gradient, data, plan.powers, plan.shares}));
  return for_each_index(context, shape.elements(),
                        LrnGradientAt<T>{v, gradient, data, plan.powers, plan.shares,
                                         device_output<T>(call, context, 0)});
}

}  // namespace

std::span<const BackendKernel> kernels_lrn_cuda() {
  static const BackendKernel kernels[] = {
      {"lrn", blocks_device_kernel([](auto&&... x) { return run_lrn(x...); })},
      {"lrn_backward", blocks_device_kernel([](auto&&... x) { return run_lrn_gradient(x...); },
                                            [](auto&&... x) { return cut_lrn(x...); })}};
  return kernels;
}

}  // namespace troupe::ops
