// SPDX-License-Identifier: Apache-2.0
// Shared halves of reductions' definitions.
#include "ops/support/reduce_backward.h"

namespace troupe::ops {

OpDef reduce_definition(std::string backward) {
  OpDef op;
  op.params = reduce_params();
  op.inputs = names({"data"});
  op.outputs = names({"out"});
  op.infer_shape = infer_reduce;
  op.gradient = [backward = std::move(backward)](
                    GradientBuilder& b) -> base::Result<std::vector<std::optional<Value>>> {
    return {{b.add1(backward, {*b.output_gradient(0), b.input(0)}, b.params().to_attributes())}};
  };
  op.accumulates = {0};
  op.flops = [](const OpCall& call) {
    return static_cast<double>(call.inputs[0].shape.elements());
  };
  op.samples = reduce_samples();
  return op;
}

OpDef reduce_backward_definition() {
  OpDef op;
  op.params = reduce_params();
  op.inputs = names({"out_gradient", "data"});
  op.outputs = names({"data_gradient"});
  op.infer_shape = infer_reduce_backward;
  op.shape_only_inputs = {1};
  op.accumulates = {0};
  op.samples = {{.title = "rows", .attributes = {{"axis", "1"}}, .inputs = {{4}, {4, 7}}},
                {.title = "all", .inputs = {{}, {3, 5}}},
                {.title = "channels",
                 .attributes = {{"axis", "(0, 2)"}, {"keepdims", "True"}},
                 .inputs = {{1, 3, 1}, {2, 3, 4}}}};
  return op;
}

}  // namespace troupe::ops
