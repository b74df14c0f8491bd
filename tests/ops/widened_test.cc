// SPDX-License-Identifier: Apache-2.0
// Kernels of f32 on tensors of 16 bits. That each of them keeps to the reference is in
// conformance_test.cc.
#include "ops/support/widened.h"

#include "tests/ops/cases.h"

namespace troupe::ops {
namespace {

using namespace testing;  // NOLINT: the test's own vocabulary

TEST_CASE("sums of 16 bits are taken in f32 and rounded once", "[widened]") {
  const OpTable table = OpTable::build();
  for (const DType dtype : {DType::bf16, DType::f16}) {
    Tensor many(dtype, Shape{4096});
    for (std::int64_t i = 0; i < many.elements(); ++i) many.set(i, 1.0);
    // One after the other in 16 bits, ones stop counting at 256 or 2048.
    CHECK(evaluate(table, "sum", {many})[0].at(0) == 4096);
  }
}

TEST_CASE("what is added to is rounded once, too", "[widened]") {
  const OpTable table = OpTable::build();
  const Tensor ones = random_tensor(DType::bf16, Shape{64}, "", 1, 2, true);
  const auto product = [&](const Tensor& into) {
    auto scaled =
        make_call(table.at("multiply_scalar"),
                  parse_params(table.at("multiply_scalar"), {{"scalar", "0.00390625"}}).value(),
                  describe({ones}))
            .value();
    scaled.modes = {WriteMode::add};
    run_kernel(*prepare(scaled).value(), {ones}, {into}, {});
  };
  // 1 + 2^-8 lies between two numbers of bf16 and goes to the even one; 1 + 2^-7 + 2^-8 goes up.
  Tensor even(DType::bf16, Shape{64}), odd(DType::bf16, Shape{64});
  for (std::int64_t i = 0; i < 64; ++i) even.set(i, 1.0), odd.set(i, 1.0 + 0x1p-7);
  product(even);
  product(odd);
  for (std::int64_t i = 0; i < 64; ++i) {
    CHECK(even.at(i) == 1.0);
    CHECK(odd.at(i) == 1.0 + 0x1p-6);
  }
}

TEST_CASE("kernels of f32 say what they are and cost on 16 bits", "[widened]") {
  const OpTable table = OpTable::build();
  const auto with_dtype = [&](DType dtype) {
    OpCall call = free_call(table, "convolution", {{2, 16, 8, 8}, {16, 16, 3, 3}, {16}},
                            {{"kernel", "(3, 3)"}, {"num_filter", "16"}});
    for (auto* group : {&call.inputs, &call.outputs}) {
      for (TensorDesc& tensor : *group) tensor.dtype = dtype;
    }
    return call;
  };
  const OpCall narrow = with_dtype(DType::bf16), wide = with_dtype(DType::f32);
  CHECK(has_16_bits(narrow));
  CHECK_FALSE(has_16_bits(wide));
  CHECK(widened_call(narrow) == wide);
  CHECK(widening_seconds(wide) == 0);
  std::vector<Decline> declines;
  const std::vector<Offer> list = offers(narrow, &declines).value();
  REQUIRE_FALSE(list.empty());
  for (const Offer& offer : list) {
    INFO(offer.kernel);
    if (!offer.maker->widens(narrow)) continue;
    CHECK(offer.kernel.ends_with(" in f32"));
    CHECK(offer.seconds > offer.maker->rule_seconds(wide));
    for (const Layout& layout : offer.inputs) CHECK(layout.kind != Layout::Kind::opaque);
  }
  // Who wants weights in a form of its own is for f32 alone.
  const auto private_form = [](const Decline& decline) {
    return decline.reason.find("tensors of 16 bits in layout opaque") != std::string::npos;
  };
  const bool asks = std::any_of(declines.begin(), declines.end(), private_form);
  const std::vector<Offer> in_f32 = offers(wide).value();
  const auto widened = std::count_if(list.begin(), list.end(),
                                     [&](const Offer& o) { return o.maker->widens(narrow); });
  CHECK(asks == (std::ssize(in_f32) > widened));
}

TEST_CASE("elements are moved as they are", "[widened]") {
  const OpTable table = OpTable::build();
  // A signalling NaN, which a conversion would make quiet.
  Tensor strange(DType::bf16, Shape{2, 2});
  const std::uint16_t bits[] = {0x7f81, 0x8000, 0x0001, 0xff80};
  std::memcpy(strange.memory.data(), bits, sizeof bits);
  const Tensor back = evaluate(table, "transpose", evaluate(table, "transpose", {strange}))[0];
  CHECK(back.same_bits(strange));
  const Tensor both = evaluate(table, "concat", {strange, strange}, {{"num_args", "2"}})[0];
  const Tensor part = evaluate(table, "slice_axis", {both}, {{"axis", "1"}, {"begin", "2"}})[0];
  CHECK(part.same_bits(strange));
}

TEST_CASE("casts go from every type to every type, in one rounding", "[widened]") {
  const OpTable table = OpTable::build();
  const DType all[] = {DType::f32, DType::f64, DType::f16, DType::bf16,   DType::i64,
                       DType::i32, DType::i8,  DType::u8,  DType::boolean};
  for (const DType from : all) {
    Tensor two(from, Shape{3});
    for (std::int64_t i = 0; i < 3; ++i) two.set(i, static_cast<double>(i));
    for (const DType to : all) {
      INFO(base::dtype_name(from) << " to " << base::dtype_name(to));
      const Attributes wanted = {{"dtype", std::string(base::dtype_name(to))}};
      const Tensor made = evaluate(table, "cast", {two}, wanted)[0];
      CHECK(made.dtype == to);
      const bool counts = from != DType::boolean && to != DType::boolean;
      for (std::int64_t i = 0; i < 3; ++i) CHECK(made.at(i) == double(counts ? i : i > 0));
    }
  }
  Tensor between(DType::f64, Shape{1});
  between.set(0, 1.0 + 0x1p-11 + 0x1p-40);
  CHECK(evaluate(table, "cast", {between}, {{"dtype", "f16"}})[0].at(0) == 1.0 + 0x1p-10);
  Tensor large(DType::bf16, Shape{2});
  large.set(0, 1e30), large.set(1, -1e30);
  const Tensor ends = evaluate(table, "cast", {large}, {{"dtype", "i8"}})[0];
  CHECK(ends.at(0) == 127);
  CHECK(ends.at(1) == -128);
}

}  // namespace
}  // namespace troupe::ops
