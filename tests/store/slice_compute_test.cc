// SPDX-License-Identifier: Apache-2.0
// What multiplies the rate and the decay of a key, and what an optimizer given as a symbol can obey
// of it. Sums and whole updates are seen in the bits of trained weights.
#include "store/slice_compute.h"

#include <cmath>
#include <limits>

#include "base/cast_values.h"
#include "ndarray/prepared_kernels.h"
#include "storage/storage.h"
#include "store/loss_scale.h"
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
  return {two(next->weight.as<double>()[0], next->weight.as<double>()[1]), {}, {}};
}

std::vector<double> weight_after(const KeyInfo& key, const UpdateRule& rule) {
  const SliceValues next = stepped(key, rule, {two(8.0, -8.0), {two(0.0, 0.0)}, {}});
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
  update.from.values = {two(8.0, -0.0), {two(1.0, 1.0)}, {}};
  update.gradient = two(1e300, 4.0);
  update.count = 4.0;
  const auto next = (*compute)->update(key, update, {storage.pool(base::Device{}), kernels, lane});
  REQUIRE(next.ok());
  CHECK(next->weight.data() == update.from.values.weight.data());
  CHECK(next->slots[0].data() == update.from.values.slots[0].data());
}

/// Values of 16 bits.
base::Buffer narrow(base::DType dtype, std::vector<double> values) {
  base::Buffer buffer = base::make_host_buffer(values.size() * base::dtype_size(dtype));
  base::cast_values(base::DType::f64, values.data(), dtype, buffer.data(),
                    static_cast<std::int64_t>(values.size()));
  return buffer;
}

Values numbers(base::DType dtype, const base::Buffer& buffer) {
  Values values(buffer.size() / base::dtype_size(dtype));
  base::cast_values(dtype, buffer.data(), base::DType::f64, values.data(),
                    static_cast<std::int64_t>(values.size()));
  return values;
}

/// Sums and updates of a key that travels in 16 bits.
struct Narrow {
  explicit Narrow(base::DType gradients, bool check = true) {
    key.gradient_wire = gradients;
    key.weight_wire = base::DType::bf16;
    UpdateRule rule = rule_of();
    rule.optimizer.wd = 0.0;
    rule.check_range = check;
    compute = SliceCompute::create(tests::test_operators(), std::span(&key, 1), rule).value();
  }
  UpdateContext context() { return {storage.pool(base::Device{}), kernels, lane}; }
  base::Result<SliceValues> step(Values weight, const Values& sum) {
    SliceUpdate update;
    update.from.values = {two(weight[0], weight[1]), {two(0.0, 0.0)}, {}};
    update.gradient = narrow(key.gradient_wire, sum);
    update.step = 7;
    update.count = 1.0;
    return compute->update(key, update, context());
  }

  KeyInfo key = key_of("w");
  storage::Storage storage;
  ndarray::PreparedKernels kernels;
  engine::RunContext lane;
  std::unique_ptr<SliceCompute> compute;
};

TEST_CASE("sums in 16 bits are rounded at each addition, weights only on their way",
          "[slice_compute]") {
  Narrow narrow_key(base::DType::bf16);
  const base::DType bf16 = base::DType::bf16;
  const auto sum = narrow_key.compute->add(narrow_key.key, narrow(bf16, {1.0, 256.0}),
                                           narrow(bf16, {0.0078125, 1.0}), narrow_key.context());
  REQUIRE(sum.ok());
  CHECK(sum->size() == 4);
  CHECK(numbers(bf16, *sum) == Values{1.0078125, 256.0});  // 257 lies between 256 and 258
  const auto next = narrow_key.step({1.0, 8.0}, {0.0078125, -2.0});
  REQUIRE(next.ok());
  CHECK(numbers(base::DType::f64, next->weight) == Values{0.99609375, 9.0});
  CHECK(numbers(bf16, next->sent()) == Values{0.99609375, 9.0});
  const auto fine = narrow_key.step({1.0, 8.0}, {0.001953125, 0.0});
  REQUIRE(fine.ok());
  CHECK(numbers(base::DType::f64, fine->weight) == Values{0.9990234375, 8.0});
  CHECK(numbers(bf16, fine->sent()) == Values{1.0, 8.0});
  const auto first = narrow_key.compute->first_from(narrow_key.key, two(1.00390625, 3.0),
                                                    narrow_key.storage.pool(base::Device{}));
  REQUIRE(first.ok());
  CHECK(numbers(bf16, first->values.sent()) == Values{1.0, 3.0});
}

TEST_CASE("a key that travels in its own dtype is not copied", "[slice_compute]") {
  const KeyInfo key = key_of("w");
  SliceValues values{two(1.0, 2.0), {}, {}};
  storage::Storage storage;
  const auto compute = SliceCompute::create(tests::test_operators(), std::span(&key, 1), rule_of());
  REQUIRE(compute.ok());
  REQUIRE((*compute)->round(key, values, storage.pool(base::Device{})).ok());
  CHECK(values.sent().data() == values.weight.data());
}

TEST_CASE("a sum that has left the range of f16 is named, unless nobody checks",
          "[slice_compute]") {
  Narrow checked(base::DType::f16);
  const base::Status status = checked.step({1.0, 1.0}, {7e4, 1.0}).status();
  CHECK(status.code() == base::Errc::not_finite);
  CHECK(status.text() ==
        "the sum of gradients of step 7 of 'w' holds 1 values beyond the range of f16, in which it "
        "travels; bf16 has the range of f32");
  CHECK(checked.step({1.0, 1.0}, {65504.0, 1.0}).ok());
  CHECK(Narrow(base::DType::bf16).step({1.0, 1.0}, {7e4, 1.0}).ok());
  CHECK(Narrow(base::DType::f16, false).step({1.0, 1.0}, {7e4, 1.0}).ok());
  checked.key.weight_wire = base::DType::f16;
  CHECK(
      checked.step({7e4, 1.0}, {1.0, 1.0}).status().text() ==
      "the weight of 'w' holds 1 values beyond the range of f16, in which it travels; bf16 has the "
      "range of f32");
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

/// Everything that a judged update needs.
struct Judging {
  explicit Judging(const std::vector<KeyInfo>& keys, const UpdateRule& rule) {
    compute = SliceCompute::create(tests::test_operators(), keys, rule).value();
  }
  SliceValues update(const KeyInfo& key, const SliceValues& from, const base::Buffer& gradient,
                     const schemas::StepVerdict& verdict) {
    SliceUpdate update;
    update.from.values = from;
    update.gradient = gradient;
    update.count = 4.0;
    update.verdict = verdict;
    return compute->update(key, update, {storage.pool(base::Device{}), kernels, lane}).value();
  }

  storage::Storage storage;
  ndarray::PreparedKernels kernels;
  engine::RunContext lane;
  std::unique_ptr<SliceCompute> compute;
};

UpdateRule scaled_rule() {
  UpdateRule rule = rule_of();
  rule.loss_scale = LossScaleRule{16.0, 2};
  return rule;
}

TEST_CASE("a verdict divides dense sums alone, or leaves all values as they are", "[judged]") {
  const std::vector<KeyInfo> keys = {key_of("w"), loss_scale_key(1)};
  Judging judging(keys, scaled_rule());
  const SliceValues from{two(8.0, -8.0), {two(0.0, 0.0)}, {}};
  const SliceValues next = judging.update(keys[0], from, two(64.0, 64.0), {0, false, 16.0, 0.0});
  CHECK(next.weight.as<double>()[0] == 6.5);
  const SliceValues same = judging.update(keys[0], from, two(64.0, 64.0), {0, true, 16.0, 0.0});
  CHECK(same.weight.data() == from.weight.data());
  CHECK(same.slots.at(0).data() == from.slots.at(0).data());
}

TEST_CASE("the loss scale begins as the rule says and moves by the verdict", "[judged]") {
  const std::vector<KeyInfo> keys = {key_of("w"), loss_scale_key(1)};
  Judging judging(keys, scaled_rule());
  base::BufferPool& pool = judging.storage.pool(base::Device{});
  SliceInfo slice;
  slice.elements = 2;
  slice.bytes = 8;
  const SliceState first = judging.compute->first(keys[1], slice, {}, 1, pool).value();
  CHECK(read_loss_scale(first.values.weight) == LossScale{16.0, 0});
  CHECK(judging.compute->examine(keys[1], {first.values, two(0, 0)}).loss_scale == 16.0);
  SliceValues now = first.values;
  for (const LossScale& expected : {LossScale{16.0, 1}, LossScale{32.0, 0}}) {
    now = judging.update(keys[1], now, {}, {0, false, 16.0, 0.0});
    CHECK(read_loss_scale(now.weight) == expected);
  }
  now = judging.update(keys[1], now, {}, {0, true, 32.0, 0.0});
  CHECK(read_loss_scale(now.weight) == LossScale{16.0, 0});
}

TEST_CASE("an examination counts what is not finite and adds the squares of the rest", "[judged]") {
  const double inf = std::numeric_limits<double>::infinity();
  for (const base::DType dtype :
       {base::DType::f64, base::DType::f32, base::DType::f16, base::DType::bf16}) {
    KeyInfo key = key_of("w");
    key.dtype = dtype == base::DType::f64 ? dtype : base::DType::f32;
    key.gradient_wire = dtype;
    key.weight_wire = key.dtype;
    std::vector<double> values(19, 2.0);
    values[3] = inf;
    values[18] = std::nan("");
    values[17] = -3.0;
    const base::Buffer sum = base::make_host_buffer(values.size() * base::dtype_size(dtype));
    base::cast_values(base::DType::f64, values.data(), dtype, sum.data(),
                      static_cast<std::int64_t>(values.size()));
    Judging judging({key}, rule_of());
    const Examined found = judging.compute->examine(key, {{}, sum});
    CHECK(found.facts == schemas::SliceFacts{16 * 4.0 + 9.0, 2});
    CHECK(found.loss_scale == 0.0);
    key.kind = schemas::KeyKind::average;
    CHECK(judging.compute->examine(key, {{}, sum}).facts == schemas::SliceFacts{0.0, 2});
  }
}

TEST_CASE("a loss scale and its rule belong together", "[judged]") {
  const std::vector<KeyInfo> with = {key_of("w"), loss_scale_key(1)};
  const std::vector<KeyInfo> without = {key_of("w")};
  const auto create = [](const std::vector<KeyInfo>& keys, const UpdateRule& rule) {
    return SliceCompute::create(tests::test_operators(), keys, rule).status();
  };
  CHECK(create(with, rule_of()).code() == base::Errc::invalid_argument);
  CHECK(create(without, scaled_rule()).code() == base::Errc::invalid_argument);
  UpdateRule odd = scaled_rule();
  odd.loss_scale->first = 3.0;
  CHECK(create(with, odd).code() == base::Errc::invalid_argument);
  CHECK(create(with, scaled_rule()).ok());
  std::vector<KeyInfo> wide = with;
  wide[1].shape = base::Shape{3};
  CHECK_THAT(create(wide, scaled_rule()).text(), Catch::Contains("'loss_scale' of shape (3,)"));
  std::vector<KeyInfo> twice = with;
  twice.push_back(loss_scale_key(2));
  CHECK_FALSE(create(twice, scaled_rule()).ok());
  Judging judging(with, scaled_rule());
  base::BufferPool& pool = judging.storage.pool(base::Device{});
  const base::Buffer three = base::make_host_buffer(2 * sizeof(float));
  three.as<float>()[0] = 3.0F;
  three.as<float>()[1] = 0.0F;
  const auto first = judging.compute->first_from(with[1], three, pool);
  CHECK(first.status().code() == base::Errc::data_loss);
  CHECK_THAT(first.status().text(), Catch::Contains("key 'loss_scale'"));
}

}  // namespace
}  // namespace troupe::store
