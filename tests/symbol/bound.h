// SPDX-License-Identifier: Apache-2.0
// For tests of symbols: errors and values as they are compared, and bound networks (arrays with
// values that follow from their names, one step, its results as bytes). A test's thread only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "symbol/executor.h"
#include "symbol/networks/networks.h"
#include "tests/support/catch.h"
#include "tests/support/test_runtime.h"

namespace troupe::symbol {

using Names = std::vector<std::string>;
using Bytes = std::vector<std::byte>;
using Results = std::map<std::string, Bytes>;

inline const ops::OpTable& table() {
  return tests::test_operators();
}

/// True for an error whose text has all of `texts`.
inline bool mentions(const base::Status& status, std::initializer_list<const char*> texts) {
  INFO(status.to_string());
  for (const char* text : texts) {
    if (status.text().find(text) == std::string::npos) {
      UNSCOPED_INFO("missing: " << text << " in: " << status.to_string());
      return false;
    }
  }
  return !status.ok();
}

inline ndarray::NDArray array(tests::TestRuntime& test, const base::Shape& shape,
                              std::vector<double> values) {
  return ndarray::NDArray::from<double>(test.runtime, shape, values).value();
}
inline std::vector<double> values(const ndarray::NDArray& a) {
  return a.to_vector<double>().value();
}

/// exp(exp(exp(data))) whose first kernel is said to load wide. `wide` is its operator, which lasts
/// as long as the symbol.
inline Symbol wide_exponentials(ops::OpDef& wide) {
  Composer c(table());
  Symbol net = c.variable("data");
  for (const char* name : {"first", "second", "third"}) net = c.call("exp", name, {net});
  Graph graph = c.finish(net).value().graph();
  wide = table().at("exp");
  for (ops::KernelDef& kernel : wide.kernels) kernel.loads_wide = true;
  for (GraphNode& node : graph.nodes) {
    if (node.name == "first") node.op = &wide;
  }
  return Symbol::from_graph(graph);
}

/// Uniform values in [low, high) that depend on `name` and place only.
inline void fill(const ndarray::NDArray& array, const std::string& name, double low, double high) {
  const base::RandomKey key = base::random_key(1, name);
  REQUIRE(ops::with_real(array.dtype(), [&](auto zero) {
            using T = decltype(zero);
            std::vector<T> values(static_cast<std::size_t>(array.elements()));
            for (std::size_t i = 0; i < values.size(); ++i) {
              const double u = base::uniform_f64(base::philox(key, i / 4, 0, 0)[i % 4]);
              values[i] = static_cast<T>(static_cast<ops::Wide<T>>(low + (high - low) * u));
            }
            return array.write(std::as_bytes(std::span<const T>(values)));
          }).ok());
}

/// Class numbers below `classes`.
inline void fill_labels(const ndarray::NDArray& array, int classes) {
  std::vector<float> labels(static_cast<std::size_t>(array.elements()));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    labels[i] = static_cast<float>((i * 7 + 3) % static_cast<std::size_t>(classes));
  }
  if (array.dtype() == base::DType::f64) {
    const std::vector<double> wide(labels.begin(), labels.end());
    REQUIRE(array.write(std::as_bytes(std::span<const double>(wide))).ok());
  } else {
    REQUIRE(array.write(std::as_bytes(std::span<const float>(labels))).ok());
  }
}

/// data -> fc1 -> tanh -> fc2 -> softmax_output.
inline Symbol two_layers() {
  Composer c(table());
  Symbol net = c.variable("data");
  net = c.call("fully_connected", "fc1", {net}, {{"num_hidden", "4"}});
  net = c.call("activation", "act", {net}, {{"act_type", "tanh"}});
  net = c.call("fully_connected", "fc2", {net}, {{"num_hidden", "3"}});
  net = c.call("softmax_output", "softmax", {net});
  return c.finish(net).value();
}

/// Images of any number of channels: convolutions whose outputs are joined, cut apart and joined
/// again, parts that others read, too, and a softmax_output of 10 classes.
inline Symbol parted() {
  Composer c(table());
  const auto convolved = [&](const std::string& name, const Symbol& from, const char* filters) {
    const Symbol result =
        c.call("convolution", name, Inputs{{from}, {}},
               {{"kernel", "(3, 3)"}, {"pad", "(1, 1)"}, {"num_filter", filters}});
    return c.call("activation", name + "_relu", {result}, {{"act_type", "relu"}});
  };
  const Symbol data = c.variable("data");
  const Symbol a = convolved("a", data, "16"), b = convolved("b", data, "32");
  const Symbol ab = c.call("concat", "ab", {a, b}, {{"num_args", "2"}});
  const Symbol d = convolved("d", ab, "32"), e = convolved("e", b, "16");
  const Symbol parts = c.call("split", "parts", {d}, {{"num_outputs", "2"}});
  const Symbol tail = c.call("slice_axis", "tail", {ab}, {{"axis", "1"}, {"begin", "32"}});
  // `a` is in two wholes, the first part of `d` twice in one.
  Symbol net = c.call("concat", "all", {parts[0], e, a, tail, parts[0], ab}, {{"num_args", "6"}});
  net = c.call("add_scalar", "", {net}, {{"scalar", "0.5"}});
  net = c.call("flatten", "flat", {convolved("f", net, "16")});
  net = c.call("fully_connected", "fc", Inputs{{net}, {}}, {{"num_hidden", "20"}});
  const Symbol halves = c.call("split", "halves", {net}, {{"num_outputs", "2"}});
  net = c.call("add", "sum", {halves[0], halves[1]});
  return c.finish(c.call("softmax_output", "softmax", {net})).value();
}

/// Arrays for `net` with `data` of the given shape; weights are small, gradients wanted for all
/// arguments but data and label.
inline Bindings make_bindings(ndarray::Runtime& runtime, const Symbol& net, const base::Shape& data,
                              base::DType dtype = base::DType::f32, base::Device device = {}) {
  Bindings bindings = allocate_bindings(runtime, net, {{"data", data}}, dtype, device).value();
  for (const auto& [name, array] : bindings.arguments) {
    if (name == "softmax_label") {
      fill_labels(array, 10);
      continue;
    }
    if (name == "data") {
      fill(array, name, 0.0, 1.0);
      continue;
    }
    bindings.grad_req[name] = GradReq::write;
    const bool scale = name.ends_with("gamma");
    fill(array, name, scale ? 0.5 : -0.1, scale ? 1.5 : 0.1);
  }
  return bindings;
}

inline Bytes bytes_of(const ndarray::NDArray& array) {
  Bytes bytes(array.bytes());
  const base::Status status = array.read(bytes);
  INFO(status.to_string());
  REQUIRE(status.ok());
  return bytes;
}

/// Outputs, gradients and batch values as they are now.
inline Results results_of(const Executor& executor) {
  Results results;
  for (std::size_t i = 0; i < executor.outputs().size(); ++i) {
    results[fmt::format("output {}", i)] = bytes_of(executor.outputs()[i]);
  }
  for (const auto& [name, array] : executor.gradients()) results[name] = bytes_of(array);
  for (const auto& [name, array] : executor.batch_values()) results[name] = bytes_of(array);
  return results;
}

/// An engine of a kind with an executor of a network, by its name or itself, on it.
struct Bound {
  Bound(const std::string& network, const base::Shape& data, const ExecutorOptions& options = {},
        bool threaded = true, const engine::EngineOptions& engine_options = {},
        base::DType dtype = base::DType::f32)
      : Bound(make_network(table(), network).value(), data, options, threaded, engine_options,
              dtype) {}

  Bound(const Symbol& network, const base::Shape& data, const ExecutorOptions& options = {},
        bool threaded = true, const engine::EngineOptions& engine_options = {},
        base::DType dtype = base::DType::f32)
      : test(threaded, engine_options), net(network) {
    Bindings bindings = make_bindings(test.runtime, net, data, dtype, options.device);
    auto made = Executor::bind(test.runtime, net, std::move(bindings), options);
    INFO(made.status().to_string());
    REQUIRE(made.ok());
    executor = std::move(made).value();
  }

  Results step(std::int64_t number = 0) {
    REQUIRE(executor->set_step(number).ok());
    REQUIRE(executor->forward(true).ok());
    REQUIRE(executor->backward().ok());
    return results_of(*executor);
  }

  tests::TestRuntime test;
  Symbol net;
  std::unique_ptr<Executor> executor;
};

/// Largest difference relative to the largest value, of two tensors of T.
template <typename T>
double distance(const Bytes& a, const Bytes& b) {
  REQUIRE(a.size() == b.size());
  double scale = 1e-30, largest = 0;
  for (std::size_t i = 0; i < a.size() / sizeof(T); ++i) {
    T x, y;
    std::memcpy(&x, a.data() + i * sizeof(T), sizeof(T));
    std::memcpy(&y, b.data() + i * sizeof(T), sizeof(T));
    scale = std::max(scale, std::abs(static_cast<double>(x)));
    const double difference = std::abs(static_cast<double>(x) - static_cast<double>(y));
    largest = std::max(largest, std::isnan(difference) ? 1e30 : difference);
  }
  return largest / scale;
}

}  // namespace troupe::symbol
