// SPDX-License-Identifier: Apache-2.0
// A linear network over images of four pixels, and a module with all that fit() needs, as a C++
// program would put it together. One thread.
#pragma once

#include <array>
#include <cmath>
#include <memory>
#include <vector>

#include "store/local_store.h"
#include "tests/support/catch.h"
#include "tests/support/job_files.h"
#include "tests/support/test_runtime.h"
#include "train/job.h"
#include "train/module.h"

namespace troupe::train {

inline constexpr std::size_t kClasses = 4;
/// Four pixels, or four probabilities.
using Row = std::array<double, kClasses>;

/// softmax(W x + b), computed plainly.
struct LinearModel {
  std::array<Row, kClasses> weight{};
  Row bias{};

  Row operator()(const Row& x) const {
    Row p{};
    double sum = 0.0;
    for (std::size_t k = 0; k < kClasses; ++k) {
      double score = bias[k];
      for (std::size_t j = 0; j < x.size(); ++j) score += weight[k][j] * x[j];
      p[k] = std::exp(score);
      sum += p[k];
    }
    for (double& value : p) value /= sum;
    return p;
  }
};

inline symbol::Symbol linear_network() {
  symbol::Composer c(tests::test_operators());
  const symbol::Symbol fc =
      c.call("fully_connected", "fc", {c.variable("data")}, {{"num_hidden", "4"}});
  return c.finish(c.call("softmax_output", "softmax", {fc})).value();
}

/// A job of one rank over images of `side` x `side`, without a network.
inline schemas::JobSpec single_job(const TestFolder& folder, int side) {
  write_test_records(folder.path() / "train.rec", 50, side);
  write_test_records(folder.path() / "test.rec", 11, side);
  schemas::JobSpec spec = test_job(folder.path(), "");
  spec.workers = {1, 1, 1};
  return spec;
}

/// The same in f64 over images of four pixels for the linear network.
inline schemas::JobSpec linear_job(const TestFolder& folder) {
  schemas::JobSpec spec = single_job(folder, 2);
  spec.model.symbol_json = linear_network().to_json();
  spec.numerics.dtype = base::DType::f64;
  return spec;
}

/// Everything that fit needs, as a C++ program would put it together.
class Trainer {
 public:
  explicit Trainer(const schemas::JobSpec& spec, std::size_t executors_max = 16) {
    auto opened = open_job(spec, tests::test_operators());
    INFO(opened.status().to_string());
    REQUIRE(opened.ok());
    job = *opened;
    ModuleOptions options;
    options.inputs = job->keys.inputs;
    options.keys = spec.train.keys;
    options.seed = spec.seed;
    options.executors_max = executors_max;
    module = Module::create(test.runtime, job->network, options).value();
    REQUIRE(module->init_params(spec.train.initializer).ok());
    fit.rule = job->rule();
    fit.steps = store::make_step_plan(spec, job->train_data->records(), 0);
    fit.steps.checkpoints = false;
    const store::LocalStoreOptions how{.workers = spec.workers,
                                       .batch = spec.data.batch,
                                       .steps = fit.steps,
                                       .deadline_ms = spec.limits.stall_ms};
    store = store::LocalStore::create({tests::test_operators(), pool(), test.kernels}, how).value();
    rank_store = store->rank_store(0, test.runtime);
    const data::DealSpec deal{job->test_data->records(), 1, 4, spec.seed};
    test_batches = batches(job->test_data, data::make_evaluation_plan(deal, 0));
    train_batches =
        batches(job->train_data, data::make_training_plan(job->orders, 0, job->steps_end()));
  }

  std::unique_ptr<data::BatchIterator> batches(std::shared_ptr<const data::Dataset> dataset,
                                               std::unique_ptr<data::BatchPlan> plan) {
    return data::BatchIterator::create({std::move(dataset), std::move(plan), &pool(), &test.clock},
                                       job->samples, {1, 2})
        .value();
  }

  void set_model(const LinearModel& model) {
    std::vector<double> weight;
    for (const Row& row : model.weight) weight.insert(weight.end(), row.begin(), row.end());
    const base::Status set =
        module->init_params({{"fc_weight", array({4, 4}, weight)},
                             {"fc_bias", array({4}, {model.bias.begin(), model.bias.end()})}});
    INFO(set.to_string());
    REQUIRE(set.ok());
  }

  ndarray::NDArray array(const base::Shape& shape, const std::vector<double>& values) {
    return ndarray::NDArray::from<double>(test.runtime, shape, values).value();
  }
  ModuleBatch next_batch() {
    const auto item = train_batches->next(kBatchDeadline);
    REQUIRE(item.ok());
    return module->batch(**item).value();
  }
  /// (n, 1, 2, 2) of numbers from `first` on.
  ndarray::NDArray images(std::int64_t n, double first) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < 4 * n; ++i) values.push_back(std::sin(first + i));
    return array({n, 1, 2, 2}, values);
  }
  /// A parameter, averaged state or gradient as bytes.
  static std::vector<std::byte> bytes(const ndarray::NDArray& array) {
    std::vector<std::byte> bytes(array.bytes());
    REQUIRE(array.read(bytes).ok());
    return bytes;
  }
  /// The array that an executor reads its data from: another one after a new bind.
  ndarray::NDArray data_of(std::int64_t batch) {
    return module->executor(batch).value()->arguments().at("data");
  }
  base::BufferPool& pool() { return test.storage.pool(base::Device{}); }

  tests::TestRuntime test;
  std::shared_ptr<const Job> job;
  std::unique_ptr<Module> module;
  std::unique_ptr<store::LocalStore> store;
  std::unique_ptr<store::KVStore> rank_store;
  std::unique_ptr<data::BatchIterator> train_batches, test_batches;
  FitOptions fit;
};

}  // namespace troupe::train
