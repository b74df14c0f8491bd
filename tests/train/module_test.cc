// SPDX-License-Identifier: Apache-2.0
// The module as a C++ program uses it: fit, score and predict against numbers worked out by hand,
// the cache of executors, and what is said about wrong arguments.
#include "train/module.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <numbers>
#include <thread>
#include <vector>

#include "store/checkpoint.h"
#include "tests/support/catch.h"
#include "tests/support/job_files.h"
#include "tests/support/test_runtime.h"
#include "tests/train/trainer.h"
#include "train/local_run.h"

namespace troupe::train {
namespace {

using ndarray::NDArray;

struct Sample {
  Row x{};
  std::size_t label = 0;
};

std::vector<Sample> samples_of(const data::Batch& batch) {
  std::vector<Sample> samples(batch.count());
  const auto pixels = batch.images.as<float>();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    std::copy_n(pixels.begin() + static_cast<std::ptrdiff_t>(i * kClasses), kClasses,
                samples[i].x.begin());
    samples[i].label = static_cast<std::size_t>(batch.labels.as<float>()[i]);
  }
  return samples;
}

/// All batches of an iterator, which stands at its begin afterwards.
std::vector<std::vector<Sample>> read_all(data::BatchIterator& batches) {
  std::vector<std::vector<Sample>> all;
  while (true) {
    data::BatchIterator::Item item = batches.next(kBatchDeadline);
    REQUIRE(item.ok());
    if (!item->has_value()) break;
    all.push_back(samples_of(**item));
  }
  batches.seek(0);
  return all;
}

class Scores final : public JobObserver {
 public:
  void progress(const control::StepProgress&) override {}
  void scored(const control::EpochScore& score) override { scores.push_back(score); }
  void checkpointed(std::uint64_t, const std::string&) override {}
  std::vector<control::EpochScore> scores;
};

TEST_CASE("fit learns and ends in the bits of a local run of the same job", "[module]") {
  const TestFolder folder("module-fit");
  schemas::JobSpec spec = single_job(folder, 12);
  spec.model.network = "tiny-bn";
  spec.train.epochs = 4;
  Trainer trainer(spec);
  std::vector<std::uint64_t> steps;
  std::vector<EpochEnd> epochs;
  std::int64_t samples = 0;
  trainer.fit.evaluation = trainer.test_batches.get();
  trainer.fit.batch_end = [&](const BatchEnd& end) {
    steps.push_back(end.step);
    samples += end.samples;
    return base::Status();
  };
  trainer.fit.epoch_end = [&](const EpochEnd& end) {
    epochs.push_back(end);
    return base::Status();
  };
  REQUIRE(trainer.module->fit(*trainer.train_batches, *trainer.rank_store, trainer.fit).ok());
  CHECK(steps.size() == 28);  // 50 records in batches of 8: 7 steps, the last one of 2
  CHECK(steps.back() == 27);
  CHECK(samples == 200);

  base::SteadyClock clock;
  Scores seen;
  REQUIRE(run_local(trainer.job, tests::test_operators(), clock, seen).ok());
  REQUIRE(epochs.size() == 4);
  REQUIRE(seen.scores.size() == 4);
  for (std::size_t i = 0; i < epochs.size(); ++i) {
    REQUIRE(epochs[i].evaluation.has_value());
    CHECK(epochs[i].epochs == i + 1);
    CHECK(epochs[i].steps == 7 * (i + 1));
    CHECK(epochs[i].evaluation->at("accuracy").mean() == seen.scores[i].accuracy());
  }
  CHECK(epochs.back().evaluation->at("accuracy").mean() > 0.8);
  const auto checkpoint = store::Checkpoint::open_newest(spec.checkpoint.dir);
  REQUIRE(checkpoint.ok());
  for (const schemas::KeyInfo& key : trainer.module->keys()) {
    INFO(key.name);
    const auto expected = (*checkpoint)->dense(key, "");
    REQUIRE(expected.ok());
    CHECK(Trainer::bytes(trainer.module->parameter(key.id)) == *expected);
  }
}

// The brightest quarter is the label: rows of the identity find it, with two rows exchanged they
// miss the labels 2 and 3.
TEST_CASE("score counts what a known network gets right, whatever the last batch", "[module]") {
  const TestFolder folder("module-score");
  Trainer trainer(linear_job(folder));
  LinearModel model;
  const std::array<std::size_t, kClasses> brightest = {0, 1, 3, 2};
  for (std::size_t k = 0; k < kClasses; ++k) model.weight[k][brightest[k]] = 1.0;
  trainer.set_model(model);
  double right = 0.0;
  double loss = 0.0;
  const auto batches = read_all(*trainer.test_batches);
  REQUIRE(batches.size() == 3);  // 4, 4, 3
  for (const auto& batch : batches) {
    for (const Sample& sample : batch) {
      right += sample.label < 2 ? 1.0 : 0.0;
      loss -= std::log(model(sample.x)[sample.label]);
    }
  }
  REQUIRE(right > 0.0);
  REQUIRE(right < 11.0);
  for (int round = 0; round < 2; ++round) {
    const auto metrics = trainer.module->score(*trainer.test_batches);
    REQUIRE(metrics.ok());
    CHECK(metrics->at("accuracy").sum == right);
    CHECK(metrics->at("accuracy").weight == 11.0);
    CHECK(metrics->at("cross_entropy").sum == Approx(loss).epsilon(1e-12));
    CHECK(metrics->at("cross_entropy").weight == 11.0);
  }
}

TEST_CASE("scoring ends when it is stopped", "[module]") {
  const TestFolder folder("module-stop");
  Trainer trainer(linear_job(folder));
  std::atomic<bool> stop{true};
  const auto score = [&] {
    return trainer.module->score(*trainer.test_batches, kBatchDeadline, &stop);
  };
  CHECK(score().status().code() == base::Errc::cancelled);
  stop.store(false);
  CHECK(score().ok());
}

LinearModel some_model() {
  LinearModel model;
  for (std::size_t k = 0; k < kClasses; ++k) {
    model.bias[k] = 0.1 * static_cast<double>(k);
    for (std::size_t j = 0; j < kClasses; ++j) {
      model.weight[k][j] = std::cos(static_cast<double>(4 * k + j));
    }
  }
  return model;
}

/// `outputs` are the model's for images(n, first).
void check_prediction(const std::vector<NDArray>& outputs, const LinearModel& model, std::int64_t n,
                      double first) {
  REQUIRE(outputs.size() == 1);
  REQUIRE(outputs[0].shape() == base::Shape{n, 4});
  const std::vector<double> found = outputs[0].to_vector<double>().value();
  for (std::int64_t i = 0; i < n; ++i) {
    Row x{};
    for (std::size_t j = 0; j < x.size(); ++j) {
      x[j] = std::sin(first + static_cast<double>(4 * i) + static_cast<double>(j));
    }
    const Row expected = model(x);
    for (std::size_t k = 0; k < kClasses; ++k) {
      CHECK(found[static_cast<std::size_t>(4 * i) + k] == Approx(expected[k]).epsilon(1e-12));
    }
  }
}

TEST_CASE("predict takes any number of rows, also when executors go out of use", "[module]") {
  const TestFolder folder("module-predict");
  Trainer trainer(linear_job(folder), 2);
  const LinearModel model = some_model();
  trainer.set_model(model);
  std::vector<std::pair<std::int64_t, std::vector<NDArray>>> kept;
  for (const std::int64_t n : {8, 1, 3, 7, 1, 8, 8}) {
    const auto outputs = trainer.module->predict(trainer.images(n, static_cast<double>(n)));
    REQUIRE(outputs.ok());
    kept.emplace_back(n, *outputs);
  }
  // Later predictions, of the same size too, leave earlier results alone.
  for (const auto& [n, outputs] : kept) {
    check_prediction(outputs, model, n, static_cast<double>(n));
  }
}

TEST_CASE("what draws in predictions draws anew in each, and scores do not hang on it",
          "[module]") {
  const TestFolder folder("module-draws");
  symbol::Composer c(tests::test_operators());
  const symbol::Symbol dropped =
      c.call("dropout", "drop", {c.variable("data")}, {{"p", "0.5"}, {"mode", "always"}});
  const symbol::Symbol fc =
      c.call("fully_connected", "fc", {c.call("flatten", "", {dropped})}, {{"num_hidden", "4"}});
  schemas::JobSpec spec = linear_job(folder);
  spec.model.symbol_json = c.finish(c.call("softmax_output", "softmax", {fc})).value().to_json();
  Trainer trainer(spec);
  trainer.set_model(some_model());
  const auto predicted = [&] {
    return trainer.module->predict(trainer.images(8, 1.0)).value().front().to_vector<double>();
  };
  const std::vector<double> first = predicted().value(), second = predicted().value();
  CHECK(first != second);
  const MetricValues score = trainer.module->score(*trainer.test_batches).value();
  for (int i = 0; i < 4; ++i) {
    const std::vector<double> later = predicted().value();
    CHECK(later != first);
    CHECK(later != second);
  }
  CHECK(trainer.module->score(*trainer.test_batches).value() == score);
}

TEST_CASE("a prediction takes no memory for training, whatever its size", "[module]") {
  const TestFolder folder("module-budget");
  Trainer trainer(linear_job(folder));
  constexpr std::int64_t kRows = 20'000;
  ModuleOptions options;
  options.inputs = trainer.job->keys.inputs;
  options.recompute = symbol::Recompute::budget;
  options.budget = std::size_t{64} << 10;  // kRows of four f64 take ten times that
  const auto module = Module::create(trainer.test.runtime, trainer.job->network, options).value();
  REQUIRE(module->init_params(schemas::InitializerSpec{}).ok());
  REQUIRE(module->executor(8).ok());
  CHECK(module->executor(kRows).status().code() == base::Errc::resource_exhausted);
  CHECK(module->predict(trainer.images(kRows, 0.5)).ok());
  // Who trains with a batch size that was predicted with before gets both graphs.
  REQUIRE(module->predict(trainer.images(7, 0.5)).ok());
  REQUIRE(module->executor(7).ok());
  CHECK(module->executor(7).value()->report().parameters > 0);
}

TEST_CASE("a loss among a prediction's outputs reads no labels that are left over", "[module]") {
  const TestFolder folder("module-loss");
  schemas::JobSpec spec = linear_job(folder);
  symbol::Composer c(tests::test_operators());
  const symbol::Symbol fc =
      c.call("fully_connected", "fc", {c.variable("data")}, {{"num_hidden", "4"}});
  const symbol::Symbol shown = c.call("stop_gradient", "shown", {c.call("softmax", "p", {fc}, {})});
  const symbol::Symbol loss =
      c.call("softmax_cross_entropy", "loss", {fc, c.variable("softmax_label")});
  const symbol::Symbol outputs[] = {shown, loss};
  spec.model.symbol_json = c.finish(symbol::Symbol::group(outputs)).value().to_json();
  Trainer trainer(spec);
  ModuleBatch scored = trainer.next_batch();
  for (double& label : scored.labels.as<double>()) label = 3;
  REQUIRE(trainer.module->score(scored).ok());
  for (const std::int64_t rows : {scored.size, std::int64_t{5}, scored.size}) {
    const auto predicted = trainer.module->predict(trainer.images(rows, 0.25));
    REQUIRE(predicted.ok());
    CHECK(trainer.test.engine->wait_all().ok());
    REQUIRE(predicted->size() == 2);
    const auto numbers = [&](std::size_t output) {
      std::vector<double> read(static_cast<std::size_t>(predicted->at(output).elements()));
      REQUIRE(predicted->at(output).read(std::as_writable_bytes(std::span(read))).ok());
      return read;
    };
    const std::vector<double> shares = numbers(0);
    double of_class_0 = 0;
    for (std::size_t row = 0; row < shares.size(); row += kClasses) {
      of_class_0 -= std::log(shares[row]);
    }
    CHECK(numbers(1).at(0) == Approx(of_class_0));
  }
}

TEST_CASE("the least recently used executor goes first", "[module]") {
  const TestFolder folder("module-cache");
  Trainer trainer(linear_job(folder), 2);
  const NDArray one = trainer.data_of(1);
  const NDArray two = trainer.data_of(2);
  CHECK(trainer.data_of(1).same_memory(one));
  trainer.data_of(3);  // 2 goes: 1 was used after it
  CHECK(trainer.data_of(1).same_memory(one));
  CHECK_FALSE(trainer.data_of(2).same_memory(two));  // 3 goes
  CHECK(trainer.data_of(1).same_memory(one));
}

TEST_CASE("gradients of an executor that went out of use are not pushed", "[module]") {
  const TestFolder folder("module-gone");
  Trainer trainer(linear_job(folder), 1);
  Module& module = *trainer.module;
  REQUIRE(module.init_optimizer(*trainer.rank_store, trainer.fit.rule, true).ok());
  const ModuleBatch batch = trainer.next_batch();
  REQUIRE(module.forward_backward(batch, 0).ok());
  REQUIRE(module.predict(trainer.images(3, 0.0)).ok());
  const base::Status refused = module.update(0, 8.0, true);
  CHECK(refused.code() == base::Errc::failed_precondition);
  CHECK_THAT(refused.text(), Catch::Contains("step 0"));
  CHECK(module.training_metrics().status().code() == base::Errc::failed_precondition);
  REQUIRE(module.forward_backward(batch, 0).ok());
  CHECK(module.update(0, 8.0, true).ok());
  CHECK(trainer.test.engine->wait_all().ok());
}

TEST_CASE("a prediction takes the last training batch's outputs, and says so", "[module]") {
  const TestFolder folder("module-outputs");
  Trainer trainer(linear_job(folder));
  Module& module = *trainer.module;
  const ModuleBatch batch = trainer.next_batch();
  const auto trained = [&] {
    REQUIRE(module.forward_backward(batch, 0).ok());
    return module.training_metrics()->read().value();
  };
  const MetricValues metrics = trained();
  CHECK_FALSE(metrics.empty());
  REQUIRE(module.predict(trainer.images(batch.size + 1, 0.0)).ok());  // another executor's
  CHECK(module.training_metrics()->read().value() == metrics);
  REQUIRE(module.predict(trainer.images(batch.size, 0.0)).ok());
  CHECK_THAT(module.training_metrics().status().text(),
             Catch::Contains("a prediction, or another batch size"));
  CHECK(trained() == metrics);
  REQUIRE(module.score(batch).ok());
  CHECK(module.training_metrics().status().code() == base::Errc::failed_precondition);
  REQUIRE(module.forward_backward({}, 1).ok());
  CHECK(module.training_metrics()->read()->empty());
  CHECK(trainer.test.engine->wait_all().ok());
}

TEST_CASE("errors of a module name the argument and what it should be", "[module]") {
  const TestFolder folder("module-errors");
  Trainer trainer(linear_job(folder));
  Module& module = *trainer.module;
  const base::Status unknown = module.init_params({{"fc9_weight", trainer.array({1}, {0.0})}});
  CHECK(unknown.code() == base::Errc::not_found);
  CHECK_THAT(unknown.text(), Catch::Contains("'fc9_weight'"));
  const base::Status shape = module.init_params({{"fc_bias", trainer.array({2}, {0.0, 0.0})}});
  CHECK(shape.code() == base::Errc::invalid_argument);
  CHECK_THAT(shape.text(), Catch::Contains("'fc_bias' has shape (4,)") && Catch::Contains("(2,)"));
  const NDArray single = NDArray::zeros(trainer.test.runtime, base::Shape{4}).value();
  CHECK_THAT(module.init_params({{"fc_bias", single}}).text(), Catch::Contains("f32"));
  const std::vector<double> bias = module.parameter(1).to_vector<double>().value();
  const NDArray other = trainer.array({4}, {8.0, 8.0, 8.0, 8.0});
  CHECK(!module.init_params({{"fc_bias", other}, {"fc_weight", single}}).ok());
  CHECK(module.parameter(1).to_vector<double>().value() == bias);
  tests::TestRuntime elsewhere;
  const NDArray foreign =
      NDArray::zeros(elsewhere.runtime, module.parameter(0).shape(), base::DType::f64).value();
  CHECK_THAT(module.init_params({{"fc_bias", other}, {"fc_weight", foreign}}).text(),
             Catch::Contains("'fc_weight': the array belongs to another engine"));
  CHECK(module.parameter(1).to_vector<double>().value() == bias);
  ModuleOptions none;
  none.executors_max = 0;
  CHECK_THAT(Module::create(trainer.test.runtime, symbol::Symbol(), none).status().text(),
             Catch::Contains("executors_max is 0"));

  const NDArray flat = trainer.array({1, 4}, {0.0, 0.0, 0.0, 0.0});
  const base::Status data = module.predict(flat).status();
  CHECK(data.code() == base::Errc::invalid_argument);
  CHECK_THAT(data.text(), Catch::Contains("'data' has shape (1, 4)") &&
                              Catch::Contains("rows of (1, 2, 2) in f64"));
  CHECK(module.predict(trainer.array({0, 1, 2, 2}, {})).status().code() ==
        base::Errc::invalid_argument);

  ModuleBatch batch;
  batch.size = 3;
  batch.data = base::make_host_buffer(3 * 4 * sizeof(double));
  batch.labels = base::make_host_buffer(2 * sizeof(double));
  const base::Status labels = module.forward_backward(batch, 0);
  CHECK(labels.code() == base::Errc::invalid_argument);
  CHECK_THAT(labels.text(), Catch::Contains("'softmax_label' of shape (3,) takes 24 bytes") &&
                                Catch::Contains("has 16"));
}

TEST_CASE("the first error ends a fit", "[module]") {
  const TestFolder folder("module-fit-errors");
  Trainer trainer(linear_job(folder));
  base::Status status;
  SECTION("of a callback") {
    trainer.fit.batch_end = [](const BatchEnd& end) {
      return end.step < 3 ? base::Status() : base::error(base::Errc::cancelled, "enough");
    };
    status = trainer.module->fit(*trainer.train_batches, *trainer.rank_store, trainer.fit);
    CHECK(status.text() == "enough");
  }
  SECTION("of data that end too early") {
    const auto few = trainer.batches(trainer.job->train_data,
                                     data::make_training_plan(trainer.job->orders, 0, 5));
    status = trainer.module->fit(*few, *trainer.rank_store, trainer.fit);
    CHECK_THAT(status.text(), Catch::Contains("ends before step 5 of 14"));
  }
  SECTION("of options that make no sense") {
    trainer.fit.evaluation_epochs = 0;
    status = trainer.module->fit(*trainer.train_batches, *trainer.rank_store, trainer.fit);
    CHECK(status.code() == base::Errc::invalid_argument);
  }
  CHECK_FALSE(status.ok());
}

/// One step of plain gradient descent on the mean over a batch.
void descend(LinearModel& model, const std::vector<Sample>& batch, double lr) {
  LinearModel slope;
  for (const Sample& sample : batch) {
    Row error = model(sample.x);
    error[sample.label] -= 1.0;
    for (std::size_t k = 0; k < kClasses; ++k) {
      slope.bias[k] += error[k];
      for (std::size_t j = 0; j < kClasses; ++j) slope.weight[k][j] += error[k] * sample.x[j];
    }
  }
  const double factor = lr / static_cast<double>(batch.size());
  for (std::size_t k = 0; k < kClasses; ++k) {
    model.bias[k] -= factor * slope.bias[k];
    for (std::size_t j = 0; j < kClasses; ++j) {
      model.weight[k][j] -= factor * slope.weight[k][j];
    }
  }
}

TEST_CASE("a schedule changes the weights' steps and binds nothing anew", "[module]") {
  const TestFolder folder("module-schedule");
  schemas::JobSpec spec = linear_job(folder);
  spec.train.optimizer = {};
  spec.train.optimizer.lr = 0.4;
  spec.train.schedule.warmup = {2, schemas::Period::Unit::steps};
  spec.train.schedule.final_lr = 0.1;
  Trainer trainer(spec);
  const LinearModel start = some_model();
  trainer.set_model(start);
  const auto batches = read_all(*trainer.train_batches);
  REQUIRE(batches.size() == 14);

  // What has been bound and prepared after the first epoch: full batches and the short last one.
  const NDArray bound_full = trainer.data_of(8);
  const NDArray bound_last = trainer.data_of(2);
  std::uint64_t prepared = 0;
  LinearModel expected = start;
  trainer.fit.batch_end = [&](const BatchEnd& end) {
    const auto t = static_cast<double>(end.step);
    // The warm-up's lr is 0.2, 0.4; then half a cosine over 12 steps from 0.4 towards 0.1.
    const double lr = t < 2.0 ? 0.2 * (t + 1.0)
                              : 0.1 + 0.15 * (1.0 + std::cos(std::numbers::pi * (t - 2.0) / 12.0));
    descend(expected, batches[end.step], lr);
    const NDArray& weights = trainer.module->parameter(0);
    const std::vector<double> found = weights.to_vector<double>().value();
    INFO("step " << end.step);
    for (std::size_t k = 0; k < kClasses; ++k) {
      for (std::size_t j = 0; j < kClasses; ++j) {
        CHECK(found[4 * k + j] == Approx(expected.weight[k][j]).epsilon(1e-11));
      }
    }
    const std::uint64_t misses = trainer.test.kernels.misses();
    if (end.step == 6) prepared = misses;
    if (end.step > 6) CHECK(misses == prepared);
    return base::Status();
  };
  REQUIRE(trainer.module->keys()[0].name == "fc_weight");
  REQUIRE(trainer.module->fit(*trainer.train_batches, *trainer.rank_store, trainer.fit).ok());
  CHECK(prepared > 0);
  CHECK(trainer.data_of(8).same_memory(bound_full));
  CHECK(trainer.data_of(2).same_memory(bound_last));
}

/// fc over the sum of two layers: one behind stop_gradient, one for a rule to freeze.
symbol::Symbol frozen_network() {
  symbol::Composer c(tests::test_operators());
  const symbol::Symbol data = c.variable("data");
  const symbol::Symbol behind = c.call("fully_connected", "behind", {data}, {{"num_hidden", "4"}});
  const symbol::Symbol ruled = c.call("fully_connected", "ruled", {data}, {{"num_hidden", "4"}});
  const symbol::Symbol sum =
      c.call("add", "sum", {c.call("stop_gradient", "stop", {behind}), ruled});
  const symbol::Symbol fc = c.call("fully_connected", "fc", {sum}, {{"num_hidden", "4"}});
  return c.finish(c.call("softmax_output", "softmax", {fc})).value();
}

TEST_CASE("frozen parameters stay, those behind stop_gradient move by decay alone", "[module]") {
  const TestFolder folder("module-frozen");
  schemas::JobSpec spec = linear_job(folder);
  spec.model.symbol_json = frozen_network().to_json();
  spec.train.optimizer = {.lr = 0.25, .wd = 0.5};
  spec.train.schedule = {};
  spec.train.keys = {{"ruled_*", 0.0, {}}};
  Trainer trainer(spec);
  std::map<std::string, std::vector<double>> before;
  for (const schemas::KeyInfo& key : trainer.module->keys()) {
    before[key.name] = trainer.module->parameter(key.id).to_vector<double>().value();
  }
  REQUIRE(trainer.module->fit(*trainer.train_batches, *trainer.rank_store, trainer.fit).ok());
  const double shrunk = std::pow(1.0 - 0.25 * 0.5, 14);  // 14 steps
  for (const schemas::KeyInfo& key : trainer.module->keys()) {
    INFO(key.name);
    const auto after = trainer.module->parameter(key.id).to_vector<double>().value();
    if (key.name.starts_with("fc_")) CHECK(after != before[key.name]);
    if (key.name.starts_with("ruled_")) CHECK(after == before[key.name]);
    if (!key.name.starts_with("behind_")) continue;
    for (std::size_t i = 0; i < after.size(); ++i) {
      CHECK(after[i] == Approx(before[key.name][i] * shrunk).epsilon(1e-12));
    }
  }
}

TEST_CASE("a fit whose other rank never comes ends with that rank's name", "[module]") {
  const TestFolder folder("module-alone");
  schemas::JobSpec spec = linear_job(folder);
  spec.workers = {1, 2, 1};
  spec.limits.stall_ms = 200;
  Trainer trainer(spec);
  const base::Status status =
      trainer.module->fit(*trainer.train_batches, *trainer.rank_store, trainer.fit);
  CHECK(status.code() == base::Errc::deadline_exceeded);
  CHECK_THAT(status.text(), Catch::Contains("rank 1 did not begin"));
}

TEST_CASE("a second fit on a store says that it wants another one", "[module]") {
  const TestFolder folder("module-twice");
  Trainer trainer(linear_job(folder));
  REQUIRE(trainer.module->fit(*trainer.train_batches, *trainer.rank_store, trainer.fit).ok());
  const base::Status status =
      trainer.module->fit(*trainer.train_batches, *trainer.rank_store, trainer.fit);
  CHECK(status.code() == base::Errc::failed_precondition);
  CHECK_THAT(status.text(), Catch::Contains("make another one"));
}

// The count of a step is a number in memory, not a part of the kernel's name.
TEST_CASE("averages of any count need no kernel of their own", "[module]") {
  const TestFolder folder("module-counts");
  schemas::JobSpec spec = single_job(folder, 12);
  spec.model.network = "tiny-bn";
  Trainer trainer(spec);
  Module& module = *trainer.module;
  REQUIRE(module.init_optimizer(*trainer.rank_store, trainer.fit.rule, true).ok());
  REQUIRE(module.pull(0, true).ok());
  std::uint64_t prepared = 0;
  for (std::uint64_t step = 0; step < 6; ++step) {
    REQUIRE(module.forward_backward(trainer.next_batch(), step).ok());
    REQUIRE(module.update(step, 8.0 + static_cast<double>(step), true).ok());
    REQUIRE(trainer.test.engine->wait_all().ok());
    if (step == 0) prepared = trainer.test.kernels.misses();
  }
  CHECK(prepared > 0);
  CHECK(trainer.test.kernels.misses() == prepared);
}

// The compute lane is held until the second batch has been taken: whoever reads the first one's
// numbers before that waits for ever.
TEST_CASE("scoring takes the next batch before it waits for the last one", "[module]") {
  const TestFolder folder("module-overlap");
  Trainer trainer(linear_job(folder));
  trainer.set_model(some_model());
  std::atomic<bool> late{false};
  trainer.test.engine->push(
      {"hold", {}, {}, {{}, engine::LaneKind::compute}, 1'000}, [&](engine::RunContext&) {
        for (int look = 0; trainer.test_batches->stats().batches < 2; ++look) {
          if (look == 10'000) {
            late = true;
            break;
          }
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return base::Status();
      });
  const auto metrics = trainer.module->score(*trainer.test_batches);
  REQUIRE(metrics.ok());
  CHECK(metrics->at("accuracy").weight == 11.0);
  CHECK_FALSE(late);
}

}  // namespace
}  // namespace troupe::train
