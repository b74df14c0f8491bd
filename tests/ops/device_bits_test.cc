// SPDX-License-Identifier: Apache-2.0
// Kernels for GPUs whose bits are the reference's: random draws, casts between all types, reorders
// between all layouts, and the gradient of a maximum that ties have. Their host instances run here.
#include <cmath>
#include <limits>
#include <type_traits>

#include "tests/ops/cases.h"

namespace troupe::ops {
namespace {

using namespace testing;  // NOLINT: the test's own vocabulary

/// The outputs of an operator's kernel for GPUs, on its host instance.
std::vector<Tensor> on_gpu(const OpTable& table, const OpCall& call,
                           const std::vector<Tensor>& inputs, const RunOptions& options = {}) {
  INFO(call.op->name);
  for (const KernelDef& candidate : table.at(call.op->name).kernels) {
    if (!candidate.on_gpus) continue;
    const auto kernel = candidate.make_kernel(call);
    INFO(kernel.status().to_string());
    REQUIRE(kernel.ok());
    std::vector<Tensor> outputs;
    for (const TensorDesc& each : call.outputs) {
      outputs.emplace_back(each.dtype, each.shape, each.layout);
    }
    run_kernel(**kernel, inputs, outputs, options);
    return outputs;
  }
  FAIL("no kernel for GPUs");
  return {};
}

TEST_CASE("a GPU's draws have the reference's bits", "[device][random]") {
  const OpTable table = OpTable::build();
  int drawing = 0;
  for_each_sample(table, [&](const OpDef& op, const Sample& sample) {
    if (!op.random) return;
    ++drawing;
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
      const auto made = make_case(op, sample, dtype);
      REQUIRE(made.ok());
      // Keys and steps with bits in all words of the counter.
      for (const std::uint64_t key : {std::uint64_t{0}, std::uint64_t{0xfedcba9876543210}}) {
        const RunOptions options{.key = {key}, .step = (std::int64_t{1} << 48) - 2};
        const auto expected = evaluate(op, made->params, made->inputs, options);
        const auto outputs = on_gpu(table, made->call, made->inputs, options);
        for (std::size_t o = 0; o < outputs.size(); ++o) {
          CHECK(outputs[o].same_bits(expected[o]));
        }
      }
    }
  });
  CHECK(drawing >= 8);
}

TEST_CASE("a GPU casts between all types as the reference does", "[device][nan]") {
  const OpTable table = OpTable::build();
  const std::vector<double> values = {0,
                                      -0.0,
                                      0.75,
                                      -1,
                                      1.5,
                                      -2.5,
                                      127,
                                      128,
                                      255,
                                      256,
                                      -129,
                                      65504,
                                      65519,
                                      70000,
                                      1e-8,
                                      -3e9,
                                      3e9,
                                      1e19,
                                      -1e19,
                                      1e300,
                                      -1e300,
                                      INFINITY,
                                      -INFINITY,
                                      NAN,
                                      1.0 + 0x1p-8,
                                      1.0 + 0x1p-8 + 0x1p-40,
                                      0x1p-24,
                                      0x1p-25};
  const std::vector<std::int64_t> wholes = {0,
                                            1,
                                            -1,
                                            127,
                                            128,
                                            255,
                                            256,
                                            -129,
                                            65519,
                                            -70000,
                                            std::int64_t{1} << 31,
                                            (std::int64_t{1} << 24) + 1,
                                            (std::int64_t{1} << 53) + 1,
                                            std::numeric_limits<std::int64_t>::min(),
                                            std::numeric_limits<std::int64_t>::max()};
  for (int from = 0; from < base::kDTypeCount; ++from) {
    const auto type = static_cast<DType>(from);
    Tensor data(type, {std::int64_t(values.size())});
    data.visit([&](auto* elements) {
      using T = std::decay_t<decltype(*elements)>;
      for (std::size_t i = 0; i < values.size(); ++i) {
        if constexpr (std::is_integral_v<T>) {
          elements[i] = static_cast<T>(wholes[i % wholes.size()]);
        } else {
          elements[i] = static_cast<T>(values[i]);
        }
      }
    });
    for (int to = 0; to < base::kDTypeCount; ++to) {
      const std::string name(base::dtype_name(static_cast<DType>(to)));
      INFO(base::dtype_name(type) << " to " << name);
      const auto params = parse_params(table.at("cast"), {{"dtype", name}});
      REQUIRE(params.ok());
      const auto call = make_call(table.at("cast"), *params, describe({data}));
      REQUIRE(call.ok());
      const auto expected = evaluate(table.at("cast"), *params, {data});
      CHECK(on_gpu(table, *call, {data})[0].same_bits(expected[0]));
    }
  }
}

TEST_CASE("a GPU reorders between all kinds of layouts", "[device][layout]") {
  const OpTable table = OpTable::build();
  const auto layout_of = [](Layout::Order order, Layout::Blocks blocks, const Shape& shape) {
    Layout layout;
    layout.kind = Layout::Kind::blocked;
    layout.order = order;
    layout.blocks = blocks;
    return layout_for(layout, shape);
  };
  for (const Shape& shape : {Shape{2, 17, 3, 5}, Shape{16, 8, 1, 1}, Shape{0, 3, 2, 2}}) {
    const std::vector<Layout> layouts = {
        Layout::dense(),
        layout_of({0, 2, 3, 1}, {}, shape),
        layout_of({0, 1, 2, 3}, {{1, 8}}, shape),
        layout_of({0, 1, 2, 3}, {{1, 16}}, shape),
        layout_of({1, 0, 2, 3}, {{0, 4}, {1, 8}}, shape),
        layout_of({0, 1, 2, 3}, {{1, 2}, {0, 8}, {1, 4}}, shape),
    };
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::u8}) {
      const Tensor dense = random_tensor(dtype, shape, "reordered", 0, 200, true);
      for (const Layout& from : layouts) {
        for (const Layout& to : layouts) {
          INFO(shape.to_string() << ": " << from.to_string() << " to " << to.to_string());
          const Tensor data = packed(dense, from);
          auto call = make_call(table.at("reorder"), {}, describe({data}));
          REQUIRE(call.ok());
          call->outputs[0].layout = to;
          CHECK(on_gpu(table, *call, {data})[0].same_bits(packed(dense, to)));
        }
      }
    }
  }
}

TEST_CASE("a GPU shares the gradient of a maximum among ties, of NaN with nobody",
          "[device][nan]") {
  const OpTable table = OpTable::build();
  struct Axes {
    Attributes attributes;
    Shape data;
  };
  const std::vector<Axes> all = {
      {{}, {30000}},
      {{{"axis", "1"}}, {4, 70}},
      {{{"axis", "(0, 2)"}, {"keepdims", "True"}}, {5, 3, 40}},
      {{{"axis", "0"}}, {300, 6}},
  };
  for (const Axes& each : all) {
    INFO(each.data.to_string());
    const Tensor data = random_tensor(DType::f32, each.data, "ties", 0, 3, true);
    Tensor with_nan = data.clone();
    with_nan.set(1, NAN);
    for (const Tensor& x : {data, with_nan}) {
      const Tensor y = evaluate(table, "max", {x}, each.attributes)[0];
      const Tensor dy = random_tensor(DType::f32, y.shape, "gradient", 1, 2);
      const auto params = parse_params(table.at("max_backward"), each.attributes);
      REQUIRE(params.ok());
      const auto call = make_call(table.at("max_backward"), *params, describe({dy, x, y}));
      REQUIRE(call.ok());
      const auto expected = evaluate(table.at("max_backward"), *params, {dy, x, y});
      const auto outputs = on_gpu(table, *call, {dy, x, y});
      CHECK(outputs[0].same_bits(expected[0]));
    }
  }
}

}  // namespace
}  // namespace troupe::ops
