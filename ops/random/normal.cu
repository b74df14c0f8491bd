// SPDX-License-Identifier: Apache-2.0
// normal on GPUs: the words of the reference, and its formula in f64. The bits are those of the
// machine's own log and cos.
#include <cmath>
#include <numbers>

#include "ops/support/device_random.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

/// Elements 2k and 2k + 1 are a Box-Muller pair.
template <typename W>
struct NormalValue {
  double loc, scale;

  TROUPE_HOST_DEVICE W operator()(const PhiloxWords& words, int k) const {
    using std::cos, std::log, std::sin, std::sqrt;
    const double u = (static_cast<double>(words.word[k / 2 * 2]) + 0.5) * 0x1.0p-32;
    const double angle = 2.0 * std::numbers::pi * unit_number<double>(words.word[k / 2 * 2 + 1]);
    const double turn = k % 2 == 0 ? cos(angle) : sin(angle);
    return static_cast<W>(loc + scale * (sqrt(-2.0 * log(u)) * turn));
  }
};

struct MakeNormal {
  template <typename T>
  NormalValue<Wide<T>> operator()(const Params& params, T) const {
    return {params.real("loc"), params.real("scale")};
  }
};

}  // namespace

std::span<const BackendKernel> kernels_normal_cuda() {
  static const BackendKernel kernels[] = {{"normal", draw_device_kernel(MakeNormal())}};
  return kernels;
}

}  // namespace troupe::ops
