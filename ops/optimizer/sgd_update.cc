// SPDX-License-Identifier: Apache-2.0
// sgd_update: stochastic gradient descent with momentum and weight decay, fused; multi_sgd_update:
// the same for many weights. Every product and sum is rounded by itself in this order, so a graph
// of element-wise operators gives the same bits.
#include "ops/support/chunks.h"
#include "ops/support/update.h"

namespace troupe::ops {
namespace {

constexpr std::size_t kTensors = 3;

using Views = std::span<const base::TensorView>;

template <typename T>
base::Status run(const OpCall& call, const KernelContext& context, Views inputs, Views outputs) {
  const T momentum = static_cast<T>(call.params.real("momentum"));
  const T decay = static_cast<T>(call.params.real("wd"));
  const T limit = static_cast<T>(call.params.real("clip_gradient"));
  const T* weight = inputs[0].as<T>();
  const T* gradient = inputs[1].as<T>();
  const T* velocity = inputs[2].as<T>();
  const T rate = *inputs[3].as<T>();
  const T count = *inputs[4].as<T>();
  T* new_weight = outputs[0].as<T>();
  T* new_velocity = outputs[1].as<T>();
  parallel_ranges(context, outputs[0].elements(), [=](auto begin, auto end) {
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
  OpDef op = update_definition(kTensors);
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
  op.kernels = {floating_kernel([](const OpCall& call, const KernelContext& context, auto zero) {
    return run<decltype(zero)>(call, context, context.inputs, context.outputs);
  })};
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

OpDef multi_sgd_update_definition() {
  OpDef op = multi_update_definition(sgd_update_definition(), kTensors);
  op.name = "multi_sgd_update";
  op.doc =
      "`sgd_update` of `num_weights` weights, whose shapes may differ, in one call: on a GPU in as "
      "few launches as the sizes of their argument lists allow. Each weight gets the bits that "
      "`sgd_update` gives it.";
  op.flops = [](const OpCall& call) {
    double elements = 0;  // of weights and momenta
    for (const TensorDesc& output : call.outputs) {
      elements += static_cast<double>(output.shape.elements());
    }
    return 7.0 / 2.0 * elements;
  };
  op.kernels = {floating_kernel([](const OpCall& call, const KernelContext& context, auto zero) {
    return for_each_weight(kTensors, call, context, [&](Views inputs, Views outputs) {
      return run<decltype(zero)>(call, context, inputs, outputs);
    });
  })};
  const auto sample = [](const char* title, const std::vector<base::Shape>& weights,
                         Attributes attributes) {
    attributes["num_weights"] = std::to_string(weights.size());
    Sample made{.title = title,
                .attributes = std::move(attributes),
                .low = 0.5,
                .high = 2.0,
                .gradient = false};
    for (const base::Shape& shape : weights) made.inputs.insert(made.inputs.end(), kTensors, shape);
    made.inputs.insert(made.inputs.end(), 2, base::Shape());
    return made;
  };
  std::vector<base::Shape> many;  // more than one launch takes
  for (std::int64_t i = 0; i < 150; ++i) many.push_back({i % 7, 1 + i % 5});
  op.samples = {sample("one", {{3, 37}}, {{"momentum", "0.9"}, {"wd", "0.01"}}),
                sample("of all sizes", {{5}, {64, 3, 3, 3}, {}, {0, 4}, {4099}},
                       {{"momentum", "0.9"}, {"clip_gradient", "0.75"}}),
                sample("many", many, {{"momentum", "0.9"}})};
  return op;
}

}  // namespace

std::span<const OpDef> ops_sgd_update() {
  static const std::vector<OpDef> operators = {sgd_update_definition(),
                                               multi_sgd_update_definition()};
  return operators;
}

}  // namespace troupe::ops
