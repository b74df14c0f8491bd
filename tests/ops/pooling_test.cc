// SPDX-License-Identifier: Apache-2.0
// Max pooling at its edges: NaN, padding, with and without indices.
#include <cmath>
#include <limits>

#include "tests/ops/cases.h"
#include "tests/support/catch.h"

namespace troupe::ops {
namespace {

using namespace testing;  // NOLINT: the test's own vocabulary

TEST_CASE("NaN wins a maximum, and the last one takes the gradient", "[pooling][nan]") {
  const OpTable table = OpTable::build();
  const OpDef& op = table.at("pooling");
  const Attributes window = {{"kernel", "(2, 3)"}, {"stride", "(2, 3)"}};
  const Params params = parse_params(op, window).value();
  // One window per column group: NaN first, in the middle, twice (both orders of rows), none.
  const double rows[2][12] = {{NAN, 1, 2, 1, NAN, 2, 1, NAN, 2, 5, 1, 7},
                              {3, 4, 5, 3, 4, 5, NAN, 4, 5, 7, 7, 1}};
  const double tap[4] = {0, 1, 3, 2};
  for (const std::int64_t channels : {1, 20}) {
    Tensor data(DType::f32, {1, channels, 2, 12});
    for (std::int64_t i = 0; i < data.elements(); ++i) data.set(i, rows[i / 12 % 2][i % 12]);
    for (const bool blocked : {false, true}) {
      if (blocked && channels == 1) continue;
      Tensor input = blocked ? packed(data, by_channels(data.shape)) : data;
      OpCall call = make_call(op, params, describe({input})).value();
      for (TensorDesc& output : call.outputs) output.any_layout = true;
      const auto kernel = prepare(call).value();
      CHECK(kernel->name() == "simd");
      const auto layouts = kernel->output_layouts();
      const std::vector<Tensor> outputs = {Tensor(DType::f32, {1, channels, 1, 4}, layouts[0]),
                                           Tensor(DType::u8, {1, channels, 1, 4}, layouts[1])};
      run_kernel(*kernel, {input}, outputs, {});
      for (std::int64_t i = 0; i < channels * 4; ++i) {
        CHECK(std::isnan(unpacked(outputs[0]).at(i)) == (i % 4 < 3));
        CHECK(unpacked(outputs[1]).at(i) == tap[i % 4]);
      }
      CHECK(unpacked(outputs[0]).at(3) == 7.0);
    }
  }
}

TEST_CASE("windows whose positions 32 bits cannot count have no indices", "[pooling]") {
  const OpTable table = OpTable::build();
  const OpDef& op = table.at("pooling");
  const auto status = [&](const char* indices) {
    const Attributes huge = {{"kernel", "(65536, 65536)"},
                             {"stride", "(65536, 65536)"},
                             {"pad", "(65535, 65535)"},
                             {"save_indices", indices}};
    const std::vector<TensorDesc> data = {{DType::f32, {1, 1, 2, 2}, {}, false}};
    return make_call(op, parse_params(op, huge).value(), data).status();
  };
  CHECK(status("True").text().find("65536 x 65536 positions") != std::string::npos);
  CHECK(status("False").ok());
}

TEST_CASE("a maximum over padding alone is MXNet's lowest number", "[pooling]") {
  const OpTable table = OpTable::build();
  const Attributes hanging = {{"kernel", "(2, 2)"},
                              {"stride", "(3, 3)"},
                              {"pad", "(1, 1)"},
                              {"pooling_convention", "full"}};
  const OpDef& op = table.at("pooling");
  const Tensor data = random_tensor(DType::f32, {1, 17, 4, 4}, "data", -9, -5);
  for (const Tensor& input : {data, packed(data, by_channels(data.shape))}) {
    for (const bool reference : {false, true}) {
      OpCall call = make_call(op, parse_params(op, hanging).value(), describe({input})).value();
      for (TensorDesc& output : call.outputs) output.any_layout = true;
      call.reference_only = reference;
      if (reference && !input.layout.is_dense()) continue;
      const auto kernel = prepare(call).value();
      CHECK(kernel->name() == (reference ? "reference" : "simd"));
      std::vector<Tensor> outputs = make_outputs(call);
      REQUIRE(outputs[0].shape == Shape{1, 17, 3, 3});
      for (std::size_t o = 0; o < outputs.size() && !reference; ++o) {
        outputs[o] = Tensor(outputs[o].dtype, outputs[o].shape, kernel->output_layouts()[o]);
      }
      run_kernel(*kernel, {input}, outputs, {});
      const Tensor pooled = unpacked(outputs[0]);
      for (std::int64_t i = 0; i < pooled.elements(); ++i) {
        const bool outside = i % 3 == 2 || i / 3 % 3 == 2;
        CHECK((pooled.at(i) == double(std::numeric_limits<float>::lowest())) == outside);
        if (outside) CHECK(unpacked(outputs[1]).at(i) == 0.0);
      }
      for (const Tensor& output : outputs) {
        if (!output.layout.is_dense()) CHECK(padding_is_zero(output));
      }
    }
  }
}

/// The call's outputs by one kernel, output 0 added to `before` or written; dense.
std::vector<Tensor> pool(const OpDef& op, Attributes window, const Tensor& input,
                         const Tensor* before, bool indexed, bool reference) {
  window["save_indices"] = indexed ? "True" : "False";
  OpCall call = make_call(op, parse_params(op, window).value(), describe({input})).value();
  for (TensorDesc& output : call.outputs) output.any_layout = true;
  call.reference_only = reference;
  call.modes = {before != nullptr ? WriteMode::add : WriteMode::write};
  if (indexed) call.modes.push_back(WriteMode::write);
  const auto kernel = prepare(call).value();
  CHECK(kernel->name() == (reference ? "reference" : "simd"));
  std::vector<Tensor> outputs = make_outputs(call);
  for (std::size_t o = 0; o < outputs.size() && !reference; ++o) {
    outputs[o] = Tensor(outputs[o].dtype, outputs[o].shape, kernel->output_layouts()[o]);
  }
  if (before != nullptr) outputs[0] = packed(before->clone(), outputs[0].layout);
  run_kernel(*kernel, {input}, outputs, {});
  for (Tensor& output : outputs) {
    if (!output.layout.is_dense()) CHECK(padding_is_zero(output));
    output = unpacked(output);
  }
  return outputs;
}

void check_same_bits(const Tensor& found, const Tensor& wanted) {
  for (std::int64_t i = 0; i < wanted.elements(); ++i) {
    const double value = found.at(i), same = wanted.at(i);
    const bool nan = std::isnan(value) && std::isnan(same);
    if (!nan && (value != same || std::signbit(value) != std::signbit(same))) {
      FAIL("output " << i << ": " << value << " instead of " << same);
    }
  }
}

TEST_CASE("the mean of a large window loses no digits", "[pooling]") {
  const OpTable table = OpTable::build();
  const OpDef& op = table.at("pooling");
  Tensor data(DType::f32, {1, 1, 1'000, 1'000});
  for (std::int64_t i = 0; i < data.elements(); ++i) data.set(i, 0.1);
  const Params params = parse_params(op, {{"global_pool", "True"}, {"pool_type", "avg"}}).value();
  const OpCall call = make_call(op, params, describe({data})).value();
  const std::vector<Tensor> outputs = make_outputs(call);
  run_kernel(*prepare(call).value(), {data}, outputs, {});
  CHECK(outputs[0].at(0) == Approx(0.1).epsilon(1e-6));
}

TEST_CASE("a maximum has the same bits with and without its index, in every layout",
          "[pooling][nan]") {
  const OpTable table = OpTable::build();
  const OpDef& op = table.at("pooling");
  const std::vector<Attributes> windows = {
      {{"kernel", "(3, 3)"}, {"pad", "(1, 1)"}},
      {{"kernel", "(3, 3)"}, {"stride", "(2, 2)"}, {"pooling_convention", "full"}},
      {{"kernel", "(3, 2)"}, {"stride", "(2, 3)"}, {"pad", "(2, 1)"}},
      // Last windows of padding alone, in columns and in rows.
      {{"kernel", "(3, 2)"},
       {"stride", "(2, 3)"},
       {"pad", "(1, 1)"},
       {"pooling_convention", "full"}},
      {{"kernel", "(3, 3)"},
       {"stride", "(3, 2)"},
       {"pad", "(2, 2)"},
       {"pooling_convention", "full"}},
      {{"kernel", "(2, 5)"}, {"stride", "(3, 4)"}, {"pad", "(1, 4)"}},
      {{"kernel", "(8, 4)"}, {"pad", "(4, 3)"}},  // all rows that are kept
      {{"kernel", "(9, 4)"}, {"pad", "(4, 3)"}},  // and one more
      {{"kernel", "(2, 70)"}, {"pad", "(0, 35)"}},
      {{"global_pool", "True"}}};
  const std::int64_t channels = 21;
  Tensor data = random_tensor(DType::f32, {2, channels, 7, 131}, "data", -9, 9);
  for (std::int64_t i = 0; i < data.elements(); ++i) {
    if (i % 2 == 0) data.set(i, std::copysign(0.0, data.at(i)));  // which of equals?
    if (i / 131 % 7 < 3) data.set(i, std::copysign(std::min(data.at(i), 0.0), data.at(i)));
    if (i % 29 == 3) data.set(i, NAN);
    if (i % 31 == 5 || i / 131 % 7 == 4) data.set(i, -INFINITY);
    if (i % 97 == 7) data.set(i, INFINITY);
  }
  Layout last;
  last.kind = Layout::Kind::blocked;
  last.order = {0, 2, 3, 1};
  for (const Attributes& window : windows) {
    const std::vector<Tensor> wanted = pool(op, window, data, nullptr, true, true);
    const Tensor before = random_tensor(DType::f32, wanted[0].shape, "before", -9, 9);
    const Tensor sum = pool(op, window, data, &before, true, true)[0];
    for (const Tensor& input : {data, packed(data, by_channels(data.shape)),
                                packed(data, layout_for(last, data.shape))}) {
      for (const bool indexed : {false, true}) {
        CAPTURE(window, input.layout.to_string(), indexed);
        const std::vector<Tensor> found = pool(op, window, input, nullptr, indexed, false);
        check_same_bits(found[0], wanted[0]);
        if (indexed) check_same_bits(found[1], wanted[1]);
        check_same_bits(pool(op, window, input, &before, indexed, false)[0], sum);
      }
    }
  }
}

}  // namespace
}  // namespace troupe::ops
