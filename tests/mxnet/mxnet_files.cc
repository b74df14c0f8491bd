// SPDX-License-Identifier: Apache-2.0
// Troupe's half of the comparison with MXNet by symbol files; mxnet_side.py is the other half.
//   mxnet_files operators FOLDER: for each sample of each operator NUMBER.json, the call as a
//     symbol, and NUMBER.safetensors, its inputs and what Troupe computes from them in f64.
//   mxnet_files networks FOLDER: saves each built-in network to FOLDER/NAME/symbol.json, and prints
//       its name and the shape of a small batch that it takes.
//   mxnet_files network FOLDER BOUND: binds symbol.json, a file of MXNet, with the arrays of
//     mxnet.safetensors and compares with the results there; writes the symbol to again.json.
// Names of tensors: arg:, aux:, head:, predict:, train:, grad:, state: and a name or number.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "base/random.h"
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
using Arrays = std::map<std::string, NDArray>;

/// Uniform values in [low, high) that follow from the name; whole numbers for labels.
void fill(const NDArray& array, const std::string& name, double low, double high, bool whole) {
  const base::RandomKey key = base::random_key(7, name);
  std::vector<double> values(static_cast<std::size_t>(array.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double u = base::uniform_f64(base::philox(key, i / 4, 0, 0)[i % 4]);
    values[i] = low + (high - low) * u;
    if (whole) values[i] = std::floor(values[i]);
  }
  must(array.write(std::as_bytes(std::span<const double>(values))));
}

/// Runs a bound symbol as both halves do: a prediction, then a step from the given head gradients.
class Runner {
 public:
  Runner(ndarray::Runtime& runtime, const symbol::Symbol& net, symbol::Bindings bindings) {
    symbol::ExecutorOptions options;
    options.reference_only = true;
    executor_ = must(symbol::Executor::bind(runtime, net, std::move(bindings), options));
  }

  const symbol::Executor& executor() const { return *executor_; }

  /// predict:, train:, grad: and state: of one step. `heads`: by position, one per output.
  Arrays run(const std::vector<NDArray>& heads) {
    Arrays results;
    must(executor_->forward(false));
    keep_outputs("predict", results);
    must(executor_->forward(true));
    keep_outputs("train", results);
    if (!executor_->gradients().empty()) must(executor_->backward(heads));
    for (const auto& [name, gradient] : executor_->gradients()) results["grad:" + name] = gradient;
    for (const auto& [name, batch] : executor_->batch_values()) {
      const double m = executor_->momenta().at(name);
      results["state:" + name] = m * executor_->auxiliary().at(name) + (1 - m) * batch;
    }
    return results;
  }

 private:
  void keep_outputs(const std::string& kind, Arrays& results) {
    for (std::size_t i = 0; i < executor_->outputs().size(); ++i) {
      results[kind + ":" + std::to_string(i)] = executor_->outputs()[i].copy();
    }
  }

  std::unique_ptr<symbol::Executor> executor_;
};

/// One sample of an operator as a symbol of one call.
class Call {
 public:
  Call(const ops::OpDef& op, const ops::Sample& sample) : op_(op), sample_(sample) {
    net_ = must(
        symbol::Symbol::create(tests::test_operators(), op.name, "call", {}, sample.attributes));
    names_ = op.inputs(must(ops::parse_params(op, sample.attributes)));
    for (std::string& name : names_) name = "call_" + name;
  }

  const symbol::Symbol& net() const { return net_; }

  /// Inputs, head gradients and results.
  Arrays compute(ndarray::Runtime& runtime) {
    std::map<std::string, base::Shape> shapes;
    for (std::size_t i = 0; i < names_.size(); ++i) shapes.emplace(names_[i], sample_.inputs[i]);
    symbol::Bindings bindings =
        must(symbol::allocate_bindings(runtime, net_, shapes, base::DType::f64));
    Arrays tensors;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const bool state = bindings.auxiliary.contains(names_[i]);
      const NDArray array =
          state ? bindings.auxiliary.at(names_[i]) : bindings.arguments.at(names_[i]);
      const auto whole = sample_.integers.find(static_cast<int>(i));
      if (whole == sample_.integers.end()) {
        fill(array, names_[i], sample_.low, sample_.high, false);
        if (!state && wanted(static_cast<int>(i))) {
          bindings.grad_req[names_[i]] = symbol::GradReq::write;
        }
      } else {
        const auto [low, high] = whole->second;
        fill(array, names_[i], static_cast<double>(low), static_cast<double>(high), true);
      }
      tensors[(state ? "aux:" : "arg:") + names_[i]] = array.copy();
    }
    Runner runner(runtime, net_, std::move(bindings));
    std::vector<NDArray> heads;
    for (const NDArray& output : runner.executor().outputs()) {
      if (op_.is_loss || runner.executor().gradients().empty()) break;
      heads.push_back(must(NDArray::zeros(runtime, output.shape(), output.dtype())));
      const std::string name = "head:" + std::to_string(heads.size() - 1);
      fill(heads.back(), name, -1, 1, false);
      tensors[name] = heads.back().copy();
    }
    tensors.merge(runner.run(heads));
    return tensors;
  }

 private:
  bool wanted(int input) const {
    if (op_.is_loss) return input == 0;  // finite differences do not know that they are losses
    const std::vector<int>& unread = op_.shape_only_inputs;
    return sample_.gradient && std::find(unread.begin(), unread.end(), input) == unread.end();
  }

  const ops::OpDef& op_;
  const ops::Sample& sample_;
  symbol::Symbol net_;
  std::vector<std::string> names_;
};

/// True for what MXNet lacks: gradients, which it has under other names, what Troupe's passes,
/// metrics and optimizers are made of, epilogues, and pooling as the pass for prediction makes it.
bool is_own(const ops::OpDef& op, const ops::Sample& sample) {
  static const std::set<std::string> kOwn = {"accuracy_count",
                                             "add_scaled",
                                             "average_update",
                                             "batch_norm_fold",
                                             "batch_norm_inference",
                                             "cast_like",
                                             "cross_entropy_sum",
                                             "fused_pointwise",
                                             "multi_sgd_update",
                                             "reduce_to_like",
                                             "reorder",
                                             "sgd_update",
                                             "silu"};
  const auto has = [&sample](const char* name) { return sample.attributes.contains(name); };
  const bool epilogue = op.epilogue && (has("act_type") || has("with_sum"));
  return kOwn.contains(op.name) || op.name.find("_backward") != std::string::npos || epilogue ||
         has("save_indices");
}

void save(const std::filesystem::path& path, const Arrays& arrays,
          const std::map<std::string, std::string>& metadata) {
  std::vector<std::vector<std::byte>> contents;
  std::vector<ndarray::RawTensor> tensors;
  for (const auto& [name, array] : arrays) {
    std::vector<std::byte>& bytes = contents.emplace_back(array.bytes());
    must(array.read(bytes));
    tensors.push_back({name, array.dtype(), array.shape(), bytes});
  }
  must(ndarray::write_safetensors(path, tensors, metadata));
}

int write_operators(const std::filesystem::path& folder) {
  tests::TestRuntime setup;
  int number = 0;
  for (const ops::OpDef& op : tests::test_operators().all()) {
    for (const ops::Sample& sample : op.samples) {
      if (sample.benchmark) continue;
      Call call(op, sample);
      const bool own = is_own(op, sample);
      const std::map<std::string, std::string> metadata = {{"operator", op.name},
                                                           {"title", sample.title},
                                                           {"own", own ? "yes" : "no"},
                                                           {"random", op.random ? "yes" : "no"}};
      const std::filesystem::path stem = folder / std::to_string(number++);
      must(call.net().save(stem.string() + ".json"));
      // What MXNet lacks is written too; it must refuse it.
      save(stem.string() + ".safetensors", own ? Arrays{} : call.compute(setup.runtime), metadata);
    }
  }
  std::printf("%d calls written\n", number);
  return 0;
}

int write_networks(const std::filesystem::path& folder) {
  constexpr std::int64_t kSideMax = 71;  // the smallest image that OverFeat takes
  for (const symbol::NetworkInfo& network : symbol::networks()) {
    const std::string name(network.name);
    // MXNet draws other numbers for dropout.
    const auto net = must(symbol::make_network(tests::test_operators(), name, {.dropout = 0}));
    std::filesystem::create_directories(folder / name);
    must(net.save((folder / name / "symbol.json").string()));
    const std::int64_t side = std::min(network.sample[1], kSideMax);
    std::printf("%s 2,%d,%d,%d\n", name.c_str(), static_cast<int>(network.sample[0]),
                static_cast<int>(side), static_cast<int>(side));
  }
  return 0;
}

double largest_of(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

/// The largest difference, as a share of the largest value or, if that is more, of `least`.
double distance(const NDArray& ours, const NDArray& theirs, double least) {
  if (ours.shape() != theirs.shape()) {
    must(base::error(base::Errc::invalid_argument, "shapes {} and {}", ours.shape().to_string(),
                     theirs.shape().to_string()));
  }
  const std::vector<double> a = must(ours.to_vector<double>());
  const std::vector<double> b = must(theirs.to_vector<double>());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    // A comparison that NaN fails.
    const double difference = std::abs(a[i] - b[i]);
    if (!(difference <= largest)) largest = std::isnan(difference) ? HUGE_VAL : difference;
  }
  return largest / std::max(least, largest_of(b));
}

int compare_network(const std::filesystem::path& folder, double bound) {
  tests::TestRuntime setup;
  const auto net =
      must(symbol::Symbol::load(tests::test_operators(), (folder / "symbol.json").string()));
  must(net.save((folder / "again.json").string()));
  Arrays given = must(ndarray::load_arrays(setup.runtime, folder / "mxnet.safetensors"));
  symbol::Bindings bindings;
  std::vector<NDArray> heads;
  for (const auto& [name, array] : given) {
    const std::string rest = name.substr(name.find(':') + 1);
    if (name.starts_with("arg:")) bindings.arguments[rest] = array;
    if (name.starts_with("aux:")) bindings.auxiliary[rest] = array;
    if (name.starts_with("grad:")) bindings.grad_req[rest] = symbol::GradReq::write;
    if (name.starts_with("head:")) heads.push_back(array);
  }
  Runner runner(setup.runtime, net, std::move(bindings));
  // Per kind of result. A gradient may be zero but for rounding: a bias before batch_norm has none.
  std::map<std::string, double> scale;
  for (const auto& [name, array] : given) {
    double& largest = scale[name.substr(0, name.find(':'))];
    largest = std::max(largest, largest_of(must(array.to_vector<double>())));
  }
  std::map<std::string, std::pair<double, int>> worst;
  for (const auto& [name, ours] : runner.run(heads)) {
    if (!given.contains(name)) continue;
    const std::string kind = name.substr(0, name.find(':'));
    auto& [largest, count] = worst[kind];
    largest = std::max(largest, distance(ours, given.at(name), 1e-6 * scale.at(kind)));
    ++count;
  }
  bool good = worst.contains("predict");
  for (const auto& [kind, found] : worst) {
    std::printf("  %s: %d tensors, largest difference %.1e\n", kind.c_str(), found.second,
                found.first);
    good = good && found.first <= bound;
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace troupe

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "operators" && argc == 3) return troupe::write_operators(argv[2]);
  if (mode == "networks" && argc == 3) return troupe::write_networks(argv[2]);
  if (mode == "network" && argc == 4) {
    return troupe::compare_network(argv[2], std::strtod(argv[3], nullptr));
  }
  std::fprintf(stderr, "usage: mxnet_files operators|networks FOLDER | network FOLDER BOUND\n");
  return 2;
}
