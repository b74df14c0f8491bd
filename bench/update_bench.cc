// SPDX-License-Identifier: Apache-2.0
// What it costs to write an optimizer by hand: `forward_backward(); w -= eta * g` for every
// parameter, pushed call by call, beside the step whose updates are compiled to a program.
//   bench_update NETWORK [--batch=32] [--threads=1] [--steps=5] [--repetitions=5]
// NETWORK: a built-in one or deep-mlp (measured_network.h), whose steps are mostly pushing.
// The check: the first weight's first number after the last step, minus what it was.
#include <string>
#include <utility>
#include <vector>

#include "bench/measured_network.h"
#include "bench/network_values.h"
#include "bench/report.h"
#include "engine/program.h"
#include "ndarray/invoke.h"
#include "ndarray/run_kernel.h"
#include "symbol/executor.h"

namespace troupe::bench {
namespace {

using ndarray::NDArray;

constexpr double kEta = 1e-4;

/// A network in training, and its updates in both ways.
class Trained {
 public:
  Trained(const std::string& name, std::int64_t batch, int threads)
      : engine_(engine::make_threaded_engine({.threads = threads}, clock_)) {
    const auto [net, data, classes] = measured_network(table_, name, batch);
    symbol::Bindings bindings = must(symbol::allocate_bindings(runtime_, net, {{"data", data}}));
    for (const auto& [key, array] : bindings.arguments) fill(array, key, classes);
    for (const auto& [key, array] : bindings.auxiliary) fill(array, key, classes);
    for (const std::string& key : net.list_parameters()) {
      bindings.grad_req[key] = symbol::GradReq::write;
      weights_.push_back(bindings.arguments.at(key));
    }
    symbol::ExecutorOptions options;
    options.predict = false;
    executor_ = must(symbol::Executor::bind(runtime_, net, std::move(bindings), options));
    for (const std::string& key : net.list_parameters()) {
      gradients_.push_back(executor_->gradients().at(key));
    }
    compile();
  }

  void forward_backward() {
    must(executor_->forward(true));
    must(executor_->backward());
  }
  void compiled_update() { program_.replay(); }
  void update() {
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      weights_[i] -= kEta * gradients_[i];
      must(weights_[i].status());
    }
  }
  void wait() { must(engine_->wait_all()); }
  double first() const { return must(weights_.front().to_vector<float>()).front(); }

 private:
  /// One inner operation a parameter, which does what the loop's does.
  void compile() {
    factor_ = number(-kEta);
    const ops::OpDef& op = table_.at("add_scaled");
    const ops::Params params = must(ops::parse_params(op, {}));
    engine::Recording recording("updates", {});
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      std::vector<base::TensorView> inputs;
      std::vector<ops::TensorDesc> described;
      for (const NDArray& array : {weights_[i], gradients_[i], factor_}) {
        must(array.wait());
        inputs.push_back(array.view());
        described.push_back({array.dtype(), array.shape(), {}, false});
      }
      ops::OpCall call = must(ops::make_call(op, params, described));
      call.team = engine_->team({});
      const std::shared_ptr<const ops::Kernel> kernel = must(ops::prepare(call));
      const std::vector<base::TensorView> outputs = {inputs[0]};
      recording.add({.name = "update",
                     .reads = {recording.port(gradients_[i].variable())},
                     .writes = {recording.port(weights_[i].variable())},
                     .overwrites = {},
                     .function = [kernel, inputs, outputs](engine::RunContext& lane) {
                       return ndarray::run_kernel(kernel, {inputs, outputs, {}}, lane);
                     }});
    }
    program_ = engine_->compile(std::move(recording));
  }

  NDArray number(double value) {
    const auto narrowed = static_cast<float>(value);
    return must(NDArray::from(runtime_, base::Shape(), std::span(&narrowed, 1)));
  }

  base::SteadyClock clock_;
  const ops::OpTable table_ = ops::OpTable::build();
  storage::Storage storage_;
  ndarray::PreparedKernels kernels_;
  std::unique_ptr<engine::Engine> engine_;
  ndarray::Runtime runtime_{*engine_, storage_, table_, kernels_, clock_};
  std::vector<NDArray> weights_, gradients_;
  NDArray factor_;
  std::unique_ptr<symbol::Executor> executor_;
  engine::Program program_;
};

int run(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr,
                 "usage: %s NETWORK|deep-mlp [--batch=32] [--threads=1] [--steps=5] "
                 "[--repetitions=5]\n",
                 argv[0]);
    return 2;
  }
  const std::string name = argv[1];
  const int batch = option(argc, argv, "batch", 32);
  const int steps = option(argc, argv, "steps", 5);
  const int repetitions = option(argc, argv, "repetitions", 5);
  Trained trained(name, batch, option(argc, argv, "threads", 1));
  const double before = trained.first();
  const auto row = [&](const char* title, void (Trained::*update)()) {
    const Seconds seconds = measure(1, repetitions, steps, [&] {
      for (int i = 0; i < steps; ++i) {
        trained.forward_backward();
        if (update != nullptr) (trained.*update)();
      }
      trained.wait();
    });
    print_row(name + title, seconds, trained.first() - before);
  };
  row(" without update", nullptr);
  row(" update compiled", &Trained::compiled_update);
  row(" w -= eta * g", &Trained::update);
  return 0;
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  return troupe::bench::run(argc, argv);
}
