// SPDX-License-Identifier: Apache-2.0
// Attributes of variables in the forms that MXNet 1.9.1 writes.
#include "train/key_attributes.h"

#include "tests/support/catch.h"

namespace troupe::train {
namespace {

using schemas::Distribution;
using schemas::FanKind;
using schemas::InitializerKind;
using schemas::InitializerSpec;

TEST_CASE("initialisers are read in MXNet's forms, with its defaults", "[key_attributes]") {
  const std::pair<const char*, InitializerSpec> known[] = {
      {"zeros", {InitializerKind::constant, 0.0}},
      {"[\"zero\", {}]", {InitializerKind::constant, 0.0}},
      {"ones", {InitializerKind::constant, 1.0}},
      {"[\"one\", {}]", {InitializerKind::constant, 1.0}},
      {"[\"constant\", {\"value\": -0.5}]", {InitializerKind::constant, -0.5}},
      {"uniform", {InitializerKind::uniform, 0.07}},
      {"[\"uniform\", {\"scale\": 0.1}]", {InitializerKind::uniform, 0.1}},
      {"Normal", {InitializerKind::normal, 0.01}},
      {"[\"normal\", {\"sigma\": 0.5}]", {InitializerKind::normal, 0.5}},
      {"xavier", {InitializerKind::xavier, 3.0, FanKind::average, Distribution::uniform}},
      {"[\"xavier\", {\"rnd_type\": \"gaussian\", \"factor_type\": \"in\", \"magnitude\": \"2\"}]",
       {InitializerKind::xavier, 2.0, FanKind::in, Distribution::normal}},
      {"msraprelu", {InitializerKind::msra, 0.25}},
      {"[\"msraprelu\", {\"factor_type\": \"out\", \"slope\": 0}]",
       {InitializerKind::msra, 0.0, FanKind::out}}};
  for (const auto& [text, expected] : known) {
    const auto read = parse_initializer(text);
    INFO(text << ": " << read.status().to_string());
    REQUIRE(read.ok());
    CHECK(*read == expected);
  }
}

TEST_CASE("what is no initialiser is refused by what is wrong with it", "[key_attributes]") {
  const std::pair<const char*, const char*> wrong[] = {
      {"xaviar", "'xaviar' is unknown"},
      {"[\"bilinear\", {}]", "'bilinear' is unknown"},
      {"[\"xavier\"]", "neither a name nor"},
      {"[\"xavier\", [2]]", "neither a name nor"},
      {"[\"xavier\", {}", "neither a name nor"},
      {"[\"xavier\", {\"magnitude\": \"two\"}]", "xavier magnitude is \"two\", no number"},
      {"[\"xavier\", {\"rnd_type\": \"normal\"}]", "xavier rnd_type \"normal\" is unknown"},
      {"[\"xavier\", {\"factor_type\": 1}]", "xavier factor_type 1 is unknown"},
      {"[\"uniform\", {\"sigma\": 1}]", "uniform takes no argument 'sigma'"},
      {"[\"constant\", {}]", "constant needs its argument 'value'"},
      {"[\"constant\", {\"value\": [1, 2]}]", "argument 'value' is neither a number nor a text"},
      {"[\"constant\", {\"value\": {}}]", "argument 'value' is neither a number nor a text"},
      {"[\"constant\", {\"value\": \"inf\"}]", "no number"},
      {"[\"constant\", {\"value\": 1e300}]", "constant of 1e+300 is not in [-1e+38, 1e+38]"},
      {"[\"xavier\", {\"magnitude\": -3}]", "xavier of -3 is not in [0, 1e+38]"},
      {"[\"normal\", {\"sigma\": \"-1\"}]", "normal of -1 is not in [0, 1e+38]"}};
  for (const auto& [text, fault] : wrong) {
    const base::Status refused = parse_initializer(text).status();
    CHECK(refused.code() == base::Errc::invalid_argument);
    CHECK_THAT(refused.text(), Catch::Contains(fault));
  }
}

/// ["constant", {"value": [[[...]]]}] of so many levels.
std::string nested(std::size_t levels) {
  return "[\"constant\", {\"value\": " + std::string(levels, '[') + std::string(levels, ']') + "}]";
}

TEST_CASE("an initialiser of many levels or bytes is refused, and quoted in part",
          "[key_attributes]") {
  constexpr std::size_t kMany = 500'000;
  const base::Status deep = parse_initializer(nested(kMany)).status();
  CHECK(deep.code() == base::Errc::invalid_argument);
  CHECK(deep.text() == "has 1000025 bytes; the limit is 4096");
  CHECK_THAT(parse_initializer(nested(2'000)).status().text(),
             Catch::Contains("argument 'value' is neither a number nor a text"));
  const std::string name(kInitializerBytesMax, 'x');
  CHECK_THAT(parse_initializer(name).status().text(), Catch::Contains("...' is unknown"));
  CHECK_THAT(parse_initializer(name + "x").status().text(), Catch::Contains("has 4097 bytes"));

  symbol::GraphNode variable;
  variable.name = std::string(kMany, 'n');
  variable.extra["__init__"] = nested(kMany);
  CHECK(read_key_attributes(variable).status().text().size() < 300);
  variable.extra = {{"__lr_mult__", std::string(kMany, '1') + "x"}};
  CHECK(read_key_attributes(variable).status().text().size() < 300);
}

}  // namespace
}  // namespace troupe::train
