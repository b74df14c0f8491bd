// SPDX-License-Identifier: Apache-2.0
// Every operator of the table at the edges: NaN and infinity, one array as two inputs, a team of
// two, more tensors than usual, processors without the newest vectors.
#include <cmath>

#include "tests/ops/cases.h"
#include "tests/ops/highway_limit.h"
#include "tests/support/catch.h"

namespace troupe::ops {
namespace {

using namespace testing;  // NOLINT: the test's own vocabulary

TEST_CASE("an input that is given twice gives the bits of two equal ones", "[conformance]") {
  const OpTable table = OpTable::build();
  int compared = 0;
  for_each_sample(table, [&](const OpDef& op, const Sample& sample) {
    const auto made = make_case(op, sample, DType::f32);
    REQUIRE(made.ok());
    const Case& c = made.value();
    if (c.inputs.size() < 2 || operations(c.call) > kOperationsMax) return;
    if (c.inputs[0].shape != c.inputs[1].shape || c.inputs[0].dtype != c.inputs[1].dtype) return;
    for (const KernelDef& candidate : op.kernels) {
      const auto kernel = prepare_candidate(candidate, c.call);
      if (!kernel) continue;
      INFO("kernel " << kernel->name());
      std::vector<Tensor> inputs = c.inputs;
      inputs[1] = inputs[0].clone();
      const auto apart = make_outputs(c.call);
      run_kernel(*kernel, inputs, apart, {});
      inputs[1] = inputs[0];
      const auto together = make_outputs(c.call);
      run_kernel(*kernel, inputs, together, {});
      for (std::size_t o = 0; o < apart.size(); ++o) CHECK(together[o].same_bits(apart[o]));
      ++compared;
    }
  });
  CHECK(compared > 10);
}

/// Operations of the largest sample that is run over and over.
constexpr double kSmall = 2e5;

/// True for kernels that multiply padding or a zero with everything: there NaN and infinity reach
/// more results than those that are made from them, padding of blocked tensors too.
bool spreads(const OpDef& op, const Kernel& kernel) {
  const bool convolves = op.name.find("convolution") != std::string::npos;
  if (convolves && kernel.name() == "cuda") return true;
  const bool mixes = convolves || op.name == "lrn";
  const bool own = kernel.name() == "simd:winograd" || kernel.name() == "simd:patches";
  return mixes && (kernel.name().starts_with("onednn") || own);
}

/// Nothing that is not finite may be hidden: where the reference has NaN, so has the kernel; where
/// it has infinity, the kernel has the same or NaN. All other results are close.
void check_special(const OpDef& op, const std::vector<Tensor>& outputs,
                   const std::vector<Tensor>& expected, const Kernel& kernel) {
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    INFO("kernel " << kernel.name() << ", output " << o);
    const bool floating = base::is_floating(outputs[o].dtype);
    const Tensor dense = unpacked(outputs[o]);
    Tensor finite = dense.clone();
    Tensor wanted = expected[o].clone();
    std::int64_t hidden = 0;
    std::int64_t spread = 0;
    for (std::int64_t i = 0; i < dense.elements(); ++i) {
      const double x = dense.at(i);
      const double y = expected[o].at(i);
      if (std::isfinite(x) && std::isfinite(y)) continue;
      hidden += !std::isfinite(y) && !std::isnan(x) && x != y;
      spread += std::isfinite(y);
      finite.set(i, 0);
      wanted.set(i, 0);
    }
    CHECK(hidden == 0);
    if (!spreads(op, kernel)) {
      CHECK(spread == 0);
      if (!outputs[o].layout.is_dense()) CHECK(padding_is_zero(outputs[o]));
    }
    CHECK(distance(finite, wanted) <= (floating ? tolerance(outputs[o].dtype) : 0.0));
  }
}

TEST_CASE("no kernel hides NaN or infinity", "[conformance][nan]") {
  const OpTable table = OpTable::build();
  for_each_sample(table, [&](const OpDef& op, const Sample& sample) {
    const auto made = make_case(op, sample, DType::f32);
    REQUIRE(made.ok());
    Case c = made.value();
    if (operations(c.call) > kSmall) return;
    for (const float special : {NAN, INFINITY, -INFINITY}) {
      for (std::size_t i = 0; i < c.inputs.size(); ++i) {
        if (c.inputs[i].dtype != DType::f32 || c.inputs[i].elements() == 0) continue;
        INFO("input " << i << " holds " << special);
        Case special_case = c;
        Tensor& input = special_case.inputs[i] = c.inputs[i].clone();
        for (std::int64_t at = input.elements() / 2; at < input.elements(); at += 31) {
          input.set(at, special);
        }
        const auto expected = expected_outputs(op, sample, special_case);
        for (const KernelDef& candidate : op.kernels) {
          for (const bool blocked : {false, true}) {
            const Chosen chosen = choose(candidate, special_case, special_case.inputs, blocked);
            if (!chosen.kernel) continue;
            const auto outputs = chosen.make_outputs(c.call);
            run_kernel(*chosen.kernel, chosen.inputs, outputs, {});
            check_special(op, outputs, expected, *chosen.kernel);
          }
        }
      }
    }
  });
}

TEST_CASE("kernels agree with the reference in a team of two", "[conformance]") {
  const OpTable table = OpTable::build();
  for_each_sample(table, [&](const OpDef& op, const Sample& sample) {
    auto made = make_case(op, sample, DType::f32);
    REQUIRE(made.ok());
    Case& c = made.value();
    if (operations(c.call) > kOperationsMax) return;
    c.call.team = 2;
    const auto expected = expected_outputs(op, sample, c);
    for (const KernelDef& candidate : op.kernels) {
      for (const bool blocked : {false, true}) {
        const Chosen chosen = choose(candidate, c, c.inputs, blocked);
        if (!chosen.kernel) continue;
        const auto outputs = chosen.make_outputs(c.call);
        run_kernel(*chosen.kernel, chosen.inputs, outputs, {.team = 2});
        check_close(outputs, expected, *chosen.kernel);
      }
    }
  });
}

TEST_CASE("operators of many inputs take more than sixteen, blocked and added to",
          "[conformance]") {
  const OpTable table = OpTable::build();
  const OpDef& op = table.at("add_n");
  constexpr std::size_t kCount = 17;
  const Sample sample{.title = "many",
                      .attributes = {{"num_args", std::to_string(kCount)}},
                      .inputs = std::vector<Shape>(kCount, Shape{2, 9, 3, 2})};
  auto made = make_case(op, sample, DType::f32);
  REQUIRE(made.ok());
  Case& c = made.value();
  const auto expected = expected_outputs(op, sample, c);
  const KernelDef& reference = op.kernels.back();
  const Chosen chosen = choose(reference, c, c.inputs, true);
  REQUIRE(chosen.kernel);
  CHECK_FALSE(chosen.outputs[0].is_dense());
  const auto outputs = chosen.make_outputs(c.call);
  run_kernel(*chosen.kernel, chosen.inputs, outputs, {});
  check_close(outputs, expected, *chosen.kernel);

  c.call.modes = {WriteMode::add};
  const Chosen adding = choose(reference, c, c.inputs, true);
  REQUIRE(adding.kernel);
  run_kernel(*adding.kernel, adding.inputs, outputs, {});
  for (std::int64_t i = 0; i < expected[0].elements(); ++i) {
    CHECK(unpacked(outputs[0]).at(i) == Approx(2 * expected[0].at(i)).margin(1e-5));
  }
}

TEST_CASE("own vector kernels agree with the reference on older processors", "[conformance]") {
  const OpTable table = OpTable::build();
  // Better targets are lower bits: without AVX-512, without AVX2, with what every x86-64 has.
  for (const std::int64_t least : {HWY_AVX2, HWY_SSE4, HWY_SSSE3, 2 * HWY_SSSE3}) {
    INFO("Highway's targets below " << least << " are off");
    const HighwayLimit limit(least - 1);
    for_each_sample(table, [&](const OpDef& op, const Sample& sample) {
      const auto made = make_case(op, sample, DType::f32);
      REQUIRE(made.ok());
      const Case& c = made.value();
      if (operations(c.call) > kSmall) return;
      for (const KernelDef& candidate : op.kernels) {
        if (!candidate.name.starts_with("simd")) continue;
        const auto expected = expected_outputs(op, sample, c);
        for (const bool blocked : {false, true}) {
          const Chosen chosen = choose(candidate, c, c.inputs, blocked);
          if (!chosen.kernel) continue;
          const auto outputs = chosen.make_outputs(c.call);
          run_kernel(*chosen.kernel, chosen.inputs, outputs, {});
          check_close(outputs, expected, *chosen.kernel);
        }
      }
    });
  }
}

}  // namespace
}  // namespace troupe::ops
