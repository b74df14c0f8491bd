// SPDX-License-Identifier: Apache-2.0
// Calls made from the samples of operators, for the tests that take every kernel through them.
// A test's thread only.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/support/layout_map.h"
#include "tests/ops/tensors.h"
#include "tests/support/catch.h"

namespace troupe::ops::testing {

/// Largest sample, in operations, that is compared with the plain reference. The thread sanitizer
/// is slow, and its races show in small samples too.
#if defined(__SANITIZE_THREAD__)
inline constexpr double kOperationsMax = 5e5;
#else
inline constexpr double kOperationsMax = 5e7;
#endif

/// What a kernel may differ from the reference in f64, norm-wise.
inline double tolerance(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return 4e-3;  // rounded once, to 8 bits
    case DType::f16:
      return 5e-4;  // to 11
    default:
      return dtype == DType::f32 ? 1e-5 : 1e-12;
  }
}

/// A sample's call: parameters and inputs of one floating dtype.
struct Case {
  const OpDef* op = nullptr;
  std::string title;
  Params params;
  std::vector<Tensor> inputs;
  OpCall call;
};

/// Dtypes of the inputs: `dtype`, but what inference says for whole-number inputs and, beside
/// tensors of 16 bits, for vectors.
inline std::vector<DType> input_dtypes(const OpDef& op, const Sample& sample, const Params& params,
                                       DType dtype) {
  std::vector<std::optional<DType>> inputs(sample.inputs.size(), dtype);
  const bool narrow = base::is_16_bit(dtype) && !inputs.empty() && sample.inputs[0].rank() > 1;
  for (std::size_t i = 0; narrow && i < inputs.size(); ++i) {
    if (sample.inputs[i].rank() == 1) inputs[i].reset();
  }
  for (const auto& [index, range] : sample.integers) inputs.at(std::size_t(index)).reset();
  std::vector<std::optional<DType>> outputs(op.outputs(params).size());
  const base::Status status = infer_dtypes(op, params, inputs, outputs);
  INFO(status.to_string());
  REQUIRE(status.ok());
  std::vector<DType> dtypes;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool whole = sample.integers.contains(int(i));
    dtypes.push_back(inputs[i].value_or(whole ? DType::i32 : dtype));
  }
  return dtypes;
}

/// The case of a sample; its inputs hold the same values for every dtype. With an axis
/// `emptied` >= 0 its extent is 0 in every input that has the first input's there.
inline base::Result<Case> make_case(const OpDef& op, const Sample& sample, DType dtype,
                                    int emptied = -1) {
  Attributes attributes = sample.attributes;
  if (op.inputs && op.find_param("dtype") != nullptr && sample.inputs.empty()) {
    attributes["dtype"] = base::dtype_name(dtype);
  }
  auto params = parse_params(op, attributes);
  INFO(params.status().to_string());
  REQUIRE(params.ok());
  REQUIRE(op.inputs(params.value()).size() == sample.inputs.size());
  const auto dtypes = input_dtypes(op, sample, params.value(), dtype);
  Case result{&op, sample.title, std::move(params).value(), {}, {}};
  for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
    const auto whole = sample.integers.find(int(i));
    const bool is_whole = whole != sample.integers.end();
    const double low = is_whole ? double(whole->second.first) : sample.low;
    const double high = is_whole ? double(whole->second.second) : sample.high;
    Shape shape = sample.inputs[i];
    const Shape& first = sample.inputs[0];
    const bool has_axis = emptied >= 0 && shape.rank() > emptied && first.rank() > emptied;
    if (has_axis && shape[emptied] == first[emptied]) shape.set(emptied, 0);
    result.inputs.push_back(
        random_tensor(dtypes[i], shape, op.name + std::to_string(i), low, high, is_whole));
  }
  TROUPE_TRY_ASSIGN(result.call, make_call(op, result.params, describe(result.inputs)));
  return result;
}

inline double operations(const OpCall& call) {
  if (call.op->flops) return call.op->flops(call);
  double count = 0;
  for (const TensorDesc& output : call.outputs) count += double(output.shape.elements());
  return count;
}

/// f(op, sample) for every sample that is not too large.
template <typename F>
inline void for_each_sample(const OpTable& table, F&& f) {
  for (const OpDef& op : table.all()) {
    for (const Sample& sample : op.samples) {
      INFO("operator " << op.name << ", sample '" << sample.title << "'");
      f(op, sample);
    }
  }
}

/// One candidate's kernel for a call and its team, however small it is, or null when it declines.
inline std::unique_ptr<Kernel> prepare_candidate(const KernelDef& candidate, const OpCall& call) {
  auto kernel = candidate.make_kernel(call);
  if (kernel.ok()) return std::move(kernel).value();
  INFO(kernel.status().to_string());
  CHECK(kernel.status().code() == base::Errc::unimplemented);
  CHECK_FALSE(kernel.status().text().empty());
  return nullptr;
}

/// The reference's outputs in f64 on the case's own values.
inline std::vector<Tensor> expected_outputs(const OpDef& op, const Sample& sample, const Case& c) {
  const auto wide = make_case(op, sample, DType::f64);
  REQUIRE(wide.ok());
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    inputs.push_back(converted(c.inputs[i], wide.value().inputs[i].dtype));
  }
  return evaluate(op, wide.value().params, inputs);
}

inline void check_close(const std::vector<Tensor>& outputs, const std::vector<Tensor>& expected,
                        const Kernel& kernel) {
  REQUIRE(outputs.size() == expected.size());
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    INFO("kernel " << kernel.name() << ", output " << o);
    const double limit = base::is_floating(outputs[o].dtype) ? tolerance(outputs[o].dtype) : 0.0;
    CHECK(distance(unpacked(outputs[o]), expected[o]) <= limit);
    if (!outputs[o].layout.is_dense()) CHECK(padding_is_zero(outputs[o]));
  }
}

/// A call on f32 tensors whose layouts are free.
inline OpCall free_call(const OpTable& table, const char* op, const std::vector<Shape>& shapes,
                        const Attributes& attributes = {}) {
  std::vector<TensorDesc> inputs;
  for (const Shape& shape : shapes) inputs.push_back({DType::f32, shape, {}, true});
  auto call = make_call(table.at(op), parse_params(table.at(op), attributes).value(), inputs);
  INFO(call.status().to_string());
  REQUIRE(call.ok());
  for (TensorDesc& output : call->outputs) output.any_layout = true;
  return *std::move(call);
}

/// What inference makes of these shapes, the ones left out being unknown: "inputs -> visible
/// outputs", or the error.
inline std::string inferred(const OpTable& table, std::string_view name,
                            const Attributes& attributes, std::vector<Shape> inputs,
                            std::vector<Shape> outputs = {}) {
  const OpDef& op = table.at(name);
  const auto params = parse_params(op, attributes);
  if (!params.ok()) return params.status().text();
  inputs.resize(op.inputs(*params).size(), Shape::unknown());
  outputs.resize(op.outputs(*params).size(), Shape::unknown());
  const base::Status status = infer_shapes(op, *params, inputs, outputs);
  if (!status.ok()) return status.text();
  std::string text;
  for (const Shape& shape : inputs) text += fmt::format("{} ", shape.to_string());
  text += "->";
  outputs.resize(std::size_t(op.visible_output_count(*params)));
  for (const Shape& shape : outputs) text += fmt::format(" {}", shape.to_string());
  return text;
}

/// A dense tensor in a layout that only the kernel of a reorder knows.
inline Tensor reordered(const Tensor& tensor, const Layout& layout) {
  const OpTable table = OpTable::build();
  auto call = make_call(table.at("reorder"), {}, describe({tensor}));
  REQUIRE(call.ok());
  call->outputs[0].layout = layout;
  Tensor moved(tensor.dtype, tensor.shape, layout);
  run_kernel(*prepare(*call).value(), {tensor}, {moved}, {});
  return moved;
}

/// One candidate's kernel on tensors in the layouts that it chose.
struct Chosen {
  std::unique_ptr<Kernel> kernel;
  std::vector<Tensor> inputs;
  std::vector<Layout> outputs;

  std::vector<Tensor> make_outputs(const OpCall& call) const {
    std::vector<Tensor> tensors = testing::make_outputs(call);
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      tensors[o] = Tensor(tensors[o].dtype, tensors[o].shape, outputs[o]);
    }
    return tensors;
  }
};

/// `candidate` for dense tensors; `blocked`: for what it likes, when tensors of four axes lie in
/// blocks of eight channels. Null kernel: it declines, or gives a private layout.
inline Chosen choose(const KernelDef& candidate, const Case& c, const std::vector<Tensor>& inputs,
                     bool blocked) {
  OpCall call = c.call;
  if (blocked) {
    for (TensorDesc& input : call.inputs) {
      input.any_layout = true;
      if (input.shape.rank() != 4) continue;
      Layout by_8_channels;
      by_8_channels.kind = Layout::Kind::blocked;
      by_8_channels.order = {0, 1, 2, 3};
      by_8_channels.blocks = {{1, 8}};
      input.layout = layout_for(by_8_channels, input.shape);
    }
    for (TensorDesc& output : call.outputs) output.any_layout = true;
  }
  Chosen chosen{prepare_candidate(candidate, call), inputs, {}};
  if (!chosen.kernel) return {};
  const std::vector<Layout> in = chosen.kernel->input_layouts();
  chosen.outputs = chosen.kernel->output_layouts();
  const auto opaque = [](const Layout& layout) { return layout.kind == Layout::Kind::opaque; };
  if (std::any_of(chosen.outputs.begin(), chosen.outputs.end(), opaque)) return {};
  for (std::size_t i = 0; i < in.size(); ++i) {
    chosen.inputs[i] = opaque(in[i]) ? reordered(inputs[i], in[i]) : packed(inputs[i], in[i]);
  }
  return chosen;
}

/// The call of a sample in f32.
inline OpCall f32_call(const OpDef& op, const Sample& sample, bool any_layout) {
  auto params = parse_params(op, sample.attributes);
  REQUIRE(params.ok());
  std::vector<std::optional<DType>> inputs(sample.inputs.size(), DType::f32);
  for (const auto& [index, range] : sample.integers) inputs[std::size_t(index)].reset();
  std::vector<std::optional<DType>> outputs(op.outputs(params.value()).size());
  REQUIRE(infer_dtypes(op, params.value(), inputs, outputs).ok());
  std::vector<TensorDesc> descs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    descs.push_back({inputs[i].value_or(DType::i32), sample.inputs[i], {}, any_layout});
  }
  auto call = make_call(op, params.value(), descs);
  INFO(call.status().to_string());
  REQUIRE(call.ok());
  for (TensorDesc& output : call.value().outputs) output.any_layout = any_layout;
  return call.value();
}

/// Tensors of a sample with the values of the conformance test's kind.
inline std::vector<Tensor> sample_inputs(const OpCall& call, const Sample& sample) {
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const auto whole = sample.integers.find(int(i));
    const bool is_whole = whole != sample.integers.end();
    inputs.push_back(
        random_tensor(call.inputs[i].dtype, call.inputs[i].shape, call.op->name + std::to_string(i),
                      is_whole ? double(whole->second.first) : sample.low,
                      is_whole ? double(whole->second.second) : sample.high, is_whole));
  }
  return inputs;
}

/// For a shape of four axes: nChw16c, or what else has blocks of so many channels.
inline Layout by_channels(const Shape& shape, std::int64_t channels = 16) {
  Layout layout;
  layout.kind = Layout::Kind::blocked;
  layout.order = {0, 1, 2, 3};
  layout.blocks = {{1, channels}};
  return layout_for(layout, shape);
}

}  // namespace troupe::ops::testing
