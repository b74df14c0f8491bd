// SPDX-License-Identifier: Apache-2.0
// sgd_update: stochastic gradient descent with momentum and weight decay, fused. Every product and
// sum is rounded by itself in this order, so a graph of element-wise operators gives the same bits.
#include "ops/support/chunks.h"
#include "ops/support/update.h"

namespace troupe::ops {
namespace {

template <typename T>
base::Status run(const OpCall& call, const KernelContext& context, T) {
  const T momentum = static_cast<T>(call.params.real("momentum"));
  const T decay = static_cast<T>(call.params.real("wd"));
  const T limit = static_cast<T>(call.params.real("clip_gradient"));
  const T* weight = context.inputs[0].as<T>();
  const T* gradient = context.inputs[1].as<T>();
  const T* velocity = context.inputs[2].as<T>();
  const T rate = *context.inputs[3].as<T>();
  const T count = *context.inputs[4].as<T>();
  T* new_weight = context.outputs[0].as<T>();
  T* new_velocity = context.outputs[1].as<T>();
  parallel_ranges(context, context.outputs[0].elements(), [=](auto begin, auto end) {
    for (auto i = begin; i < end; ++i) {
      T g = gradient[i] / count;
      if (limit > T{0}) g = g < -limit ? -limit : (g > limit ? limit : g);
      g = g + weight[i] * decay;
      const T v = velocity[i] * momentum + g;
      new_weight[i] = weight[i] - v * rate;
      new_velocity[i] = v;
    }
  });
  return {};
}

OpDef sgd_update_definition() {
  OpDef op = update_definition(3);
  op.name = "sgd_update";
  op.doc =
      "One step of stochastic gradient descent. `gradient` is the sum over `count` samples; `lr` "
      "and `count` are 0-d tensors of the weight's dtype, so that a step changes no attribute.\n\n"
      "    g = gradient / count\n"
      "    g = min(max(g, -clip_gradient), clip_gradient)     (when clip_gradient > 0)\n"
      "    g = g + weight * wd\n"
      "    new_momentum = momentum_state * momentum + g\n"
      "    new_weight = weight - new_momentum * lr\n\n"
      "This is PyTorch's form. MXNet's sgd_mom_update keeps lr inside the state (its state is "
      "-lr times this one): equal while lr is constant; after a change of lr, steps already in the "
      "state keep MXNet's old rate but take the new one here.";
  op.params = {{"momentum", ParamType::real, 0.0, "Factor of the old state.", 0, 1},
               {"wd", ParamType::real, 0.0, "Weight decay per step, relative to lr.", 0},
               {"clip_gradient", ParamType::real, -1.0,
                "Limit of each element of the mean gradient; none when not above 0."}};
  op.inputs = names({"weight", "gradient", "momentum", "lr", "count"});
  op.outputs = names({"new_weight", "new_momentum"});
  op.in_place = {{0, 0}, {2, 1}};
  op.flops = [](const OpCall& call) {
    return 7.0 * static_cast<double>(call.outputs[0].shape.elements());
  };
  op.kernels = {floating_kernel([](auto&&... x) { return run(x...); })};
  const Attributes usual = {{"momentum", "0.9"}, {"wd", "0.01"}};
  const Attributes clipped = {{"momentum", "0.9"}, {"wd", "0.01"}, {"clip_gradient", "0.75"}};
  const auto sample = [](const char* title, Attributes attributes, base::Shape shape) {
    return Sample{.title = title,
                  .attributes = std::move(attributes),
                  .inputs = {shape, shape, shape, {}, {}},
                  .low = 0.5,
                  .high = 2.0,
                  .gradient = false};
  };
  op.samples = {sample("plain", {}, {3, 5}), sample("momentum and decay", usual, {3, 37}),
                sample("clipped", clipped, {3, 37}), sample("large", usual, {1 << 18})};
  op.samples.back().benchmark = true;
  return op;
}

}  // namespace

std::span<const OpDef> ops_sgd_update() {
  static const std::vector<OpDef> operators = {sgd_update_definition()};
  return operators;
}

}  // namespace troupe::ops
