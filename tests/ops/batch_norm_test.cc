// SPDX-License-Identifier: Apache-2.0
// batch_norm's own kernels beyond the conformance test: layouts, teams, statistics out of range.
#include <cmath>
#include <set>
#include <string>

#include "tests/ops/cases.h"
#include "tests/support/catch.h"

namespace troupe::ops {
namespace {

using namespace testing;  // NOLINT: the test's own vocabulary

TEST_CASE("batch_norm runs in our kernel, whatever layout its data has", "[layout]") {
  const OpTable table = OpTable::build();
  for (const char* name : {"batch_norm", "batch_norm_backward", "batch_norm_inference"}) {
    const OpDef& op = table.at(name);
    for (const Sample& sample : op.samples) {
      OpCall call = f32_call(op, sample, false);
      INFO("operator " << name << ", sample '" << sample.title << "'");
      CHECK(std::string(prepare(call).value()->name()) == "simd:norm");
      if (sample.inputs[0].rank() != 4 || sample.attributes.contains("axis")) continue;
      for (TensorDesc& input : call.inputs) {
        if (input.shape.rank() == 4) input.layout = by_channels(input.shape);
      }
      for (TensorDesc& output : call.outputs) output.any_layout = true;
      CHECK(std::string(prepare(call).value()->name()) == "simd:norm");
    }
  }
}

/// batch_norm's outputs of data of this dtype in this layout by a team, dense.
std::vector<Tensor> normalised(const Shape& data, DType dtype, const base::Layout& layout,
                               int team) {
  const OpTable table = OpTable::build();
  const Sample sample{.attributes = {{"fix_gamma", "False"}},
                      .inputs = {data, {data[1]}, {data[1]}, {data[1]}, {data[1]}}};
  OpCall call = f32_call(table.at("batch_norm"), sample, false);
  std::vector<Tensor> inputs = sample_inputs(call, sample);
  inputs[0] = packed(converted(inputs[0], dtype), layout);
  call.inputs[0].layout = call.outputs[0].layout = layout;
  call.inputs[0].dtype = call.outputs[0].dtype = dtype;
  call.team = team;
  const auto kernel = prepare(call).value();
  CHECK(kernel->name() == "simd:norm");
  std::vector<Tensor> outputs = make_outputs(call);
  outputs[0] = Tensor(dtype, data, layout);
  run_kernel(*kernel, inputs, outputs, {.team = team});
  for (Tensor& output : outputs) output = unpacked(output);
  return outputs;
}

TEST_CASE("batch_norm gives the same bits for every team, in every layout near ones", "[team]") {
  const base::Layout last{base::Layout::Kind::blocked, {0, 2, 3, 1}, {}, {}, "", 0};
  // With their channels last, the fourth has several parts of several groups.
  const auto check = [&](const Shape& data, DType dtype) {
    const auto dense = normalised(data, dtype, base::Layout::dense(), 1);
    base::Layout channels_last = last;
    channels_last.padded = data;
    for (const base::Layout& layout : {base::Layout::dense(), by_channels(data), channels_last}) {
      INFO(data.to_string() << ' ' << layout.to_string() << ' ' << base::dtype_name(dtype));
      const auto alone = normalised(data, dtype, layout, 1);
      for (const int team : {2, 3, 16}) {
        const auto together = normalised(data, dtype, layout, team);
        for (std::size_t o = 0; o < alone.size(); ++o) CHECK(together[o].same_bits(alone[o]));
      }
      for (std::size_t o = 0; o < alone.size(); ++o) {
        CHECK(distance(alone[o], dense[o]) <= (alone[o].dtype == DType::bf16 ? 1e-3 : 1e-6));
      }
    }
  };
  for (const Shape& data :
       {Shape{2, 3, 3, 3}, Shape{5, 40, 7, 9}, Shape{3, 1, 50, 50}, Shape{4, 512, 9, 9}}) {
    for (const DType dtype : {DType::f32, DType::bf16}) check(data, dtype);
  }
}

/// The outputs of batch_norm's gradient in this dtype and layout by a team, dense.
std::vector<Tensor> differentiated(const Shape& data, DType dtype, const base::Layout& layout,
                                   int team) {
  const OpTable table = OpTable::build();
  const Sample sample{.attributes = {{"fix_gamma", "False"}},
                      .inputs = {data, data, {data[1]}, {data[1]}, {data[1]}},
                      .low = 0.5,
                      .high = 2.0};
  OpCall call = f32_call(table.at("batch_norm_backward"), sample, false);
  std::vector<Tensor> inputs = sample_inputs(call, sample);
  for (const int i : {0, 1}) inputs[std::size_t(i)] = converted(inputs[std::size_t(i)], dtype);
  const auto plain = evaluate(*call.op, call.params, inputs);
  for (const int i : {0, 1}) inputs[std::size_t(i)] = packed(inputs[std::size_t(i)], layout);
  for (TensorDesc* const tensor : {&call.inputs[0], &call.inputs[1], &call.outputs[0]}) {
    tensor->layout = layout;
    tensor->dtype = dtype;
  }
  call.team = team;
  const auto kernel = prepare(call).value();
  CHECK(kernel->name() == "simd:norm");
  std::vector<Tensor> outputs = make_outputs(call);
  outputs[0] = Tensor(dtype, data, layout);
  run_kernel(*kernel, inputs, outputs, {.team = team});
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    outputs[o] = unpacked(outputs[o]);
    CHECK(distance(outputs[o], plain[o]) <= (outputs[o].dtype == DType::bf16 ? 1e-3 : 1e-5));
  }
  return outputs;
}

TEST_CASE(
    "batch_norm's gradient has the same bits for every team: short planes, few channels, and "
    "more than caches hold",
    "[team]") {
  // Of 25 numbers many planes go together, of 41x41 one; the last gradient goes past the caches.
  // That one has half as many bytes in bf16, where a batch of twice the size goes past them.
  const auto check = [](const Shape& data, DType dtype) {
    base::Layout last{base::Layout::Kind::blocked, {0, 2, 3, 1}, {}, {}, "", 0};
    last.padded = data;
    for (const base::Layout& layout : {base::Layout::dense(), by_channels(data), last}) {
      INFO(data.to_string() << ' ' << layout.to_string() << ' ' << base::dtype_name(dtype));
      const auto alone = differentiated(data, dtype, layout, 1);
      for (const int team : {2, 3}) {
        const auto together = differentiated(data, dtype, layout, team);
        for (std::size_t o = 0; o < alone.size(); ++o) CHECK(together[o].same_bits(alone[o]));
      }
    }
  };
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const std::int64_t batch = dtype == DType::f32 ? 8 : 16;
    for (const Shape& data : {Shape{300, 3, 5, 5}, Shape{40, 5, 41, 41}, Shape{4, 512, 9, 9},
                              Shape{batch, 32, 97, 96}}) {
      check(data, dtype);
    }
  }
}

TEST_CASE("statistics that f32 cannot hold do not look healthy") {
  const OpTable table = OpTable::build();
  const OpDef& op = table.at("batch_norm");
  const Sample sample{.attributes = {}, .inputs = {{4, 1}, {1}, {1}, {1}, {1}}};
  for (const KernelDef& maker : op.kernels) {
    INFO(maker.name);
    const OpCall call = f32_call(op, sample, false);
    const auto kernel = maker.prepare(call).value();
    auto inputs = sample_inputs(call, sample);
    for (int i = 0; i < 4; ++i) inputs[0].set(i, i < 2 ? 3e19 : -3e19);
    const auto outputs = make_outputs(call);
    run_kernel(*kernel, inputs, outputs, {});
    for (int i = 0; i < 4; ++i) CHECK(std::isnan(outputs[0].at(i)));
  }
}

TEST_CASE("data of 16 bits is normalised with vectors of f32", "[batch_norm]") {
  const OpTable table = OpTable::build();
  std::set<std::string> kernels;
  for (const char* name : {"batch_norm", "batch_norm_inference", "batch_norm_backward"}) {
    const OpDef& op = table.at(name);
    for (const Sample& sample : op.samples) {
      for (const DType narrow : {DType::bf16, DType::f16}) {
        INFO(name << ", " << sample.title << ", " << base::dtype_name(narrow));
        Case c = make_case(op, sample, DType::f32).value();
        for (Tensor& input : c.inputs) {
          if (input.shape == c.inputs[0].shape) input = converted(input, narrow);
        }
        c.call = make_call(op, c.params, describe(c.inputs)).value();
        CHECK(c.call.outputs[0].dtype == narrow);
        for (std::size_t o = 1; o < c.call.outputs.size(); ++o) {
          CHECK(c.call.outputs[o].dtype == DType::f32);
        }
        const auto expected = expected_outputs(op, sample, c);
        for (const KernelDef& candidate : op.kernels) {
          const auto kernel = prepare_candidate(candidate, c.call);
          if (!kernel) continue;
          const auto outputs = make_outputs(c.call);
          run_kernel(*kernel, c.inputs, outputs, {});
          check_close(outputs, expected, *kernel);
          kernels.insert(candidate.name);
        }
      }
    }
  }
  CHECK(kernels.contains("reference"));
  CHECK(kernels.contains("cuda"));
  const auto mixed =
      make_call(table.at("batch_norm"), parse_params(table.at("batch_norm"), {}).value(),
                {{DType::f32, {2, 3, 4, 4}},
                 {DType::f64, {3}},
                 {DType::f64, {3}},
                 {DType::f64, {3}},
                 {DType::f64, {3}}});
  CHECK(mixed.status().code() == base::Errc::invalid_argument);
  CHECK_THAT(mixed.status().text(), Catch::Contains("f32") && Catch::Contains("f64"));
}

}  // namespace
}  // namespace troupe::ops
