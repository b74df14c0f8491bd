// SPDX-License-Identifier: Apache-2.0
// Whole jobs over the local store on late test devices, as they run on GPUs: the host's bits.
#include <string>

#include "tests/support/catch.h"
#include "tests/support/job_files.h"
#include "tests/support/late_ranks.h"
#include "tests/support/whole_job.h"

namespace troupe::train {
namespace {

std::string trained_hash(const ops::OpTable& table, const schemas::JobSpec& spec,
                         const std::string& out, const LocalRunOptions& options = {}) {
  return tests::trained_hash(table, spec, out, tests::local_run(options));
}

// What will run on a GPU: kernels, gradients and weights on their ways, scores and averages.
TEST_CASE("ranks on a device with streams end in the host's bits", "[late_ranks]") {
  const TestFolder folder("local-run-late");
  write_test_records(folder.path() / "train.rec", 203, 12);
  write_test_records(folder.path() / "test.rec", 20, 12);
  const ops::OpTable table = ops::OpTable::build();
  for (const char* network : {"tiny-bn", "lenet"}) {
    schemas::JobSpec spec = test_job(folder.path(), network);
    if (spec.model.network == "lenet") {
      write_test_records(folder.path() / "train.rec", 203, 28);
      write_test_records(folder.path() / "test.rec", 20, 28);
      spec.train.max_steps = 8;
    }
    const std::string name = network;
    const std::string host = trained_hash(table, spec, name + "-host");
    const tests::LateRanks late(spec.ranks());
    spec.workers.gpu_sums = spec.workers.gpu_graphs = false;
    CHECK(trained_hash(table, spec, name + "-plain", late.on_device()) == host);
    for (const std::size_t kind : {0U, 1U, 2U}) CHECK(late.ran(kind) > 0);
    for (const std::size_t kind : {0U, 1U}) CHECK(late.added(kind) == 0);
    CHECK(late.launches() == 0);
    spec.workers.gpu_graphs = true;
    CHECK(trained_hash(table, spec, name + "-late", late.on_device()) == host);
    CHECK(late.launches() > 0);
    spec.workers.gpu_sums = true;
    // Each key by itself: gradients leave and weights come while others are computed.
    CHECK(trained_hash(table, spec, name + "-runs", late.on_device({.run_bytes = 1})) == host);
    // In two parts, on one and the other.
    const std::uint64_t whole = spec.train.max_steps.value_or(1'000);
    spec.train.max_steps = 5;
    trained_hash(table, spec, name + "-parts", late.on_device());
    spec.train.max_steps = whole;
    CHECK(trained_hash(table, spec, name + "-parts") == host);
  }
}

TEST_CASE("gradients that are added on devices end in the host's bits", "[late_ranks]") {
  const TestFolder folder("local-run-sums");
  write_test_records(folder.path() / "train.rec", 203, 12);
  write_test_records(folder.path() / "test.rec", 20, 12);
  const ops::OpTable table = ops::OpTable::build();
  schemas::JobSpec spec = test_job(folder.path(), "tiny-bn");
  spec.workers.machines = 2;
  spec.workers.devices = 3;
  for (const schemas::WireType wire : {schemas::WireType::same, schemas::WireType::bf16}) {
    spec.numerics.gradient_wire = spec.numerics.weight_wire = wire;
    const std::string name(schemas::name_of(wire));
    const std::string host = trained_hash(table, spec, name + "-host");
    for (const std::uint32_t devices : {1U, 2U, 6U}) {
      const tests::LateRanks late(spec.ranks(), devices);
      const std::string out = name + "-" + std::to_string(devices);
      CHECK(trained_hash(table, spec, out, late.on_device()) == host);
      for (const std::size_t kind : {0U, 1U}) CHECK(late.added(kind) > 0);
      CHECK(trained_hash(table, spec, out + "-runs", late.on_device({.run_bytes = 1'000})) == host);
    }
  }
}

TEST_CASE("ranks on a device with streams pass steps without a sample of theirs", "[late_ranks]") {
  const TestFolder folder("local-run-late-short");
  write_test_records(folder.path() / "train.rec", 34, 12);
  write_test_records(folder.path() / "test.rec", 3, 12);
  const ops::OpTable table = ops::OpTable::build();
  const schemas::JobSpec spec = test_job(folder.path(), "tiny-bn");
  const std::string host = trained_hash(table, spec, "host");
  const tests::LateRanks late(spec.ranks());
  CHECK(trained_hash(table, spec, "late", late.on_device()) == host);
}

TEST_CASE("a gradient that is not finite ends a run on a device by rank, step and key",
          "[late_ranks]") {
  const TestFolder folder("local-run-late-nan");
  write_test_records(folder.path() / "train.rec", 100, 12);
  const ops::OpTable table = ops::OpTable::build();
  schemas::JobSpec spec = test_job(folder.path(), "tiny-bn");
  spec.data.test.clear();
  spec.train.optimizer.lr = 1e30;
  spec.train.schedule = {};
  const tests::LateRanks late(spec.ranks());
  const tests::JobOutcome outcome = tests::run_job(table, spec, tests::local_run(late.on_device()));
  CHECK(outcome.status.code() == base::Errc::not_finite);
  CHECK_THAT(outcome.status.text(), Catch::Contains("the gradient of '") &&
                                        Catch::Contains("at step") && Catch::Contains("of ranks "));
  spec.workers.gpu_sums = false;
  const tests::JobOutcome alone = tests::run_job(table, spec, tests::local_run(late.on_device()));
  CHECK(alone.status.code() == base::Errc::not_finite);
  CHECK_THAT(alone.status.text(), Catch::Contains("the gradient of '") &&
                                      Catch::Contains("at step") && Catch::Contains("of rank "));
}

}  // namespace
}  // namespace troupe::train
