// SPDX-License-Identifier: Apache-2.0
// The forward and backward pass of a network (measured_network.h), or its prediction, on one batch
// in memory: what peers/torch_convnets.py and peers/mxnet_convnets.py time too. Weights and batch
// are a formula of their names that all of them know; dropout is left out.
//   bench_networks train|predict|memory|modes|recompute NETWORK FILE [--batch=32] [--threads=1]
//                  [--repetitions=5] [--no-winograd] [--recompute=cheap] [--sub-batch=0]
//                  [--budget=MIB] [--trace=FILE] [--gpu] [--products=f32]
//                  [--dense] [--no-graphs] [--tf32] [--steps=1] [--kernels=FILE]
// FILE gets the probabilities and, after training, the gradients of the first and the last weight:
// f32, one after the other; peers must agree before times mean anything. memory, modes, recompute:
// FILE is not written; they print planned bytes, modes those of each way to share memory, recompute
// those of training with each way to recompute. `troupe trace` reads the file of --trace. --gpu: on
// the first GPU. --products=bf16 or f16: what products are computed in. --dense: no layouts but
// that. --no-graphs: a GPU is given operations one by one, not graphs of them, as while a trace is
// taken. --tf32: its products of f32 may use tensor cores. --steps=N: a repetition is N steps and
// waits once, behind the last. --kernels: what `troupe model autotune` has written. The second row
// of train and predict has the planned MiB of the arena; its check adds weights, gradients and the
// batch.
#include <algorithm>
#include <fstream>
#include <functional>

#include <fmt/format.h>

#include "bench/measured_network.h"
#include "bench/network_values.h"
#include "bench/report.h"
#include "gpu/stream.h"
#include "symbol/executor.h"
#include "symbol/kernel_choices.h"

namespace troupe::bench {
namespace {

using ndarray::NDArray;

/// A network bound on an engine of its own.
class Bound {
 public:
  Bound(const std::string& name, std::int64_t batch, const engine::EngineOptions& engine,
        const symbol::ExecutorOptions& options)
      : stream_(make_stream(options.device)),
        engine_(engine::make_threaded_engine(with_stream(engine), clock_)),
        train_(options.train) {
    const auto [net, data, classes] = measured_network(table_, name, batch);
    symbol::Bindings bindings = must(symbol::allocate_bindings(runtime_, net, {{"data", data}},
                                                               base::DType::f32, options.device));
    for (const auto& [key, array] : bindings.arguments) fill(array, key, classes);
    for (const std::string& key : net.list_parameters()) {
      if (train_) bindings.grad_req[key] = symbol::GradReq::write;
      if (key.ends_with("_weight")) weights_.push_back(key);
    }
    for (const auto& [key, array] : bindings.auxiliary) fill(array, key, classes);
    executor_ = must(symbol::Executor::bind(runtime_, net, std::move(bindings), options));
  }

  /// Steps one behind the other; waits for the last.
  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      must(executor_->forward(train_));
      if (train_) must(executor_->backward());
    }
    must(engine_->wait_all());
  }

  void write(const std::string& path) const {
    std::ofstream file(path, std::ios::binary);
    auto append = [&](const NDArray& array) {
      const std::vector<float> values = must(array.to_vector<float>());
      file.write(reinterpret_cast<const char*>(values.data()),
                 static_cast<std::streamsize>(values.size() * sizeof(float)));
    };
    append(executor_->outputs().front());
    if (train_) {
      append(executor_->gradients().at(weights_.front()));
      append(executor_->gradients().at(weights_.back()));
    }
    if (file.flush()) return;
    std::fprintf(stderr, "%s cannot be written\n", path.c_str());
    std::_Exit(1);
  }

  const symbol::ExecutorReport& report() const { return executor_->report(); }
  /// Of what is bound, and of the gradients.
  double array_bytes() const {
    std::size_t bytes = 0;
    for (const auto* arrays :
         {&executor_->arguments(), &executor_->auxiliary(), &executor_->gradients()}) {
      for (const auto& [key, array] : *arrays) bytes += array.bytes();
    }
    return static_cast<double>(bytes);
  }
  double multiply_adds() const {
    double sum = 0.0;
    for (const symbol::NodeReport& node : report().nodes) sum += node.multiply_adds;
    return sum;
  }

 private:
  static std::unique_ptr<base::Stream> make_stream(base::Device device) {
    if (device.host_memory()) return nullptr;
    return must(gpu::make_stream(device, gpu::StreamPriority::normal));
  }
  engine::EngineOptions with_stream(engine::EngineOptions options) const {
    if (stream_) options.streams = {stream_.get()};
    return options;
  }

  std::unique_ptr<base::Stream> stream_;  // of a device; outlives the engine
  base::SteadyClock clock_;
  const ops::OpTable table_ = ops::OpTable::build();
  storage::Storage storage_;
  ndarray::PreparedKernels kernels_;
  std::unique_ptr<engine::Engine> engine_;
  ndarray::Runtime runtime_{*engine_, storage_, table_, kernels_, clock_};
  bool train_;
  std::vector<std::string> weights_;
  std::unique_ptr<symbol::Executor> executor_;
};

/// Binds the network of the command line for training or prediction.
using Bind = std::function<Bound(bool train, symbol::ExecutorOptions options)>;

/// More samples than any batch has: predictions take all at once.
constexpr std::int64_t kWhole = std::int64_t{1} << 40;

/// Planned bytes, for training and for prediction, in parts and at once. The check: samples of a
/// part.
void print_memory(const std::string& name, const Bind& bind) {
  const auto print = [&](const char* title, bool train, std::int64_t sub_batch) {
    symbol::ExecutorOptions options;
    options.sub_batch = sub_batch;
    const symbol::ExecutorReport report = bind(train, options).report();
    print_row(fmt::format("{} {}", name, title), {static_cast<double>(report.arena_bytes), 0.0},
              static_cast<double>(report.sub_batch));
    return report.prologue_bytes;
  };
  print("train memory", true, 0);
  print("predict memory", false, 0);
  const std::size_t weights = print("predict memory at once", false, kWhole);
  print_row(name + " predict weights", {static_cast<double>(weights), 0.0});
}

/// Bytes of the arena in each mode, for training and for prediction; "apart" is none of a graph
/// whose operators are not fused, as MXNet's were. The check is what the schedule needs at least.
void print_modes(const std::string& name, const Bind& bind) {
  struct Mode {
    const char* title;
    symbol::MemoryMode memory;
    bool fused = true;
  };
  constexpr Mode kModes[] = {{"apart", symbol::MemoryMode::none, false},
                             {"none", symbol::MemoryMode::none},
                             {"in-place", symbol::MemoryMode::in_place},
                             {"co-share", symbol::MemoryMode::share},
                             {"both", symbol::MemoryMode::both}};
  for (const bool train : {true, false}) {
    for (const auto& [title, memory, fused] : kModes) {
      symbol::ExecutorOptions options;
      options.memory = memory;
      options.fused = fused;
      options.sub_batch = kWhole;
      options.recompute = symbol::Recompute::none;
      const symbol::ExecutorReport report = bind(train, options).report();
      print_row(fmt::format("{} {} {}", name, train ? "train" : "predict", title),
                {static_cast<double>(report.arena_bytes), 0.0},
                static_cast<double>(report.live_set_bytes));
    }
  }
}

constexpr std::pair<symbol::Recompute, const char*> kPolicies[] = {
    {symbol::Recompute::none, "none"},
    {symbol::Recompute::cheap, "cheap"},
    {symbol::Recompute::sqrt, "sqrt"}};

/// Bytes of the arena for training with each policy, and with budgets that are shares of what none
/// takes, as far as sqrt reaches; milliseconds of a step by rule. The check: milliseconds of what
/// is recomputed.
void print_recompute(const std::string& name, const Bind& bind) {
  constexpr double kMilliseconds = 1e3;
  std::size_t kept = 0, least = 0;
  const auto print = [&](const std::string& title, symbol::ExecutorOptions options) {
    const symbol::ExecutorReport report = bind(true, options).report();
    if (kept == 0) kept = report.arena_bytes;
    least = report.arena_bytes;  // in the end that of sqrt
    print_row(fmt::format("{} train {}", name, title),
              {static_cast<double>(report.arena_bytes), report.step_seconds * kMilliseconds},
              report.recompute_seconds * kMilliseconds);
  };
  for (const auto& [policy, title] : kPolicies) {
    symbol::ExecutorOptions options;
    options.recompute = policy;
    print(title, options);
  }
  const std::size_t smallest = least;
  for (const double share : {0.75, 0.5, 0.3, 0.2}) {
    symbol::ExecutorOptions options;
    options.recompute = symbol::Recompute::budget;
    options.budget = static_cast<std::size_t>(share * static_cast<double>(kept));
    if (options.budget < smallest) break;
    print(fmt::format("budget {:.2f}", share), options);
  }
}

int run(int argc, char** argv) {
  const std::string what = argc > 3 ? argv[1] : "";
  if (what != "train" && what != "predict" && what != "memory" && what != "modes" &&
      what != "recompute") {
    std::fprintf(stderr,
                 "usage: %s train|predict|memory|modes|recompute NETWORK FILE [--batch=32] "
                 "[--threads=1] [--repetitions=5] [--no-winograd] [--recompute=none|cheap|sqrt] "
                 "[--budget=MIB] [--sub-batch=0] [--trace=FILE] [--gpu] [--products=f32|bf16|f16] "
                 "[--dense] [--no-graphs] [--tf32] [--steps=1] [--kernels=FILE]\n",
                 argv[0]);
    return 2;
  }
  const std::string name = argv[2];
  const int batch = option(argc, argv, "batch", 32);
  const int threads = option(argc, argv, "threads", 1);
  const int repetitions = option(argc, argv, "repetitions", 5);
  const auto flag = [&](std::string_view wanted) {
    return std::find(argv, argv + argc, wanted) != argv + argc;
  };
  const bool winograd = !flag("--no-winograd");
  symbol::Recompute policy = symbol::Recompute::cheap;
  for (const auto& [each, title] : kPolicies) {
    if (flag(std::string("--recompute=") + title)) policy = each;
  }
  const int budget = option(argc, argv, "budget", 0);
  const int sub_batch = option(argc, argv, "sub-batch", 0);
  const int steps = option(argc, argv, "steps", 1);
  const std::string trace(text_option(argc, argv, "trace"));
  std::shared_ptr<const symbol::KernelChoices> kernels;
  if (const std::string file(text_option(argc, argv, "kernels")); !file.empty()) {
    kernels =
        std::make_shared<const symbol::KernelChoices>(must(symbol::KernelChoices::load(file)));
  }
  const Bind bind = [&](bool train, symbol::ExecutorOptions options) {
    options.train = train;
    options.predict = !train;
    options.winograd = winograd;
    if (flag("--gpu")) options.device = {base::DeviceKind::cuda, 0};
    if (flag("--dense")) options.layouts = base::LayoutPolicy::dense;
    if (flag("--products=bf16")) options.products = base::DType::bf16;
    if (flag("--products=f16")) options.products = base::DType::f16;
    options.tf32 = flag("--tf32");
    options.kernels = kernels;
    if (options.sub_batch == 0) options.sub_batch = sub_batch;
    const bool graphs = !flag("--no-graphs");
    return Bound(name, batch, {.threads = threads, .graphs = graphs, .trace_path = trace}, options);
  };
  if (what == "memory") print_memory(name, bind);
  if (what == "modes") print_modes(name, bind);
  if (what == "recompute") print_recompute(name, bind);
  if (what == "memory" || what == "modes" || what == "recompute") return 0;
  symbol::ExecutorOptions options;
  options.recompute = budget > 0 ? symbol::Recompute::budget : policy;
  options.budget = static_cast<std::size_t>(budget) << 20;
  Bound bound = bind(what == "train", options);
  // What is timed is what is compared: a GPU is given graphs from the second step on.
  bound.run(flag("--gpu") ? 3 : 1);
  bound.write(argv[3]);
  // The check: operations of an image, counted in direct form (a multiply-add counts as 2).
  const double items = static_cast<double>(batch) * steps;
  print_row(name + " " + what, measure(1, repetitions, items, [&] { bound.run(steps); }),
            bound.multiply_adds() * 2 / batch);
  constexpr double kMebi = 1048576.0;
  const auto arena = static_cast<double>(bound.report().arena_bytes);
  print_row(name + " planned MiB", {arena / kMebi, 0.0}, (arena + bound.array_bytes()) / kMebi);
  return 0;
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  return troupe::bench::run(argc, argv);
}
