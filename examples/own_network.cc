// SPDX-License-Identifier: Apache-2.0
// Troupe as a library, below the training module: a network composed from operators, bound to
// memory, and gradient descent by hand. It learns the exclusive or of two numbers:
//   own_network
#include <algorithm>
#include <cstdio>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <troupe/ndarray/invoke.h>
#include <troupe/symbol/executor.h>
#include <troupe/symbol/symbol.h>

using namespace troupe;

constexpr int kSteps = 1000;
constexpr double kRate = 0.3;

/// data (n, 2) -> 8 units -> 2 classes. Weights, biases and the label are inputs, too: a call makes
/// a variable of each that is not given ("hidden_weight"). docs/ops.md lists the operators.
base::Result<symbol::Symbol> compose(const ops::OpTable& operators) {
  symbol::Composer c(operators);
  const auto data = c.variable("data");
  const auto hidden = c.call("fully_connected", "hidden", {data}, {{"num_hidden", "8"}});
  const auto active = c.call("activation", "active", {hidden}, {{"act_type", "tanh"}});
  const auto scores = c.call("fully_connected", "scores", {active}, {{"num_hidden", "2"}});
  return c.finish(c.call("softmax_output", "softmax", {scores}));
}

/// Fills an array with numbers of the normal distribution. Arrays are handles: all copies of
/// `array`, the one that is bound among them, see the values.
base::Status fill(ndarray::Runtime& runtime, const ndarray::NDArray& array, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(array.shape().elements()));
  std::generate(values.begin(), values.end(), [&] { return normal(random); });
  TROUPE_TRY_ASSIGN(const auto drawn,
                    ndarray::NDArray::from<float>(runtime, array.shape(), values));
  return array.copy_from(drawn);
}

/// Prints what is learned; failed_precondition where it is wrong.
base::Status learn(ndarray::Runtime& runtime, const ops::OpTable& operators) {
  TROUPE_TRY_ASSIGN(const symbol::Symbol network, compose(operators));
  // Shapes follow from the data's: arguments, auxiliary states and outputs are arrays of these.
  TROUPE_TRY_ASSIGN(symbol::Bindings bindings,
                    symbol::allocate_bindings(runtime, network, {{"data", base::Shape{4, 2}}}));
  std::mt19937 random(7);
  for (const std::string& name : network.list_parameters()) {
    bindings.grad_req[name] = symbol::GradReq::write;
    TROUPE_TRY(fill(runtime, bindings.arguments.at(name), random));
  }
  const std::vector<float> points = {0, 0, 0, 1, 1, 0, 1, 1};
  const std::vector<float> classes = {0, 1, 1, 0};
  TROUPE_TRY_ASSIGN(const auto data, ndarray::NDArray::from<float>(runtime, {4, 2}, points));
  TROUPE_TRY_ASSIGN(const auto label, ndarray::NDArray::from<float>(runtime, {4}, classes));
  TROUPE_TRY(bindings.arguments.at("data").copy_from(data));
  TROUPE_TRY(bindings.arguments.at("softmax_label").copy_from(label));

  // Kernels are chosen and memory is planned here, once.
  TROUPE_TRY_ASSIGN(const auto bound,
                    symbol::Executor::bind(runtime, network, std::move(bindings)));
  for (int step = 0; step < kSteps; ++step) {
    TROUPE_TRY(bound->forward(/*train=*/true));
    TROUPE_TRY(bound->backward());
    for (const auto& [name, gradient] : bound->gradients()) {
      ndarray::NDArray weight = bound->arguments().at(name);
      weight -= kRate * gradient;  // pushed to the engine; nothing waits
      TROUPE_TRY(weight.status());
    }
  }

  TROUPE_TRY(bound->forward(/*train=*/false));
  TROUPE_TRY_ASSIGN(const auto rows, bound->outputs().front().to_vector<float>());  // (4, 2)
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const float one = rows[2 * i + 1];
    std::printf("%g xor %g is 1 with probability %.3f\n", points[2 * i], points[2 * i + 1], one);
    if ((one > 0.5F) != (classes[i] == 1)) {
      return base::error(base::Errc::failed_precondition, "it has not learned");
    }
  }
  return {};
}

int main() {
  // Nothing is global. Members go from the last to the first: the engine ends before what it uses.
  base::SteadyClock clock;
  storage::Storage storage;
  const ops::OpTable operators = ops::OpTable::build();
  ndarray::PreparedKernels kernels;
  const auto engine = engine::make_threaded_engine({}, clock);
  ndarray::Runtime runtime{*engine, storage, operators, kernels, clock};
  const base::Status status = learn(runtime, operators);
  if (!status.ok()) std::fprintf(stderr, "own_network: %s\n", status.to_string().c_str());
  return status.ok() ? 0 : 1;
}
