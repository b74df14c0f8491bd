// SPDX-License-Identifier: Apache-2.0
// Products of matrices that no cache holds, which are cut into other blocks than small ones.
#include "tests/ops/cases.h"
#include "tests/support/catch.h"

namespace troupe::ops {
namespace {

using namespace testing;  // NOLINT: the test's own vocabulary

/// Every own kernel's product of (rows, inner) and (inner, columns), written and added to, beside
/// that in f64; the same bits for every team.
void check_product(std::int64_t rows, std::int64_t inner, std::int64_t columns) {
  INFO("(" << rows << ", " << inner << ") times (" << inner << ", " << columns << ")");
  const OpTable table = OpTable::build();
  const OpDef& op = table.at("dot");
  const std::vector<Tensor> inputs = {random_tensor(DType::f32, {rows, inner}, "left", -1, 1),
                                      random_tensor(DType::f32, {inner, columns}, "right", -1, 1)};
  const Tensor expected = evaluate(
      table, "dot", {converted(inputs[0], DType::f64), converted(inputs[1], DType::f64)})[0];
  auto call = make_call(op, parse_params(op, {}).value(), describe(inputs));
  REQUIRE(call.ok());
  int kernels = 0;
  for (const WriteMode mode : {WriteMode::write, WriteMode::add}) {
    call.value().modes = {mode};
    for (const KernelDef& candidate : op.kernels) {
      if (!candidate.name.starts_with("simd")) continue;
      const auto kernel = prepare_candidate(candidate, call.value());
      REQUIRE(kernel);
      const Tensor alone = random_tensor(DType::f32, expected.shape, "zero", 0, 0);
      const Tensor together = alone.clone();
      run_kernel(*kernel, inputs, {alone}, {.team = 1});
      run_kernel(*kernel, inputs, {together}, {.team = 3});
      CHECK(distance(alone, expected) <= 1e-5);
      CHECK(together.same_bits(alone));
      if (mode == WriteMode::add) {
        run_kernel(*kernel, inputs, {alone}, {});
        Tensor twice = expected.clone();
        for (std::int64_t i = 0; i < twice.elements(); ++i) twice.set(i, 2 * expected.at(i));
        CHECK(distance(alone, twice) <= 1e-5);
      }
      ++kernels;
    }
  }
  CHECK(kernels > 0);
}

TEST_CASE("a large matrix that few rows are multiplied with is read once", "[product]") {
  check_product(9, 1031, 4099);
}

TEST_CASE("a large product of few terms is written past the caches where its rows are aligned",
          "[product]") {
  check_product(2051, 3, 2064);
  check_product(2051, 3, 2065);
}

}  // namespace
}  // namespace troupe::ops
