// SPDX-License-Identifier: Apache-2.0
// Job files that are right and have keys that do nothing, or lose something: warnings.
#include "ops/numerics.h"
#include "tests/apps/small_job.h"
#include "tests/support/catch.h"

namespace troupe::apps {
namespace {

TEST_CASE("what does nothing for workers on CPUs, or slows them down, is a warning", "[job_file]") {
  const auto warnings = [](std::string_view more, Lines overrides = {}) {
    overrides.emplace_back("checkpoint.dir=ckpt");
    const JobFile job = parse(more, overrides);
    CHECK(lines_of(job.errors) == Lines{});
    Lines lines;
    for (const ConfigError& warning : job.warnings) lines.push_back(warning.to_string("warning"));
    return lines;
  };
  constexpr std::string_view kAll = "[memory]\ndevice_limit = \"38g\"\n[numerics]\ntf32 = true\n";
  CHECK(warnings(kAll) ==
        Lines{"job.toml:7:16: warning: memory.device_limit: is of GPUs, and the workers are on "
              "CPUs: it does nothing",
              "job.toml:9:8: warning: numerics.tf32: is of GPUs, and the workers are on CPUs: it "
              "does nothing"});
  CHECK(warnings(kAll, {"workers.devices=gpu:2"}) == Lines{});
  CHECK(warnings(kAll, {"memory.device_limit=0", "numerics.tf32=false"}) == Lines{});
  for (const std::string dtype : {"bf16", "f16"}) {
    const Lines overrides = {"numerics.dtype=" + dtype};
    const std::string where = dtype == "bf16" ? " without AMX or avx512_bf16" : "";
    const Lines slow = {"--set numerics.dtype=" + dtype + ": warning: numerics.dtype: \"" + dtype +
                        "\" is slower than \"f32\" on CPUs" + where +
                        ": kernels convert to f32 and back"};
    const bool fast = dtype == "bf16" && ops::has_bf16_products();
    CHECK(warnings("", overrides) == (fast ? Lines{} : slow));
    CHECK(warnings("[workers]\ndevices = \"gpu\"\n", overrides) == Lines{});
  }
  // Nobody knows where the workers were to be.
  CHECK(parse(kAll, {"workers.devices=gpus:2"}).warnings.empty());
  // The least that each switches off is not there on CPUs.
  CHECK(warnings("[workers]\ngpu_sums = false\ngpu_graphs = false\n") == Lines{});
  CHECK(warnings("[numerics]\ndtype = \"f64\"\ngradient_wire = \"bf16\"\n") == Lines{});
}

TEST_CASE("a job whose weights nobody keeps is warned", "[job_file]") {
  const JobFile job = parse("");
  CHECK(lines_of(job.errors) == Lines{});
  REQUIRE(job.warnings.size() == 1);
  CHECK(
      job.warnings[0].to_string("warning") ==
      "job.toml: warning: checkpoint.dir: is not set: the weights are gone when the job ends, and "
      "it cannot be resumed");
  CHECK(parse("[checkpoint]\ndir = \"ckpt\"\n").warnings.empty());
  CHECK(parse("", {"data.batch=0"}).warnings.empty());
}

TEST_CASE("keys that do nothing where others are as they are", "[job_file]") {
  const auto keys = [](std::string_view more) {
    const JobFile job = parse(more);
    CHECK(lines_of(job.errors) == Lines{});
    Lines found;
    for (const ConfigError& warning : job.warnings) found.push_back(warning.key);
    return found;
  };
  CHECK(keys("test_batch = 8\n[train]\nscore_every = \"2 epochs\"\n"
             "schedule = { final_lr = 0.1, warmup_lr = 0.1 }\n"
             "initializer = { name = \"normal\", fan = \"in\", distribution = \"normal\" }\n"
             "[checkpoint]\nkeep = 3\nresume = false\n[memory]\nsub_batch = 4\n") ==
        Lines{"data.test_batch", "train.score_every", "train.schedule.final_lr",
              "train.schedule.warmup_lr", "train.initializer.fan", "train.initializer.distribution",
              "checkpoint.keep", "checkpoint.resume", "memory.sub_batch", "checkpoint.dir"});
  CHECK(keys("test = \"b.rec\"\ntest_batch = 8\n[train]\nscore_every = \"2 epochs\"\n"
             "schedule = { name = \"cosine\", final_lr = 0.1, warmup_lr = 0.1, "
             "warmup = \"3 steps\" }\n"
             "initializer = { name = \"xavier\", fan = \"in\", distribution = \"normal\" }\n"
             "[checkpoint]\ndir = \"c\"\nkeep = 3\n[memory]\nsub_batch = 4\n") == Lines{});
}

TEST_CASE("numbers of sgd and of built-in networks beside a symbol are warnings", "[job_file]") {
  const JobFile job = parse_job("job.toml",
                                "name = \"a\"\ndata.train = \"t.rec\"\n"
                                "model = { symbol = \"n.json\", classes = 7, dropout = 0.5 }\n"
                                "train.optimizer = { symbol = \"u.json\", lr = 0.1, wd = 0.1 }\n"
                                "checkpoint.dir = \"ckpt\"\n",
                                {});
  CHECK(lines_of(job.errors) == Lines{});
  Lines keys;
  for (const ConfigError& warning : job.warnings) {
    keys.push_back(warning.key);
    CHECK_THAT(warning.text, Catch::Contains("it does nothing"));
  }
  CHECK(keys == Lines{"model.classes", "model.dropout", "train.optimizer.wd"});
}

}  // namespace
}  // namespace troupe::apps
