// SPDX-License-Identifier: Apache-2.0
// oneDNN's kernels of bf16, where the processor has instructions for them: each operator's samples,
// dense and in the layouts that the kernel likes, written and added to. Small enough for a
// processor that is emulated.
#include <set>

#include "ops/numerics.h"
#include "tests/ops/cases.h"

namespace troupe::ops {
namespace {

using namespace testing;  // NOLINT: the test's own vocabulary

constexpr double kSmall = 3e6;  // operations

/// Checks the candidate on a case, whose layouts are free or dense; false: it declines.
bool check_kernel(const KernelDef& candidate, const Case& c, const std::vector<Tensor>& expected,
                  bool free, bool adds) {
  OpCall call = c.call;
  for (auto* group : {&call.inputs, &call.outputs}) {
    for (TensorDesc& tensor : *group) tensor.any_layout = free;
  }
  if (adds) call.modes.assign(call.outputs.size(), WriteMode::add);
  const auto kernel = prepare_candidate(candidate, call);
  if (!kernel) return false;
  if (call.op->name.starts_with("fully_connected")) {
    CHECK_THAT(kernel->name(), !Catch::Contains(":gemm:"));  // it allocates while it runs
  }
  INFO("kernel " << kernel->name() << (free ? ", free" : ", dense") << (adds ? ", added" : ""));
  std::vector<Tensor> inputs, outputs, sums;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    inputs.push_back(packed(c.inputs[i], kernel->input_layouts()[i]));
  }
  for (std::size_t o = 0; o < call.outputs.size(); ++o) {
    const TensorDesc& desc = call.outputs[o];
    const Tensor before = random_tensor(desc.dtype, desc.shape, "before", -1, 1);
    outputs.push_back(packed(before, kernel->output_layouts()[o]));
    sums.push_back(expected[o].clone());
    for (std::int64_t i = 0; adds && i < sums[o].elements(); ++i) {
      sums[o].set(i, expected[o].at(i) + before.at(i));
    }
  }
  run_kernel(*kernel, inputs, outputs, {});
  check_close(outputs, sums, *kernel);
  return true;
}

TEST_CASE("oneDNN's kernels of bf16 agree with the reference where the processor has them") {
  const OpTable table = OpTable::build();
  std::set<std::string> taken;
  for_each_sample(table, [&](const OpDef& op, const Sample& sample) {
    for (const KernelDef& candidate : op.kernels) {
      if (candidate.name != "onednn-bf16") continue;
      const Case c = make_case(op, sample, DType::bf16).value();
      if (operations(c.call) > kSmall) continue;
      const auto expected = expected_outputs(op, sample, c);
      const bool all_add = op.accumulates.size() == c.call.outputs.size();
      for (const bool free : {false, true}) {
        for (const bool adds : {false, true}) {
          if (adds && !all_add) continue;
          const bool wide = sample.attributes.contains("wide_gradients");
          if (!check_kernel(candidate, c, expected, free, adds)) continue;
          taken.insert(op.name + (wide ? " in f32" : ""));
        }
      }
    }
  });
  if (!has_bf16_products()) {
    CHECK(taken.empty());
    return;
  }
  for (const char* op :
       {"convolution", "convolution_backward_data", "convolution_backward_weights",
        "fully_connected", "fully_connected_backward_data", "fully_connected_backward_weights",
        "fully_connected_backward_weights in f32", "deconvolution", "deconvolution_backward_data",
        "deconvolution_backward_weights", "pooling", "pooling_backward", "reorder"}) {
    INFO(op);
    CHECK(taken.contains(op));
  }
}

TEST_CASE("by rule, products of bf16 go to the kernels that the processor has for them") {
  const OpTable table = OpTable::build();
  OpCall call = free_call(table, "convolution", {{2, 32, 14, 14}, {32, 32, 3, 3}, {32}},
                          {{"kernel", "(3, 3)"}, {"num_filter", "32"}, {"pad", "(1, 1)"}});
  for (auto* group : {&call.inputs, &call.outputs}) {
    for (TensorDesc& tensor : *group) tensor.dtype = DType::bf16;
  }
  const auto kernel = prepare(call).value();
  INFO(kernel->name());
  CHECK(kernel->name().ends_with(" in f32") != has_bf16_products());
}

}  // namespace
}  // namespace troupe::ops
