// SPDX-License-Identifier: Apache-2.0
// Training in f16: a job learns under a scale that falls to what it can bear, and what a module
// begins with.
#include <algorithm>

#include "store/checkpoint.h"
#include "tests/support/catch.h"
#include "tests/support/job_files.h"
#include "tests/support/test_runtime.h"
#include "train/job.h"
#include "train/local_run.h"
#include "train/module.h"

namespace troupe::train {
namespace {

using ndarray::NDArray;

/// A job of one rank in f16, whose first steps overflow.
schemas::JobSpec f16_job(const TestFolder& folder) {
  write_test_records(folder.path() / "train.rec", 50, 12);
  write_test_records(folder.path() / "test.rec", 11, 12);
  schemas::JobSpec spec = test_job(folder.path(), "tiny-bn");
  spec.workers = {1, 1, 1};
  spec.train.epochs = 4;
  spec.numerics.dtype = base::DType::f16;
  spec.numerics.loss_scale = 262'144.0;
  return spec;
}

class LastScore final : public JobObserver {
 public:
  void progress(const control::StepProgress&) override {}
  void scored(const control::EpochScore& score) override { accuracy = score.accuracy(); }
  void checkpointed(std::uint64_t, const std::string&) override {}
  double accuracy = 0.0;
};

TEST_CASE("a job in f16 learns under a scale that falls to what it can bear", "[loss_scale]") {
  const TestFolder folder("f16-learns");
  const schemas::JobSpec spec = f16_job(folder);
  base::SteadyClock clock;
  LastScore seen;
  const auto job = open_job(spec, tests::test_operators()).value();
  REQUIRE(run_local(job, tests::test_operators(), clock, seen).ok());
  CHECK(seen.accuracy > 0.8);
  const auto checkpoint = store::Checkpoint::open_newest(spec.checkpoint.dir).value();
  const auto bytes = checkpoint->dense(job->keys.keys.back(), "").value();
  const base::Buffer values = base::make_host_buffer(bytes.size());
  std::ranges::copy(bytes, values.as<std::byte>().begin());
  const store::LossScale last = store::read_loss_scale(values);
  CHECK(last.scale < 262'144.0);
  CHECK(last.scale >= 256.0);
  CHECK(last.steps > 0);
}

TEST_CASE("a module in f16 begins with its scale, whatever sets its weights", "[loss_scale]") {
  const TestFolder folder("f16-module");
  const auto job = open_job(f16_job(folder), tests::test_operators()).value();
  tests::TestRuntime test;
  ModuleOptions options;
  options.inputs = job->keys.inputs;
  const auto wide = Module::create(test.runtime, job->network, options).value();
  options.products = base::DType::f16;
  options.loss_scale = job->loss_scale();
  const auto narrow = Module::create(test.runtime, job->network, options).value();
  CHECK(wide->keys().size() + 1 == narrow->keys().size());
  const NDArray scale = narrow->parameter(narrow->keys().back().id);
  const std::vector<float> first = {262'144.0F, 0.0F};
  CHECK(scale.to_vector<float>().value() == first);
  REQUIRE(narrow->init_params({{wide->keys()[0].name, wide->parameter(0)}}).ok());
  REQUIRE(narrow->init_params(schemas::InitializerSpec{}).ok());
  CHECK(scale.to_vector<float>().value() == first);
  CHECK(wide->init_params({{"loss_scale", scale}}).ok());
  options.loss_scale->first = 3.0;
  CHECK_FALSE(Module::create(test.runtime, job->network, options).ok());
}

}  // namespace
}  // namespace troupe::train
