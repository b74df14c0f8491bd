// SPDX-License-Identifier: Apache-2.0
// uniform: random numbers, equally likely in an interval; each a function of (key, step, element).
#include "ops/random/uniform.h"

#include <cmath>
#include <limits>

#include "ops/support/random.h"

namespace troupe::ops {
namespace {

/// Uniform in [0, 1) with as many bits as the type holds of a word.
float unit(std::uint32_t word, float) {
  return base::uniform_f32(word);
}
double unit(std::uint32_t word, double) {
  return base::uniform_f64(word);
}

base::Status run(const OpCall& call, const KernelContext& context) {
  return with_real(context.outputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    using W = Wide<T>;
    const W low = static_cast<W>(call.params.real("low"));
    const W high = static_cast<W>(call.params.real("high"));
    const W last = uniform_last<T>(low, high);
    T* out = context.outputs[0].as<T>();
    for_each_block(context, context.outputs[0].elements(), [=](auto begin, auto count, auto words) {
      for (std::size_t k = 0; k < count; ++k) {
        out[begin + k] = T(std::min(low + (high - low) * unit(words[k], W{0}), last));
      }
    });
    return base::Status();
  });
}

KernelDef kernel_of_all_types() {
  KernelDef kernel = reference_kernel(run);
  kernel.takes_16_bits = any_16_bits;
  return kernel;
}

/// Of the shape, and that there is an interval whose ends and length f32 can hold.
base::Status infer_uniform(const InferShape& shape, const Params& params,
                           std::vector<base::Shape>& inputs, std::vector<base::Shape>& outputs) {
  const double low = params.real("low"), high = params.real("high");
  constexpr double kMost = std::numeric_limits<float>::max();
  const double length = high - low;
  if (!(length >= 0 && length <= kMost && std::abs(low) <= kMost && std::abs(high) <= kMost)) {
    return base::error(base::Errc::invalid_argument,
                       "low {} and high {}: numbers are drawn from an interval of f32, of a length "
                       "from 0 to {:.1e}",
                       low, high, kMost);
  }
  return shape(params, inputs, outputs);
}

OpDef uniform_definition() {
  OpDef op = random_definition();
  op.infer_shape = [shape = op.infer_shape](const Params& params, auto& inputs, auto& outputs) {
    return infer_uniform(shape, params, inputs, outputs);
  };
  op.name = "uniform";
  op.aliases = {"_random_uniform", "random_uniform"};
  op.doc =
      "Random numbers, uniform in `[low, high)`: element e from word e % 4 of Philox block e / 4.";
  op.params.push_back({"low", ParamType::real, 0.0, "Lowest value."});
  op.params.push_back({"high", ParamType::real, 1.0, "Values stay below."});
  op.kernels = {kernel_of_all_types()};
  op.samples = random_samples({{"low", "-2"}, {"high", "3"}});
  return op;
}

}  // namespace

std::span<const OpDef> ops_uniform() {
  static const std::vector<OpDef> operators = {uniform_definition()};
  return operators;
}

}  // namespace troupe::ops
