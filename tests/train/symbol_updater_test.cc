// SPDX-License-Identifier: Apache-2.0
// An optimizer given as a symbol trains to the bits of the built-in one.
#include "tests/support/catch.h"
#include "tests/support/job_files.h"
#include "tests/support/whole_job.h"

namespace troupe::train {
namespace {

using symbol::Symbol;

// Mean gradient, weight decay, momentum, step: the operators that sgd_update fuses.
std::string sgd_as_symbol(const ops::OpTable& table, const schemas::OptimizerSpec& sgd) {
  symbol::Composer composer(table);
  const Symbol weight = composer.variable("weight");
  const Symbol decay =
      composer.call("multiply_scalar", "decay", {weight}, {{"scalar", ops::to_attribute(sgd.wd)}});
  const Symbol total = composer.call("add", "total", {composer.variable("gradient"), decay});
  const Symbol kept = composer.call("multiply_scalar", "kept", {composer.variable("momentum")},
                                    {{"scalar", ops::to_attribute(sgd.momentum)}});
  const Symbol momentum = composer.call("add", "new_momentum", {kept, total});
  const Symbol moved = composer.call("multiply", "moved", {momentum, composer.variable("lr")});
  const Symbol next = composer.call("subtract", "new_weight", {weight, moved});
  const std::vector<Symbol> outputs = {next, momentum};
  const auto symbol = composer.finish(Symbol::group(outputs));
  REQUIRE(symbol.ok());
  return symbol->to_json();
}

TEST_CASE("sgd given as a symbol trains to the bits of the built-in sgd", "[updater]") {
  const TestFolder folder("updater-symbol");
  write_test_records(folder.path() / "train.rec", 100, 12);
  write_test_records(folder.path() / "test.rec", 4, 12);
  const ops::OpTable table = ops::OpTable::build();
  schemas::JobSpec spec = test_job(folder.path(), "tiny-bn");
  const std::string built_in = tests::trained_hash(table, spec, "built-in");
  spec.train.optimizer.symbol_json = sgd_as_symbol(table, spec.train.optimizer);
  spec.train.optimizer.name.clear();
  CHECK(tests::trained_hash(table, spec, "symbol") == built_in);
}

TEST_CASE("decay of an optimizer given as a symbol is its own, and no multiplier's", "[updater]") {
  const TestFolder folder("updater-decay");
  write_test_records(folder.path() / "train.rec", 8, 12);
  const ops::OpTable table = ops::OpTable::build();
  schemas::JobSpec spec = test_job(folder.path(), "tiny-bn");
  spec.data.test.clear();
  spec.train.epochs = 1;
  spec.train.optimizer.symbol_json = sgd_as_symbol(table, spec.train.optimizer);
  spec.train.optimizer.name.clear();
  spec.train.optimizer.decay = schemas::Decay::weights;
  CHECK(tests::run_job(table, spec).status.ok());
  std::filesystem::remove_all(spec.checkpoint.dir);
  spec.train.keys = {{.match = "*_bias", .wd_mult = 0.5}};
  CHECK_THAT(tests::run_job(table, spec).status.text(),
             Catch::Contains("has the multiplier 0.5 of weight decay"));
}

}  // namespace
}  // namespace troupe::train
