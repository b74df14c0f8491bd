// SPDX-License-Identifier: Apache-2.0
// Constants: full, zeros, ones from a shape; zeros_like and ones_like from a tensor.
#include "ops/support/chunks.h"
#include "ops/support/creation.h"

namespace troupe::ops {
namespace {

using Constant = double (*)(const Params&);

KernelDef constant_kernel(Constant constant) {
  return reference_kernel([constant](const OpCall& call, const KernelContext& context) {
    return with_floating(context.outputs[0].dtype, [&](auto zero) {
      using T = decltype(zero);
      const T value = static_cast<T>(constant(call.params));
      T* out = context.outputs[0].as<T>();
      parallel_ranges(context, context.outputs[0].elements(),
                      [=](auto begin, auto end) { std::fill(out + begin, out + end, value); });
      return base::Status();
    });
  });
}

OpDef constant(std::string name, std::string alias, std::string doc, Constant value) {
  OpDef op = creation_definition();
  op.name = std::move(name);
  op.aliases = {std::move(alias)};
  op.doc = std::move(doc);
  op.kernels = {constant_kernel(value)};
  op.samples = {{.title = "matrix", .attributes = {{"shape", "(3, 5)"}}, .gradient = false}};
  return op;
}

OpDef full_definition() {
  OpDef op = constant("full", "_full", "Every element is `value`.",
                      [](const Params& params) { return params.real("value"); });
  op.params.push_back({"value", ParamType::real, std::nullopt, "The elements' value."});
  op.samples.front().attributes.emplace("value", "2.5");
  return op;
}

OpDef like(std::string name, std::string doc, Constant value) {
  OpDef op;
  op.name = std::move(name);
  op.doc = std::move(doc);
  op.inputs = names({"data"});
  op.outputs = names({"out"});
  op.gradient = [](GradientBuilder&) -> base::Result<std::vector<std::optional<Value>>> {
    return std::vector<std::optional<Value>>{std::nullopt};
  };
  op.shape_only_inputs = {0};
  op.elementwise = true;
  op.kernels = {constant_kernel(value)};
  op.samples = {{.title = "matrix", .inputs = {{3, 5}}, .gradient = false}};
  return op;
}

double zero_value(const Params&) {
  return 0.0;
}
double one_value(const Params&) {
  return 1.0;
}

}  // namespace

std::span<const OpDef> ops_constant() {
  static const std::vector<OpDef> operators = {
      full_definition(), constant("zeros", "_zeros", "Every element is 0.", zero_value),
      constant("ones", "_ones", "Every element is 1.", one_value),
      like("zeros_like", "Zeros of the shape and dtype of `data`.", zero_value),
      like("ones_like", "Ones of the shape and dtype of `data`.", one_value)};
  return operators;
}

}  // namespace troupe::ops
