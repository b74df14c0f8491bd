// SPDX-License-Identifier: Apache-2.0
// Additions and casts of plain bytes: values, in place, nothing at all.
#include "ndarray/flat_call.h"

#include <array>
#include <cmath>
#include <vector>

#include "base/float16.h"
#include "ndarray/run_kernel.h"
#include "tests/support/catch.h"
#include "tests/support/test_runtime.h"

namespace troupe::ndarray {
namespace {

/// Runs a call's kernel on this thread.
base::Status run(const FlatCall& call, const std::vector<base::TensorView>& inputs,
                 const base::TensorView& output) {
  PreparedKernels kernels;
  TROUPE_TRY_ASSIGN(const auto kernel, flat_kernel(call, tests::test_operators(), kernels));
  std::vector<std::byte> scratch(kernel->scratch_bytes());
  const std::array outputs = {output};
  base::SlotStore slots;
  engine::RunContext lane{.team = call.team, .slots = &slots};
  return run_kernel(kernel, {.inputs = inputs, .outputs = outputs, .scratch = scratch}, lane);
}

template <typename T>
base::TensorView view(std::vector<T>& values) {
  return flat_view(reinterpret_cast<std::byte*>(values.data()), base::kDTypeOf<T>,
                   static_cast<std::int64_t>(values.size()));
}

TEST_CASE("bytes are added, also in place, with one rounding", "[flat_call]") {
  std::vector<float> left = {1, 2, 3, -0.0F}, right = {0.5F, -2, 1e8F, -0.0F}, sum(4);
  const FlatCall call = flat_addition(base::DType::f32, 4, {}, 1);
  REQUIRE(run(call, {view(left), view(right)}, view(sum)).ok());
  CHECK(sum == std::vector<float>{1.5F, 0, 100'000'003.0F, -0.0F});
  CHECK(std::signbit(sum[3]));
  REQUIRE(run(call, {view(left), view(right)}, view(right)).ok());
  CHECK(right == sum);

  using base::BF16;
  std::vector<BF16> a = {BF16(1.0F), BF16(256.0F)}, b = {BF16(2.0F), BF16(1.0F)}, c(2);
  REQUIRE(run(flat_addition(base::DType::bf16, 2, {}, 1), {view(a), view(b)}, view(c)).ok());
  CHECK(static_cast<float>(c[0]) == 3.0F);
  CHECK(static_cast<float>(c[1]) == 256.0F);  // 257 has nine bits: to the even one
}

TEST_CASE("bytes are cast to another dtype and back", "[flat_call]") {
  std::vector<float> values = {1.00390625F, -2.0F, 0.5F}, back(3);
  std::vector<base::BF16> narrow(3);
  REQUIRE(
      run(flat_cast(base::DType::f32, base::DType::bf16, 3, {}, 1), {view(values)}, view(narrow))
          .ok());
  REQUIRE(run(flat_cast(base::DType::bf16, base::DType::f32, 3, {}, 1), {view(narrow)}, view(back))
              .ok());
  CHECK(back == std::vector<float>{1.0F, -2.0F, 0.5F});
}

TEST_CASE("a call of no elements does nothing, an unknown one is refused", "[flat_call]") {
  std::vector<float> none;
  CHECK(run(flat_addition(base::DType::f32, 0, {}, 2), {view(none), view(none)}, view(none)).ok());
  PreparedKernels kernels;
  FlatCall call = flat_cast(base::DType::f32, base::DType::bf16, 3, {}, 1);
  call.attributes = {{"dtype", "f99"}};
  CHECK_FALSE(flat_kernel(call, tests::test_operators(), kernels).ok());
}

}  // namespace
}  // namespace troupe::ndarray
