// SPDX-License-Identifier: Apache-2.0
// Compares losses and gradients with a trajectory that trajectory.py wrote:
//   torch_numbers NETWORK DTYPE STEPS given|free FOLDER
// given: at each step PyTorch's weights and batch; f64 on reference kernels within 1e-9 at every
// step, f32 on the fast kernels within 1e-5 (loss) and 1e-4 (gradients) at 90 % of the steps. free:
// own steps of sgd with momentum 0.9 from PyTorch's first weights, losses within 1e-3. Exit 1 where
// it does not hold.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>

#include "ndarray/invoke.h"
#include "ndarray/safetensors.h"
#include "symbol/executor.h"
#include "symbol/networks/networks.h"
#include "tests/support/must.h"
#include "tests/support/test_runtime.h"

namespace troupe {
namespace {

using ndarray::NDArray;
using tests::must;

constexpr double kLearningRate = 0.01;
constexpr std::int64_t kBatch = 32;

std::vector<double> numbers(base::DType dtype, std::span<const std::byte> bytes) {
  std::vector<double> values(bytes.size() / base::dtype_size(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (dtype == base::DType::f64) {
      values[i] = reinterpret_cast<const double*>(bytes.data())[i];
    } else {
      values[i] = reinterpret_cast<const float*>(bytes.data())[i];
    }
  }
  return values;
}

/// |a - b| / |b|, Euclidean norms.
double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0.0;
  double size = 0.0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(difference) / std::max(std::sqrt(size), 1e-300);
}

class Comparison {
 public:
  Comparison(const std::string& network, base::DType dtype) : dtype_(dtype) {
    symbol::NetworkOptions how;
    how.dropout = 0.0;
    const symbol::Symbol net = must(symbol::make_network(tests::test_operators(), network, how));
    symbol::Bindings bindings = must(
        symbol::allocate_bindings(setup_.runtime, net, {{"data", {kBatch, 1, 28, 28}}}, dtype));
    for (const auto& [name, array] : bindings.arguments) {
      if (name == "data") continue;
      if (name.ends_with("label")) {
        label_ = name;
      } else {
        bindings.grad_req[name] = symbol::GradReq::write;
      }
    }
    symbol::ExecutorOptions options;
    options.reference_only = dtype == base::DType::f64;
    executor_ = must(symbol::Executor::bind(setup_.runtime, net, bindings, options));
  }

  void load(const ndarray::Safetensors& step, bool weights) {
    for (const auto& [name, array] : executor_->arguments()) {
      const bool input = name == "data" || name == label_;
      if (!input && !weights) continue;
      must(array.write(step.find(name == label_ ? "label" : name)->bytes));
    }
  }

  /// Relative error of the loss at the loaded batch; runs backward too.
  double loss_error(const ndarray::Safetensors& step) {
    must(executor_->forward(true));
    must(executor_->backward());
    const std::array inputs = {executor_->outputs().front(), executor_->arguments().at(label_)};
    const auto sums = must(ndarray::invoke(setup_.runtime, "cross_entropy_sum", inputs));
    const double theirs = numbers(dtype_, step.find("loss")->bytes)[0];
    return std::abs(must(sums[0].scalar<double>()) - theirs) / theirs;
  }

  /// The largest relative error of any parameter's gradient.
  double gradient_error(const ndarray::Safetensors& step) {
    double worst = 0.0;
    for (const auto& [name, gradient] : executor_->gradients()) {
      std::vector<std::byte> bytes(gradient.bytes());
      must(gradient.read(bytes));
      worst = std::max(worst, distance(numbers(dtype_, bytes),
                                       numbers(dtype_, step.find(name + ".grad")->bytes)));
    }
    return worst;
  }

  /// One step of sgd with momentum from the gradients that are there.
  void update() {
    const NDArray rate = scalar(kLearningRate);
    const NDArray count = scalar(kBatch);
    for (const auto& [name, gradient] : executor_->gradients()) {
      const NDArray& weight = executor_->arguments().at(name);
      NDArray& momentum = momenta_[name];
      if (!momentum) momentum = must(NDArray::zeros(setup_.runtime, weight.shape(), dtype_));
      ndarray::InvokeOptions into;
      into.outputs = {weight, momentum};
      const std::array inputs = {weight, gradient, momentum, rate, count};
      must(ndarray::invoke(setup_.runtime, "sgd_update", inputs, {{"momentum", "0.9"}}, into)
               .status());
    }
  }

 private:
  NDArray scalar(double value) {
    NDArray array = must(NDArray::zeros(setup_.runtime, base::Shape{}, dtype_));
    const auto single = static_cast<float>(value);
    must(dtype_ == base::DType::f64 ? array.write(std::as_bytes(std::span(&value, 1)))
                                    : array.write(std::as_bytes(std::span(&single, 1))));
    return array;
  }

  tests::TestRuntime setup_;
  base::DType dtype_;
  std::string label_;
  std::unique_ptr<symbol::Executor> executor_;
  std::map<std::string, NDArray> momenta_;
};

int compare(const std::string& network, base::DType dtype, int steps, bool free,
            const std::filesystem::path& folder) {
  Comparison comparison(network, dtype);
  const bool exact = dtype == base::DType::f64;
  int good = 0;
  double worst_loss = 0.0;
  double worst_gradient = 0.0;
  for (int step = 0; step < steps; ++step) {
    const auto file =
        must(ndarray::read_safetensors(folder / ("step-" + std::to_string(step) + ".safetensors")));
    comparison.load(file, !free || step == 0);
    const double loss = comparison.loss_error(file);
    const double gradient = free ? 0.0 : comparison.gradient_error(file);
    worst_loss = std::max(worst_loss, loss);
    worst_gradient = std::max(worst_gradient, gradient);
    good += free    ? loss <= 1e-3
            : exact ? loss <= 1e-9 && gradient <= 1e-9
                    : loss <= 1e-5 && gradient <= 1e-4;
    if (free) comparison.update();
  }
  std::printf("%s %s %s: %d of %d steps within bounds; worst loss %.2e, worst gradient %.2e\n",
              network.c_str(), std::string(base::dtype_name(dtype)).c_str(),
              free ? "free-running" : "along PyTorch's trajectory", good, steps, worst_loss,
              worst_gradient);
  return good >= (exact || free ? steps : steps * 9 / 10) ? 0 : 1;
}

}  // namespace
}  // namespace troupe

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: torch_numbers NETWORK DTYPE STEPS given|free FOLDER\n");
    return 2;
  }
  const auto dtype = troupe::base::parse_dtype(argv[2]);
  if (!dtype.ok()) return 2;
  return troupe::compare(argv[1], *dtype, std::stoi(argv[3]), std::string_view(argv[4]) == "free",
                         argv[5]);
}
