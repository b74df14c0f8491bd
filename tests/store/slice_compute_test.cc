// SPDX-License-Identifier: Apache-2.0
// What multiplies the rate and the decay of a key, and what an optimizer given as a symbol can obey
// of it. Sums and whole updates are seen in the bits of trained weights.
#include "store/slice_compute.h"

#include "ndarray/prepared_kernels.h"
#include "storage/storage.h"
#include "tests/support/catch.h"
#include "tests/support/test_runtime.h"

namespace troupe::store {
namespace {

using schemas::KeyInfo;

KeyInfo key_of(const std::string& name) {
  KeyInfo key;
  key.name = name;
  key.shape = base::Shape{2};
  key.dtype = key.gradient_wire = key.weight_wire = base::DType::f64;
  return key;
}

base::Buffer two(double first, double second) {
  base::Buffer buffer = base::make_host_buffer(2 * sizeof(double));
  buffer.as<double>()[0] = first;
  buffer.as<double>()[1] = second;
  return buffer;
}

/// lr 0.5, wd 0.25.
UpdateRule rule_of(schemas::Decay decay = schemas::Decay::all) {
  UpdateRule rule;
  rule.optimizer.lr = 0.5;
  rule.optimizer.wd = 0.25;
  rule.optimizer.decay = decay;
  return rule;
}

/// The weight (8, -8) after one step with the mean gradient (1, 1).
SliceValues stepped(const KeyInfo& key, const UpdateRule& rule, const SliceValues& from) {
  storage::Storage storage;
  ndarray::PreparedKernels kernels;
  engine::RunContext lane;
  const auto compute = SliceCompute::create(tests::test_operators(), std::span(&key, 1), rule);
  INFO(compute.status().to_string());
  REQUIRE(compute.ok());
  SliceUpdate update;
  update.from.values = from;
  update.gradient = two(4.0, 4.0);
  update.count = 4.0;
  const auto next = (*compute)->update(key, update, {storage.pool(base::Device{}), kernels, lane});
  INFO(next.status().to_string());
  REQUIRE(next.ok());
  return {two(next->weight.as<double>()[0], next->weight.as<double>()[1]), {}};
}

std::vector<double> weight_after(const KeyInfo& key, const UpdateRule& rule) {
  const SliceValues next = stepped(key, rule, {two(8.0, -8.0), {two(0.0, 0.0)}});
  return {next.weight.as<double>()[0], next.weight.as<double>()[1]};
}

using Values = std::vector<double>;

TEST_CASE("a key's multipliers are those of its rate and its decay", "[slice_compute]") {
  KeyInfo key = key_of("w");
  CHECK(weight_after(key, rule_of()) == Values{6.5, -7.5});  // 8 - 0.5 (1 + 0.25 * 8)
  key.lr_mult = 2.0;
  CHECK(weight_after(key, rule_of()) == Values{5.0, -7.0});
  key.wd_mult = 0.0;
  CHECK(weight_after(key, rule_of()) == Values{7.0, -9.0});
  key.lr_mult = -1.0;
  key.wd_mult = 2.0;
  CHECK(weight_after(key, rule_of()) == Values{10.5, -9.5});
}

TEST_CASE("decay of weights spares what MXNet's Module spares", "[slice_compute]") {
  const auto decays = [](const std::string& name, std::optional<double> wd_mult = {}) {
    KeyInfo key = key_of(name);
    key.wd_mult = wd_mult;
    return weight_after(key, rule_of(schemas::Decay::weights)) != Values{7.5, -8.5};
  };
  CHECK(decays("fc_weight"));
  CHECK(decays("bn_gamma"));
  CHECK_FALSE(decays("fc_bias"));
  CHECK_FALSE(decays("bn_beta"));
  CHECK_FALSE(decays("weight"));
  CHECK(decays("fc_bias", 1.0));
  CHECK_FALSE(decays("fc_weight", 0.0));
}

TEST_CASE("a frozen key keeps its buffers", "[slice_compute]") {
  KeyInfo key = key_of("w");
  key.lr_mult = 0.0;
  storage::Storage storage;
  ndarray::PreparedKernels kernels;
  engine::RunContext lane;
  const auto compute = SliceCompute::create(tests::test_operators(), std::span(&key, 1), rule_of());
  REQUIRE(compute.ok());
  SliceUpdate update;
  update.from.values = {two(8.0, -0.0), {two(1.0, 1.0)}};
  update.gradient = two(1e300, 4.0);
  update.count = 4.0;
  const auto next = (*compute)->update(key, update, {storage.pool(base::Device{}), kernels, lane});
  REQUIRE(next.ok());
  CHECK(next->weight.data() == update.from.values.weight.data());
  CHECK(next->slots[0].data() == update.from.values.slots[0].data());
}

TEST_CASE("an optimizer given as a symbol refuses multipliers that it cannot obey",
          "[slice_compute]") {
  symbol::Composer c(tests::test_operators());
  const symbol::Symbol weight = c.variable("weight");
  const symbol::Symbol gradient = c.variable("gradient");
  UpdateRule rule;
  rule.optimizer.name.clear();
  rule.optimizer.symbol = "rule.json";
  KeyInfo key = key_of("conv_weight");
  const auto refused = [&](const symbol::Symbol& next) {
    rule.optimizer.symbol_json = next.to_json();
    return SliceCompute::create(tests::test_operators(), std::span(&key, 1), rule).status().text();
  };
  const symbol::Symbol fixed = c.call("subtract", "next", {weight, gradient});
  const symbol::Symbol moved = c.call("multiply", "moved", {gradient, c.variable("lr")});
  const symbol::Symbol rated = c.call("subtract", "next", {weight, moved});
  CHECK(refused(fixed).empty());
  key.lr_mult = 0.5;
  CHECK(refused(rated).empty());
  CHECK_THAT(refused(fixed), Catch::Contains("'conv_weight'") && Catch::Contains("0.5") &&
                                 Catch::Contains("rule.json does not read"));
  key.lr_mult = 0.0;
  CHECK(refused(fixed).empty());
  key.wd_mult = 0.0;
  CHECK_THAT(refused(rated),
             Catch::Contains("'conv_weight'") && Catch::Contains("multiplier 0 of weight decay"));
}

}  // namespace
}  // namespace troupe::store
