// SPDX-License-Identifier: Apache-2.0
// Whole jobs over the local store: they learn, and their bits do not depend on what must not
// matter.
#include "train/local_run.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "store/checkpoint.h"
#include "tests/support/catch.h"
#include "tests/support/job_files.h"
#include "tests/support/whole_job.h"

namespace troupe::train {
namespace {

using tests::JobOutcome;

JobOutcome run(const ops::OpTable& table, const schemas::JobSpec& spec,
               const LocalRunOptions& options = {}) {
  return tests::run_job(table, spec, tests::local_run(options));
}

std::string trained_hash(const ops::OpTable& table, const schemas::JobSpec& spec,
                         const std::string& out) {
  return tests::trained_hash(table, spec, out);
}

TEST_CASE("a local job learns, reports, scores and keeps checkpoints", "[local_run]") {
  const TestFolder folder("local-run-learns");
  write_test_records(folder.path() / "train.rec", 203, 12);
  write_test_records(folder.path() / "test.rec", 50, 12);
  const ops::OpTable table = ops::OpTable::build();
  schemas::JobSpec spec = test_job(folder.path(), "tiny-bn");
  spec.train.epochs = 4;
  const JobOutcome outcome = run(table, spec);
  INFO(outcome.status.to_string());
  REQUIRE(outcome.status.ok());
  // 203 records over 4 ranks x 8 samples: 7 steps an epoch.
  REQUIRE(outcome.seen.scores.size() == 4);
  CHECK(outcome.seen.scores.back().samples == 50);
  CHECK(outcome.seen.scores.back().accuracy() > 0.8);
  CHECK(outcome.seen.cuts == std::vector<std::uint64_t>{4, 8, 12, 16, 20, 24, 28});
  CHECK(outcome.seen.steps.back() == 28);
  CHECK(tests::checkpoint_hash(spec).size() == 64);
}

TEST_CASE("prefetch threads, stops and resumes leave no trace in the bits", "[local_run]") {
  const TestFolder folder("local-run-bits");
  write_test_records(folder.path() / "train.rec", 203, 12);
  write_test_records(folder.path() / "test.rec", 20, 12);
  const ops::OpTable table = ops::OpTable::build();
  const schemas::JobSpec spec = test_job(folder.path(), "tiny-bn");
  const std::string whole = trained_hash(table, spec, "whole");
  CHECK(trained_hash(table, spec, "again") == whole);

  schemas::JobSpec wide = spec;
  wide.data.prefetch_threads = 4;
  CHECK(trained_hash(table, wide, "wide") == whole);

  schemas::JobSpec part = spec;
  part.train.max_steps = 9;
  CHECK(trained_hash(table, part, "parts") != whole);
  CHECK(trained_hash(table, spec, "parts") == whole);

  schemas::JobSpec other = spec;
  other.seed = 8;
  CHECK(trained_hash(table, other, "other") != whole);
}

TEST_CASE("a rank on a GPU that is not there is refused by its name", "[local_run]") {
  const TestFolder folder("local-run-no-gpu");
  write_test_records(folder.path() / "train.rec", 40, 12);
  const ops::OpTable table = ops::OpTable::build();
  schemas::JobSpec spec = test_job(folder.path(), "tiny-bn");
  spec.data.test.clear();
  const base::Device far{base::DeviceKind::cuda, 63};
  const JobOutcome outcome = run(table, spec, {.devices = {far}});
  CHECK(outcome.status.code() == base::Errc::failed_precondition);
  CHECK_THAT(outcome.status.text(), Catch::Contains("cuda:63"));
}

TEST_CASE("where steps are judged an engine without room for all keys is refused", "[local_run]") {
  const TestFolder folder("local-run-no-room");
  write_test_records(folder.path() / "train.rec", 40, 12);
  const ops::OpTable table = ops::OpTable::build();
  schemas::JobSpec spec = test_job(folder.path(), "tiny-bn");
  spec.data.test.clear();
  spec.checkpoint = {};
  spec.limits.engine_pending_operations_max = 3;
  CHECK(run(table, spec).status.ok());
  spec.train.optimizer.clip_norm = 1.0;
  const JobOutcome outcome = run(table, spec);
  CHECK(outcome.status.code() == base::Errc::invalid_argument);
  CHECK_THAT(outcome.status.text(),
             Catch::StartsWith("limits.engine_pending_operations_max is 3: "));
  spec.limits.engine_pending_operations_max = 2 * open_job(spec, table).value()->keys.keys.size();
  CHECK(run(table, spec).status.ok());
}

TEST_CASE("a network with outputs behind stop_gradient trains, with others it does not",
          "[local_run]") {
  const TestFolder folder("local-run-outputs");
  write_test_records(folder.path() / "train.rec", 40, 12);
  const ops::OpTable table = ops::OpTable::build();
  schemas::JobSpec spec = test_job(folder.path(), "");
  spec.data.test.clear();
  symbol::Composer c(table);
  const symbol::Symbol fc =
      c.call("fully_connected", "fc", {c.variable("data")}, {{"num_hidden", "4"}});
  const symbol::Symbol loss = c.call("softmax_output", "softmax", {fc});
  const auto job_with = [&](const symbol::Symbol& other) {
    const std::vector<symbol::Symbol> outputs = {loss, other};
    spec.model.symbol_json = c.finish(symbol::Symbol::group(outputs)).value().to_json();
    return open_job(spec, table).status();
  };
  CHECK_THAT(job_with(c.call("exp", "e", {fc})).text(),
             Catch::Contains("output e_output is no loss and depends on parameters"));
  CHECK(job_with(c.call("BlockGrad", "seen", {fc})).ok());
  CHECK(run(table, spec).status.ok());
}

TEST_CASE("augmented jobs leave the same bits after stops, and test images as they are",
          "[local_run]") {
  const TestFolder folder("local-run-augment");
  write_test_records(folder.path() / "train.rec", 203, 12);
  write_test_records(folder.path() / "test.rec", 20, 12);
  const ops::OpTable table = ops::OpTable::build();
  schemas::JobSpec spec = test_job(folder.path(), "tiny-bn");
  const std::string plain = trained_hash(table, spec, "plain");
  spec.data.augment = {2, true};
  const std::string whole = trained_hash(table, spec, "whole");
  CHECK(whole != plain);
  schemas::JobSpec part = spec;
  part.train.max_steps = 9;
  part.data.prefetch_threads = 3;
  CHECK(trained_hash(table, part, "parts") != whole);
  CHECK(trained_hash(table, spec, "parts") == whole);

  const auto job = open_job(spec, table).value();
  CHECK(job->samples.augment == data::Augmentation{});
  CHECK(job->training_samples().augment == data::Augmentation{2, true, spec.seed});

  spec.data.augment.mirror = false;
  spec.checkpoint.dir = folder.path() / "whole";
  CHECK_THAT(run(table, spec).status.text(), Catch::Contains("there 'data.augment.mirror = true'"));
  spec.data.augment.crop_padding = 12;
  CHECK_THAT(open_job(spec, table).status().text(),
             Catch::Contains("data.augment.crop_padding is 12") && Catch::Contains("at most 11"));
}

TEST_CASE("a warm-up leaves steps behind it", "[local_run]") {
  const TestFolder folder("local-run-warmup");
  write_test_records(folder.path() / "train.rec", 203, 12);
  write_test_records(folder.path() / "test.rec", 20, 12);
  const ops::OpTable table = ops::OpTable::build();
  schemas::JobSpec spec = test_job(folder.path(), "tiny-bn");
  const std::uint64_t total = open_job(spec, table).value()->steps_total();
  spec.train.max_steps = 1;  // its schedule is the whole job's
  schemas::Period& warmup = spec.train.schedule.warmup;
  warmup = {total - 1, schemas::Period::Unit::steps};
  CHECK(open_job(spec, table).ok());
  warmup.count = total;
  const base::Status refused = open_job(spec, table).status();
  CHECK(refused.code() == base::Errc::invalid_argument);
  CHECK_THAT(refused.text(), Catch::Contains("train.schedule.warmup: ") &&
                                 Catch::Contains("leave no step behind them") &&
                                 Catch::Contains("203 records"));
  warmup = {0, schemas::Period::Unit::epochs};
  CHECK(open_job(spec, table).ok());
}

// A run that would wait for ever is stopped and so fails its test.
JobOutcome bounded_run(const ops::OpTable& table, const schemas::JobSpec& spec) {
  JobOutcome outcome;
  base::SteadyClock clock;
  const auto job = open_job(spec, table);
  REQUIRE(job.ok());
  std::atomic<bool> stop{false};
  std::promise<void> ended;
  std::thread guard([&stop, end = ended.get_future()] {
    stop = end.wait_for(std::chrono::seconds(60)) == std::future_status::timeout;
  });
  LocalRunOptions options;
  options.stop = &stop;
  outcome.status = run_local(*job, table, clock, outcome.seen, options);
  ended.set_value();
  guard.join();
  return outcome;
}

TEST_CASE("a run whose stop flag is set ends as cancelled", "[local_run]") {
  const TestFolder folder("local-run-stop");
  write_test_records(folder.path() / "train.rec", 64, 12);
  write_test_records(folder.path() / "test.rec", 4, 12);
  const ops::OpTable table = ops::OpTable::build();
  schemas::JobSpec spec = test_job(folder.path(), "tiny-bn");
  spec.train.epochs = 100'000;  // hours
  const auto job = open_job(spec, table);
  REQUIRE(job.ok());
  const std::atomic<bool> stop{true};
  LocalRunOptions options;
  options.stop = &stop;
  base::SteadyClock clock;
  tests::JobRecorder seen;
  const base::Status status = run_local(*job, table, clock, seen, options);
  CHECK(status.code() == base::Errc::cancelled);
  CHECK(status.text() == "the run was stopped");
}

TEST_CASE("steps in which nobody has a sample pass and keep the weights", "[local_run]") {
  const TestFolder folder("local-run-nothing");
  write_test_records(folder.path() / "train.rec", 64, 12);
  write_test_records(folder.path() / "test.rec", 4, 12);
  const ops::OpTable table = ops::OpTable::build();
  schemas::JobSpec spec = test_job(folder.path(), "tiny-bn");
  spec.data.on_bad_record = schemas::BadRecord::skip;
  spec.checkpoint.every = {2, schemas::Period::Unit::steps};
  // Every record is damaged in its pixels.
  const std::uint64_t record_bytes = std::filesystem::file_size(spec.data.train) / 64;
  std::fstream file(spec.data.train, std::ios::in | std::ios::out | std::ios::binary);
  for (std::uint64_t i = 0; i < 64; ++i) {
    file.seekp(static_cast<std::streamoff>(i * record_bytes + 60)).write("garbage", 7);
  }
  file.close();
  const JobOutcome outcome = bounded_run(table, spec);
  INFO(outcome.status.to_string());
  REQUIRE(outcome.status.ok());
  CHECK(outcome.seen.cuts == std::vector<std::uint64_t>{2, 4});
  const auto checkpoint = store::Checkpoint::open_newest(spec.checkpoint.dir);
  REQUIRE(checkpoint.ok());
  CHECK((*checkpoint)->manifest().step == 4);
}

TEST_CASE("a checkpoint of another job is refused by the name of what differs", "[local_run]") {
  const TestFolder folder("local-run-other");
  write_test_records(folder.path() / "train.rec", 64, 12);
  write_test_records(folder.path() / "test.rec", 4, 12);
  const ops::OpTable table = ops::OpTable::build();
  schemas::JobSpec spec = test_job(folder.path(), "tiny-bn");
  REQUIRE(run(table, spec).status.ok());
  spec.train.optimizer.lr = 0.06;
  const JobOutcome refused = run(table, spec);
  CHECK(refused.status.code() == base::Errc::failed_precondition);
  CHECK_THAT(refused.status.text(), Catch::Contains("train.optimizer.lr = 0.05"));
  spec.train.optimizer.lr = 0.05;
  spec.numerics.layout = schemas::LayoutChoice::dense;
  CHECK_THAT(run(table, spec).status.text(), Catch::Contains("there 'numerics.layout = auto', here "
                                                             "'numerics.layout = dense'"));
}

TEST_CASE("a checkpoint of other records is refused, though there are as many", "[local_run]") {
  const TestFolder folder("local-run-data");
  write_test_records(folder.path() / "train.rec", 64, 12);
  write_test_records(folder.path() / "test.rec", 4, 12);
  const ops::OpTable table = ops::OpTable::build();
  schemas::JobSpec spec = test_job(folder.path(), "tiny-bn");
  REQUIRE(run(table, spec).status.ok());
  write_test_records(folder.path() / "other.rec", 64, 12);  // noise comes from the name
  std::filesystem::rename(folder.path() / "other.rec", folder.path() / "train.rec");
  const JobOutcome refused = run(table, spec);
  CHECK(refused.status.code() == base::Errc::failed_precondition);
  CHECK_THAT(refused.status.text(), Catch::Contains("checksum") && Catch::Contains("train.rec"));
}

TEST_CASE("a checkpoint of another numeric class is refused unless the job allows it", "[resume]") {
  const TestFolder folder("local-run-class");
  write_test_records(folder.path() / "train.rec", 64, 12);
  write_test_records(folder.path() / "test.rec", 4, 12);
  const ops::OpTable table = ops::OpTable::build();
  schemas::JobSpec spec = test_job(folder.path(), "tiny-bn");
  REQUIRE(run(table, spec).status.ok());
  const base::NumericClass here = ops::numeric_class(static_cast<int>(spec.workers.threads));
  base::NumericClass other = here;
  other.isa = "another";
  const auto start = [&](const base::NumericClass& numeric_class) {
    const auto job = open_job(spec, table);
    REQUIRE(job.ok());
    return find_start(**job, numeric_class).status();
  };
  CHECK(start(here).ok());
  const base::Status refused = start(other);
  CHECK(refused.code() == base::Errc::failed_precondition);
  CHECK_THAT(refused.text(), Catch::Contains("another numeric class") &&
                                 Catch::Contains("checkpoint.change_numerics"));
  spec.checkpoint.change_numerics = true;
  CHECK(start(other).ok());
  // What goes on from there says so for ever.
  const auto job = open_job(spec, table);
  REQUIRE(job.ok());
  CHECK_FALSE(find_start(**job, here)->numerics_changed);
  const auto changed = find_start(**job, other);
  REQUIRE(changed.ok());
  CHECK(changed->numerics_changed);
  const auto manifest = make_manifest(**job, other, *changed, {4, 64, 1'000, 7}, 4, {});
  CHECK(manifest.numerics_changed);
  CHECK(manifest.generation == 2);
  CHECK(manifest.data.bytes == 1'000);
  spec.checkpoint.change_numerics = false;
  spec.reproducible = false;
  CHECK(start(other).ok());
}

TEST_CASE("a manifest is judged before its files are there", "[resume]") {
  const TestFolder folder("local-run-judge");
  write_test_records(folder.path() / "train.rec", 64, 12);
  write_test_records(folder.path() / "test.rec", 4, 12);
  const ops::OpTable table = ops::OpTable::build();
  schemas::JobSpec spec = test_job(folder.path(), "tiny-bn");
  REQUIRE(run(table, spec).status.ok());
  schemas::Manifest manifest =
      store::Checkpoint::open_newest(spec.checkpoint.dir).value()->manifest();
  std::filesystem::remove_all(spec.checkpoint.dir);
  manifest.numeric_class.isa = "another";  // its processes compare that
  const auto judge = manifest_judge(spec, {});
  CHECK(judge(manifest).ok());
  const auto refused = [&](const std::function<void(schemas::Manifest&)>& change) {
    schemas::Manifest other = manifest;
    change(other);
    const base::Status status = judge(other);
    CHECK(status.code() == base::Errc::failed_precondition);
    return status.text();
  };
  CHECK_THAT(refused([](auto& other) { other.job_fingerprint += "x"; }),
             Catch::StartsWith("step-4-g1 "));
  CHECK_THAT(refused([](auto& other) { other.keys.pop_back(); }), Catch::Contains("parameters"));
  CHECK_THAT(refused([](auto& other) { other.data.checksum += 1; }), Catch::Contains("checksum"));
  CHECK_THAT(refused([](auto& other) { other.step = 1'000; }), Catch::Contains("the job ends at"));
  CHECK_THAT(refused([](auto& other) { other.optimizer_slots.emplace_back("more"); }),
             Catch::Contains("state tensors"));
  spec.seed += 1;
  CHECK_FALSE(manifest_judge(spec, {})(manifest).ok());
}

TEST_CASE("a damaged newest checkpoint is passed over for the one before", "[local_run]") {
  const TestFolder folder("local-run-damage");
  write_test_records(folder.path() / "train.rec", 64, 12);
  write_test_records(folder.path() / "test.rec", 4, 12);
  const ops::OpTable table = ops::OpTable::build();
  const schemas::JobSpec spec = test_job(folder.path(), "tiny-bn");
  REQUIRE(run(table, spec).status.ok());
  const std::string whole = tests::checkpoint_hash(spec);
  const std::filesystem::path shard =
      std::filesystem::path(spec.checkpoint.dir) / "step-4-g1-shard-0-of-1.safetensors";
  std::filesystem::resize_file(shard, std::filesystem::file_size(shard) - 1);
  const auto checkpoint = store::Checkpoint::open_newest(spec.checkpoint.dir);
  CHECK_FALSE(checkpoint.ok());  // 64 records are 2 steps an epoch: step 4 was the only checkpoint
  CHECK_THAT(checkpoint.status().text(), Catch::Contains("step-4-g1-shard-0-of-1.safetensors"));
  const JobOutcome again = run(table, spec);
  REQUIRE(again.status.ok());
  CHECK(tests::checkpoint_hash(spec) == whole);
}

TEST_CASE("the checkpoints of a run outlive a damaged one of a later step", "[local_run]") {
  const TestFolder folder("local-run-keep");
  write_test_records(folder.path() / "train.rec", 64, 12);
  write_test_records(folder.path() / "test.rec", 4, 12);
  const ops::OpTable table = ops::OpTable::build();
  schemas::JobSpec spec = test_job(folder.path(), "tiny-bn");
  spec.checkpoint.every = {2, schemas::Period::Unit::steps};
  REQUIRE(run(table, spec).status.ok());
  const std::filesystem::path out = spec.checkpoint.dir;
  std::filesystem::resize_file(out / "step-4-g1-shard-0-of-1.safetensors", 1);
  spec.train.max_steps = 3;
  spec.checkpoint.keep = 1;
  REQUIRE(run(table, spec).status.ok());
  const auto checkpoint = store::Checkpoint::open_newest(out);
  REQUIRE(checkpoint.ok());
  CHECK((*checkpoint)->path().filename() == "step-3-g2.manifest");
}

// Puts something in the way of a checkpoint's file as soon as the run has begun.
class Obstacle final : public JobObserver {
 public:
  explicit Obstacle(std::filesystem::path path) : path_(std::move(path)) {}
  void began(const RunStart&) override { std::filesystem::create_directories(path_ / "inside"); }
  void progress(const control::StepProgress&) override {}
  void scored(const control::EpochScore&) override {}
  void checkpointed(std::uint64_t step, const std::string&) override { cuts.push_back(step); }
  std::vector<std::uint64_t> cuts;

 private:
  std::filesystem::path path_;
};

TEST_CASE("a checkpoint that cannot be written ends the run only if too many fail", "[local_run]") {
  const TestFolder folder("local-run-unwritten");
  write_test_records(folder.path() / "train.rec", 64, 12);
  write_test_records(folder.path() / "test.rec", 4, 12);
  const ops::OpTable table = ops::OpTable::build();
  schemas::JobSpec spec = test_job(folder.path(), "tiny-bn");
  spec.checkpoint.every = {2, schemas::Period::Unit::steps};
  spec.limits.checkpoint_failures_max = GENERATE(1U, 2U);
  const std::filesystem::path out = spec.checkpoint.dir;
  Obstacle seen(out / "step-2-g1-shard-0-of-1.safetensors");
  base::SteadyClock clock;
  const auto job = open_job(spec, table);
  REQUIRE(job.ok());
  const base::Status status = run_local(*job, table, clock, seen);
  INFO(status.to_string());
  if (spec.limits.checkpoint_failures_max == 1) {
    CHECK_THAT(status.text(),
               Catch::Contains("1 checkpoints failed in a row, the last one of step 2"));
  } else {
    CHECK(status.ok());
    CHECK(seen.cuts == std::vector<std::uint64_t>{4});
  }
}

// Start and end of every event called `name` (or beginning so), from a Chrome trace.
std::vector<std::pair<double, double>> events(const std::string& trace, const std::string& name) {
  std::vector<std::pair<double, double>> found;
  const auto json = nlohmann::json::parse(base::read_text_file(trace, 64 << 20).value());
  for (const auto& event : json.is_array() ? json : json.at("traceEvents")) {
    if (event.value("ph", "") != "X" || !event.value("name", "").starts_with(name)) continue;
    const double start = event.at("ts");
    found.emplace_back(start, start + event.at("dur").get<double>());
  }
  std::sort(found.begin(), found.end());
  return found;
}

TEST_CASE("a folder of checkpoints that cannot be read ends the run", "[local_run]") {
  const TestFolder folder("local-run-folder");
  write_test_records(folder.path() / "train.rec", 64, 12);
  write_test_records(folder.path() / "test.rec", 4, 12);
  const ops::OpTable table = ops::OpTable::build();
  const schemas::JobSpec spec = test_job(folder.path(), "tiny-bn");
  const std::filesystem::path out = spec.checkpoint.dir;
  SECTION("a file in its place") {
    std::ofstream(out) << "no folder";
    const JobOutcome outcome = run(table, spec);
    CHECK(outcome.status.code() == base::Errc::invalid_argument);
    CHECK_THAT(outcome.status.text(), Catch::Contains(out.string()));
  }
  SECTION("a checkpoint of a newer program") {
    REQUIRE(run(table, spec).status.ok());
    std::fstream manifest(out / "step-4-g1.manifest",
                          std::ios::in | std::ios::out | std::ios::binary);
    manifest.seekp(8).put('\x63');
    manifest.close();
    const JobOutcome outcome = run(table, spec);
    CHECK(outcome.status.code() == base::Errc::version_mismatch);
    CHECK_THAT(outcome.status.text(), Catch::Contains("step-4-g1.manifest"));
  }
  SECTION("a manifest of garbage") {
    std::filesystem::create_directories(out);
    std::ofstream(out / "step-9-g1.manifest") << std::string(100, 'x');
    const auto opened = store::Checkpoint::open_newest(out);
    CHECK(opened.status().code() == base::Errc::data_loss);
    CHECK_THAT(opened.status().text(), Catch::Contains("step-9-g1.manifest"));
    CHECK(run(table, spec).status.ok());
    CHECK(std::filesystem::exists(out / "step-4-g2.manifest"));  // no name is used twice
  }
}

TEST_CASE("the first gradient is pushed while backward goes on", "[local_run]") {
  const TestFolder folder("local-run-overlap");
  write_test_records(folder.path() / "train.rec", 400, 28);
  write_test_records(folder.path() / "test.rec", 4, 28);
  const ops::OpTable table = ops::OpTable::build();
  schemas::JobSpec spec = test_job(folder.path(), "lenet");
  spec.workers = {1, 1, 1};
  spec.data.batch = 16;
  spec.train.epochs = 1;
  LocalRunOptions options;
  options.trace_path = folder.path() / "trace.json";
  base::SteadyClock clock;
  tests::JobRecorder seen;
  const auto job = open_job(spec, table);
  REQUIRE(job.ok());
  REQUIRE(run_local(*job, table, clock, seen, options).ok());

  // A step's backward ends with the first convolution's weight gradient; the last layer's gradients
  // are pushed before that. The copy lane may be late on a busy machine, so one step suffices.
  const auto pushes = events(options.trace_path, "push");
  const auto losses = events(options.trace_path, "softmax_backward");
  const auto ends = events(options.trace_path, "conv1_backward");
  REQUIRE(losses.size() == 25);
  REQUIRE(ends.size() >= losses.size());
  const std::size_t per_step = ends.size() / losses.size();
  int overlapping = 0;
  for (std::size_t step = 0; step < losses.size(); ++step) {
    const double begin = losses[step].first;
    const double end = ends[step * per_step + per_step - 1].second;
    overlapping += std::any_of(pushes.begin(), pushes.end(), [&](const auto& push) {
      return push.first > begin && push.first < end;
    });
  }
  CHECK(overlapping > 0);
}

TEST_CASE("a job opens no file outside of the machine's roots, whatever leads there") {
  namespace fs = std::filesystem;
  const TestFolder folder("roots");
  fs::create_directories(folder.path() / "data");
  fs::create_directories(folder.path() / "elsewhere");
  write_test_records(folder.path() / "data" / "train.rec", 16, 12);
  write_test_records(folder.path() / "elsewhere" / "train.rec", 16, 12);
  const ops::OpTable table = ops::OpTable::build();
  schemas::JobSpec spec = test_job(folder.path() / "data", "tiny-bn");
  spec.data.test.clear();
  spec.checkpoint.dir = folder.path() / "out";
  schemas::JobRoots roots{folder.path() / "data", folder.path() / "out"};
  fs::create_directory(folder.path() / "out");
  CHECK(open_job(spec, table, roots).ok());
  std::string outside, key = "data.train";
  SECTION("records") {
    outside = spec.data.train = folder.path() / "elsewhere" / "train.rec";
  }
  SECTION("test records") {
    key = "data.test";
    outside = spec.data.test = folder.path() / "elsewhere" / "train.rec";
  }
  SECTION("records behind a link") {
    outside = spec.data.train = folder.path() / "data" / "linked.rec";
    fs::create_symlink(folder.path() / "elsewhere" / "train.rec", spec.data.train);
  }
  SECTION("an index behind a link") {
    outside = folder.path() / "data" / "train.idx";
    fs::remove(outside);
    fs::create_symlink(folder.path() / "elsewhere" / "train.idx", outside);
  }
  SECTION("weights") {
    key = "train.weights";
    outside = spec.train.weights = "/etc/passwd";
  }
  SECTION("checkpoints") {
    key = "checkpoint.dir";
    outside = spec.checkpoint.dir = folder.path() / "data";
  }
  SECTION("checkpoints of a folder to be made") {
    key = "checkpoint.dir";
    outside = spec.checkpoint.dir = folder.path() / "out" / ".." / "new";
  }
  const auto job = open_job(spec, table, roots);
  CHECK(job.status().code() == base::Errc::permission_denied);
  const std::string& root = key == "checkpoint.dir" ? roots.checkpoints : roots.data;
  const char* option = key == "checkpoint.dir" ? "--checkpoint-root " : "--data-root ";
  CHECK_THAT(job.status().text(), Catch::StartsWith(key + " is bound by " + option + root + ": " +
                                                    outside + ": lies outside of "));
  CHECK(open_job(spec, table).status().code() != base::Errc::permission_denied);
}

}  // namespace
}  // namespace troupe::train
