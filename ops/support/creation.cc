// SPDX-License-Identifier: Apache-2.0
// Inference of operators that make tensors from parameters.
#include "ops/support/creation.h"

namespace troupe::ops {

OpDef creation_definition() {
  OpDef op;
  op.params = {{"shape", ParamType::shape, std::nullopt,
                "Shape of the output; -1: an extent that its readers decide.", base::kUnknownDim},
               {"dtype", ParamType::dtype, base::DType::f32, "f32 or f64."}};
  op.ignored = {{"ctx"}};
  op.inputs = names({});
  op.outputs = names({"out"});
  op.infer_shape = [](const Params& params, std::vector<base::Shape>&,
                      std::vector<base::Shape>& outputs) {
    TROUPE_TRY_ASSIGN(outputs[0], base::merge_shapes(outputs[0], params.shape("shape")));
    return base::Status();
  };
  op.infer_dtype = [](const Params& params, std::vector<std::optional<base::DType>>& inputs,
                      std::vector<std::optional<base::DType>>& outputs) {
    std::vector<std::optional<base::DType>> all = {params.dtype("dtype"), outputs[0]};
    TROUPE_TRY(infer_same_dtype(params, inputs, all));
    outputs[0] = all[0];
    return base::Status();
  };
  op.gradient = [](GradientBuilder&) -> base::Result<std::vector<std::optional<Value>>> {
    return std::vector<std::optional<Value>>();
  };
  return op;
}

}  // namespace troupe::ops
