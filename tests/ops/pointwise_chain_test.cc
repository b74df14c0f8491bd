// SPDX-License-Identifier: Apache-2.0
// Chains of element-wise operators: their text, what is refused, and that a fused call has the bits
// of its steps.
#include "ops/pointwise_chain.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "ops/support/chain_kernel.h"
#include "tests/ops/cases.h"
#include "tests/support/catch.h"

namespace troupe::ops {
namespace {

using namespace testing;  // NOLINT: the test's own vocabulary

base::Result<Params> params_of(const std::string& inputs, const std::string& steps) {
  return parse_params(OpTable::build().at("fused_pointwise"),
                      {{"num_args", inputs}, {"steps", steps}});
}

/// The inference's answer to these steps of two inputs.
std::string refusal(const std::string& steps) {
  const OpDef& op = OpTable::build().at("fused_pointwise");
  std::vector<Shape> inputs(2, Shape{3, 4}), outputs(1, Shape::unknown());
  const base::Status status = infer_shapes(op, params_of("2", steps).value(), inputs, outputs);
  return status.ok() ? "" : status.text();
}

TEST_CASE("a chain's text says what it was made from") {
  const std::string text = "exp 0; clip 2 a_max=0.5 a_min=-0.25; add_n 3 1 0 num_args=3";
  const auto chain = parse_chain(params_of("2", text).value());
  INFO(chain.status().to_string());
  REQUIRE(chain.ok());
  CHECK(chain->inputs == 2);
  REQUIRE(chain->steps.size() == 3);
  CHECK(chain->steps[1].op->name == "clip");
  CHECK(chain->steps[1].params.real("a_min") == -0.25);
  CHECK(chain->steps[2].operands == std::vector<std::size_t>{3, 1, 0});
  CHECK(to_text(*chain) == text);
  const auto spaced = parse_chain(params_of("2",
                                            "  exp  0 ;clip 2 a_min=-0.25 a_max=0.5;"
                                            "add_n 3 1 0")
                                      .value());
  REQUIRE(spaced.ok());
  CHECK(to_text(*spaced) == text);
}

TEST_CASE("steps that make no sense are refused by name") {
  using Catch::Contains;
  CHECK(refusal("exp 0; multiply_elemwise 1 2").empty());
  CHECK_THAT(refusal(""), Contains("step 1, ''") && Contains("it is empty"));
  CHECK_THAT(refusal("exp 0;"), Contains("step 2, ''") && Contains("it is empty"));
  CHECK_THAT(refusal("exq 0"), Contains("step 1, 'exq 0'") && Contains("did you mean 'exp'"));
  CHECK_THAT(refusal("exp 2"), Contains("operand '2' (there are 0 to 1)"));
  CHECK_THAT(refusal("exp 0; exp 3"), Contains("step 2, 'exp 3'") && Contains("0 to 2"));
  CHECK_THAT(refusal("exp -1"), Contains("operand '-1'"));
  CHECK_THAT(refusal("exp 99999999999999999999999"), Contains("operand"));
  CHECK_THAT(refusal("exp"), Contains("needs 1 operand(s), 0 given"));
  CHECK_THAT(refusal("exp 0 1"), Contains("needs 1 operand(s), 2 given"));
  CHECK_THAT(refusal("exp 0 speed=3"), Contains("speed"));
  CHECK_THAT(refusal("clip 0 a_min=x a_max=1"), Contains("a_min"));
  CHECK_THAT(refusal("clip 0 a_min=1 a_min=2 a_max=3"), Contains("'a_min' is given twice"));
  CHECK_THAT(refusal("softmax 0"), Contains("softmax is not element-wise"));
  CHECK_THAT(refusal("leaky_relu 0 1 act_type=prelu"), Contains("with these attributes"));
  CHECK_THAT(refusal("fused_pointwise 0 num_args=1 steps=x"), Contains("is not element-wise"));
  CHECK_THAT(refusal("exp 0\n"), Contains("not one line of ASCII"));
  CHECK_THAT(refusal("exp 0; \xc3\xa9 1"), Contains("not one line of ASCII"));
  std::string long_chain = "exp 0", wide = "add_n";
  for (std::size_t i = 0; i < kChainStepsMost; ++i) long_chain += "; exp 0";
  for (std::size_t i = 0; i <= kStepOperandsMost; ++i) wide += " 0";
  CHECK_THAT(refusal(long_chain), Contains("33 of them (at most 32)"));
  CHECK_THAT(refusal(wide), Contains("17 operands (at most 16)"));
  CHECK_THAT(refusal(std::string(kChainTextMost + 1, 'x')),
             Contains("16385 bytes (at most 16384)"));
  CHECK(refusal(std::string(kChainTextMost, 'x')).size() < 1000);
  CHECK(params_of("17", "exp 0").status().code() == base::Errc::invalid_argument);
}

/// The chain step by step, each by the reference kernel or by the first one that takes it.
Tensor step_by_step(const PointwiseChain& chain, std::vector<Tensor> values, bool reference) {
  for (const PointwiseStep& step : chain.steps) {
    std::vector<Tensor> inputs;
    for (const std::size_t operand : step.operands) inputs.push_back(values[operand]);
    OpCall call = make_call(*step.op, step.params, describe(inputs)).value();
    call.reference_only = reference;
    const auto kernel = prepare(call);
    REQUIRE(kernel.ok());
    const auto outputs = make_outputs(call);
    run_kernel(**kernel, inputs, outputs, {});
    values.push_back(outputs[0]);
  }
  return values.back();
}

TEST_CASE("a fused call has the bits of its steps, whatever the length, NaN and infinity too") {
  const OpDef& op = OpTable::build().at("fused_pointwise");
  for (const Sample& sample : op.samples) {
    const Params params = parse_params(op, sample.attributes).value();
    const PointwiseChain chain = chain_of(params);
    for (const DType dtype : {DType::f32, DType::f64}) {
      // Shorter than a block, a block, some blocks and a rest.
      for (const std::int64_t elements : {1, 77, 2049, 8192, 8193, 3 * 8192 + 5}) {
        std::vector<Tensor> inputs;
        for (std::size_t i = 0; i < chain.inputs; ++i) {
          const bool number = chain.is_number()[i];
          Tensor tensor = random_tensor(dtype, number ? Shape{} : Shape{elements},
                                        "in" + std::to_string(i), 0.5, 1.5);
          const double odd[] = {std::nan(""), std::numeric_limits<double>::infinity(), -0.0};
          for (std::int64_t k = 0; k < 3 && elements > 3 && !number; ++k) {
            tensor.set(std::int64_t(i) + k, odd[k]);
          }
          inputs.push_back(tensor);
        }
        OpCall call = make_call(op, params, describe(inputs)).value();
        for (const KernelDef& candidate : op.kernels) {
          if (candidate.on_gpus) continue;
          const Tensor expected = step_by_step(chain, inputs, candidate.name == "reference");
          INFO(sample.title << ", " << candidate.name << ", " << elements);
          // Prepared and run by teams of several sizes.
          for (const int team : {1, 3}) {
            call.team = team;
            const auto kernel = candidate.make(call);
            REQUIRE(kernel.ok());
            CHECK_THAT((*kernel)->name(), Catch::StartsWith(candidate.name + "("));
            for (const int threads : {1, 2, 3}) {
              const auto outputs = make_outputs(call);
              run_kernel(**kernel, inputs, outputs, {.team = threads});
              CHECK(outputs[0].same_bits(expected));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("inputs that are numbers are named once, in order, beside tensors") {
  const OpDef& op = OpTable::build().at("fused_pointwise");
  const auto params = [&](const std::string& numbers, const std::string& steps) {
    return parse_params(op, {{"num_args", "3"}, {"numbers", numbers}, {"steps", steps}}).value();
  };
  const std::string steps = "multiply 0 1; add 3 2";
  const PointwiseChain chain = chain_of(params("(1, 2)", steps));
  CHECK(chain.numbers == std::vector<std::size_t>{1, 2});
  CHECK(chain.is_number() == std::vector<bool>{false, true, true, false, false});
  CHECK(chain_of(parse_params(op, to_attributes(chain)).value()).numbers == chain.numbers);
  CHECK(chain_of(params("()", steps)).numbers.empty());
  for (const char* wrong : {"(2, 1)", "(1, 1)", "(3,)"}) {
    CHECK_THAT(parse_chain(params(wrong, steps)).status().text(),
               Catch::Contains("are not inputs of 3, each once and in order"));
  }
  CHECK_THAT(parse_chain(params("(1, 2)", "exp 0; add_n 3 1")).status().text(),
             Catch::Contains("step 2, 'add_n 3 1'") &&
                 Catch::Contains("add_n takes no number beside a tensor"));
  CHECK_THAT(parse_chain(params("(1, 2)", "clip_backward 0 1 a_min=0 a_max=1")).status().text(),
             Catch::Contains("takes no number beside a tensor"));
  CHECK_THAT(parse_chain(params("(1, 2)", "exp 0; add 1 2")).status().text(),
             Catch::Contains("the last one is of numbers alone"));
  // Their shapes follow, and one with an axis is refused.
  std::vector<Shape> inputs(3, Shape::unknown()), outputs = {Shape{4, 5}};
  REQUIRE(infer_shapes(op, params("(1, 2)", steps), inputs, outputs).ok());
  CHECK(inputs == std::vector<Shape>{Shape{4, 5}, Shape{}, Shape{}});
  inputs[2] = Shape{1};
  CHECK_FALSE(infer_shapes(op, params("(1, 2)", steps), inputs, outputs).ok());
}

TEST_CASE("scratch memory follows from blocks, however large the team and the types") {
  const OpDef& op = OpTable::build().at("fused_pointwise");
  const Params params = params_of("2", "square 0; multiply 2 1; square 3").value();
  const auto scratch = [&](DType dtype, std::int64_t elements, int team) {
    const std::vector<Tensor> inputs(2, Tensor(dtype, Shape{elements}));
    OpCall call = make_call(op, params, describe(inputs)).value();
    call.team = team;
    return prepare(call).value()->scratch_bytes();
  };
  CHECK(scratch(DType::f32, 100, 256) <= 2 * 448);
  CHECK(scratch(DType::f32, 1 << 20, 4) <= std::size_t{4 * 2 * 32768});
  CHECK(scratch(DType::bf16, 1 << 20, 4) <= std::size_t{4 * 4 * 32768});
}

TEST_CASE("a chain takes by rule what its steps without a fast kernel take, or its memory") {
  const OpDef& op = OpTable::build().at("fused_pointwise");
  const auto rule = [&](const std::string& steps, const char* kernel) {
    const std::vector<Tensor> inputs(2, Tensor(DType::f32, Shape{1 << 20}));
    const OpCall call = make_call(op, params_of("2", steps).value(), describe(inputs)).value();
    const auto found = std::ranges::find(op.kernels, kernel, &KernelDef::name);
    return found->rule_seconds(call);
  };
  const double fast = rule("multiply 0 1; add_elemwise 2 1", "blocks");
  CHECK(rule("multiply 0 1; add_elemwise 2 1; multiply 3 0", "blocks") == fast);
  CHECK(rule("log 0; log 2; log 3; multiply 4 1", "blocks") > 2 * fast);
  CHECK(rule("multiply 0 1; add_elemwise 2 1", "reference") > 2 * fast);
}

TEST_CASE("whether zeros give zero follows from steps and from products with zero") {
  const auto gives_zero = [](const std::string& steps) {
    return maps_zero_to_zero(chain_of(params_of("2", steps).value()));
  };
  CHECK(gives_zero("square 0; add_elemwise 2 1"));
  CHECK(gives_zero("activation 0 act_type=sigmoid; multiply 2 0"));
  CHECK(gives_zero("add_scalar 0 scalar=3; clip 2 a_min=0 a_max=6; multiply_elemwise 3 0"));
  CHECK_FALSE(gives_zero("exp 0"));
  // Of a number nobody knows that it is finite.
  const OpDef& op = OpTable::build().at("fused_pointwise");
  const auto beside_number = [&](const std::string& steps) {
    return maps_zero_to_zero(chain_of(
        parse_params(op, {{"num_args", "2"}, {"numbers", "(1,)"}, {"steps", steps}}).value()));
  };
  CHECK(beside_number("multiply 1 1; square 0"));
  CHECK_FALSE(beside_number("multiply 0 1"));
  CHECK_FALSE(beside_number("add 0 1"));
  CHECK_FALSE(beside_number("exp 1; multiply 0 2"));
  CHECK_FALSE(gives_zero("add_scalar 0 scalar=3; clip 2 a_min=0 a_max=6"));
  CHECK_FALSE(gives_zero("exp 0; subtract_scalar 2 scalar=1"));  // some kernels might give 1e-8
  CHECK_FALSE(gives_zero("log 0; multiply 2 0"));                // infinite, so NaN
  CHECK_FALSE(gives_zero("divide 0 1; multiply 2 0"));           // NaN
  CHECK_FALSE(gives_zero("add_scalar 0 scalar=3e38; square 2; multiply 3 0"));
  CHECK_FALSE(gives_zero("multiply_scalar 0 scalar=inf"));
  CHECK_FALSE(gives_zero("multiply 0 1; add_scalar 2 scalar=1"));
}

TEST_CASE("every operator with a term has kernels that a chain can run, and fits the table") {
  const OpTable table = OpTable::build();
  std::set<std::string> names;
  for (const OpDef& op : table.all()) {
    if (!op.pointwise) continue;
    INFO(op.name);
    CHECK(op.elementwise);
    CHECK_FALSE(op.random);
    CHECK_FALSE(op.assign);
    CHECK(op.auxiliary.empty());
    for (const Sample& sample : op.samples) {
      const Params params = parse_params(op, sample.attributes).value();
      const auto term = op.pointwise(params);
      if (!term) continue;
      names.insert(op.name);
      CHECK(op.outputs(params).size() == 1);
      // Each input stands in the term, and no other.
      const std::size_t inputs = op.inputs(params).size();
      for (std::size_t k = 0; k <= inputs; ++k) {
        const std::string mark = "$" + std::to_string(k);
        std::size_t at = term->text.find(mark);
        while (at != std::string::npos && at + mark.size() < term->text.size() &&
               std::isdigit(static_cast<unsigned char>(term->text[at + mark.size()])) != 0) {
          at = term->text.find(mark, at + 1);
        }
        CHECK((at != std::string::npos) == (k < inputs));
      }
      CHECK(term->numbers.size() <= 2);
    }
  }
  for (const char* name : {"add", "add_elemwise", "divide_scalar", "clip_backward", "add_n", "copy",
                           "activation", "activation_backward", "leaky_relu", "silu_backward"}) {
    INFO(name);
    CHECK(names.contains(name));
  }
}

}  // namespace
}  // namespace troupe::ops
