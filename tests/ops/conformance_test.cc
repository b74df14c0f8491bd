// SPDX-License-Identifier: Apache-2.0
// Every operator of the table, by its samples: kernels against the f64 reference, add mode,
// in-place pairs, teams, empty tensors, random draws, and gradients against finite differences.
#include <algorithm>
#include <cmath>
#include <set>

#include "tests/ops/cases.h"
#include "tests/support/catch.h"

namespace troupe::ops {
namespace {

using namespace testing;  // NOLINT: the test's own vocabulary

TEST_CASE("every kernel agrees with the reference in f64", "[conformance]") {
  const OpTable table = OpTable::build();
  for_each_sample(table, [&](const OpDef& op, const Sample& sample) {
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
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
        // Vector kernels do the reference's additions and products; exp has its own polynomial, and
        // softmax adds up its results in f32.
        const bool own = op.name == "exp" || op.name.find("softmax") != std::string::npos;
        if (candidate.name != "simd" || own) continue;
        const auto plain = evaluate(op, c.params, c.inputs);
        for (std::size_t o = 0; o < plain.size(); ++o) CHECK(outputs[o].same_bits(plain[o]));
      }
    }
  });
}

TEST_CASE("kernels that choose their layouts agree with the reference", "[conformance]") {
  const OpTable table = OpTable::build();
  const auto check_layouts = [&](const OpDef& op, const Sample& sample, DType dtype) {
    auto made = make_case(op, sample, dtype);
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
  };
  for_each_sample(table, [&](const OpDef& op, const Sample& sample) {
    for (const DType dtype : {DType::f32, DType::bf16}) check_layouts(op, sample, dtype);
  });
}

TEST_CASE("outputs can be added to", "[conformance]") {
  const OpTable table = OpTable::build();
  const auto check_sum = [&](const OpDef& op, const Sample& sample, DType dtype) {
    if (op.accumulates.empty()) return;
    auto made = make_case(op, sample, dtype);
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
  };
  for_each_sample(table, [&](const OpDef& op, const Sample& sample) {
    for (const DType dtype : {DType::f32, DType::bf16}) check_sum(op, sample, dtype);
  });
}

TEST_CASE("in-place pairs give the same bits, in blocked layouts too", "[conformance]") {
  const OpTable table = OpTable::build();
  std::set<std::string> blocked_operators;
  const auto check_pairs = [&](const OpDef& op, const Case& c, const KernelDef& candidate,
                               bool blocked) {
    const Chosen chosen = choose(candidate, c, c.inputs, blocked);
    if (!chosen.kernel) return;
    const auto apart = chosen.make_outputs(c.call);
    run_kernel(*chosen.kernel, chosen.inputs, apart, {});
    for (const auto& [i, o] : op.in_place) {
      const auto in = std::size_t(i);
      const auto out = std::size_t(o);
      if (in >= chosen.inputs.size() || out >= apart.size()) continue;
      const Tensor& source = chosen.inputs[in];
      if (source.shape != apart[out].shape || source.dtype != apart[out].dtype ||
          source.layout != apart[out].layout) {
        continue;
      }
      INFO("kernel " << chosen.kernel->name() << ", input " << i << " on output " << o);
      std::vector<Tensor> inputs = chosen.inputs;
      std::vector<Tensor> outputs = chosen.make_outputs(c.call);
      inputs[in] = source.clone();
      outputs[out] = inputs[in];
      run_kernel(*chosen.kernel, inputs, outputs, {});
      for (std::size_t k = 0; k < outputs.size(); ++k) CHECK(outputs[k].same_bits(apart[k]));
      if (!source.layout.is_dense()) blocked_operators.insert(op.name);
    }
  };
  for_each_sample(table, [&](const OpDef& op, const Sample& sample) {
    const auto made = make_case(op, sample, DType::f32);
    REQUIRE(made.ok());
    const Case& c = made.value();
    if (operations(c.call) > kOperationsMax) return;
    for (const KernelDef& candidate : op.kernels) {
      for (const bool blocked : {false, true}) check_pairs(op, c, candidate, blocked);
    }
  });
  CHECK(blocked_operators.contains("activation"));
  CHECK(blocked_operators.contains("activation_backward"));
}

TEST_CASE("views hold the same, and kernels leave them alone in one place", "[conformance]") {
  const OpTable table = OpTable::build();
  std::map<std::string, int> checked;
  const auto check_views = [&](const OpDef& op, const Case& c, const KernelDef& candidate,
                               bool blocked) {
    const Chosen chosen = choose(candidate, c, c.inputs, blocked);
    if (!chosen.kernel) return;
    const auto apart = chosen.make_outputs(c.call);
    run_kernel(*chosen.kernel, chosen.inputs, apart, {});
    OpCall call = c.call;
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      call.inputs[i].layout = chosen.inputs[i].layout;
    }
    for (std::size_t o = 0; o < apart.size(); ++o) call.outputs[o].layout = apart[o].layout;
    for (const View& view : op.views(call)) {
      INFO("kernel " << chosen.kernel->name() << ", input " << view.input << ", output "
                     << view.output);
      std::vector<Tensor> inputs = chosen.inputs;
      std::vector<Tensor> outputs = chosen.make_outputs(c.call);
      Tensor& input = inputs[std::size_t(view.input)];
      Tensor& output = outputs[std::size_t(view.output)];
      const std::size_t bytes = std::min(input.bytes(), output.bytes());
      REQUIRE(std::size_t(view.input_offset) + bytes <= input.bytes());
      REQUIRE(std::size_t(view.output_offset) + bytes <= output.bytes());
      CHECK(std::memcmp(input.memory.data() + view.input_offset,
                        apart[std::size_t(view.output)].memory.data() + view.output_offset,
                        bytes) == 0);
      if (input.bytes() < output.bytes()) {
        const base::Buffer place = output.memory.slice(std::size_t(view.output_offset), bytes);
        std::memcpy(place.data(), input.memory.data(), bytes);
        input.memory = place;
      } else {
        input = input.clone();
        output.memory = input.memory.slice(std::size_t(view.input_offset), bytes);
      }
      run_kernel(*chosen.kernel, inputs, outputs, {});
      for (std::size_t k = 0; k < outputs.size(); ++k) CHECK(outputs[k].same_bits(apart[k]));
      CHECK(input.same_bits(chosen.inputs[std::size_t(view.input)]));
      ++checked[fmt::format("{} {}", op.name, blocked ? "blocked" : "dense")];
    }
  };
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    for_each_sample(table, [&](const OpDef& op, const Sample& sample) {
      if (!op.views) return;
      const auto made = make_case(op, sample, dtype);
      REQUIRE(made.ok());
      for (const KernelDef& candidate : op.kernels) {
        for (const bool blocked : {false, true}) check_views(op, *made, candidate, blocked);
      }
    });
  }
  for (const char* op : {"concat", "concat_backward", "slice_axis", "split", "reshape"}) {
    INFO(op);
    CHECK(checked[std::string(op) + " dense"] > 0);
    if (std::string(op) != "reshape") CHECK(checked[std::string(op) + " blocked"] > 0);
  }
}

TEST_CASE("without hidden outputs the others keep their bits", "[conformance]") {
  const OpTable table = OpTable::build();
  int checked = 0;
  for_each_sample(table, [&](const OpDef& op, const Sample& sample) {
    if (op.keeps_hidden.empty()) return;
    Attributes lean = sample.attributes;
    lean[op.keeps_hidden] = "False";
    const Params params = parse_params(op, lean).value();
    const auto visible = std::size_t(op.visible_output_count(params));
    REQUIRE(op.outputs(params).size() == visible);
    const auto made = make_case(op, sample, DType::f32);
    REQUIRE(made.ok());
    Case without = *made;
    without.call.params = params;
    without.call.outputs.resize(visible);
    for (const KernelDef& candidate : op.kernels) {
      for (const bool blocked : {false, true}) {
        const Chosen whole = choose(candidate, *made, made->inputs, blocked);
        const Chosen part = choose(candidate, without, made->inputs, blocked);
        REQUIRE(bool(whole.kernel) == bool(part.kernel));
        if (!whole.kernel) continue;
        INFO("kernel " << whole.kernel->name());
        const auto all = whole.make_outputs(made->call), fewer = part.make_outputs(without.call);
        run_kernel(*whole.kernel, whole.inputs, all, {});
        run_kernel(*part.kernel, part.inputs, fewer, {});
        REQUIRE(fewer.size() == visible);
        for (std::size_t o = 0; o < visible; ++o) CHECK(fewer[o].same_bits(all[o]));
        if (all.size() > visible) ++checked;
      }
    }
  });
  CHECK(checked > 0);
}

TEST_CASE("own kernels give the same bits for every team", "[conformance]") {
  const OpTable table = OpTable::build();
  const auto check_teams = [&](const OpDef& op, const Sample& sample, DType dtype) {
    const auto made = make_case(op, sample, dtype);
    REQUIRE(made.ok());
    const Case& c = made.value();
    if (!sample.benchmark || operations(c.call) > kOperationsMax) return;
    for (const KernelDef& candidate : op.kernels) {
      if (candidate.name.starts_with("onednn")) continue;
      const auto kernel = prepare_candidate(candidate, c.call);
      if (!kernel) continue;
      const auto alone = make_outputs(c.call);
      const auto together = make_outputs(c.call);
      run_kernel(*kernel, c.inputs, alone, {.team = 1});
      run_kernel(*kernel, c.inputs, together, {.team = 3});
      for (std::size_t o = 0; o < alone.size(); ++o) CHECK(alone[o].same_bits(together[o]));
    }
  };
  for_each_sample(table, [&](const OpDef& op, const Sample& sample) {
    for (const DType dtype : {DType::f32, DType::bf16}) check_teams(op, sample, dtype);
  });
}

/// The rows [begin, begin + rows) of a dense tensor.
Tensor rows_of(const Tensor& tensor, std::int64_t begin, std::int64_t rows) {
  Shape shape = tensor.shape;
  shape.set(0, rows);
  Tensor result(tensor.dtype, shape);
  const std::size_t row = tensor.bytes() / static_cast<std::size_t>(tensor.shape[0]);
  std::memcpy(result.memory.data(), tensor.memory.data() + row * static_cast<std::size_t>(begin),
              result.bytes());
  return result;
}

/// Every row alone has the bits that it has in the whole.
void check_rows(const Case& c, const KernelDef& candidate, const std::vector<bool>& samples) {
  const auto whole = prepare_candidate(candidate, c.call);
  OpCall alone = c.call;
  const auto cut = [](TensorDesc& tensor) { tensor.shape.set(0, 1); };
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (samples[i]) cut(alone.inputs[i]);
  }
  for (TensorDesc& output : alone.outputs) cut(output);
  const auto kernel = prepare_candidate(candidate, alone);
  if (!whole || !kernel || whole->name() != kernel->name()) return;
  if (!whole->keeps_sample_bits()) return;
  const auto expected = make_outputs(c.call);
  run_kernel(*whole, c.inputs, expected, {});
  for (std::int64_t row = 0; row < c.call.outputs[0].shape[0]; ++row) {
    std::vector<Tensor> inputs;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      inputs.push_back(samples[i] ? rows_of(c.inputs[i], row, 1) : c.inputs[i]);
    }
    const auto outputs = make_outputs(alone);
    run_kernel(*kernel, inputs, outputs, {});
    INFO(kernel->name() << ", row " << row);
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      CHECK(outputs[o].same_bits(rows_of(expected[o], row, 1)));
    }
  }
}

TEST_CASE("where samples stay apart, each alone has the bits that it has among others",
          "[conformance]") {
  const OpTable table = OpTable::build();
  std::set<std::string> apart;
  for_each_sample(table, [&](const OpDef& op, const Sample& sample) {
    const auto made = make_case(op, sample, DType::f32);
    REQUIRE(made.ok());
    const Case& c = made.value();
    if (c.inputs.empty() || operations(c.call) > kOperationsMax) return;
    std::vector<bool> data(c.inputs.size(), false), all(c.inputs.size(), true);
    data.front() = true;
    std::vector<bool> with_addend = data;
    with_addend.back() = true;
    for (const std::vector<bool>& samples : std::set{data, with_addend, all}) {
      if (!keeps_samples(c.call, samples)) continue;
      apart.insert(op.name);
      for (const KernelDef& candidate : op.kernels) check_rows(c, candidate, samples);
    }
  });
  for (const char* name : {"convolution", "deconvolution", "fully_connected", "pooling", "add",
                           "batch_norm_inference", "concat", "softmax", "flatten", "lrn", "pad"}) {
    INFO(name);
    CHECK(apart.contains(name));
  }
  for (const char* name : {"batch_norm", "dropout", "dot", "convolution_backward_weights"}) {
    INFO(name);
    CHECK_FALSE(apart.contains(name));
  }
}

TEST_CASE("empty tensors are taken or refused, never a crash", "[conformance]") {
  const OpTable table = OpTable::build();
  std::size_t taken = 0;
  for_each_sample(table, [&](const OpDef& op, const Sample& sample) {
    for (int axis = 0; !sample.inputs.empty() && axis < sample.inputs[0].rank(); ++axis) {
      INFO("without axis " << axis);
      // Labels name places of an axis behind the first: none of them is in range.
      if (axis > 0 && !sample.integers.empty()) break;
      const auto made = make_case(op, sample, DType::f32, axis);
      if (!made.ok()) {
        CHECK(made.status().code() == base::Errc::invalid_argument);
        continue;
      }
      if (axis == 0) ++taken;
      const Case& c = made.value();
      for (const KernelDef& candidate : op.kernels) {
        const auto kernel = prepare_candidate(candidate, c.call);
        if (kernel) run_kernel(*kernel, c.inputs, make_outputs(c.call), {});
      }
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

/// Evaluations that finite differences of every element may take, in operations.
constexpr double kDifferencesMax = 3e7;

/// Checks a gradient element by element or, where that would take long, along random directions.
void check_gradient(const Case& c, std::size_t index, const std::vector<Tensor>& weights,
                    const Tensor& computed) {
  constexpr double kTolerance = 1e-6, kStep = 1e-5;
  constexpr int kDirections = 8;
  const Tensor& at = c.inputs[index];
  if (static_cast<double>(at.elements()) * operations(c.call) <= kDifferencesMax) {
    CHECK(distance(computed, finite_differences(c, index, weights)) <= kTolerance);
    return;
  }
  for (int direction = 0; direction < kDirections; ++direction) {
    const Tensor along =
        random_tensor(DType::f64, at.shape, "direction" + std::to_string(direction), -1, 1);
    double expected = 0, squares = 0;
    for (std::int64_t i = 0; i < at.elements(); ++i) {
      expected += computed.at(i) * along.at(i);
      squares += computed.at(i) * computed.at(i);
    }
    const auto moved = [&](double step) {
      std::vector<Tensor> inputs = c.inputs;
      inputs[index] = at.clone();
      for (std::int64_t i = 0; i < at.elements(); ++i) {
        inputs[index].set(i, at.at(i) + step * along.at(i));
      }
      return projected(c, inputs, weights);
    };
    const double difference = (moved(kStep) - moved(-kStep)) / (2 * kStep);
    INFO("direction " << direction);
    CHECK(std::abs(difference - expected) <= kTolerance * std::sqrt(squares));
  }
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
      check_gradient(c, i, weights, computed);
      ++checked;
    }
    CHECK((checked > 0 || c.inputs.empty()));
  });
}

}  // namespace
}  // namespace troupe::ops
