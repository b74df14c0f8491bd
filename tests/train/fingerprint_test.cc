// SPDX-License-Identifier: Apache-2.0
// The text that checkpoints keep to know their job again: it must not change, or no old checkpoint
// could be resumed.
#include "train/fingerprint.h"

#include <functional>
#include <vector>

#include "tests/support/catch.h"

namespace troupe::train {
namespace {

using schemas::JobSpec;

/// No field that counts has its default.
JobSpec job_of_everything() {
  JobSpec job;
  job.name = "all";
  job.seed = 7;
  job.model = {"lenet", "net.json", "{}", 3, {1, 28, 28}, 0.25, true};
  job.data = {"a.rec",  "b.rec", {0.5F, 0.25F}, {0.125F}, 48, 7, 2, 9, schemas::BadRecord::skip,
              {3, true}};
  job.train.epochs = 11;
  job.train.max_steps = 5;
  job.train.optimizer = {
      "adam", 0.1, 0.9, 1e-4, 2.5, 0.0, "rule.json", "[]", schemas::Decay::weights};
  job.train.keys = {{"conv*", 0.0, {}}, {"fc_bias", {}, 0.5}};
  job.train.schedule = {
      schemas::ScheduleKind::cosine, {3, schemas::Period::Unit::epochs}, 0.001, 1e-5};
  job.train.initializer = {schemas::InitializerKind::msra, 0.3, schemas::FanKind::in,
                           schemas::Distribution::normal};
  job.train.weights = "first.safetensors";
  job.workers = {4, 2, 6};
  job.consistency = {{schemas::ConsistencyMode::eventual, std::nullopt},
                     {schemas::ConsistencyMode::eventual, 3}};
  job.numerics = {schemas::Isa::avx2,
                  schemas::LayoutChoice::dense,
                  true,
                  base::DType::f64,
                  false,
                  false,
                  "kernels.json",
                  "{}",
                  schemas::WireType::bf16,
                  schemas::WireType::f16};
  return job;
}

TEST_CASE("the text of a fingerprint is that of old checkpoints", "[fingerprint]") {
  CHECK(job_fingerprint(job_of_everything()) == R"(seed = 7
model.network = lenet
model.symbol = 44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a
model.classes = 3
model.input = (1, 28, 28)
model.dropout = 0.25
model.bias = true
data.mean = (0.5, 0.25)
data.std = (0.125)
data.batch = 48
data.on_bad_record = skip
data.augment.crop_padding = 3
data.augment.mirror = true
train.epochs = 11
train.optimizer.name = adam
train.optimizer.lr = 0.1
train.optimizer.momentum = 0.9
train.optimizer.wd = 0.0001
train.optimizer.clip_gradient = 2.5
train.optimizer.symbol = 4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945
train.optimizer.decay = weights
train.schedule.name = cosine
train.schedule.warmup = 3
train.schedule.warmup_unit = epochs
train.schedule.warmup_lr = 0.001
train.schedule.final_lr = 1e-05
train.initializer.name = msra
train.initializer.scale = 0.3
train.initializer.fan = in
train.initializer.distribution = normal
train.weights = given
train.keys = conv*: lr_mult 0, wd_mult default
train.keys = fc_bias: lr_mult default, wd_mult 0.5
workers.machines = 4
workers.devices = 2
workers.threads = 6
consistency.device = eventual
consistency.cluster = eventual, at most 3
numerics.isa = avx2
numerics.layout = dense
numerics.reference_only = true
numerics.dtype = f64
numerics.winograd = false
numerics.kernels = 44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a
numerics.gradient_wire = bf16
numerics.weight_wire = f16
)");
}

TEST_CASE("what a job leaves as it was before has no line of its own", "[fingerprint]") {
  const std::string text = job_fingerprint(JobSpec());
  CHECK(text.find("winograd") == std::string::npos);
  CHECK(text.find("tf32") == std::string::npos);
  CHECK(text.find("kernels") == std::string::npos);
  CHECK(text.find("augment") == std::string::npos);
  CHECK(text.find("wire") == std::string::npos);
  CHECK(text.find("clip_norm") == std::string::npos);
  CHECK(text.find("loss_scale") == std::string::npos);
}

TEST_CASE("TF32 belongs to the job", "[fingerprint]") {
  JobSpec job;
  job.numerics.tf32 = true;
  CHECK_THAT(job_fingerprint(job), Catch::Contains("numerics.tf32 = true\n"));
}

TEST_CASE("a loss scale and a cut norm belong to the job", "[fingerprint]") {
  JobSpec job;
  job.train.optimizer.clip_norm = 1.5;
  job.numerics.dtype = base::DType::f16;
  job.numerics.loss_scale = 64.0;
  job.numerics.loss_scale_steps = 9;
  const std::string text = job_fingerprint(job);
  CHECK_THAT(text, Catch::Contains("train.optimizer.clip_norm = 1.5\n"));
  CHECK_THAT(text, Catch::Contains("numerics.loss_scale = 64\n"));
  CHECK_THAT(text, Catch::Contains("numerics.loss_scale_steps = 9\n"));
}

TEST_CASE("the longest record belongs to a job that skips longer ones", "[fingerprint]") {
  JobSpec job;
  job.limits.record_bytes_max = 200;
  CHECK(job_fingerprint(job) == job_fingerprint(JobSpec()));  // it would fail instead
  job.data.on_bad_record = schemas::BadRecord::skip;
  CHECK_THAT(job_fingerprint(job), Catch::Contains("limits.record_bytes_max = 200\n"));
  job.limits = {};
  CHECK_THAT(job_fingerprint(job), !Catch::Contains("limits"));
}

TEST_CASE("a rule that one side has and the other has not is named", "[fingerprint]") {
  JobSpec without = job_of_everything();
  without.train.keys.clear();
  JobSpec with = without;
  with.train.keys = {{"conv*", 0.0, {}}};
  const std::string rule = "'train.keys = conv*: lr_mult 0, wd_mult default'";
  const auto text = [](const JobSpec& there, const JobSpec& here) {
    return check_fingerprint("step-5", job_fingerprint(there), job_fingerprint(here)).text();
  };
  CHECK_THAT(text(without, with), Catch::Contains("there nothing, here " + rule));
  CHECK_THAT(text(with, without), Catch::Contains("there " + rule + ", here nothing"));
  JobSpec more = with;
  more.train.keys.push_back({"fc*", 0.0, {}});
  CHECK_THAT(text(with, more), Catch::Contains("there nothing, here 'train.keys = fc*"));
  CHECK_THAT(text(more, with), Catch::Contains("there 'train.keys = fc*"));
}

TEST_CASE("what no bit depends on is not in a fingerprint", "[fingerprint]") {
  const std::vector<std::function<void(JobSpec&)>> changes = {
      [](JobSpec& job) { job.name = "other"; },
      [](JobSpec& job) { job.reproducible = false; },
      [](JobSpec& job) { job.model.symbol = "elsewhere.json"; },
      [](JobSpec& job) { job.data.train = "moved.rec"; },
      [](JobSpec& job) { job.numerics.kernels = "moved.json"; },
      [](JobSpec& job) { job.data.prefetch_threads = 8; },
      [](JobSpec& job) { job.train.max_steps = 99; },
      [](JobSpec& job) { job.train.hold = schemas::Hold::until_scraped; },
      [](JobSpec& job) { job.workers.device = schemas::WorkerDevice::gpu; },
      [](JobSpec& job) { job.workers.memory = 1 << 30; },
      [](JobSpec& job) { job.workers.gpu_graphs = job.workers.gpu_sums = false; },
      [](JobSpec& job) {
        job.servers = {3, 4};
      },
      [](JobSpec& job) {
        job.checkpoint = {"out", {5, {}}, 1, false, true};
      },
      [](JobSpec& job) { job.limits.ping_ms += 1; },
      [](JobSpec& job) {
        job.memory = {schemas::Recompute::sqrt, 1};
      },
  };
  const std::string text = job_fingerprint(job_of_everything());
  for (const auto& change : changes) {
    JobSpec job = job_of_everything();
    change(job);
    CHECK(job_fingerprint(job) == text);
  }
}

TEST_CASE("where a job's first weights lay does not matter, that it had some does",
          "[fingerprint]") {
  JobSpec job = job_of_everything();
  const std::string here = job_fingerprint(job);
  job.train.weights = "/elsewhere/first.safetensors";
  CHECK(job_fingerprint(job) == here);
  const std::string given = "train.weights = given\n";
  std::string old = here;  // of a program that wrote the path
  old.replace(old.find(given), given.size(), "train.weights = /old/first.safetensors\n");
  CHECK(check_fingerprint("step-5", old, here).ok());
  CHECK(check_fingerprint("step-5", here, old).ok());
  job.train.weights.clear();
  CHECK_THAT(check_fingerprint("step-5", here, job_fingerprint(job)).text(),
             Catch::Contains("there 'train.weights = given', here 'train.weights = '"));
  CHECK_FALSE(check_fingerprint("step-5", job_fingerprint(job), old).ok());
}

TEST_CASE("jobs that differ are told apart by the first line that differs", "[fingerprint]") {
  JobSpec other = job_of_everything();
  other.data.batch = 64;
  other.train.epochs = 12;
  const base::Status status =
      check_fingerprint("step-5", job_fingerprint(other), job_fingerprint(job_of_everything()));
  CHECK(status.code() == base::Errc::failed_precondition);
  CHECK(status.text() ==
        "step-5 is of another job: there 'data.batch = 64', here 'data.batch = 48'; choose another "
        "checkpoint.dir or resume with the job it came from");
}

}  // namespace
}  // namespace troupe::train
