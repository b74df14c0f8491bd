// SPDX-License-Identifier: Apache-2.0
// Every operator of the table, by its samples: kernels against the f64 reference, add mode,
// in-place pairs, teams, empty tensors, random draws, and gradients against finite differences.
#include <catch2/catch.hpp>

#include "tests/ops/tensors.h"

namespace troupe::ops {
namespace {

using namespace testing;  // NOLINT: the test's own vocabulary

/// Largest sample, in operations, that is compared with the plain reference. The thread sanitizer
/// is slow, and its races show in small samples too.
#if defined(__SANITIZE_THREAD__)
constexpr double kOperationsMax = 5e5;
#else
constexpr double kOperationsMax = 5e7;
#endif

double tolerance(DType dtype) {
  return dtype == DType::f32 ? 1e-5 : 1e-12;
}

/// A sample's call: parameters and inputs of one floating dtype.
struct Case {
  const OpDef* op = nullptr;
  std::string title;
  Params params;
  std::vector<Tensor> inputs;
  OpCall call;
};

/// Dtypes of the inputs: `dtype`, but what inference says for whole-number inputs.
std::vector<DType> input_dtypes(const OpDef& op, const Sample& sample, const Params& params,
                                DType dtype) {
  std::vector<std::optional<DType>> inputs(sample.inputs.size(), dtype);
  for (const auto& [index, range] : sample.integers) inputs.at(std::size_t(index)).reset();
  std::vector<std::optional<DType>> outputs(op.outputs(params).size());
  const base::Status status = infer_dtypes(op, params, inputs, outputs);
  INFO(status.to_string());
  REQUIRE(status.ok());
  std::vector<DType> dtypes;
  for (const auto& input : inputs) dtypes.push_back(input.value_or(DType::i32));
  return dtypes;
}

/// The case of a sample; its inputs hold the same values for every dtype. `batch` >= 0 replaces
/// the first extent of every input that has the first input's.
base::Result<Case> make_case(const OpDef& op, const Sample& sample, DType dtype,
                             std::int64_t batch = -1) {
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
    if (batch >= 0 && shape.rank() > 0 && first.rank() > 0 && shape[0] == first[0]) {
      shape.set(0, batch);
    }
    result.inputs.push_back(
        random_tensor(dtypes[i], shape, op.name + std::to_string(i), low, high, is_whole));
  }
  TROUPE_TRY_ASSIGN(result.call, make_call(op, result.params, describe(result.inputs)));
  return result;
}

double operations(const OpCall& call) {
  if (call.op->flops) return call.op->flops(call);
  double count = 0;
  for (const TensorDesc& output : call.outputs) count += double(output.shape.elements());
  return count;
}

/// f(op, sample) for every sample that is not too large.
template <typename F>
void for_each_sample(const OpTable& table, F&& f) {
  for (const OpDef& op : table.all()) {
    for (const Sample& sample : op.samples) {
      INFO("operator " << op.name << ", sample '" << sample.title << "'");
      f(op, sample);
    }
  }
}

/// One candidate's kernel for a call, or null when it declines.
std::unique_ptr<Kernel> prepare_candidate(const KernelDef& candidate, const OpCall& call) {
  auto kernel = candidate.prepare(call);
  if (kernel.ok()) return std::move(kernel).value();
  INFO(kernel.status().to_string());
  CHECK(kernel.status().code() == base::Errc::unimplemented);
  CHECK_FALSE(kernel.status().text().empty());
  return nullptr;
}

/// The reference's outputs in f64 on the case's own values.
std::vector<Tensor> expected_outputs(const OpDef& op, const Sample& sample, const Case& c) {
  const auto wide = make_case(op, sample, DType::f64);
  REQUIRE(wide.ok());
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    inputs.push_back(converted(c.inputs[i], wide.value().inputs[i].dtype));
  }
  return evaluate(op, wide.value().params, inputs);
}

void check_close(const std::vector<Tensor>& outputs, const std::vector<Tensor>& expected,
                 const Kernel& kernel) {
  REQUIRE(outputs.size() == expected.size());
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    INFO("kernel " << kernel.name() << ", output " << o);
    const double limit = base::is_floating(outputs[o].dtype) ? tolerance(outputs[o].dtype) : 0.0;
    CHECK(distance(unpacked(outputs[o]), expected[o]) <= limit);
    if (!outputs[o].layout.is_dense()) CHECK(padding_is_zero(outputs[o]));
  }
}

TEST_CASE("every kernel agrees with the reference in f64", "[conformance]") {
  const OpTable table = OpTable::build();
  for_each_sample(table, [&](const OpDef& op, const Sample& sample) {
    for (const DType dtype : {DType::f64, DType::f32}) {
      const auto made = make_case(op, sample, dtype);
      INFO(made.status().to_string());
      REQUIRE(made.ok());
      const Case& c = made.value();
      if (operations(c.call) > kOperationsMax) continue;
      const auto expected = expected_outputs(op, sample, c);
      for (const KernelDef& candidate : op.kernels) {
        const auto kernel = prepare_candidate(candidate, c.call);
        if (!kernel) {
          CHECK(candidate.name != "reference");
          continue;
        }
        const auto outputs = make_outputs(c.call);
        run_kernel(*kernel, c.inputs, outputs, {});
        check_close(outputs, expected, *kernel);
        // Vector kernels do the reference's additions and products; exp has its own polynomial.
        if (candidate.name != "simd" || op.name == "exp") continue;
        const auto plain = evaluate(op, c.params, c.inputs);
        for (std::size_t o = 0; o < plain.size(); ++o) CHECK(outputs[o].same_bits(plain[o]));
      }
    }
  });
}

TEST_CASE("kernels that choose their layouts agree with the reference", "[conformance]") {
  const OpTable table = OpTable::build();
  for_each_sample(table, [&](const OpDef& op, const Sample& sample) {
    auto made = make_case(op, sample, DType::f32);
    REQUIRE(made.ok());
    Case& c = made.value();
    if (operations(c.call) > kOperationsMax) return;
    for (auto* group : {&c.call.inputs, &c.call.outputs}) {
      for (TensorDesc& desc : *group) desc.any_layout = true;
    }
    for (const KernelDef& candidate : op.kernels) {
      const auto kernel = prepare_candidate(candidate, c.call);
      if (!kernel) continue;
      const auto in_layouts = kernel->input_layouts();
      const auto out_layouts = kernel->output_layouts();
      const auto opaque = [](const Layout& l) { return l.kind == Layout::Kind::opaque; };
      if (std::any_of(in_layouts.begin(), in_layouts.end(), opaque) ||
          std::any_of(out_layouts.begin(), out_layouts.end(), opaque)) {
        continue;
      }
      std::vector<Tensor> inputs = c.inputs;
      std::vector<Tensor> outputs = make_outputs(c.call);
      for (std::size_t i = 0; i < in_layouts.size(); ++i) {
        inputs[i] = packed(inputs[i], in_layouts[i]);
      }
      for (std::size_t o = 0; o < out_layouts.size(); ++o) {
        outputs[o] = Tensor(outputs[o].dtype, outputs[o].shape, out_layouts[o]);
      }
      run_kernel(*kernel, inputs, outputs, {});
      check_close(outputs, expected_outputs(op, sample, c), *kernel);
    }
  });
}

TEST_CASE("outputs can be added to", "[conformance]") {
  const OpTable table = OpTable::build();
  for_each_sample(table, [&](const OpDef& op, const Sample& sample) {
    if (op.accumulates.empty()) return;
    auto made = make_case(op, sample, DType::f32);
    REQUIRE(made.ok());
    Case& c = made.value();
    if (operations(c.call) > kOperationsMax) return;
    if (!base::is_floating(c.call.outputs[0].dtype)) return;
    auto expected = expected_outputs(op, sample, c);
    c.call.modes.assign(c.call.outputs.size(), WriteMode::write);
    std::vector<Tensor> before = make_outputs(c.call);
    for (const int o : op.accumulates) {
      if (std::size_t(o) >= before.size()) continue;
      c.call.modes[std::size_t(o)] = WriteMode::add;
      Tensor& tensor = before[std::size_t(o)];
      tensor = random_tensor(tensor.dtype, tensor.shape, "before", -1, 1);
      Tensor& sum = expected[std::size_t(o)];
      for (std::int64_t i = 0; i < sum.elements(); ++i) sum.set(i, sum.at(i) + tensor.at(i));
    }
    for (const KernelDef& candidate : op.kernels) {
      const auto kernel = prepare_candidate(candidate, c.call);
      if (!kernel) continue;
      std::vector<Tensor> outputs;
      for (const Tensor& tensor : before) outputs.push_back(tensor.clone());
      run_kernel(*kernel, c.inputs, outputs, {});
      check_close(outputs, expected, *kernel);
    }
  });
}

TEST_CASE("in-place pairs give the same bits", "[conformance]") {
  const OpTable table = OpTable::build();
  for_each_sample(table, [&](const OpDef& op, const Sample& sample) {
    const auto made = make_case(op, sample, DType::f32);
    REQUIRE(made.ok());
    const Case& c = made.value();
    if (operations(c.call) > kOperationsMax) return;
    for (const KernelDef& candidate : op.kernels) {
      const auto kernel = prepare_candidate(candidate, c.call);
      if (!kernel) continue;
      const auto apart = make_outputs(c.call);
      run_kernel(*kernel, c.inputs, apart, {});
      for (const auto& [i, o] : op.in_place) {
        const auto in = std::size_t(i);
        const auto out = std::size_t(o);
        if (in >= c.inputs.size() || out >= apart.size()) continue;
        if (c.inputs[in].shape != apart[out].shape || c.inputs[in].dtype != apart[out].dtype) {
          continue;
        }
        INFO("kernel " << kernel->name() << ", input " << i << " on output " << o);
        std::vector<Tensor> inputs = c.inputs;
        std::vector<Tensor> outputs = make_outputs(c.call);
        inputs[in] = c.inputs[in].clone();
        outputs[out] = inputs[in];
        run_kernel(*kernel, inputs, outputs, {});
        for (std::size_t k = 0; k < outputs.size(); ++k) CHECK(outputs[k].same_bits(apart[k]));
      }
    }
  });
}

TEST_CASE("own kernels give the same bits for every team", "[conformance]") {
  const OpTable table = OpTable::build();
  for_each_sample(table, [&](const OpDef& op, const Sample& sample) {
    const auto made = make_case(op, sample, DType::f32);
    REQUIRE(made.ok());
    const Case& c = made.value();
    if (!sample.benchmark || operations(c.call) > kOperationsMax) return;
    for (const KernelDef& candidate : op.kernels) {
      if (candidate.name != "reference" && !candidate.name.starts_with("simd")) continue;
      const auto kernel = prepare_candidate(candidate, c.call);
      if (!kernel) continue;
      const auto alone = make_outputs(c.call);
      const auto together = make_outputs(c.call);
      run_kernel(*kernel, c.inputs, alone, {.team = 1});
      run_kernel(*kernel, c.inputs, together, {.team = 3});
      for (std::size_t o = 0; o < alone.size(); ++o) CHECK(alone[o].same_bits(together[o]));
    }
  });
}

TEST_CASE("empty tensors are taken or refused, never a crash", "[conformance]") {
  const OpTable table = OpTable::build();
  std::size_t taken = 0;
  for_each_sample(table, [&](const OpDef& op, const Sample& sample) {
    if (sample.inputs.empty() || sample.inputs[0].rank() == 0) return;
    const auto made = make_case(op, sample, DType::f32, 0);
    if (!made.ok()) {
      CHECK(made.status().code() == base::Errc::invalid_argument);
      return;
    }
    ++taken;
    const Case& c = made.value();
    for (const KernelDef& candidate : op.kernels) {
      const auto kernel = prepare_candidate(candidate, c.call);
      if (kernel) run_kernel(*kernel, c.inputs, make_outputs(c.call), {});
    }
  });
  CHECK(taken > table.all().size() / 2);
}

TEST_CASE("random draws depend on key and step alone", "[conformance]") {
  const OpTable table = OpTable::build();
  std::map<std::string, int> varying;
  for_each_sample(table, [&](const OpDef& op, const Sample& sample) {
    if (!op.random) return;
    const auto made = make_case(op, sample, DType::f32);
    REQUIRE(made.ok());
    const Case& c = made.value();
    const auto draw = [&](std::uint64_t key, std::int64_t step) {
      return evaluate(op, c.params, c.inputs, {.key = {key}, .step = step}).front();
    };
    const Tensor first = draw(7, 1);
    CHECK(draw(7, 1).same_bits(first));
    // A sample may draw nothing (dropout of 0), but not all of an operator's samples.
    varying[op.name] += !draw(8, 1).same_bits(first) && !draw(7, 2).same_bits(first);
  });
  CHECK(varying.size() >= 3);
  for (const auto& [name, samples] : varying) {
    INFO(name);
    CHECK(samples > 0);
  }
}

/// The projection of the visible outputs on `weights`.
double projected(const Case& c, const std::vector<Tensor>& inputs,
                 const std::vector<Tensor>& weights) {
  const auto outputs = evaluate(*c.op, c.params, inputs);
  double sum = 0;
  for (std::size_t o = 0; o < weights.size(); ++o) {
    for (std::int64_t i = 0; i < weights[o].elements(); ++i) {
      sum += outputs[o].at(i) * weights[o].at(i);
    }
  }
  return sum;
}

/// Central differences of the projection with respect to input `index`.
Tensor finite_differences(const Case& c, std::size_t index, const std::vector<Tensor>& weights) {
  constexpr double kStep = 1e-5;
  Tensor gradient(DType::f64, c.inputs[index].shape);
  std::vector<Tensor> inputs = c.inputs;
  inputs[index] = c.inputs[index].clone();
  for (std::int64_t i = 0; i < gradient.elements(); ++i) {
    const double x = c.inputs[index].at(i);
    inputs[index].set(i, x + kStep);
    const double above = projected(c, inputs, weights);
    inputs[index].set(i, x - kStep);
    const double below = projected(c, inputs, weights);
    inputs[index].set(i, x);
    gradient.set(i, (above - below) / (2 * kStep));
  }
  return gradient;
}

TEST_CASE("gradients equal finite differences in f64", "[conformance]") {
  const OpTable table = OpTable::build();
  for_each_sample(table, [&](const OpDef& op, const Sample& sample) {
    if (!op.gradient || !sample.gradient) return;
    const auto made = make_case(op, sample, DType::f64);
    REQUIRE(made.ok());
    const Case& c = made.value();
    const auto outputs = evaluate(op, c.params, c.inputs);
    std::vector<Tensor> weights;
    for (int o = 0; o < op.visible_output_count(c.params); ++o) {
      const Tensor& output = outputs[std::size_t(o)];
      const std::string name = "weight" + std::to_string(o);
      weights.push_back(op.is_loss ? random_tensor(DType::f64, output.shape, name, 1, 1)
                                   : random_tensor(DType::f64, output.shape, name, -1, 1));
    }
    Evaluator builder(table, c.params, c.inputs, outputs, weights);
    const auto gradients = op.gradient(builder);
    INFO(gradients.status().to_string());
    REQUIRE(gradients.ok());
    REQUIRE(gradients.value().size() == c.inputs.size());
    std::size_t checked = 0;
    for (std::size_t i = 0; i < c.inputs.size(); ++i) {
      if (!gradients.value()[i]) continue;
      INFO("input " << i);
      const Tensor& computed = builder.tensor(*gradients.value()[i]);
      REQUIRE(computed.shape == c.inputs[i].shape);
      CHECK(distance(computed, finite_differences(c, i, weights)) <= 1e-6);
      ++checked;
    }
    CHECK((checked > 0 || c.inputs.empty()));
  });
}

}  // namespace
}  // namespace troupe::ops
