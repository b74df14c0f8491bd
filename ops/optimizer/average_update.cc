// SPDX-License-Identifier: Apache-2.0
// average_update: the moving average behind keys of kind `average` (batch_norm's statistics).
#include <cmath>

#include "ops/support/chunks.h"
#include "ops/support/update.h"

namespace troupe::ops {
namespace {

template <typename T>
base::Status run(const OpCall& call, const KernelContext& context, T) {
  const T* state = context.inputs[0].as<T>();
  const T* total = context.inputs[1].as<T>();
  const T count = *context.inputs[2].as<T>();
  const double share = static_cast<double>(*context.inputs[3].as<T>());
  const double kept = std::pow(call.params.real("momentum"), share);
  const T old_part = static_cast<T>(kept);
  const T new_part = static_cast<T>(1.0 - kept);
  T* out = context.outputs[0].as<T>();
  parallel_ranges(context, context.outputs[0].elements(), [=](auto begin, auto end) {
    for (auto i = begin; i < end; ++i) {
      out[i] = state[i] * old_part + total[i] / count * new_part;
    }
  });
  return {};
}

OpDef average_update_definition() {
  OpDef op = update_definition(2);
  op.name = "average_update";
  op.doc =
      "The moving average of a key of kind `average`. `total` is the sum of the contributions' "
      "batch values, each times its count; `count` is the sum of their counts n, `share` is n / N "
      "(the part of a full round; 1 in a sequential job); both 0-d, of the state's dtype.\n\n"
      "    f = momentum ^ share                              (in f64)\n"
      "    new_state = state * f + total / count * (1 - f)\n\n"
      "The caller skips contributions of count 0.";
  op.params = {{"momentum", ParamType::real, 0.9, "Part of the old state in a full round.", 0, 1}};
  op.inputs = names({"state", "total", "count", "share"});
  op.outputs = names({"new_state"});
  op.in_place = {{0, 0}};
  op.kernels = {floating_kernel([](auto&&... x) { return run(x...); })};
  op.samples = {{.title = "vector",
                 .inputs = {{37}, {37}, {}, {}},
                 .low = 0.25,
                 .high = 1.0,
                 .gradient = false}};
  return op;
}

}  // namespace

std::span<const OpDef> ops_average_update() {
  static const std::vector<OpDef> operators = {average_update_definition()};
  return operators;
}

}  // namespace troupe::ops
