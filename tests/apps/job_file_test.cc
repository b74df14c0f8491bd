// SPDX-License-Identifier: Apache-2.0
// Job files: the examples, every kind of error at its place, overrides, paths.
#include "apps/job_file.h"

#include <rapidcheck.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "schemas/codec.h"
#include "symbol/kernel_choices.h"
#include "tests/apps/small_job.h"
#include "tests/support/catch.h"
#include "tests/support/test_folder.h"

namespace troupe::apps {
namespace {

using Catch::Contains;

const std::string kExample = std::string(TROUPE_SOURCE_DIR) + "/examples/fashion-lenet.toml";

TEST_CASE("the example says what it says", "[job_file]") {
  const JobFile job = read_job_file(kExample, {});
  REQUIRE(lines_of(job.errors) == Lines{});
  const schemas::JobSpec& spec = job.spec;
  CHECK(spec.name == "fashion-lenet");
  CHECK(spec.seed == 7);
  CHECK(spec.model.network == "lenet");
  CHECK(spec.data.mean == std::vector<float>{0.286F});
  CHECK(spec.data.batch == 32);
  CHECK(spec.train.epochs == 5);
  CHECK(spec.train.optimizer.lr == 0.05);
  CHECK(spec.train.optimizer.wd == 1e-4);
  CHECK(spec.train.schedule.kind == schemas::ScheduleKind::cosine);
  CHECK(spec.ranks() == 2);
  CHECK(spec.shards() == 2);
  CHECK(spec.checkpoint.every == schemas::Period{500, schemas::Period::Unit::steps});
  CHECK(spec.checkpoint.resume);
  CHECK(spec.limits == base::Limits());
}

TEST_CASE("training images are augmented where the job says so", "[job_file]") {
  CHECK(parse("").spec.data.augment == schemas::AugmentSpec{});
  const JobFile job = parse("[data.augment]\ncrop_padding = 4\nmirror = true\n");
  CHECK(lines_of(job.errors) == Lines{});
  CHECK(job.spec.data.augment == schemas::AugmentSpec{4, true});
  CHECK(parse("", {"data.augment.mirror=true"}).spec.data.augment.mirror);
}

TEST_CASE("workers are on CPUs or on GPUs with enough memory", "[job_file]") {
  using schemas::WorkerDevice;
  using schemas::WorkersSpec;
  const auto workers = [](const std::string& lines, const Lines& overrides = {}) {
    const JobFile job = parse("[workers]\n" + lines, overrides);
    CHECK(lines_of(job.errors) == Lines{});
    return job.spec.workers;
  };
  CHECK(workers("") == WorkersSpec{1, 1, 1, WorkerDevice::cpu, 0});
  CHECK(workers("devices = 3") == WorkersSpec{1, 3, 1, WorkerDevice::cpu, 0});
  CHECK(workers("devices = \"cpu:3\"") == WorkersSpec{1, 3, 1, WorkerDevice::cpu, 0});
  CHECK(workers("devices = \"gpu\"") == WorkersSpec{1, 1, 1, WorkerDevice::gpu, 0});
  CHECK(workers("machines = 2\ndevices = \"gpu:4\"\nmemory = \"40g\"") ==
        WorkersSpec{2, 4, 1, WorkerDevice::gpu, std::uint64_t{40} << 30});
  CHECK(workers("", {"workers.devices=gpu:2", "workers.memory=1024"}) ==
        WorkersSpec{1, 2, 1, WorkerDevice::gpu, 1'024});
  CHECK(workers("devices = \"gpu:2\"", {"workers.devices=4"}).device == WorkerDevice::cpu);
  CHECK(workers("devices = 2\nmemory = 0").memory == 0);
  CHECK(workers("gpu_graphs = false").gpu_sums);
  CHECK_FALSE(workers("gpu_graphs = false").gpu_graphs);
  CHECK_FALSE(workers("", {"workers.gpu_sums=false"}).gpu_sums);
}

TEST_CASE("convolutions take Winograd's form unless the job says otherwise", "[job_file]") {
  CHECK(parse("").spec.numerics.winograd);
  CHECK_FALSE(parse("[numerics]\nwinograd = false\n").spec.numerics.winograd);
}

TEST_CASE("f32 on GPUs is computed without TF32 unless the job says otherwise", "[job_file]") {
  CHECK_FALSE(parse("").spec.numerics.tf32);
  CHECK(parse("[numerics]\ntf32 = true\n").spec.numerics.tf32);
}

TEST_CASE("a path ends where its text does, and a clip that is nothing in f32 is none",
          "[job_file]") {
  const auto errors = [](std::string_view more) { return lines_of(parse(more).errors); };
  CHECK(errors("[checkpoint]\ndir = \"a\\u0000b\"\n") ==
        Lines{"job.toml:7:7: error: checkpoint.dir: has a NUL character"});
  CHECK(errors("[train.optimizer]\nclip_gradient = 1e-320\n").size() == 1);
  CHECK(errors("[train.optimizer]\nclip_gradient = 1e-30\n") == Lines{});
  CHECK(errors("[train.optimizer]\nclip_gradient = 0\n") == Lines{});
}

TEST_CASE("what travels keeps its dtype unless the job says otherwise", "[job_file]") {
  using schemas::WireType;
  CHECK(parse("").spec.numerics.gradient_wire == WireType::same);
  const JobFile job = parse("[numerics]\ngradient_wire = \"bf16\"\nweight_wire = \"f16\"\n");
  CHECK(lines_of(job.errors) == Lines{});
  CHECK(job.spec.numerics.gradient_wire == WireType::bf16);
  CHECK(job.spec.numerics.weight_wire == WireType::f16);
  CHECK_FALSE(parse("[numerics]\nweight_wire = \"f32\"\n").errors.empty());
}

TEST_CASE("a loss scale belongs to f16", "[job_file]") {
  CHECK(parse("").spec.numerics.loss_scale == 1024.0);
  const JobFile job =
      parse("[numerics]\ndtype = \"f16\"\nloss_scale = 256.0\nloss_scale_steps = 7\n");
  CHECK(lines_of(job.errors) == Lines{});
  CHECK(job.spec.numerics.dtype == base::DType::f16);
  CHECK(job.spec.numerics.loss_scale == 256.0);
  CHECK(job.spec.numerics.loss_scale_steps == 7);
  CHECK_FALSE(parse("[numerics]\nloss_scale = 256.0\n").errors.empty());
  CHECK_FALSE(parse("[numerics]\ndtype = \"bf16\"\nloss_scale_steps = 7\n").errors.empty());
  CHECK_FALSE(parse("[numerics]\ndtype = \"f16\"\nloss_scale = 0.5\n").errors.empty());
  CHECK(parse("[train.optimizer]\nclip_norm = 1.5\n").spec.train.optimizer.clip_norm == 1.5);
  for (const char* bad : {"-1.0", "inf", "1e-38"}) {
    CHECK(parse(std::string("[train.optimizer]\nclip_norm = ") + bad + "\n").errors.size() == 1);
  }
  CHECK_FALSE(parse("[numerics]\ndtype = \"f16\"\nloss_scale = 1000.0\n").errors.empty());
  CHECK_FALSE(
      parse("[numerics]\ndtype = \"f16\"\n[consistency]\ncluster = \"eventual\"\n").errors.empty());
}

TEST_CASE("a job says what training recomputes, or how much it may keep", "[job_file]") {
  using schemas::MemorySpec;
  using schemas::Recompute;
  CHECK(parse("").spec.memory == MemorySpec{Recompute::automatic, 0, 0, 0});
  const auto memory = [](const char* text) {
    return parse(std::string("[memory]\n") + text).spec.memory;
  };
  CHECK(memory("recompute = \"none\"") == MemorySpec{Recompute::none, 0, 0, 0});
  CHECK(memory("recompute = \"sqrt\"") == MemorySpec{Recompute::sqrt, 0, 0, 0});
  CHECK(memory("budget = \"4g\"").budget == std::uint64_t{4} << 30);
  CHECK(memory("budget = 1000").budget == 1000);
  CHECK(memory("sub_batch = 8").sub_batch == 8);
  CHECK(memory("recompute = \"auto\"").recompute == Recompute::automatic);
  CHECK(memory("device_limit = \"40g\"").device_limit == std::uint64_t{40} << 30);
}

TEST_CASE("every example is a valid job", "[job_file]") {
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(TROUPE_SOURCE_DIR) + "/examples")) {
    if (entry.path().extension() != ".toml") continue;
    INFO(entry.path());
    CHECK(lines_of(read_job_file(entry.path().string(), {}).errors) == Lines{});
  }
}

TEST_CASE("the documentation's job has every key that it shows, at its default", "[job_file]") {
  std::ifstream in(std::string(TROUPE_SOURCE_DIR) + "/docs/job-file.md");
  const std::string page((std::istreambuf_iterator<char>(in)), {});
  const std::size_t begin = page.find("```toml\n") + 8, end = page.find("```\n", begin);
  REQUIRE(end != std::string::npos);
  std::string text = page.substr(begin, end - begin);
  const JobFile shown = parse_job("docs/job-file.md", text, {});
  REQUIRE(lines_of(shown.errors) == Lines{});
  // What is commented out is a key too.
  for (std::size_t place = 0; (place = text.find("\n# ", place)) != std::string::npos;) {
    text.replace(place, 3, 1, '\n');
  }
  CHECK(lines_of(parse_job("docs/job-file.md", text, {}).errors) == Lines{});
  schemas::JobSpec plain = parse("[checkpoint]\ndir = \"out\"").spec;
  plain.name = shown.spec.name;
  plain.seed = shown.spec.seed;
  plain.data.train = shown.spec.data.train;
  plain.data.test = shown.spec.data.test;
  plain.data.mean = shown.spec.data.mean;
  plain.data.std = shown.spec.data.std;
  plain.checkpoint.every = shown.spec.checkpoint.every;
  plain.train.initializer = shown.spec.train.initializer;
  CHECK(plain == shown.spec);
}

TEST_CASE("the documentation names every key that a job may have", "[job_file]") {
  std::ifstream in(std::string(TROUPE_SOURCE_DIR) + "/docs/job-file.md");
  const std::string page((std::istreambuf_iterator<char>(in)), {});
  const std::size_t begin = page.find("```toml\n") + 7, end = page.find("```\n", begin);
  const std::string text = page.substr(begin, end - begin);
  const JobFile job = parse("[[train.keys]]\nmatch = \"*\"");
  REQUIRE(job.keys.size() > 50);
  std::size_t looked_for = 0;
  for (const std::string& key : job.keys) {
    const std::size_t dot = key.find('.');
    // base/limits.h names the limits, and a table is named by what stands in it.
    const bool table = std::any_of(job.keys.begin(), job.keys.end(), [&key](const auto& other) {
      return other.starts_with(key + ".");
    });
    if (key.starts_with("limits") || table || key == "train.keys") continue;
    // Where the key's section begins and ends.
    std::size_t from = 0, to = text.find("\n[");
    if (dot != std::string::npos) {
      from = text.find("\n[" + key.substr(0, dot) + "]");
      REQUIRE(from != std::string::npos);
      to = text.find("\n[", from + 1);
    }
    const std::string section = text.substr(from, to - from);
    const std::string name = key.substr(key.rfind('.') + 1) + " = ";
    INFO(key);
    bool named = false;
    for (std::size_t at = 0; (at = section.find(name, at)) != std::string::npos; ++at) {
      named = named || at == 0 || std::string(" {\n").find(section[at - 1]) != std::string::npos;
    }
    CHECK(named);
    ++looked_for;
  }
  CHECK(looked_for > 50);
}

TEST_CASE("all errors come at once, in order, with their places", "[job_file]") {
  const JobFile job = parse_job("job.toml",
                                "name = \"x\"\n"
                                "workers    = { cuont = 2 }\n"
                                "nmae = 3\n"
                                "[model]\n"
                                "network = \"lenet\"\n"
                                "[data]\n"
                                "batch = \"12B\"\n"
                                "[consistency]\n"
                                "device = \"sequental\"\n",
                                {"train.lr=1", "data.batch"});
  CHECK(lines_of(job.errors) ==
        Lines{"job.toml:2:16: error: workers.cuont: unknown key",
              "job.toml:3:1: error: nmae: unknown key; did you mean 'name'?",
              "job.toml:6:1: error: data.train: missing; expected the path of a .rec file",
              "job.toml:7:9: error: data.batch: expected integer >= 1, got \"12B\"",
              "job.toml:9:10: error: consistency.device: expected \"sequential\" or \"eventual\", "
              "got \"sequental\"; did you mean 'sequential'?",
              "--set data.batch: error: expected section.key=value",
              "--set train.lr=1: error: train.lr: unknown key; did you mean "
              "'train.optimizer.lr'?"});
}

TEST_CASE("bad values are refused one by one", "[job_file]") {
  const auto [toml, error] = GENERATE(table<std::string, std::string>({
      {"mean = 0.286", "got 0.286"},
      {"batch = 0", ":6:9: error: data.batch: expected integer >= 1, got 0"},
      {"batch = -3", "data.batch: expected integer >= 1, got -3"},
      {"batch = 99999999999", "data.batch: expected integer from 1 to 2147483647"},
      {"std = [0.0]", "data.std: expected numbers from 1e-30 to 1e+30, got [ 0.0 ]"},
      {"mean = [1, 2]\nstd = [1]", "data.std: 1 channel here but 2 in data.mean"},
      {"mean = [\"x\"]", "data.mean: expected an array of numbers"},
      {"on_bad_record = \"ignore\"", "expected \"fail\" or \"skip\", got \"ignore\""},
      {"[train]\nepochs = 1.5", "train.epochs: expected integer >= 1, got 1.5"},
      {"[train]\noptimizer = \"sgd\"", "train.optimizer: expected a table, got \"sgd\""},
      {"[train]\noptimizer = {name = \"adma\"}", "gives any other), got \"adma\""},
      {"[train]\noptimizer = {lr = 0}", "train.optimizer.lr: expected number > 0, got 0"},
      {"[train]\noptimizer = {lr = nan}", "train.optimizer.lr: expected number > 0"},
      {"[train]\noptimizer = {name = \"sgd\", symbol = \"u.json\"}", "either name or symbol"},
      {"[train]\nschedule = {name = \"cosine\", warmup = \"2 epochs\"}", "no epoch is left"},
      {"[train]\nlog_every = 50", "a period like \"500 steps\" or \"2 epochs\", got 50"},
      {"[train]\nlog_every = \"\"", "train.log_every: expected a period"},
      {"[limits]\nping_ms = \"\"", "limits.ping_ms: "},
      {"[train]\nlog_every = \"1.5 steps\"", "train.log_every: expected a period"},
      {"[train]\nlog_every = \"5 minutes\"", "train.log_every: expected a period"},
      {"[train]\nscore_every = \"5 steps\"", "train.score_every: expected a period of whole"},
      {"[train]\nhold = \"scraped\"", "expected \"none\" or \"until-scraped\""},
      {"[data.augment]\ncrop_padding = -1", "data.augment.crop_padding: expected integer from 0"},
      {"[data.augment]\nmirror = 1", "data.augment.mirror: expected"},
      {"[data.augment]\nmirrored = true", "unknown key; did you mean 'mirror'?"},
      {"[train]\noptimizer = {decay = \"bias\"}", "expected \"all\" or \"weights\""},
      {"[train]\nkeys = \"conv\"", "train.keys: expected an array of tables, got \"conv\""},
      {"[train]\nkeys = [1]", "train.keys: expected an array of tables, got [ 1 ]"},
      {"[[train.keys]]\nlr_mult = 0", "train.keys[0].match: missing; expected the name of a"},
      {"[[train.keys]]\nmatch = \"a\"\n[[train.keys]]\nmatch = \"b\"\nlr = 0",
       "job.toml:10:1: error: train.keys[1].lr: unknown key"},
      {"[[train.keys]]\nmatch = \"a\"\nwd_mult = inf", "train.keys[0].wd_mult: expected number"},
      {"[workers]\nmachines = 60000\ndevices = 2", "machines x devices = 120000"},
      {"[checkpoint]\nevery = \"5 steps\"", "checkpoint.every: needs checkpoint.dir"},
      {"[consistency]\ncluster = {mode = \"eventual\", max_stale = 1}",
       "consistency.cluster.max_stale: unknown key; did you mean 'max_staleness'?"},
      {"[consistency]\ncluster = {max_staleness = 1}", "only with mode = \"eventual\""},
      {"[consistency]\ncluster = 3", "\"sequential\", \"eventual\" or a table, got 3"},
      {"[numerics]\ntf32 = true\ndtype = \"bf16\"", "numerics.tf32: needs dtype = \"f32\""},
      {"[numerics]\nisa = \"sse\"", "expected \"native\", \"avx2\" or \"avx512\""},
      {"[memory]\nbudget = \"4 boxes\"", "memory.budget: "},
      {"[memory]\nrecompute = \"all\"", "expected \"none\", \"cheap\", \"sqrt\" or \"auto\""},
      {"[memory]\nrecompute = \"cheap\"\nbudget = 5",
       "memory.recompute: a budget decides what is recomputed"},
      {"[memory]\nsub_batch = -1", "memory.sub_batch: expected integer >= 0, got -1"},
      {"[limits]\nping_ms = 0", "limits.ping_ms: expected integer >= 1, got 0"},
      {"[limits]\nping_ms = \"0s\"", "limits.ping_ms: expected more than 0, got \"0s\""},
      {"[limits]\nsilence_dead_ms = 3",  // meant as seconds
       "limits.silence_dead_ms: expected integer >= 100, got 3"},
      {"[limits]\nsilence_dead_ms = \"3ms\"",
       "limits.silence_dead_ms: expected 100 to 1099511627776 ms, got \"3ms\""},
      {"[limits]\nstall_ms = 9223372036854775807",
       "limits.stall_ms: expected integer from 100 to 1099511627776, got 9223372036854775807"},
      {"[limits]\ndata_connections = 64",
       "limits.data_connections: expected integer from 1 to 63, got 64"},
      {"[limits]\npayload_bytes_max = \"512k\"",
       "limits.payload_bytes_max: expected 1048576 to 1073741824 bytes, got \"512k\""},
      {"[workers]\nmachines = 1025\n[consistency]\ncluster = \"eventual\"",
       "consistency.cluster: an eventual tier serves 1024 ranks at most, the job has 1025"},
      {"[limits]\nping_ms = \"5 parsec\"", "'5 parsec' is no duration"},
      {"[limits]\njobs_max = \"5\"", "limits.jobs_max: expected integer >= 1, got \"5\""},
      {"[model2]", "error: model2: unknown key; did you mean 'model'?"},
  }));
  CHECK_THAT(only_error(toml), Contains(error));
}

TEST_CASE("numbers that f32 cannot hold are refused", "[job_file]") {
  const auto [toml, error] = GENERATE(table<std::string, std::string>({
      {"std = [1e-60]", "data.std: expected numbers from 1e-30 to 1e+30"},
      {"mean = [1e39]", "data.mean: expected numbers from -1e+30 to 1e+30, got"},
      {"[train]\noptimizer = {lr = 1e39}", "lr: expected number > 0 and <= 1e+38, got 1e+39"},
      {"[train]\ninitializer = {name = \"constant\", scale = -1e39}",
       "scale: expected number >= -1e+38, got -1e+39"},
  }));
  CHECK_THAT(only_error(toml), Contains(error));
}

TEST_CASE("a key that stands in the wrong table gets a hint", "[job_file]") {
  const auto [toml, error] = GENERATE(table<std::string, std::string>({
      {"[optimizer]\nlr = 1", "optimizer: unknown key; did you mean 'train.optimizer'?"},
      {"[train]\nseed = 1", "train.seed: unknown key; did you mean 'seed'?"},
      {"[train]\nbatch = 1", "train.batch: unknown key; did you mean 'data.batch'?"},
      {"[workers]\ndir = \"x\"", "workers.dir: unknown key; did you mean 'checkpoint.dir'?"},
  }));
  CHECK_THAT(only_error(toml), Contains(error));
}

TEST_CASE("devices that workers cannot have are refused one by one", "[job_file]") {
  const auto [lines, error] = GENERATE(table<std::string, std::string>({
      {"machines = 60000\ndevices = \"gpu:2\"", "machines x devices = 120000"},
      {"devices = \"gpu:0\"",
       "workers.devices: expected a number, \"cpu:N\", \"gpu\" or \"gpu:N\" with N from 1 to "
       "65536, got"},
      {"devices = \"gpu:65537\"", "workers.devices: expected a number, "},
      {"devices = \"gpu:all\"", "workers.devices: expected a number, "},
      {"devices = \"gpu:\"", "workers.devices: expected a number, "},
      {"devices = \"cpu\"", "workers.devices: expected a number, "},
      {"devices = \"tpu:2\"\nmemory = \"4g\"", "workers.devices: expected a number, "},
      {"devices = \"\"", "workers.devices: expected a number, "},
      {"devices = 2\nmemory = \"40g\"",
       "workers.memory: is of GPUs; workers.devices = \"gpu:N\" asks for them"},
      {"devices = \"gpu\"\nmemory = \"much\"", "workers.memory: "},
  }));
  CHECK_THAT(only_error("[workers]\n" + lines), Contains(error));
}

TEST_CASE("a job needs exactly one model, a name and data", "[job_file]") {
  const JobFile empty = parse_job("job.toml", "", {});
  CHECK(empty.errors.size() == 3);
  const JobFile both = parse("", {"model.symbol=a.json"});
  REQUIRE(both.errors.size() == 1);
  CHECK_THAT(both.errors[0].to_string(), Contains("exactly one of"));
  CHECK(lines_of(parse("", {"model.network=lenett"}).errors) ==
        Lines{"--set model.network=lenett: error: model.network: expected \"mlp\", \"lenet\", "
              "\"tiny-bn\", \"resnet20\", \"resnet56\", \"resnet110\", \"wide-resnet10-2\", "
              "\"wide-resnet10-4\", \"wide-resnet16-4\", \"wide-resnet28-10\", \"alexnet\", "
              "\"overfeat\", \"vgg-a\", \"vgg16\", \"vgg19\", "
              "\"googlenet\", \"inception-bn\", \"resnet18\", \"resnet34\", \"resnet50\", "
              "\"resnet101\", \"resnet152\", \"resnet200\", \"resnet50-v1.5\", "
              "\"resnet101-v1.5\", \"resnet152-v1.5\", \"resnet18-v2\", \"resnet34-v2\", "
              "\"resnet50-v2\", \"resnet101-v2\", \"resnet152-v2\", \"resnet200-v2\" or "
              "\"mobilenet-v2\", got \"lenett\"; did you mean 'lenet'?"});
  CHECK_THAT(parse("", {"name=../../etc"}).errors.at(0).to_string(), Contains("1 to 64 letters"));
}

TEST_CASE("malformed TOML is one error with its place", "[job_file]") {
  const JobFile job = parse_job("job.toml", "name = \"x\"\nseed = = 3\n", {"seed=1"});
  REQUIRE(job.errors.size() == 1);
  CHECK_THAT(job.errors[0].to_string(), Catch::Matchers::StartsWith("job.toml:2:8: error: "));
  // What the parser says is said to its end.
  const JobFile control = parse_job("job.toml", "name = \"a\x01\"\n", {});
  REQUIRE(control.errors.size() == 1);
  CHECK_THAT(control.errors[0].to_string(), Contains("control character") && !Contains("..."));
}

TEST_CASE("many dots are refused in keys, not in numbers and comments", "[job_file]") {
  const auto repeated = [](const std::string& text, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) all += text;
    return all;
  };
  const auto refused = [](const std::string& text) {
    const JobFile job = parse_job("job.toml", text, {});
    return !job.errors.empty() &&
           job.errors[0].to_string().find("more than 64 dots in a line") != std::string::npos;
  };
  CHECK_FALSE(refused("# " + repeated(".", 200)));
  CHECK_FALSE(refused("[data]\nmean = [" + repeated("0.5, ", 200) + "1e-1.0]"));
  for (const char* const part : {"a.", "1.", "a . ", "1 .", "1.1 . ", "\"1\".", "'.'.", "1.1.a.",
                                 "1.1a", "1.1a1.", "1.1\" \"."}) {
    INFO(part);
    CHECK(refused(repeated(part, 200) + "a = 1"));
    CHECK(refused("x = {" + repeated(part, 200) + "a = 1}"));
    CHECK(refused("[" + repeated(part, 200) + "a]"));
  }
  CHECK(refused("# \"\"\", " + repeated("a.", 200) + "a = 1"));
}

TEST_CASE("an empty array of rules is none", "[job_file]") {
  for (const ConfigError& error : parse("[train]\nkeys = []").errors) {
    CHECK_THAT(error.to_string(), !Contains("train.keys"));
  }
}

TEST_CASE("'..' behind a symbolic link is the parent of where the link leads", "[job_file]") {
  const TestFolder folder("job-file-links");
  const std::filesystem::path real = folder.path() / "real" / "images";
  std::filesystem::create_directories(real);
  std::filesystem::create_directory_symlink(real, folder.path() / "current");
  const auto trained = [&](const std::string& path) {
    schemas::JobSpec spec = read_job_file(kExample, {}).spec;
    spec.data.train = (folder.path() / path).string();
    const base::Status prepared = prepare_submission(spec);
    INFO(prepared.text());
    CHECK(prepared.ok());
    return spec.data.train;
  };
  CHECK(trained("current/../train.rec") ==
        std::filesystem::canonical(folder.path() / "real") / "train.rec");
  CHECK(trained("current/./train.rec") == (folder.path() / "current" / "train.rec").string());
  // A link behind it stays what it is.
  CHECK(trained("real/../current/train.rec") ==
        std::filesystem::canonical(folder.path()) / "current" / "train.rec");
}

TEST_CASE("overrides win over the file and over earlier ones", "[job_file]") {
  const JobFile job =
      read_job_file(kExample, {"data.batch=64", "data.batch=128", "train.optimizer.lr=1e-3",
                               "model.input=[1,28,28]", "consistency.cluster.mode=eventual",
                               "consistency.cluster.max_staleness=4", "name=renamed",
                               "checkpoint.every=2 epochs", "limits.ping_ms=100ms",
                               "train.schedule={name = \"constant\", warmup = \"9 steps\"}"});
  REQUIRE(lines_of(job.errors) == Lines{});
  CHECK(job.spec.data.batch == 128);
  CHECK(job.spec.train.optimizer.lr == 1e-3);
  CHECK(job.spec.train.optimizer.momentum == 0.9);
  CHECK(job.spec.model.input == std::vector<std::int64_t>{1, 28, 28});
  CHECK(job.spec.consistency.cluster.mode == schemas::ConsistencyMode::eventual);
  CHECK(job.spec.consistency.cluster.max_staleness == 4);
  CHECK(job.spec.name == "renamed");
  CHECK(job.spec.checkpoint.every == schemas::Period{2, schemas::Period::Unit::epochs});
  CHECK(job.spec.limits.ping_ms == 100);
  CHECK(job.spec.train.schedule.warmup.count == 9);
}

TEST_CASE("rules for parameters are read in their order", "[job_file]") {
  const std::vector<schemas::KeyRule> both = {{"conv*", 0.0, {}}, {"*_bias", -1.0, 0.5}};
  const JobFile job = parse(
      "[[train.keys]]\nmatch = \"conv*\"\nlr_mult = 0\n"
      "[[train.keys]]\nmatch = \"*_bias\"\nlr_mult = -1.0\nwd_mult = 0.5\n");
  REQUIRE(lines_of(job.errors) == Lines{});
  CHECK(job.spec.train.keys == both);
  const JobFile set = parse("", {"train.keys=[{match=\"conv*\", lr_mult=0}]"});
  REQUIRE(lines_of(set.errors) == Lines{});
  CHECK(set.spec.train.keys == std::vector<schemas::KeyRule>{{"conv*", 0.0, {}}});
}

TEST_CASE("an empty path leaves out what may be left out", "[job_file]") {
  const JobFile job = read_job_file(kExample, {"data.test=", "checkpoint.dir=\"\"",
                                               "checkpoint.every=0 steps", "train.weights="});
  REQUIRE(lines_of(job.errors) == Lines{});
  CHECK(job.spec.data.test.empty());
  CHECK(job.spec.checkpoint.dir.empty());
  CHECK(lines_of(parse("", {"data.train="}).errors) ==
        Lines{"--set data.train=: error: data.train: expected text, got \"\""});
}

TEST_CASE("wrong overrides name themselves", "[job_file]") {
  CHECK(lines_of(parse("", {"data.batch=12B"}).errors) ==
        Lines{"--set data.batch=12B: error: data.batch: expected integer >= 1, got \"12B\""});
  CHECK(lines_of(parse("", {"checkpoint.every="}).errors) ==
        Lines{"--set checkpoint.every=: error: checkpoint.every: expected a period like \"500 "
              "steps\" or \"2 epochs\", got \"\""});
  CHECK(lines_of(parse("", {"workers.thraeds=2"}).errors) ==
        Lines{"--set workers.thraeds=2: error: workers.thraeds: unknown key; did you mean "
              "'threads'?"});
  CHECK(lines_of(parse("", {"modle.x=2"}).errors) ==
        Lines{"--set modle.x=2: error: modle.x: unknown key; did you mean 'model'?"});
  CHECK(lines_of(parse("", {"data.batch.x=2"}).errors) ==
        Lines{"--set data.batch.x=2: error: data.batch.x: unknown key"});
  CHECK(
      lines_of(parse("", {"model.dropout=0.3"}).errors) ==
      Lines{"--set model.dropout=0.3: error: model.dropout: network 'lenet' has no dropout, so it "
            "cannot be 0.3"});
  CHECK(lines_of(parse("", {"seed=18446744073709551615"}).errors) ==
        Lines{"--set seed=18446744073709551615: error: seed: expected integer from 0 to "
              "9223372036854775807, got \"18446744073709551615\""});
  CHECK(parse("", {"name=20261128123456789012"}).spec.name == "20261128123456789012");
  CHECK(parse("", {"seed=9223372036854775807"}).spec.seed == 9223372036854775807U);
  CHECK(lines_of(parse("", {"=2"}).errors) == Lines{"--set =2: error: expected section.key=value"});
  CHECK_THAT(parse("", {"name=a\nb"}).errors.at(0).to_string(), Contains("--set name=a b"));
}

TEST_CASE("files that a job names are regular ones, and nobody waits for another", "[job_file]") {
  const TestFolder folder("job-file-kinds");
  const std::string pipe = (folder.path() / "pipe").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THAT(parse("", {"limits=" + pipe}).errors.at(0).to_string(), Contains(pipe + ": "));
  for (const std::string& path : {pipe, std::string("/dev/zero")}) {
    for (const std::string& setting :
         {"model={symbol = '" + path + "'}", "train.optimizer.symbol='" + path + "'",
          "numerics.kernels='" + path + "'"}) {
      JobFile job = parse("", {setting});
      REQUIRE(lines_of(job.errors) == Lines{});
      const base::Status refused = prepare_submission(job.spec);
      INFO(setting);
      CHECK(refused.code() == base::Errc::invalid_argument);
      CHECK_THAT(refused.text(), Contains(path + ": "));
    }
  }
}

TEST_CASE("a job cannot raise what its symbol may have above what can be sent", "[job_file]") {
  const TestFolder folder("job-file-large");
  const auto path = folder.path() / "symbol.json";
  std::ofstream(path) << std::string(schemas::kModelBytesMax, ' ');
  const auto prepared = [&path](const char* limit) {
    JobFile job = parse(std::string("[limits]\njob_file_bytes_max = ") + limit,
                        {"model={symbol = '" + path.string() + "'}"});
    REQUIRE(lines_of(job.errors) == Lines{});
    return prepare_submission(job.spec);
  };
  CHECK(prepared("\"1m\"").code() == base::Errc::resource_exhausted);
  CHECK(prepared("\"64m\"").ok());
  std::ofstream(path, std::ios::app) << ' ';
  CHECK_THAT(prepared("\"64m\"").text(), Contains("symbol.json") && Contains("4194304"));
}

TEST_CASE("a submission has absolute paths and its symbols inside", "[job_file]") {
  const auto path = std::filesystem::temp_directory_path() / "troupe-symbol-test.json";
  std::ofstream(path) << "{}";
  JobFile job =
      parse("[checkpoint]\ndir = \"out/../out\"", {"model={symbol = '" + path.string() + "'}"});
  REQUIRE(lines_of(job.errors) == Lines{});
  REQUIRE(prepare_submission(job.spec).ok());
  CHECK(job.spec.model.symbol_json == "{}");
  CHECK(job.spec.data.train == (std::filesystem::current_path() / "a.rec").string());
  CHECK(job.spec.checkpoint.dir == (std::filesystem::current_path() / "out").string());
  CHECK(job.spec.data.test.empty());
  std::filesystem::remove(path);
  CHECK(prepare_submission(job.spec).code() == base::Errc::not_found);
}

TEST_CASE("a submission has its kernel choices inside, if they are some", "[job_file]") {
  const auto path = std::filesystem::temp_directory_path() / "troupe-kernels-test.json";
  const std::string choices = symbol::KernelChoices{"", "here", {}}.to_json();
  std::ofstream(path) << choices;
  JobFile job = parse("[numerics]\nkernels = '" + path.string() + "'\n");
  REQUIRE(lines_of(job.errors) == Lines{});
  REQUIRE(prepare_submission(job.spec).ok());
  CHECK(job.spec.numerics.kernels == path.string());
  CHECK(job.spec.numerics.kernels_json == choices);
  for (const std::string& text : {std::string(), std::string("{"), std::string(2 << 20, ' ')}) {
    std::ofstream(path) << text;
    CHECK_THAT(prepare_submission(job.spec).text(), Contains(path.string() + ": "));
  }
  std::filesystem::remove(path);
  CHECK(prepare_submission(job.spec).code() == base::Errc::not_found);
  job.spec.numerics.kernels.clear();
  CHECK(prepare_submission(job.spec).ok());
  CHECK(parse("").spec.numerics.kernels.empty());
}

TEST_CASE("no text makes the reader fail in another way than by errors", "[job_file]") {
  std::ifstream in(kExample);
  const std::string example((std::istreambuf_iterator<char>(in)), {});
  rc::check("mutated job files", [&] {
    std::string text = example;
    const int changes = *rc::gen::inRange(1, 8);
    for (int i = 0; i < changes; ++i) {
      const auto place = *rc::gen::inRange<std::size_t>(0, text.size());
      text[place] = *rc::gen::arbitrary<char>();
    }
    const JobFile job = parse_job("job.toml", text, {*rc::gen::arbitrary<std::string>()});
    for (const std::string& line : lines_of(job.errors))
      RC_ASSERT(line.find('\n') == std::string::npos);
  });
}

}  // namespace
}  // namespace troupe::apps
