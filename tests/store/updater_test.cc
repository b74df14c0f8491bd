// SPDX-License-Identifier: Apache-2.0
// What cannot be an updater is refused with the node's name; one of a user's own follows its
// formula.
#include "store/updater.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "storage/storage.h"
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
  const Symbol slope = composer.variable("slope");
  const Symbol slopes = composer.call("leaky_relu", "bent", symbol::Inputs{{gradient, slope}, {}},
                                      {{"act_type", "prelu"}});
  const std::vector<Symbol> bent = {composer.call("subtract", "next", {weight, slopes}),
                                    composer.call("negate", "state", {slope})};
  CHECK_THAT(refused(Symbol::group(bent)), Catch::Contains("bent") && Catch::Contains("axes"));
  schemas::OptimizerSpec unknown;
  unknown.name = "adam";
  CHECK_THAT(Updater::create(table, unknown, base::DType::f32).status().text(),
             Catch::Contains("unknown optimizer 'adam'"));
}

/// Adam (Kingma and Ba 2015) over the mean gradient, as a user writes it: numbers of the step are
/// 0-d, and so is what is made of them alone.
Symbol adam(const ops::OpTable& table) {
  symbol::Composer c(table);
  const auto scalar = [&](const char* op, const std::string& name, const Symbol& x, double number) {
    return c.call(op, name, {x}, {{"scalar", ops::to_attribute(number)}});
  };
  const Symbol weight = c.variable("weight"), gradient = c.variable("gradient");
  const Symbol step = c.variable("step"), lr = c.variable("lr");
  const auto correction = [&](const std::string& name, double beta) {
    const Symbol power = c.call("exp", name + "_power",
                                {scalar("multiply_scalar", name + "_log", step, std::log(beta))});
    return scalar("reverse_subtract_scalar", name, power, 1.0);
  };
  const Symbol mean = c.call("add", "new_mean",
                             {scalar("multiply_scalar", "old_mean", c.variable("mean"), 0.9),
                              scalar("multiply_scalar", "more_mean", gradient, 1.0 - 0.9)});
  const Symbol square = c.call("square", "square", {gradient});
  const Symbol variance =
      c.call("add", "new_variance",
             {scalar("multiply_scalar", "old_variance", c.variable("variance"), 0.999),
              scalar("multiply_scalar", "more_variance", square, 1.0 - 0.999)});
  const Symbol root = c.call(
      "sqrt", "root", {c.call("divide", "true_variance", {variance, correction("c2", 0.999)})});
  const Symbol direction = c.call("divide", "direction",
                                  {c.call("divide", "true_mean", {mean, correction("c1", 0.9)}),
                                   scalar("add_scalar", "floor", root, 1e-8)});
  const Symbol next =
      c.call("subtract", "next", {weight, c.call("multiply", "moved", {direction, lr})});
  const std::vector<Symbol> outputs = {next, mean, variance};
  return c.finish(Symbol::group(outputs)).value();
}

TEST_CASE("an optimizer of a user's own updates slices of any size by its formula", "[updater]") {
  const ops::OpTable table = ops::OpTable::build();
  schemas::OptimizerSpec spec;
  spec.name.clear();
  spec.symbol_json = adam(table).to_json();
  const auto updater = Updater::create(table, spec, base::DType::f64).value();
  REQUIRE(updater->slots() == std::vector<std::string>{"mean", "variance"});
  storage::Storage storage;
  ndarray::PreparedKernels kernels;
  base::SlotStore slots;
  engine::RunContext lane{.team = 2, .slots = &slots};
  const UpdateContext context{storage.pool(base::Device{}), kernels, lane};
  for (const std::int64_t elements : {1, 7, 20'000}) {
    const auto count = static_cast<std::size_t>(elements);
    const auto numbers = [&](double first) {
      const base::Buffer made = base::make_host_buffer(count * sizeof(double));
      for (std::size_t i = 0; i < count; ++i) {
        made.as<double>()[i] = std::sin(first + static_cast<double>(i));
      }
      return made;
    };
    SliceValues now;
    now.weight = numbers(0.5);
    now.slots = updater->first_slots(elements, context.pool).value();
    std::vector<double> weight(now.weight.as<double>().begin(), now.weight.as<double>().end());
    std::vector<double> mean(count), variance(count);
    for (std::uint64_t step = 1; step <= 3; ++step) {
      const base::Buffer gradient = numbers(2.0 * static_cast<double>(step));
      UpdateNumbers how;
      how.lr = 0.25;
      how.count = 4.0;
      how.step = step;
      now = updater->apply(now, gradient, how, context).value();
      double worst = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const double g = gradient.as<double>()[i] / 4.0;
        mean[i] = 0.9 * mean[i] + (1.0 - 0.9) * g;
        variance[i] = 0.999 * variance[i] + (1.0 - 0.999) * g * g;
        const double c1 = 1.0 - std::pow(0.9, step), c2 = 1.0 - std::pow(0.999, step);
        weight[i] -= 0.25 * (mean[i] / c1) / (std::sqrt(variance[i] / c2) + 1e-8);
        worst = std::max({worst, std::fabs(weight[i] - now.weight.as<double>()[i]),
                          std::fabs(mean[i] - now.slots[0].as<double>()[i]),
                          std::fabs(variance[i] - now.slots[1].as<double>()[i])});
      }
      CHECK(worst < 1e-12);
    }
  }
}

}  // namespace
}  // namespace troupe::store
