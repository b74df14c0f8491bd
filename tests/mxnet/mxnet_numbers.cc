// SPDX-License-Identifier: Apache-2.0
// Repeats the steps that trajectory.py took with MXNet, from the same first weights:
//   mxnet_numbers CASE FOLDER
// After each step every parameter and state is compared. States begin as Troupe begins them. Exit 1
// where one differs by more than 1e-9 of its size.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>

#include "ndarray/invoke.h"
#include "ndarray/safetensors.h"
#include "store/local_store.h"
#include "symbol/executor.h"
#include "symbol/symbol.h"
#include "tests/support/must.h"
#include "tests/support/test_runtime.h"
#include "train/module.h"

namespace troupe {
namespace {

using ndarray::NDArray;
using tests::must;

constexpr std::uint64_t kSteps = 20;
constexpr double kMost = 1e-9;

/// trajectory.py's numbers, sgd as MXNet's Module has it.
schemas::OptimizerSpec optimizer() {
  schemas::OptimizerSpec sgd;
  sgd.lr = 0.125;
  sgd.momentum = 0.875;
  sgd.wd = 0.03125;
  sgd.decay = schemas::Decay::weights;
  return sgd;
}

/// One step's file.
class StepFile {
 public:
  StepFile(const std::filesystem::path& folder, std::uint64_t step)
      : file_(must(ndarray::read_safetensors(folder /
                                             ("step-" + std::to_string(step) + ".safetensors")))) {}

  const ndarray::RawTensor& at(const std::string& name) const {
    const ndarray::RawTensor* tensor = file_.find(name);
    if (tensor == nullptr) must(base::error(base::Errc::not_found, "no tensor '{}'", name));
    return *tensor;
  }
  base::Buffer buffer(const std::string& name) const {
    const auto bytes = at(name).bytes;
    base::Buffer made = base::make_host_buffer(bytes.size());
    std::copy(bytes.begin(), bytes.end(), made.as<std::byte>().begin());
    return made;
  }
  /// |array - file| / |file|, Euclidean norms; of zeros the difference itself.
  double distance(const std::string& name, const NDArray& array) const {
    const auto ours = must(array.to_vector<double>());
    const auto* theirs = reinterpret_cast<const double*>(at(name).bytes.data());
    double difference = 0.0, size = 0.0;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      difference += (ours[i] - theirs[i]) * (ours[i] - theirs[i]);
      size += theirs[i] * theirs[i];
    }
    return std::sqrt(difference) / (size > 0.0 ? std::sqrt(size) : 1.0);
  }

 private:
  ndarray::Safetensors file_;
};

/// The largest distance so far, and whose.
class Worst {
 public:
  void see(const StepFile& file, std::uint64_t step, const std::string& name,
           const NDArray& array) {
    const double found = file.distance(name, array);
    if (!(found > most_)) return;
    most_ = found;
    where_ = name + " before step " + std::to_string(step);
  }
  int report(const std::string& what) const {
    std::printf("%s: %d steps, worst distance %.2e%s%s\n", what.c_str(), int{kSteps}, most_,
                where_.empty() ? "" : " of ", where_.c_str());
    return most_ <= kMost ? 0 : 1;
  }

 private:
  double most_ = 0.0;
  std::string where_;
};

int repeat(const std::string& what, const std::filesystem::path& folder) {
  tests::TestRuntime setup;
  const auto network =
      must(symbol::Symbol::load(tests::test_operators(), (folder / "network.json").string()));
  const StepFile first(folder, 0);
  train::ModuleOptions options;
  options.inputs.dtype = base::DType::f64;
  const base::Shape& data = first.at("data").shape;
  options.inputs.sample = base::Shape{data[1], data[2], data[3]};
  const auto module = must(train::Module::create(setup.runtime, network, options));
  must(module->init_params(schemas::InitializerSpec{}));
  for (const schemas::KeyInfo& key : module->keys()) {
    if (key.kind == schemas::KeyKind::average) continue;
    must(module->parameter(key.id).write(first.at(key.name).bytes));
  }
  store::LocalStoreOptions how;
  how.batch = static_cast<std::uint32_t>(data[0]);
  how.steps.total = how.steps.epoch_steps = kSteps;
  base::BufferPool& pool = setup.storage.pool(base::Device{});
  const auto store =
      must(store::LocalStore::create({tests::test_operators(), pool, setup.kernels}, how));
  const auto door = store->rank_store(0, setup.runtime);
  must(module->init_optimizer(*door, {optimizer(), {}, {kSteps, kSteps}}, true));
  must(module->pull(0, true));
  Worst worst;
  for (std::uint64_t step = 0; step <= kSteps; ++step) {
    const StepFile file(folder, step);
    for (const schemas::KeyInfo& key : module->keys()) {
      worst.see(file, step, key.name, module->parameter(key.id));
    }
    if (step == kSteps) break;
    must(module->forward_backward({data[0], file.buffer("data"), file.buffer("label")}, step));
    must(module->update(step, static_cast<double>(data[0]), true));
  }
  must(setup.engine->wait_all());
  return worst.report(what);
}

NDArray scalar(ndarray::Runtime& runtime, double value) {
  return must(NDArray::from<double>(runtime, base::Shape{}, std::array{value}));
}

/// An executor whose outputs' gradients come from outside.
int drive(const std::string& what, const std::filesystem::path& folder) {
  tests::TestRuntime setup;
  const auto network =
      must(symbol::Symbol::load(tests::test_operators(), (folder / "network.json").string()));
  const StepFile first(folder, 0);
  symbol::Bindings bindings;
  std::map<std::string, NDArray> momenta;
  for (const std::string& name : network.list_arguments()) {
    const base::Shape& shape = first.at(name).shape;
    for (NDArray* array : {&bindings.arguments[name], &momenta[name]}) {
      *array = must(NDArray::zeros(setup.runtime, shape, base::DType::f64));
    }
    must(bindings.arguments[name].write(first.at(name).bytes));
    bindings.grad_req[name] = symbol::GradReq::write;
  }
  const auto executor = must(symbol::Executor::bind(setup.runtime, network, bindings));
  const schemas::OptimizerSpec sgd = optimizer();
  const ops::Attributes attributes = {{"momentum", ops::to_attribute(sgd.momentum)},
                                      {"wd", ops::to_attribute(sgd.wd)}};
  const NDArray rate = scalar(setup.runtime, sgd.lr), count = scalar(setup.runtime, 1.0);
  Worst worst;
  for (std::uint64_t step = 0; step <= kSteps; ++step) {
    const StepFile file(folder, step);
    for (const auto& [name, array] : executor->arguments()) worst.see(file, step, name, array);
    if (step == kSteps) break;
    std::vector<NDArray> heads;
    for (const char* name : {"head0", "head1"}) {
      heads.push_back(must(NDArray::zeros(setup.runtime, file.at(name).shape, base::DType::f64)));
      must(heads.back().write(file.at(name).bytes));
    }
    must(executor->forward(true));
    must(executor->backward(heads));
    for (const auto& [name, gradient] : executor->gradients()) {
      const NDArray& weight = executor->arguments().at(name);
      ndarray::InvokeOptions into;
      into.outputs = {weight, momenta.at(name)};
      const std::array inputs = {weight, gradient, momenta.at(name), rate, count};
      must(ndarray::invoke(setup.runtime, "sgd_update", inputs, attributes, into).status());
    }
  }
  return worst.report(what);
}

}  // namespace
}  // namespace troupe

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: mxnet_numbers CASE FOLDER\n");
    return 2;
  }
  const bool heads = std::string_view(argv[1]) == "heads";
  return heads ? troupe::drive(argv[1], argv[2]) : troupe::repeat(argv[1], argv[2]);
}
