// SPDX-License-Identifier: Apache-2.0
// Whole jobs on the first GPU, whose four workers share it: one hash over the local store, in the
// company, in parts and twice; and what they learn. Not run where there is no GPU.
#include <cmath>

#include "actors/company.h"
#include "gpu/inventory.h"
#include "tests/support/catch.h"
#include "tests/support/job_files.h"
#include "tests/support/whole_job.h"

namespace troupe::actors {
namespace {

constexpr base::Device kFirstGpu{base::DeviceKind::cuda, 0};

/// A job, run on devices in several ways, each with a folder of its own.
class GpuJob {
 public:
  GpuJob(const TestFolder& folder, const std::string& network)
      : spec(train::test_job(folder.path(), network)) {
    spec.train.epochs = 3;
  }
  /// The hash of its last checkpoint in `out`.
  std::string hash(const std::string& out, bool company, const std::vector<base::Device>& devices) {
    CompanyOptions options;
    options.run.devices = devices;
    const tests::JobRun run = [&](const auto& job, const ops::OpTable& table, base::Clock& clock,
                                  train::JobObserver& seen) {
      return company ? run_company(job, table, clock, seen, options)
                     : train::run_local(job, table, clock, seen, options.run);
    };
    tests::JobRecorder seen;
    const std::string made = tests::trained_hash(table_, spec, out, run, &seen);
    if (!seen.scores.empty()) last = seen.scores.back();
    return made;
  }

 private:
  const ops::OpTable table_ = ops::OpTable::build();

 public:
  schemas::JobSpec spec;
  control::EpochScore last;
};

TEST_CASE("four workers on one GPU end in one hash, however they are run", "[gpu][device]") {
  if (!gpu::check_device(kFirstGpu).ok()) {
    WARN("skipped: " << gpu::check_device(kFirstGpu).text());
    return;
  }
  for (const base::DType dtype : {base::DType::f32, base::DType::bf16, base::DType::f16}) {
    const TestFolder folder("gpu-jobs");
    train::write_test_records(folder.path() / "train.rec", 203, 12);
    train::write_test_records(folder.path() / "test.rec", 50, 12);
    GpuJob job(folder, "tiny-bn");
    job.spec.numerics.dtype = dtype;
    job.spec.numerics.loss_scale = 262'144.0;  // of f16; it overflows at first
    const std::vector<base::Device> gpu = {kFirstGpu};
    const std::string whole = job.hash("local", false, gpu);
    const control::EpochScore score = job.last;
    CHECK(job.hash("again", false, gpu) == whole);
    CHECK(job.hash("company", true, gpu) == whole);
    job.spec.workers.gpu_sums = job.spec.workers.gpu_graphs = false;
    CHECK(job.hash("plain", false, gpu) == whole);
    job.spec.workers.gpu_sums = job.spec.workers.gpu_graphs = true;
    job.spec.train.max_steps = 9;
    CHECK(job.hash("parts", true, gpu) != whole);
    job.spec.train.max_steps.reset();
    CHECK(job.hash("parts", false, gpu) == whole);

    job.hash("host", false, {});
    const auto loss = [](const control::EpochScore& of) {
      return of.loss_sum / static_cast<double>(of.samples);
    };
    CHECK(std::abs(loss(score) - loss(job.last)) < 0.05);
    CHECK(score.accuracy() > 0.8);
  }
}

}  // namespace
}  // namespace troupe::actors
