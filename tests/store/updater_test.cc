// SPDX-License-Identifier: Apache-2.0
// What cannot be an updater is refused with the node's name.
#include "store/updater.h"

#include "tests/support/catch.h"

namespace troupe::store {
namespace {

using symbol::Symbol;

TEST_CASE("what cannot update a slice is refused with the node's name", "[updater]") {
  const ops::OpTable table = ops::OpTable::build();
  const auto refused = [&](const Symbol& symbol) {
    schemas::OptimizerSpec spec;
    spec.name.clear();
    spec.symbol_json = symbol.to_json();
    return Updater::create(table, spec, base::DType::f32).status().text();
  };
  symbol::Composer composer(table);
  const Symbol weight = composer.variable("weight");
  const Symbol gradient = composer.variable("gradient");
  const Symbol whole = composer.call("sum", "norm", {gradient});
  CHECK_THAT(refused(composer.call("subtract", "next", {weight, whole})),
             Catch::Contains("norm") && Catch::Contains("not element-wise"));
  CHECK_THAT(refused(composer.call("negate", "next", {weight})),
             Catch::Contains("no argument 'gradient'"));
  const Symbol next = composer.call("subtract", "next", {weight, gradient});
  const std::vector<Symbol> twice = {next, next};
  CHECK_THAT(refused(Symbol::group(twice)), Catch::Contains("value of its own"));
  const Symbol step = Symbol::variable("step", {{"__dtype__", "4"}});
  const Symbol counted = composer.call("cast", "real", {step}, {{"dtype", "float32"}});
  const Symbol scaled = composer.call("multiply", "scaled", {gradient, counted});
  CHECK_THAT(refused(composer.call("subtract", "next", {weight, scaled})),
             Catch::Contains("'step' is i32, not f32 or f64"));
  schemas::OptimizerSpec unknown;
  unknown.name = "adam";
  CHECK_THAT(Updater::create(table, unknown, base::DType::f32).status().text(),
             Catch::Contains("unknown optimizer 'adam'"));
}

}  // namespace
}  // namespace troupe::store
