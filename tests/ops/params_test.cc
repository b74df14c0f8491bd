// SPDX-License-Identifier: Apache-2.0
// Parameters: every text form people and MXNet write, one canonical form back, helpful errors.
#include "ops/params.h"

#include <rapidcheck.h>

#include <limits>
#include <utility>

#include "tests/support/catch.h"

namespace troupe::ops {
namespace {

using base::DType;
using base::Shape;

std::vector<ParamDef> definitions() {
  return {{"flag", ParamType::boolean, false, "a flag"},
          {"count", ParamType::integer, 3, "a count", 1, 10},
          {"rate", ParamType::real, 0.5, "a rate", 0, 1},
          {.name = "mode", .type = ParamType::text, .initial = "max", .choices = {"max", "avg"}},
          {"kernel", ParamType::shape, std::nullopt, "a shape", -2},
          {"dtype", ParamType::dtype, DType::f32, "a type"}};
}

TEST_CASE("parameters are read in Python's and in plain forms", "[params]") {
  const auto params = Params::parse(definitions(), {{"flag", "True"},
                                                    {"count", " 7 "},
                                                    {"rate", "1e-1"},
                                                    {"mode", "avg"},
                                                    {"kernel", "(3, -1)"},
                                                    {"dtype", "float64"}});
  REQUIRE(params.ok());
  CHECK(params.value().boolean("flag"));
  CHECK(params.value().integer("count") == 7);
  CHECK(params.value().real("rate") == 0.1);
  CHECK(params.value().text("mode") == "avg");
  CHECK(params.value().shape("kernel") == Shape{3, -1});
  CHECK(params.value().dtype("dtype") == DType::f64);
  const Attributes canonical = {{"flag", "True"}, {"count", "7"},        {"rate", "0.1"},
                                {"mode", "avg"},  {"kernel", "(3, -1)"}, {"dtype", "f64"}};
  CHECK(params.value().to_attributes() == canonical);
  CHECK(Params::parse(definitions(), canonical).value() == params.value());
}

TEST_CASE("each parameter counts in the hash", "[params]") {
  const Attributes first = {{"kernel", "(3, 3)"}};
  const auto hash = [&](const std::string& name, const std::string& value) {
    Attributes attributes = first;
    if (!name.empty()) attributes[name] = value;
    return Params::parse(definitions(), attributes).value().hash();
  };
  CHECK(hash("", "") == hash("rate", "0.5"));
  const std::vector<std::pair<std::string, std::string>> changes = {
      {"flag", "True"}, {"count", "4"},       {"rate", "0.25"},
      {"mode", "avg"},  {"kernel", "(3, 2)"}, {"dtype", "f64"}};
  for (const auto& [name, value] : changes) {
    INFO(name);
    CHECK(hash(name, value) != hash("", ""));
  }
}

TEST_CASE("numbers are equal when their bits are", "[params]") {
  const auto rate = [](const ParamValue& value) {
    return Params::parse({{"rate", ParamType::real, value, "a rate"}}, {}).value();
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(rate(0.0) == rate(0.0));
  CHECK_FALSE(rate(0.0) == rate(-0.0));
  CHECK(rate(nan) == rate(nan));
  CHECK(rate(nan).hash() == rate(nan).hash());
  CHECK_FALSE(rate(0.5) == rate(0.25));
}

TEST_CASE("copies of parameters hold what the first one held", "[params]") {
  CHECK(Params() == Params::parse({}, {}).value());
  CHECK(Params().hash() == Params::parse({}, {}).value().hash());
  Params copy;
  {
    Params first = Params::parse(definitions(), {{"kernel", "(3, 3)"}, {"count", "7"}}).value();
    copy = first;
    CHECK(copy == first);
    CHECK(copy.hash() == first.hash());
    const Params moved = std::move(first);
    CHECK(moved == copy);
    CHECK(first.to_attributes().empty());  // NOLINT: a moved one has none
  }
  CHECK(copy.integer("count") == 7);
  CHECK(copy.shape("kernel") == Shape{3, 3});
  CHECK_FALSE(copy == Params());
}

TEST_CASE("defaults fill what is not given", "[params]") {
  const auto params = Params::parse(definitions(), {{"kernel", "None"}});
  REQUIRE(params.ok());
  CHECK(params.value().integer("count") == 3);
  CHECK(params.value().shape("kernel") == Shape{});
  CHECK(params.value().to_attributes().at("rate") == "0.5");
}

TEST_CASE("errors of parameters name parameter, value and what is allowed", "[params]") {
  const auto text = [](Attributes attributes, bool kernel = true) {
    if (kernel) attributes.emplace("kernel", "3");
    const auto params = Params::parse(definitions(), attributes);
    return params.ok() ? "ok" : params.status().text();
  };
  CHECK(text({{"flag", "maybe"}}) == "parameter 'flag' is 'maybe' but must be True or False");
  CHECK(text({{"count", "7.5"}}) == "parameter 'count' is '7.5' but must be an integer");
  CHECK(text({{"count", "11"}}) == "parameter 'count' is '11' (allowed: 1 to 10)");
  CHECK(text({{"rate", "nan"}}) == "parameter 'rate' is 'nan' (allowed: 0 to 1)");
  CHECK(text({{"rate", "x"}}) == "parameter 'rate' is 'x' but must be a number");
  const std::vector<ParamDef> open = {
      {.name = "any", .type = ParamType::real, .doc = "Has no bounds."},
      {.name = "least", .type = ParamType::real, .doc = "Has one.", .low = 0.0}};
  CHECK(Params::parse(open, {{"any", "nan"}, {"least", "1"}}).status().text() ==
        "parameter 'any' is 'nan' (allowed: any number)");
  CHECK(Params::parse(open, {{"any", "-inf"}, {"least", "-1"}}).status().text() ==
        "parameter 'least' is '-1' (allowed: 0 or more)");
  CHECK(text({{"mode", "sum"}}) == "parameter 'mode' is 'sum' (allowed: max avg)");
  CHECK(text({{"kernel", "(3, 9223372036854775807)"}}) ==
        "parameter 'kernel' is '(3, 9223372036854775807)' (allowed: -2 to 2147483647)");
  CHECK(text({{"kernel", "(3, -3)"}}) ==
        "parameter 'kernel' is '(3, -3)' (allowed: -2 to 2147483647)");
  CHECK(text({{"dtype", "f8"}}) == "parameter 'dtype' is 'f8' but must be a dtype such as f32");
  CHECK(text({}, false) == "parameter 'kernel' is required (a list of integers such as (3, 3))");
  CHECK(text({{"size", "3"}}) ==
        "unknown parameter 'size' (known: flag count rate mode kernel dtype)");
}

TEST_CASE("Python 2's long integers are integers", "[params]") {
  const auto params = Params::parse(definitions(), {{"count", "3L"}, {"kernel", "(3L, 5L)"}});
  REQUIRE(params.ok());
  CHECK(params.value().integer("count") == 3);
  CHECK(params.value().shape("kernel") == Shape{3, 5});
  for (const char* text : {"L", "3LL", "3.5L"}) {
    CHECK_FALSE(Params::parse(definitions(), {{"kernel", "3"}, {"count", text}}).ok());
  }
  CHECK_FALSE(Params::parse(definitions(), {{"kernel", "3"}, {"rate", "1L"}}).ok());
}

TEST_CASE("attributes without effect are dropped, with the values that have none", "[params]") {
  const std::vector<IgnoredAttribute> ignored = {{"ctx"}, {"temperature", {"None", "1.0"}}};
  const auto parse = [&](Attributes attributes) {
    attributes.emplace("kernel", "3");
    return Params::parse(definitions(), attributes, ignored);
  };
  const auto plain = parse({});
  REQUIRE(plain.ok());
  CHECK(parse({{"ctx", "gpu(0)"}, {"temperature", " None"}}).value() == plain.value());
  CHECK(parse({{"temperature", "2.0"}}).status().text() ==
        "parameter 'temperature' is '2.0' (allowed: None 1.0)");
}

TEST_CASE("numbers survive the way to text and back", "[params]") {
  const std::vector<ParamDef> list = {{"x", ParamType::real, 0.0, "any number"}};
  CHECK(rc::check([&](double x) {
    const auto params = Params::parse(list, {{"x", to_attribute(ParamValue(x))}});
    RC_ASSERT(params.ok());
    RC_ASSERT(params.value().real("x") == x);
  }));
}

}  // namespace
}  // namespace troupe::ops
