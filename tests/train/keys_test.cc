// SPDX-License-Identifier: Apache-2.0
// What a network's keys are: their order, kinds and first values, by operator, name and what the
// variables say.
#include "train/keys.h"

#include <map>

#include "schemas/codec.h"
#include "store/initializer.h"
#include "tests/support/catch.h"
#include "tests/support/test_runtime.h"

namespace troupe::train {
namespace {

using schemas::InitializerKind;
using schemas::InitializerSpec;
using schemas::KeyInfo;
using symbol::Symbol;

/// data -> batch_norm with states of these names -> fully_connected "fc".
base::Result<NetworkKeys> keys_of_norm(const std::string& mean, const std::string& variance,
                                       const ops::Attributes& of_variance = {}) {
  symbol::Composer c(tests::test_operators());
  symbol::Inputs inputs;
  inputs.positional = {c.variable("data")};
  inputs.named = {{"moving_mean", c.variable(mean)},
                  {"moving_var", c.variable(variance, of_variance)}};
  const Symbol norm = c.call("batch_norm", "bn", inputs, {{"momentum", "0.75"}});
  const Symbol fc = c.call("fully_connected", "fc", {norm}, {{"num_hidden", "3"}});
  const auto network = c.finish(c.call("softmax_output", "softmax", {fc}));
  REQUIRE(network.ok());
  return network_keys(*network, {.sample = base::Shape{2, 2, 2}});
}

/// A fully_connected whose weight carries `__init__`.
base::Result<NetworkKeys> keys_of_weight(const std::string& init) {
  symbol::Composer c(tests::test_operators());
  symbol::Inputs inputs;
  inputs.positional = {c.variable("data"), c.variable("w", {{"__init__", init}})};
  const Symbol fc = c.call("fully_connected", "fc", inputs, {{"num_hidden", "3"}});
  const auto network = c.finish(c.call("softmax_output", "softmax", {fc}));
  REQUIRE(network.ok());
  return network_keys(*network, {.sample = base::Shape{2}});
}

std::map<std::string, KeyInfo> by_name(const base::Result<NetworkKeys>& network) {
  INFO(network.status().to_string());
  REQUIRE(network.ok());
  std::map<std::string, KeyInfo> keys;
  for (const KeyInfo& key : network->keys) keys[key.name] = key;
  return keys;
}

InitializerSpec constant(double value) {
  return {InitializerKind::constant, value};
}

std::vector<double> first_values(const KeyInfo& key) {
  std::vector<double> values(static_cast<std::size_t>(key.shape.elements()));
  const base::TensorView view{values.data(), base::DType::f64, key.shape, {}, {}};
  REQUIRE(store::initialize({}, 7, key, 0, view).ok());
  return values;
}

TEST_CASE("parameters come first, then states with what their operator says", "[keys]") {
  const auto network = keys_of_norm("bn_moving_mean", "bn_moving_var");
  REQUIRE(network.ok());
  std::vector<std::string> names;
  for (const KeyInfo& key : network->keys) {
    CHECK(key.id == names.size());
    names.push_back(key.name);
  }
  CHECK(names == std::vector<std::string>{"bn_gamma", "bn_beta", "fc_weight", "fc_bias",
                                          "bn_moving_mean", "bn_moving_var"});
  const auto keys = by_name(network);
  CHECK(keys.at("fc_weight").kind == schemas::KeyKind::dense);
  CHECK(keys.at("bn_moving_var").kind == schemas::KeyKind::average);
  CHECK(keys.at("bn_moving_var").momentum == 0.75);
}

// Gluon calls them running_mean and running_var.
TEST_CASE("states begin as their operator says, whatever their names", "[keys]") {
  for (const auto& [mean, variance] :
       {std::pair("bn_moving_mean", "bn_moving_var"),
        std::pair("bn0_running_mean", "bn0_running_var"), std::pair("a_bias", "b_beta")}) {
    const auto keys = by_name(keys_of_norm(mean, variance));
    CHECK(first_values(keys.at(mean)) == std::vector<double>(2, 0.0));
    CHECK(first_values(keys.at(variance)) == std::vector<double>(2, 1.0));
  }
}

TEST_CASE("the end of a parameter's name says how it begins", "[keys]") {
  const auto keys = by_name(keys_of_norm("m", "v"));
  CHECK(keys.at("bn_gamma").initializer == constant(1.0));
  CHECK(keys.at("bn_beta").initializer == constant(0.0));
  CHECK(keys.at("fc_bias").initializer == constant(0.0));
  CHECK_FALSE(keys.at("fc_weight").initializer.has_value());
}

TEST_CASE("slopes of prelu begin at a quarter, whatever their names", "[keys]") {
  symbol::Composer c(tests::test_operators());
  symbol::Symbol net = c.call("fully_connected", "fc", {c.variable("data")}, {{"num_hidden", "4"}});
  net = c.call("leaky_relu", "act", {net}, {{"act_type", "prelu"}});
  net = c.call("leaky_relu", "other", {net, c.variable("slope_bias")}, {{"act_type", "prelu"}});
  net = c.call("softmax_output", "softmax", {net});
  const auto keys = by_name(network_keys(c.finish(net).value(), {.sample = base::Shape{2}}));
  CHECK(keys.at("act_gamma").initializer == constant(0.25));
  CHECK(keys.at("slope_bias").initializer == constant(0.25));
  CHECK(keys.at("fc_bias").initializer == constant(0.0));
}

TEST_CASE("what a variable says goes before operator and name", "[keys]") {
  CHECK(by_name(keys_of_norm("m", "v", {{"__init__", "[\"constant\", {\"value\": 0.5}]"}}))
            .at("v")
            .initializer == constant(0.5));
  CHECK(by_name(keys_of_weight("zeros")).at("w").initializer == constant(0.0));
  CHECK_FALSE(by_name(keys_of_weight("")).at("w").initializer.has_value());
}

TEST_CASE("an initialiser that is not there is an error with variable and value", "[keys]") {
  const base::Status refused = keys_of_weight("[\"orthogonal\", {}]").status();
  CHECK(refused.code() == base::Errc::invalid_argument);
  CHECK_THAT(refused.text(), Catch::Contains("variable 'w': __init__ '[\"orthogonal\", {}]'") &&
                                 Catch::Contains("'orthogonal' is unknown (known: constant, "));
}

/// data -> fc1 -> stop_gradient -> fc2, with rules. Attributes: of fc2's bias.
symbol::Symbol behind_stop(const ops::Attributes& of_bias = {}) {
  symbol::Composer c(tests::test_operators());
  const Symbol first =
      c.call("fully_connected", "fc1", {c.variable("data")}, {{"num_hidden", "3"}});
  symbol::Inputs inputs;
  inputs.positional = {c.call("stop_gradient", "stop", {first}), c.variable("fc2_weight"),
                       c.variable("fc2_bias", of_bias)};
  const Symbol second = c.call("fully_connected", "fc2", inputs, {{"num_hidden", "3"}});
  const auto network = c.finish(c.call("softmax_output", "softmax", {second}));
  REQUIRE(network.ok());
  return *network;
}

const InputSpec kTwo{.sample = base::Shape{2}};

TEST_CASE("multipliers come from rules, the last that matches, else from the variable", "[keys]") {
  const auto network =
      behind_stop({{"__lr_mult__", "0.5"}, {"__wd_mult__", "2"}, {"__dtype__", "f32"}});
  const auto plain = by_name(network_keys(network, kTwo));
  CHECK(plain.at("fc2_weight").lr_mult == 1.0);
  CHECK_FALSE(plain.at("fc2_weight").wd_mult.has_value());
  CHECK(plain.at("fc2_bias").lr_mult == 0.5);
  CHECK(plain.at("fc2_bias").wd_mult == 2.0);
  const std::vector<schemas::KeyRule> rules = {
      {"fc*", 3.0, {}}, {"*_bias", {}, 0.0}, {"fc1_bias", 0.0, {}}};
  const auto ruled = by_name(network_keys(network, kTwo, rules));
  CHECK(ruled.at("fc1_weight").lr_mult == 3.0);
  CHECK_FALSE(ruled.at("fc1_weight").wd_mult.has_value());
  CHECK(ruled.at("fc1_bias").lr_mult == 0.0);
  CHECK(ruled.at("fc1_bias").wd_mult == 0.0);
  CHECK(ruled.at("fc2_bias").lr_mult == 3.0);
  CHECK(ruled.at("fc2_bias").wd_mult == 0.0);
}

TEST_CASE("a * stands for any letters, also none, and a rule must match something", "[keys]") {
  const auto network = behind_stop();
  const auto matched = [&](const std::string& pattern) {
    const std::vector<schemas::KeyRule> rules = {{pattern, 7.0, {}}};
    const auto keys = network_keys(network, kTwo, rules);
    std::string names;
    if (!keys.ok()) return keys.status().text();
    for (const KeyInfo& key : keys->keys) names += key.lr_mult == 7.0 ? key.name + " " : "";
    return names;
  };
  CHECK(matched("*") == "fc1_weight fc1_bias fc2_weight fc2_bias ");
  CHECK(matched("fc1_bias") == "fc1_bias ");
  CHECK(matched("fc1_bias*") == "fc1_bias ");
  CHECK(matched("fc*_*s") == "fc1_bias fc2_bias ");
  CHECK(matched("*2*") == "fc2_weight fc2_bias ");
  CHECK(matched("**weight**") == "fc1_weight fc2_weight ");
  CHECK(matched("f*fc1_bias") ==
        "train.keys: 'f*fc1_bias' matches no parameter of the network ('fc1_weight', ...)");
  CHECK_THAT(matched("fc1"), Catch::Contains("'fc1' matches no parameter"));
  CHECK_THAT(matched(""), Catch::Contains("'' matches no parameter"));
}

TEST_CASE("a multiplier that is no number is an error with variable and value", "[keys]") {
  for (const std::string value : {"", "fast", "1x", "nan"}) {
    const base::Status refused = network_keys(behind_stop({{"__wd_mult__", value}}), kTwo).status();
    CHECK(refused.code() == base::Errc::invalid_argument);
    CHECK(refused.text() == "variable 'fc2_bias': __wd_mult__ '" + value + "' is no number");
  }
}

TEST_CASE("keys that no checkpoint can name are refused by their number or name", "[keys]") {
  symbol::Composer c(tests::test_operators());
  Symbol sum = c.variable("data");
  std::size_t keys = 0;
  while (keys <= schemas::kKeysMax) {
    symbol::Inputs inputs;
    inputs.positional = {sum};
    while (inputs.positional.size() < 256) {
      inputs.positional.push_back(c.variable("p" + std::to_string(keys++)));
    }
    sum = c.call("add_n", "sum" + std::to_string(keys), inputs, {{"num_args", "256"}});
  }
  const auto many = c.finish(c.call("softmax_output", "softmax", {sum}));
  REQUIRE(many.ok());
  CHECK(network_keys(*many, kTwo).status().text() ==
        "the network has " + std::to_string(keys) + " parameters and states; the limit is 65536");

  const auto with_name = [](const std::string& name) {
    symbol::Composer composer(tests::test_operators());
    symbol::Inputs inputs;
    inputs.positional = {composer.variable("data"), composer.variable(name)};
    const Symbol fc = composer.call("fully_connected", "fc", inputs, {{"num_hidden", "3"}});
    return network_keys(*composer.finish(composer.call("softmax_output", "softmax", {fc})), kTwo);
  };
  const std::string longest(schemas::kNameBytesMax, 'w');
  CHECK(with_name(longest).ok());
  const base::Status refused = with_name(longest + "w").status();
  CHECK(refused.code() == base::Errc::invalid_argument);
  CHECK_THAT(refused.text(), Catch::Contains("the name of parameter 'www") &&
                                 Catch::Contains("w...' has 4097 bytes; the limit is 4096"));
  CHECK_THAT(keys_of_norm("m", longest + "w").status().text(), Catch::Contains("has 4097 bytes"));
}

TEST_CASE("matrices travel in 16 bits where that is chosen, vectors and states as they are",
          "[keys]") {
  auto keys = keys_of_norm("m", "w");
  REQUIRE(keys.ok());
  set_wires(keys->keys, schemas::WireType::bf16, schemas::WireType::f16);
  std::size_t narrow = 0;
  for (const schemas::KeyInfo& key : keys->keys) {
    INFO(key.name);
    const bool matrix = key.kind == schemas::KeyKind::dense && key.shape.rank() >= 2;
    CHECK(key.gradient_wire == (matrix ? base::DType::bf16 : key.dtype));
    CHECK(key.weight_wire == (matrix ? base::DType::f16 : key.dtype));
    narrow += matrix ? 1 : 0;
  }
  CHECK(narrow > 0);
  CHECK(narrow < keys->keys.size());
  set_wires(keys->keys, schemas::WireType::same, schemas::WireType::same);
  for (const schemas::KeyInfo& key : keys->keys) CHECK(key.gradient_wire == key.dtype);
}

TEST_CASE("what is frozen or behind stop_gradient has no gradient", "[keys]") {
  const auto network = behind_stop();
  const std::vector<schemas::KeyRule> rules = {{"fc2_bias", 0.0, {}}};
  const auto keys = network_keys(network, kTwo, rules);
  REQUIRE(keys.ok());
  const auto with = keys_with_gradient(tests::test_operators(), network, keys->keys);
  REQUIRE(with.ok());
  // fc1's weight and bias, fc2's weight, fc2's bias.
  CHECK(*with == std::vector<bool>{false, false, true, false});
}

}  // namespace
}  // namespace troupe::train
