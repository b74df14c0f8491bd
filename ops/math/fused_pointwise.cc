// SPDX-License-Identifier: Apache-2.0
// fused_pointwise: a chain of element-wise operators whose results between them stay in the cache
// or, on GPUs, in registers. Binding makes such nodes (symbol/fuse_pointwise.h), behind
// differentiation, so they have no gradient.
#include "ops/pointwise_chain.h"
#include "ops/support/chain_kernel.h"
#include "ops/support/variadic.h"

namespace troupe::ops {
namespace {

using base::Shape;

base::Status infer(const Params& params, std::vector<Shape>& inputs, std::vector<Shape>& outputs) {
  TROUPE_TRY_ASSIGN(const PointwiseChain chain, parse_chain(params));
  const std::vector<bool> is_number = chain.is_number();
  std::vector<Shape> tensors;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (!is_number[k]) {
      tensors.push_back(inputs[k]);
    } else {
      TROUPE_TRY_ASSIGN(inputs[k], base::merge_shapes(inputs[k], Shape{}));
    }
  }
  TROUPE_TRY(infer_same_shape(params, tensors, outputs));
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (!is_number[k]) inputs[k] = outputs[0];
  }
  return {};
}

KernelDef chain_kernel(const std::string& name, ChainForm form) {
  KernelDef kernel{
      name, [name, form](const OpCall& call) -> base::Result<std::unique_ptr<Kernel>> {
        TROUPE_TRY(with_real(call.outputs[0].dtype, [](auto) { return base::Status(); }));
        return make_chain_kernel(name, call, form);
      }};
  kernel.seconds = [form](const OpCall& call) { return chain_seconds(call, form); };
  kernel.takes_16_bits = any_16_bits;
  kernel.leads_team = form == ChainForm::blocks;  // some steps' kernels may
  return kernel;
}

Sample sample(std::string title, std::size_t inputs, std::string steps) {
  return {.title = std::move(title),
          .attributes = {{"num_args", std::to_string(inputs)}, {"steps", std::move(steps)}},
          .inputs = std::vector<Shape>(inputs, Shape{3, 37, 5, 31}),
          .low = 0.5,
          .high = 1.5};
}

std::vector<Sample> samples() {
  std::vector<Sample> list = {
      sample("one step", 1, "square 0"),
      sample("zero to zero", 3,
             "multiply_elemwise 0 1; add_elemwise 3 2; activation 4 act_type=relu; square 5"),
      sample(
          "zero to zero by products", 2,
          "add_scalar 0 scalar=3; clip 2 a_min=0 a_max=6; multiply_elemwise 3 0; multiply_scalar "
          "4 scalar=0.16666667; activation 1 act_type=sigmoid; multiply 6 1; add_elemwise 5 7"),
      sample("every input late", 3, "negate 0; subtract_elemwise 3 1; add_n 2 4 0 1"),
      sample("functions", 2,
             "exp 0; log 1; sqrt 0; divide_elemwise 2 4; subtract 5 3; clip 6 a_min=-1 a_max=2.5"),
      sample("numbers", 1,
             "add_scalar 0 scalar=0.5; subtract_scalar 1 scalar=0.25; multiply_scalar 2 scalar=3; "
             "divide_scalar 3 scalar=7; reverse_subtract_scalar 4 scalar=2; "
             "reverse_divide_scalar 5 scalar=2"),
      sample("activations", 1,
             "activation 0 act_type=sigmoid; activation 1 act_type=tanh; activation 2 "
             "act_type=softrelu; activation 3 act_type=softsign; silu 4; copy 5"),
      sample("leaky ones", 1,
             "leaky_relu 0 act_type=leaky slope=0.1; leaky_relu 1 act_type=elu slope=0.5; "
             "leaky_relu 2 act_type=selu; leaky_relu 3 act_type=gelu"),
      sample("gradients", 4,
             "clip_backward 0 1 a_min=0.6 a_max=1.4; silu_backward 4 2; leaky_relu_backward 5 3 "
             "act_type=gelu; activation_backward 6 0 1 act_type=relu num_gradients=2; "
             "activation_backward 7 2 act_type=tanh"),
  };
  const auto with_numbers = [](Sample one, const Shape& numbers) {
    one.attributes["numbers"] = numbers.to_string();
    for (const std::int64_t k : numbers.dims()) one.inputs[static_cast<std::size_t>(k)] = Shape{};
    return one;
  };
  list.push_back(with_numbers(sample("numbers beside tensors", 4,
                                     "multiply 0 1; multiply 2 2; add 4 5; divide 6 1; subtract 3 "
                                     "7; multiply 8 0"),
                              {1, 3}));
  list.push_back(with_numbers(
      sample("numbers of numbers", 3, "divide 1 2; sqrt 3; multiply 4 0; add 5 1"), {1, 2}));
  for (Sample& each : list) each.gradient = false;
  // gelu as many write it: x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))).
  list.push_back(sample("gelu by tanh, large", 1,
                        "square 0; multiply_elemwise 1 0; multiply_scalar 2 scalar=0.044715; "
                        "add_elemwise 3 0; multiply_scalar 4 scalar=0.7978845608; activation 5 "
                        "act_type=tanh; add_scalar 6 scalar=1; multiply_elemwise 7 0; "
                        "multiply_scalar 8 scalar=0.5"));
  list.push_back(sample("arithmetic, large", 3,
                        "multiply_elemwise 0 1; add_elemwise 3 2; multiply_scalar 4 scalar=0.9; "
                        "subtract_elemwise 5 0"));
  for (std::size_t i = list.size() - 2; i < list.size(); ++i) {
    for (Shape& shape : list[i].inputs) shape = {256, 4096};
    list[i].gradient = false;
    list[i].benchmark = true;
  }
  return list;
}

OpDef definition() {
  OpDef op;
  op.name = "fused_pointwise";
  op.doc =
      "A chain of element-wise operators in one pass over memory. `steps` lists them between "
      "semicolons: the operator's name, its operands and its attributes. Operands below `num_args` "
      "are inputs, the next numbers are the steps: with one input, `exp 0; clip 1 a_min=-0.5 "
      "a_max=0.5` is `clip(exp(data0))`. Steps may be add, subtract, multiply and divide of two "
      "tensors or with a number, add_n, negate, square, sqrt, exp, log, clip, activation, "
      "leaky_relu but prelu, silu, copy, stop_gradient, and the gradients of these; at most 32, "
      "with at most 16 operands each. All tensors have one shape and one floating dtype, but the "
      "inputs listed in `numbers` are 0-d; the last step's result is the output. When a network is "
      "bound, neighbouring element-wise operators become such chains by themselves, so nobody "
      "needs to write one. The bits are those of the "
      "operators one by one, but tensors of 16 bits are rounded once, behind the last step. It has "
      "no gradient.";
  op.params = {
      {"num_args", ParamType::integer, std::nullopt, "Number of inputs.", 1,
       static_cast<double>(kChainInputsMost)},
      {"numbers", ParamType::shape, Shape{}, "Positions of inputs that are 0-d, at most 8.", 0,
       static_cast<double>(kChainInputsMost - 1)},
      {.name = "steps", .type = ParamType::text, .doc = "The chain, at most 16 KiB."}};
  op.inputs = numbered_names("data");
  op.outputs = names({"out"});
  op.infer_shape = infer;
  op.mixed = MixedPrecision::wide;
  for (int i = 0; i < static_cast<int>(kChainInputsMost); ++i) op.in_place.emplace_back(i, 0);
  op.elementwise = true;
  op.maps_zero_to_zero = [](const Params& params) { return maps_zero_to_zero(chain_of(params)); };
  op.flops = [](const OpCall& call) {
    return static_cast<double>(chain_of(call.params).steps.size()) *
           static_cast<double>(call.outputs[0].shape.elements());
  };
  op.kernels = {chain_kernel("blocks", ChainForm::blocks),
                chain_kernel("reference", ChainForm::reference)};
  op.samples = samples();
  return op;
}

}  // namespace

std::span<const OpDef> ops_fused_pointwise() {
  static const std::vector<OpDef> operators = {definition()};
  return operators;
}

}  // namespace troupe::ops
