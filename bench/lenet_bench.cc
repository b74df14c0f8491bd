// SPDX-License-Identifier: Apache-2.0
// LeNet's training step (forward, backward, push, update, pull over the local store) and its
// prediction, on one batch in memory: what peers/torch_peer.py and peers/mxnet_peer.py time too.
// First weights and batch are a formula that all of them know; the check is the loss at step 20.
//   bench_lenet [--batch=64] [--threads=1] [--steps=100] [--repetitions=5]
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "bench/formula.h"
#include "bench/report.h"
#include "store/local_store.h"
#include "symbol/networks/networks.h"
#include "train/module.h"

namespace troupe::bench {
namespace {

using ndarray::NDArray;

constexpr int kCheckStep = 20;
constexpr double kLearningRate = 0.01;

base::Buffer buffer_of(const std::vector<float>& values) {
  base::Buffer buffer = base::make_host_buffer(values.size() * sizeof(float));
  std::memcpy(buffer.data(), values.data(), buffer.size());
  return buffer;
}

engine::EngineOptions engine_options(int threads) {
  engine::EngineOptions options;
  options.threads = threads;
  return options;
}

/// A module, its store and a batch.
class Lenet {
 public:
  Lenet(int batch, int threads)
      : engine_(engine::make_threaded_engine(engine_options(threads), clock_)) {
    const symbol::Symbol network = must(symbol::make_network(table_, "lenet"));
    train::ModuleOptions how;
    how.inputs.sample = base::Shape{1, 28, 28};
    how.inputs.label = "softmax_label";
    module_ = must(train::Module::create(runtime_, network, how));
    store::StepPlan plan;
    plan.total = plan.epoch_steps = store::kNoStep - 1;
    const store::LocalStoreOptions options{.batch = static_cast<std::uint32_t>(batch),
                                           .steps = plan};
    store_ =
        must(store::LocalStore::create({table_, storage_.pool(base::Device{}), kernels_}, options));
    door_ = store_->rank_store(0, runtime_);
    must(module_->init_params(first_weights()));
    store::UpdateRule rule;
    rule.optimizer.lr = kLearningRate;
    rule.optimizer.momentum = 0.9;
    rule.optimizer.wd = 1e-4;
    must(module_->init_optimizer(*door_, rule, true));
    must(module_->pull(0, true));
    batch_.size = batch;
    batch_.data = buffer_of(stream(100, static_cast<std::size_t>(batch) * 784, 1.0));
    std::vector<float> labels;
    for (int i = 0; i < batch; ++i) labels.push_back(static_cast<float>(i % 10));
    batch_.labels = buffer_of(labels);
  }

  void step() {
    must(module_->forward_backward(batch_, step_));
    must(module_->update(step_, static_cast<double>(batch_.size), false));
    ++step_;
  }
  /// Mean over the last step's batch.
  double loss() {
    const train::BatchMetrics metrics = must(module_->training_metrics());
    return must(metrics.read()).at("cross_entropy").mean();
  }
  void wait() { must(engine_->wait_all()); }
  void predict() { must(module_->score(batch_)); }

 private:
  std::map<std::string, NDArray> first_weights() {
    std::map<std::string, NDArray> values;
    for (const schemas::KeyInfo& key : module_->keys()) {
      const std::int64_t elements = key.shape.elements();
      const bool bias = key.shape.rank() == 1;
      const double fan_in = bias ? 1.0 : static_cast<double>(elements / key.shape[0]);
      const auto numbers =
          stream(key.id, static_cast<std::size_t>(elements), bias ? 0.0 : std::sqrt(3.0 / fan_in));
      NDArray array = must(NDArray::zeros(runtime_, key.shape));
      must(array.write(std::as_bytes(std::span(numbers))));
      values.emplace(key.name, std::move(array));
    }
    return values;
  }

  base::SteadyClock clock_;
  const ops::OpTable table_ = ops::OpTable::build();
  storage::Storage storage_;
  ndarray::PreparedKernels kernels_;
  std::unique_ptr<store::LocalStore> store_;  // outlives the engine, whose operations use it
  std::unique_ptr<store::KVStore> door_;
  std::unique_ptr<engine::Engine> engine_;
  ndarray::Runtime runtime_{*engine_, storage_, table_, kernels_, clock_};
  std::unique_ptr<train::Module> module_;
  train::ModuleBatch batch_;
  std::uint64_t step_ = 0;
};

int run(int argc, char** argv) {
  const int batch = option(argc, argv, "batch", 64);
  const int threads = option(argc, argv, "threads", 1);
  const int steps = option(argc, argv, "steps", 100);
  const int repetitions = option(argc, argv, "repetitions", 5);
  Lenet lenet(batch, threads);
  for (int i = 0; i <= kCheckStep; ++i) lenet.step();
  const double loss = lenet.loss();
  const double samples = static_cast<double>(batch) * steps;
  const Seconds train = measure(1, repetitions, samples, [&] {
    for (int i = 0; i < steps; ++i) lenet.step();
    lenet.wait();
  });
  print_row("lenet train", train, loss);
  const Seconds predict = measure(1, repetitions, samples, [&] {
    for (int i = 0; i < steps; ++i) lenet.predict();
    lenet.wait();
  });
  print_row("lenet predict", predict);
  return 0;
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  return troupe::bench::run(argc, argv);
}
