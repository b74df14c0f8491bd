// SPDX-License-Identifier: Apache-2.0
// An optimizer given as a symbol trains to the bits of the built-in one.
#include "base/hash.h"
#include "store/checkpoint.h"
#include "tests/support/catch.h"
#include "tests/support/job_files.h"
#include "train/local_run.h"

namespace troupe::train {
namespace {

using symbol::Symbol;

class Silent final : public JobObserver {
 public:
  void progress(const control::StepProgress&) override {}
  void scored(const control::EpochScore&) override {}
  void checkpointed(std::uint64_t, const std::string&) override {}
};

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

std::string trained_hash(const ops::OpTable& table, const schemas::JobSpec& spec) {
  base::SteadyClock clock;
  Silent observer;
  const auto job = open_job(spec, table);
  REQUIRE(job.ok());
  const base::Status status = run_local(*job, table, clock, observer);
  INFO(status.to_string());
  REQUIRE(status.ok());
  const auto checkpoint = store::Checkpoint::open_newest(spec.checkpoint.dir);
  REQUIRE(checkpoint.ok());
  return base::to_hex((*checkpoint)->hash().value());
}

TEST_CASE("sgd given as a symbol trains to the bits of the built-in sgd", "[updater]") {
  const TestFolder folder("updater-symbol");
  write_test_records(folder.path() / "train.rec", 100, 12);
  write_test_records(folder.path() / "test.rec", 4, 12);
  const ops::OpTable table = ops::OpTable::build();
  schemas::JobSpec spec = test_job(folder.path(), "tiny-bn");
  const std::string built_in = trained_hash(table, spec);
  spec.train.optimizer.symbol_json = sgd_as_symbol(table, spec.train.optimizer);
  spec.train.optimizer.name.clear();
  spec.checkpoint.dir = folder.path() / "symbol";
  CHECK(trained_hash(table, spec) == built_in);
}

}  // namespace
}  // namespace troupe::train
