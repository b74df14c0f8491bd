// SPDX-License-Identifier: Apache-2.0
// normal: random numbers with a bell curve; each a function of (key, step, element).
#include "ops/support/random.h"

namespace troupe::ops {
namespace {

base::Status run(const OpCall& call, const KernelContext& context) {
  return with_floating(context.outputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const double loc = call.params.real("loc");
    const double scale = call.params.real("scale");
    T* out = context.outputs[0].as<T>();
    for_each_block(context, context.outputs[0].elements(), [=](auto begin, auto count, auto words) {
      const auto first = base::normal_pair(words[0], words[1]);
      const auto second = base::normal_pair(words[2], words[3]);
      const std::array<double, 4> values = {first[0], first[1], second[0], second[1]};
      for (std::size_t k = 0; k < count; ++k) {
        out[begin + k] = static_cast<T>(loc + scale * values[k]);
      }
    });
    return base::Status();
  });
}

OpDef normal_definition() {
  OpDef op = random_definition();
  op.name = "normal";
  op.aliases = {"_random_normal", "random_normal"};
  op.doc =
      "Random numbers, normal with mean `loc` and standard deviation `scale`: elements 2k and 2k+1 "
      "are the Box-Muller pair of their two words of Philox block 2k / 4, computed in f64.";
  op.params.push_back({"loc", ParamType::real, 0.0, "Mean."});
  op.params.push_back({"scale", ParamType::real, 1.0, "Standard deviation.", 0});
  op.kernels = {reference_kernel(run)};
  op.samples = random_samples({{"loc", "0.5"}, {"scale", "2"}});
  return op;
}

}  // namespace

std::span<const OpDef> ops_normal() {
  static const std::vector<OpDef> operators = {normal_definition()};
  return operators;
}

}  // namespace troupe::ops
