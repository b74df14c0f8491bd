// SPDX-License-Identifier: Apache-2.0
// cast: the same values in another dtype; cast_like, its gradient.
#include "ops/op.h"
#include "ops/support/widened.h"

namespace troupe::ops {
namespace {

using base::DType;
using base::Status;

Status run(const OpCall&, const KernelContext& context) {
  cast_memory(context, context.inputs[0], context.outputs[0]);
  return {};
}

/// Sets a dtype that is not known yet; another one is an error.
Status set_dtype(std::optional<DType>& dtype, std::optional<DType> value) {
  if (!value) return {};
  if (dtype && *dtype != *value) {
    return base::error(base::Errc::invalid_argument, "dtype {} where {} is expected",
                       base::dtype_name(*dtype), base::dtype_name(*value));
  }
  dtype = value;
  return {};
}

KernelDef cast_kernel() {
  KernelDef kernel = reference_kernel(run);
  kernel.takes_16_bits = any_16_bits;
  return kernel;
}

OpDef cast_definition() {
  OpDef op;
  op.name = "cast";
  op.aliases = {"Cast"};
  op.doc =
      "`data` in another dtype. From floating to integer types values go towards zero and stop at "
      "the type's ends; NaN gives 0. To types of 16 bits they are rounded to the nearest.";
  op.params = {{"dtype", ParamType::dtype, std::nullopt, "The output's dtype."}};
  op.inputs = names({"data"});
  op.outputs = names({"out"});
  op.infer_dtype = [](const Params& params, auto& inputs, auto& outputs) {
    TROUPE_TRY(set_dtype(inputs[0], inputs[0]));
    return set_dtype(outputs[0], params.dtype("dtype"));
  };
  op.gradient = [](GradientBuilder& b) -> base::Result<std::vector<std::optional<Value>>> {
    return {{b.add1("cast_like", {*b.output_gradient(0), b.input(0)})}};
  };
  op.elementwise = true;
  op.maps_zero_to_zero = always;
  op.prepares_weights = true;
  op.kernels = {cast_kernel()};
  op.samples = {{.title = "to f64", .attributes = {{"dtype", "f64"}}, .inputs = {{3, 5}}},
                {.title = "to i32",
                 .attributes = {{"dtype", "i32"}},
                 .inputs = {{3, 5}},
                 .low = -9.0,
                 .high = 9.0,
                 .gradient = false}};
  return op;
}

OpDef cast_like_definition() {
  OpDef op;
  op.name = "cast_like";
  op.doc = "`data` in the dtype of `like`.";
  op.inputs = names({"data", "like"});
  op.outputs = names({"out"});
  op.infer_dtype = [](const Params&, auto& inputs, auto& outputs) {
    TROUPE_TRY(set_dtype(outputs[0], inputs[1]));
    return set_dtype(inputs[1], outputs[0]);
  };
  op.shape_only_inputs = {1};
  op.elementwise = true;
  op.maps_zero_to_zero = always;
  op.kernels = {cast_kernel()};
  op.samples = {{.title = "matrix", .inputs = {{3, 5}, {3, 5}}, .gradient = false}};
  return op;
}

}  // namespace

std::span<const OpDef> ops_cast() {
  static const std::vector<OpDef> operators = {cast_definition(), cast_like_definition()};
  return operators;
}

}  // namespace troupe::ops
