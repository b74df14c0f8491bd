// SPDX-License-Identifier: Apache-2.0
// Functions of one element, for kernels of GPUs: nvcc compiles them for devices and the host, NVRTC
// as part of the kernels that are made while a program runs (jit/pointwise_source.h). So this file
// stands alone: of other headers it may need only what those have when NVRTC reads it. W is the
// type that numbers are computed in. NaN stays NaN.
#pragma once

#if !defined(__CUDACC_RTC__)
#include <cmath>

#include "ops/support/host_device.h"
#endif

namespace troupe::ops::pointwise {

/// a + b.
struct Sum {
  template <typename W>
  TROUPE_HOST_DEVICE W operator()(W a, W b) const {
    return a + b;
  }
};

/// a - b.
struct Difference {
  template <typename W>
  TROUPE_HOST_DEVICE W operator()(W a, W b) const {
    return a - b;
  }
};

/// b - a.
struct ReverseDifference {
  template <typename W>
  TROUPE_HOST_DEVICE W operator()(W a, W b) const {
    return b - a;
  }
};

/// a * b.
struct Product {
  template <typename W>
  TROUPE_HOST_DEVICE W operator()(W a, W b) const {
    return a * b;
  }
};

/// a / b.
struct Quotient {
  template <typename W>
  TROUPE_HOST_DEVICE W operator()(W a, W b) const {
    return a / b;
  }
};

/// b / a.
struct ReverseQuotient {
  template <typename W>
  TROUPE_HOST_DEVICE W operator()(W a, W b) const {
    return b / a;
  }
};

/// -x.
struct Negate {
  template <typename W>
  TROUPE_HOST_DEVICE W operator()(W x) const {
    return -x;
  }
};

/// e^x.
struct Exp {
  template <typename W>
  TROUPE_HOST_DEVICE W operator()(W x) const {
    using std::exp;
    return exp(x);
  }
};

/// The natural logarithm.
struct Log {
  template <typename W>
  TROUPE_HOST_DEVICE W operator()(W x) const {
    using std::log;
    return log(x);
  }
};

/// The square root.
struct Sqrt {
  template <typename W>
  TROUPE_HOST_DEVICE W operator()(W x) const {
    using std::sqrt;
    return sqrt(x);
  }
};

/// x * x.
struct Square {
  template <typename W>
  TROUPE_HOST_DEVICE W operator()(W x) const {
    return x * x;
  }
};

/// Values between `low` and `high`.
template <typename W>
struct Limited {
  W low, high;
  TROUPE_HOST_DEVICE W operator()(W x) const {
    const W above = x < low ? low : x;
    return above > high ? high : above;
  }
};

/// The gradient of Limited from its x.
template <typename W>
struct LimitedGradient {
  W low, high;
  TROUPE_HOST_DEVICE W operator()(W dy, W x) const { return x >= low && x <= high ? dy : W{0}; }
};

// The functions of activation: each of x, and its gradient from its own value y. Where relu is
// zero, even an infinite gradient ends.

/// max(x, 0).
struct Relu {
  template <typename W>
  TROUPE_HOST_DEVICE static W value(W x) {
    return x <= W{0} ? W{0} : x;
  }
  template <typename W>
  TROUPE_HOST_DEVICE static W gradient(W dy, W y) {
    return y <= W{0} ? W{0} : dy;
  }
};

/// 1 / (1 + e^-x).
struct Sigmoid {
  template <typename W>
  TROUPE_HOST_DEVICE static W value(W x) {
    using std::exp;
    return W{1} / (W{1} + exp(-x));
  }
  template <typename W>
  TROUPE_HOST_DEVICE static W gradient(W dy, W y) {
    return dy * (y * (W{1} - y));
  }
};

/// The hyperbolic tangent.
struct Tanh {
  template <typename W>
  TROUPE_HOST_DEVICE static W value(W x) {
    using std::tanh;
    return tanh(x);
  }
  template <typename W>
  TROUPE_HOST_DEVICE static W gradient(W dy, W y) {
    return dy * (W{1} - y * y);
  }
};

/// log(1 + exp(x)) without overflow for large x.
struct Softrelu {
  template <typename W>
  TROUPE_HOST_DEVICE static W value(W x) {
    using std::exp, std::fabs, std::log1p;
    const W positive = x < W{0} ? W{0} : x;
    return positive + log1p(exp(-fabs(x)));
  }
  template <typename W>
  TROUPE_HOST_DEVICE static W gradient(W dy, W y) {
    using std::expm1;
    return dy * -expm1(-y);
  }
};

/// x / (1 + |x|).
struct Softsign {
  template <typename W>
  TROUPE_HOST_DEVICE static W value(W x) {
    using std::fabs;
    return x / (W{1} + fabs(x));
  }
  template <typename W>
  TROUPE_HOST_DEVICE static W gradient(W dy, W y) {
    using std::fabs;
    return dy * ((W{1} - fabs(y)) * (W{1} - fabs(y)));
  }
};

// The functions of leaky_relu: each f(x), and its gradient f(dy, v), v being what
// gradient_reads_output() says.

/// x above zero, slope * x elsewhere.
template <typename W>
struct Leaky {
  W slope;
  TROUPE_HOST_DEVICE W operator()(W x) const { return x > W{0} ? x : slope * x; }
  TROUPE_HOST_DEVICE W operator()(W dy, W v) const { return v > W{0} ? dy : slope * dy; }
};

/// x above zero, slope * (e^x - 1) elsewhere.
template <typename W>
struct Elu {
  W slope;
  bool reads_output;

  TROUPE_HOST_DEVICE W operator()(W x) const {
    using std::expm1;
    return x > W{0} ? x : slope * expm1(x);
  }
  TROUPE_HOST_DEVICE W operator()(W dy, W v) const {
    using std::exp;
    if (v > W{0}) return dy;
    return reads_output ? dy * (v + slope) : dy * (slope * exp(v));
  }
};

/// selu is kSeluScale * x above zero and kSeluDepth * (e^x - 1) below (Klambauer et al. 2017).
inline constexpr double kSeluScale = 1.0507009873554804934193349852946;
inline constexpr double kSeluDepth = kSeluScale * 1.6732632423543772848170429916717;

/// elu with a scale (see above).
template <typename W>
struct Selu {
  TROUPE_HOST_DEVICE W operator()(W x) const {
    using std::expm1;
    return x > W{0} ? static_cast<W>(kSeluScale) * x : static_cast<W>(kSeluDepth) * expm1(x);
  }
  TROUPE_HOST_DEVICE W operator()(W dy, W y) const {
    return y > W{0} ? dy * static_cast<W>(kSeluScale) : dy * (y + static_cast<W>(kSeluDepth));
  }
};

/// x times the normal distribution of x.
template <typename W>
struct Gelu {
  /// The normal distribution.
  TROUPE_HOST_DEVICE static W phi(W x) {
    using std::erf;
    return W{0.5} * (W{1} + erf(x * static_cast<W>(0.70710678118654752440)));  // 1 / sqrt(2)
  }
  TROUPE_HOST_DEVICE W operator()(W x) const { return x * phi(x); }
  TROUPE_HOST_DEVICE W operator()(W dy, W x) const {
    using std::exp;
    const W peak = static_cast<W>(0.39894228040143267794);  // 1 / sqrt(2 pi)
    return dy * (phi(x) + x * peak * exp(W{-0.5} * x * x));
  }
};

/// x / (1 + e^-x), and its gradient from x.
struct Silu {
  template <typename W>
  TROUPE_HOST_DEVICE W operator()(W x) const {
    using std::exp;
    return x / (W{1} + exp(-x));
  }
  /// The gradient of data x.
  template <typename W>
  TROUPE_HOST_DEVICE W operator()(W dy, W x) const {
    using std::exp;
    const W s = W{1} / (W{1} + exp(-x));
    return dy * (s * (W{1} + x * (W{1} - s)));
  }
};

}  // namespace troupe::ops::pointwise
