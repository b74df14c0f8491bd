// SPDX-License-Identifier: Apache-2.0
// troupe run and troupe checkpoint, whole: results, hashes equal after a resume, and how bad input
// ends.
#include <chrono>
#include <fstream>
#include <future>
#include <iterator>

#include "apps/program.h"
#include "gpu/inventory.h"
#include "http/server.h"
#include "ops/numerics.h"
#include "symbol/kernel_choices.h"
#include "tests/apps/run_words.h"
#include "tests/support/catch.h"
#include "tests/support/http_client.h"
#include "tests/support/job_files.h"

namespace troupe::apps {
namespace {

using Catch::Contains;
using Catch::Matchers::Matches;
using Catch::Matchers::StartsWith;
using Words = std::vector<std::string>;

/// A small job of 2 x 2 ranks, 2 epochs of 5 steps.
class SmallJob {
 public:
  SmallJob() : folder_("run-test") {
    train::write_test_records(folder_.path() / "train.rec", 160, 8);
    train::write_test_records(folder_.path() / "test.rec", 40, 8);
    std::ofstream(file()) << "name = \"small\"\nseed = 3\n"
                          << "model = { network = \"tiny-bn\", classes = 4 }\n"
                          << "workers = { machines = 2, devices = 2 }\n"
                          << "[data]\ntrain = \"" << path("train.rec") << "\"\ntest = \""
                          << path("test.rec") << "\"\nbatch = 8\n"
                          << "[train]\nepochs = 2\noptimizer = { lr = 0.05, momentum = 0.9 }\n"
                          << "[checkpoint]\nevery = \"4 steps\"\ndir = \"" << path("out") << "\"\n";
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  std::string file() const { return path("job.toml"); }
  Run operator()(const Words& more = {}) const {
    Words words = {"run", file(), "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  std::string hash(const std::string& folder) const {
    return run({"checkpoint", "hash", path(folder)}).out;
  }

 private:
  TestFolder folder_;
};

TEST_CASE("a run ends with its accuracy and a checkpoint whose hash a resume repeats", "[run]") {
  const SmallJob job;
  const Run whole = job();
  INFO(whole.err);
  REQUIRE(whole.code == 0);
  CHECK_THAT(whole.out, Matches("test accuracy [01]\\.[0-9]{4} on 40 images, loss [0-9.]+\n"
                                "checkpoint .*/out/step-10-g1.*\n"));
  CHECK(whole.err.empty());  // it is quiet
  CHECK_THAT(job.hash("out"), Matches("[0-9a-f]{64}\n"));
  CHECK_THAT(run({"checkpoint", "show", job.path("out")}).out,
             Contains("step        10\n") && Contains("conv1_weight (8, 1, 3, 3) f32"));
  for (const char* suffix : {"", ".manifest"}) {
    const std::string older = job.path("out/step-8-g1") + suffix;
    CHECK_THAT(run({"checkpoint", "show", older}).out, Contains("step        8\n"));
    CHECK(run({"checkpoint", "hash", older}).out != job.hash("out"));
  }

  const Words elsewhere = {"--set", "checkpoint.dir=" + job.path("again")};
  Words part = elsewhere;
  part.insert(part.end(), {"--set", "train.max_steps=6"});
  REQUIRE(job(part).code == 0);
  CHECK(job.hash("again") != job.hash("out"));
  REQUIRE(job(elsewhere).code == 0);
  CHECK(job.hash("again") == job.hash("out"));
  const Run nothing = job(elsewhere);
  CHECK(nothing.code == 0);
  CHECK(nothing.err.empty());
  const Run loud = run({"run", job.file(), "--set", "checkpoint.dir=" + job.path("loud")});
  CHECK_THAT(loud.err, StartsWith("job small: 10 steps of 4 ranks, 160 training samples\n"));
  const Run traced = run({"run", job.file(), "--set", "checkpoint.dir=" + job.path("again"),
                          "--trace", job.path("trace.json")});
  CHECK(traced.code == 0);
  CHECK_THAT(traced.err,
             Contains("nothing was trained, so " + job.path("trace.json") + " is not written"));
  CHECK_THAT(nothing.out, Matches("all 10 steps were done before; nothing was trained\n"
                                  "checkpoint .*/again/step-10-g2\n"));
}

TEST_CASE("a run on GPUs needs some, with the memory that it asks for", "[run]") {
  const SmallJob job;
  const Run large = job({"--set", "workers.devices=gpu", "--set", "workers.memory=1000000g"});
  CHECK(large.code == 7);
  if (!gpu::inventory().problem.empty()) {
    const Run none = job({"--set", "workers.devices=gpu"});
    CHECK(none.code == 7);
    for (const Run& refused : {none, large}) {
      CHECK_THAT(refused.err,
                 Contains("workers.devices asks for GPUs") && Contains(gpu::inventory().problem));
    }
  } else {
    CHECK_THAT(large.err, Contains("workers.memory asks for GPUs of"));
  }
  CHECK_FALSE(std::filesystem::exists(job.path("out")));
}

TEST_CASE("a relative path that leads nowhere is shown with the folder of the command", "[run]") {
  const SmallJob job;
  const Run lost = job({"--set", "data.train=no/such.rec"});
  CHECK(lost.code == 5);
  CHECK_THAT(lost.err, Contains((std::filesystem::current_path() / "no/such.rec").string()) &&
                           Contains("made absolute against the folder in which the command ran"));
  const Run absent = job({"--set", "data.train=/no/such.rec"});
  CHECK(absent.code == 5);
  CHECK_THAT(absent.err, !Contains("made absolute"));
}

TEST_CASE("what does not fit ends with 7, and images that differ are found first", "[run]") {
  const SmallJob job;
  for (const Words& store : {Words{}, Words{"--local-store"}}) {
    const auto with = [&](const std::string& setting) {
      Words words = {"--set", setting};
      words.insert(words.end(), store.begin(), store.end());
      return job(words);
    };
    const Run small = with("memory.budget=100");
    CHECK(small.code == 7);
    CHECK_THAT(small.err, Contains("no plan fits into the budget of 100 B"));
    const Run diverged = with("train.optimizer.lr=1e30");
    CHECK(diverged.code == 1);
    CHECK_THAT(diverged.err, Contains("NaN or infinite; a lower train.optimizer.lr may help"));
    std::filesystem::remove_all(job.path("out"));
  }
  // Images of another size are found before anything is trained.
  const SmallJob other;
  train::write_test_records(other.path("other.rec"), 16, 12);
  const Run images = job({"--set", "data.test=" + other.path("other.rec")});
  CHECK(images.code == 3);
  CHECK_THAT(images.err, Contains("data.test: images of") && Contains("1 x 8 x 8"));
}

TEST_CASE("a job without test data trains and scores nothing", "[run]") {
  const SmallJob job;
  const Run result = job({"--set", "data.test=", "--set", "checkpoint.dir=" + job.path("bare")});
  CHECK(result.code == 0);
  CHECK_THAT(result.out, Matches("checkpoint .*/bare/step-10-g1.*\n"));
  REQUIRE(job().code == 0);
  CHECK(job.hash("bare") == job.hash("out"));
  const Run unsaved = job({"--set", "data.test=", "--set", "checkpoint={}"});
  CHECK(unsaved.code == 0);
  CHECK(unsaved.out == "10 steps are done; nothing was saved: checkpoint.dir is not set\n");
}

TEST_CASE("a trace may go beside the checkpoints of a folder that the run makes", "[run]") {
  const SmallJob job;
  REQUIRE(job({"--trace", job.path("out/trace.json")}).code == 0);
  std::ifstream file(job.path("out/trace.json"));
  const std::string trace((std::istreambuf_iterator<char>(file)), {});
  CHECK_THAT(trace, Contains("convolution"));
  const Run shown = run({"trace", job.path("out/trace.json"), "--by", "name", "--top", "0"});
  INFO(shown.out);
  CHECK(shown.code == 0);
  CHECK_THAT(shown.out, Contains("conv1") && Contains("f32(8,1,8,8)") && Contains("rank0/cpu"));
}

TEST_CASE("a job computes with its stored kernels, and so does every resume", "[run]") {
  const SmallJob job;
  const std::string file = job.path("kernels.json");
  REQUIRE(run({"model", "autotune", "tiny-bn", "--classes", "4", "--input", "1,8,8", "--batch", "8",
               "-o", file})
              .code == 0);
  auto choices = symbol::KernelChoices::load(file).value();
  const auto choose = [&](const std::string& op, const std::string& kernel) {
    for (auto& [call, choice] : choices.calls) {
      if (call.starts_with("train " + op + "(")) choice.kernel = kernel;
    }
    std::ofstream(file) << choices.to_json();
  };
  const auto with_kernels = [&](const std::string& out, const Words& more = {}) {
    Words words = {"--set", "numerics.kernels=" + file, "--set", "checkpoint.dir=" + job.path(out)};
    words.insert(words.end(), more.begin(), more.end());
    return job(words);
  };
  choose("convolution", "reference");
  REQUIRE(with_kernels("whole").code == 0);
  REQUIRE(job().code == 0);
  CHECK(job.hash("whole") != job.hash("out"));

  REQUIRE(with_kernels("parts", {"--set", "train.max_steps=6"}).code == 0);
  const Run without = job({"--set", "checkpoint.dir=" + job.path("parts")});
  CHECK(without.code == 6);
  CHECK_THAT(without.err, Contains("there 'numerics.kernels = ") && Contains("', here nothing"));
  REQUIRE(with_kernels("parts").code == 0);
  CHECK(job.hash("parts") == job.hash("whole"));

  choose("convolution", "cudnn");
  const Run unknown = with_kernels("unknown");
  CHECK(unknown.code == 1);
  CHECK_THAT(unknown.err, Contains("[convolution conv1]: " + file + " chooses kernel 'cudnn'"));
  choose("convolution", "onednn");
  // Calls in f64 are other calls.
  CHECK(with_kernels("wide", {"--set", "numerics.dtype=f64"}).code == 0);
  const Run reference = with_kernels("reference", {"--set", "numerics.reference_only=true"});
  CHECK(reference.code == 3);
  CHECK_THAT(reference.err, Contains("reference_only leaves no choice of kernels"));
  std::ofstream(file) << "[]";
  CHECK_THAT(with_kernels("corrupt").err, Contains(file + ": is no file of kernel choices"));
}

TEST_CASE("products in bf16 train as well, to the same bits however the job runs", "[run]") {
  const SmallJob job;
  const auto narrow = [&job](const std::string& folder, const Words& more = {}) {
    Words words = {"--set", "numerics.dtype=bf16", "--set", "checkpoint.dir=" + job.path(folder)};
    words.insert(words.end(), more.begin(), more.end());
    return job(words);
  };
  const Run whole = narrow("whole");
  INFO(whole.err);
  REQUIRE(whole.code == 0);
  CHECK_THAT(whole.err, StartsWith(ops::has_bf16_products()
                                       ? ""
                                       : "--set numerics.dtype=bf16: warning: numerics.dtype: "
                                         "\"bf16\" is slower than \"f32\" on CPUs"));
  CHECK(whole.err.find("warning:") == whole.err.rfind("warning:"));
  REQUIRE(job().code == 0);
  CHECK(job.hash("whole") != job.hash("out"));
  // Weights, states and sums are f32 in every checkpoint.
  CHECK_THAT(run({"checkpoint", "show", job.path("whole")}).out,
             Contains("conv1_weight (8, 1, 3, 3) f32"));
  REQUIRE(narrow("parts", {"--set", "train.max_steps=6"}).code == 0);
  REQUIRE(narrow("parts").code == 0);
  CHECK(job.hash("parts") == job.hash("whole"));
  REQUIRE(narrow("local", {"--local-store"}).code == 0);
  CHECK(job.hash("local") == job.hash("whole"));
  // A run in f32 does not go on from it unasked.
  CHECK(job({"--set", "checkpoint.dir=" + job.path("whole")}).code == 6);
}

TEST_CASE("f16 trains under a loss scale, to the same bits however the job runs", "[run]") {
  const SmallJob job;
  const auto narrow = [&job](const std::string& folder, const Words& more = {}) {
    // So large a scale overflows at once, and falls until the steps count.
    Words words = {"--set", "numerics.dtype=f16", "--set", "numerics.loss_scale=262144",
                   "--set", "servers.shards=2",   "--set", "checkpoint.dir=" + job.path(folder)};
    words.insert(words.end(), more.begin(), more.end());
    return job(words);
  };
  const Run whole = narrow("whole");
  INFO(whole.err);
  REQUIRE(whole.code == 0);
  CHECK_THAT(run({"checkpoint", "show", job.path("whole")}).out, Contains("loss_scale (2,) f32"));
  REQUIRE(narrow("parts", {"--set", "train.max_steps=6"}).code == 0);
  REQUIRE(narrow("parts").code == 0);
  CHECK(job.hash("parts") == job.hash("whole"));
  REQUIRE(narrow("local", {"--local-store"}).code == 0);
  CHECK(job.hash("local") == job.hash("whole"));
}

TEST_CASE("the norm of all gradients is cut alike however the job runs", "[run]") {
  const SmallJob job;
  const auto clipped = [&job](const std::string& folder, const Words& more = {}) {
    Words words = {"--set", "train.optimizer.clip_norm=0.05",    "--set", "servers.shards=3",
                   "--set", "checkpoint.dir=" + job.path(folder)};
    words.insert(words.end(), more.begin(), more.end());
    return job(words);
  };
  REQUIRE(clipped("whole").code == 0);
  REQUIRE(job().code == 0);
  CHECK(job.hash("whole") != job.hash("out"));
  REQUIRE(clipped("local", {"--local-store"}).code == 0);
  CHECK(job.hash("local") == job.hash("whole"));
  REQUIRE(clipped("one", {"--set", "servers.shards=1"}).code == 0);
  CHECK(job.hash("one") == job.hash("whole"));
}

TEST_CASE("what needs whole steps is refused where a tier is eventual", "[run]") {
  const SmallJob job;
  for (const char* option : {"numerics.dtype=f16", "train.optimizer.clip_norm=1"}) {
    const Run refused = job({"--set", option, "--set", "consistency.device=eventual"});
    CHECK(refused.code == 3);
    CHECK_THAT(refused.err, Contains("must be sequential"));
  }
  CHECK(job({"--set", "numerics.dtype=f16", "--set", "numerics.loss_scale=3"}).code == 3);
}

TEST_CASE("jobs that cannot run say why and with which code", "[run]") {
  const SmallJob job;
  const Run missing = job({"--set", "data.train=" + job.path("none.rec")});
  CHECK(missing.code == 5);
  CHECK_THAT(missing.err, StartsWith("error: data.train: ") && Contains("none.rec"));
  const Run untested = job({"--set", "data.test=" + job.path("none.rec")});
  CHECK(untested.code == 5);
  CHECK_THAT(untested.err, StartsWith("error: data.test: ") && Contains("none.rec"));
  const Run unknown = job({"--set", "model.network=lenett"});
  CHECK(unknown.code == 3);
  CHECK_THAT(unknown.err, Contains("did you mean 'lenet'?"));
  const Run small = job({"--set", "model.network=lenet"});
  CHECK(small.code == 3);
  CHECK_THAT(small.err, Contains("convolution"));
  const Run address = job({"--metrics", "nowhere"});
  CHECK(address.code == 2);
  CHECK_THAT(address.err, Contains("'nowhere' is not an address"));
  const Run far = job({"--metrics", "10.1:1"});
  CHECK(far.code == 2);
  CHECK_THAT(far.err, Contains("--metrics: '10.1:1': '10.1' is neither an IP address"));
  const Run keys = job({"--set", "a=1", "--set", "b=2"});
  CHECK(keys.code == 3);
  CHECK_THAT(keys.err, Contains("2 errors; nothing was run\n"));
  std::ofstream(job.path("bad.rec"), std::ios::binary) << "no records in here";
  const Run garbage = job({"--set", "data.train=" + job.path("bad.rec")});
  CHECK(garbage.code == 3);
  CHECK_THAT(garbage.err, Contains("bad.rec"));
  CHECK(run({"checkpoint", "hash", job.path("out")}).code == 5);
  CHECK(run({"checkpoint", "show", job.path("nowhere")}).code == 5);
}

/// The port in a "metrics on http://127.0.0.1:PORT/metrics" line is not known beforehand: takes a
/// free one and gives it back.
std::string free_address() {
  monitoring::Metrics metrics;
  return http::Server::start({"127.0.0.1", 0}, {}, metrics).value()->address().to_string();
}

/// A sample's value in an exposition; -1: it is not there.
double value_of(const std::string& page, const std::string& sample) {
  const std::size_t place = page.find(sample + " ");
  return place == std::string::npos ? -1 : std::stod(page.substr(place + sample.size()));
}

TEST_CASE("a held run ends when its last figures have been read, with either store", "[run]") {
  const SmallJob job;
  const std::string address = free_address();
  const auto more = GENERATE(Words{}, Words{"--local-store"});
  Words words = {"--metrics", address, "--set", "train.hold=until-scraped"};
  words.insert(words.end(), more.begin(), more.end());
  auto running = std::async(std::launch::async, [&] { return job(words); });
  std::string last, page;
  while (running.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready) {
    page = tests::http_get(address, "/metrics");
    // Once the hold has ended the ranks go, one after the other, before the endpoint does.
    const auto shown = [&](const std::string& rank) {
      return page.find("troupe_worker_steps_total{rank=\"" + rank + "\"}") != std::string::npos;
    };
    if (shown("0") && shown("1") && shown("2") && shown("3")) last = page;
  }
  const Run result = running.get();
  INFO(result.err);
  CHECK(result.code == 0);
  for (const char* rank : {"0", "1", "2", "3"}) {
    CHECK_THAT(last,
               Contains(std::string("troupe_worker_steps_total{rank=\"") + rank + "\"} 10\n"));
  }
  CHECK_THAT(last, Contains("troupe_job_step{train_job=\"small\"} 10\n"));
  if (more.empty()) {
    // Two ranks a machine: the upper tier carries half of what the ranks push.
    CHECK(value_of(last, "troupe_kv_bytes_total{level=\"1\",op=\"push\"}") ==
          2 * value_of(last, "troupe_kv_bytes_total{level=\"2\",op=\"push\"}"));
    CHECK(value_of(last, "troupe_kv_bytes_total{level=\"2\",op=\"push\"}") > 0);
    CHECK_THAT(last, Contains("troupe_kv_staleness_steps_bucket{level=\"2\",le=\"0\"} "));
    CHECK(value_of(last, "troupe_kv_version{level=\"2\"}") == 10);
    CHECK(value_of(last, "troupe_kv_round_seconds_count{level=\"2\"}") ==
          value_of(last, "troupe_kv_updates_total{level=\"2\"}"));
    CHECK(value_of(last, "troupe_kv_update_seconds_count{level=\"2\"}") ==
          value_of(last, "troupe_kv_updates_total{level=\"2\"}"));
    CHECK(value_of(last, "troupe_kv_request_seconds_count{level=\"1\",op=\"push\"}") ==
          value_of(last, "troupe_kv_requests_total{level=\"1\",op=\"push\",result=\"taken\"}"));
    CHECK(value_of(last, "troupe_kv_pending_pushes{level=\"1\"}") == 0);
    CHECK_THAT(last, Contains("troupe_engine_threads{engine=\"parameter server 0\""));
  }
}

TEST_CASE("a metrics port in use ends the run before it begins", "[run]") {
  const SmallJob job;
  monitoring::Metrics metrics;
  const auto server = http::Server::start({"127.0.0.1", 0}, {}, metrics);
  REQUIRE(server.ok());
  const Run taken = job({"--metrics", server.value()->address().to_string()});
  CHECK(taken.code == 7);
  CHECK_THAT(taken.err, StartsWith("error: --metrics: ") &&
                            Contains(server.value()->address().to_string()) && Contains("in use"));
}

}  // namespace
}  // namespace troupe::apps
