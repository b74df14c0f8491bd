// SPDX-License-Identifier: Apache-2.0
// Keys from a symbol, executors by batch size, and the calls of one training step.
#include "train/module.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "base/finite.h"
#include "base/log.h"
#include "base/units.h"
#include "ndarray/run_kernel.h"
#include "store/initializer.h"
#include "store/loss_scale.h"
#include "symbol/arena.h"
#include "symbol/kernel_choices.h"
#include "train/device_sums.h"
#include "train/weighed_average.h"

namespace troupe::train {

using ndarray::NDArray;
using schemas::KeyInfo;
using schemas::KeyKind;

namespace {

void tell_choices(const std::string& file, const symbol::ExecutorReport& report) {
  if (report.stored_choices == 0) {
    base::log_warn("numerics.kernels: {}", symbol::unused_choices_text(file));
    return;
  }
  base::log_info("numerics.kernels: {} has decided {} of {} kernels", file, report.stored_choices,
                 report.nodes.size() - report.reorders.size());
}

/// What a budget costs, or recomputation that was asked for.
void tell_plan(const ModuleOptions& options, const symbol::ExecutorReport& report) {
  const bool budget = options.recompute == symbol::Recompute::budget;
  if (!budget && options.recompute != symbol::Recompute::sqrt) return;
  constexpr double kPercent = 100;
  base::log_info(
      "a step's values and scratch take {}{}; computed once more: {}, {:.1f} % of a step by the "
      "kernels' rules",
      base::format_bytes(report.arena_bytes),
      budget ? " of a budget of " + base::format_bytes(options.budget) : std::string(),
      base::format_counted(static_cast<std::uint64_t>(report.recomputed), "node"),
      report.step_seconds > 0 ? kPercent * report.recompute_seconds / report.step_seconds : 0.0);
}

}  // namespace

Module::Module(ndarray::Runtime& runtime, const symbol::Symbol& symbol,
               const ModuleOptions& options)
    : runtime_(runtime), symbol_(symbol), options_(options) {}

base::Result<std::unique_ptr<Module>> Module::create(ndarray::Runtime& runtime,
                                                     const symbol::Symbol& symbol,
                                                     const ModuleOptions& options) {
  if (options.executors_max < 1) {
    return base::error(base::Errc::invalid_argument, "executors_max is 0, at least 1 is needed");
  }
  std::unique_ptr<Module> module(new Module(runtime, symbol, options));
  TROUPE_TRY(module->declare());
  return module;
}

base::Status Module::declare() {
  TROUPE_TRY_ASSIGN(NetworkKeys network, network_keys(symbol_, options_.inputs, options_.keys));
  options_.inputs = network.inputs;
  label_reading_ = label_attributes(symbol_);
  const symbol::Graph graph = symbol_.graph();
  draws_ = std::ranges::any_of(graph.nodes, [](const symbol::GraphNode& node) {
    return node.op != nullptr && node.op->random;
  });
  set_wires(network.keys, options_.gradient_wire, options_.weight_wire);
  TROUPE_TRY_ASSIGN(with_gradient_, keys_with_gradient(runtime_.ops, symbol_, network.keys));
  if (options_.loss_scale) {
    TROUPE_TRY(store::check_loss_scale(*options_.loss_scale));
    TROUPE_TRY(add_loss_scale(network));
    with_gradient_.push_back(false);
  }
  keys_ = std::move(network.keys);
  std::vector<bool> computed = with_gradient_;
  for (const KeyInfo& key : keys_) {
    if (key.kind != KeyKind::average) continue;
    computed[key.id] = true;
    if (counts_.contains(key.dtype)) continue;
    TROUPE_TRY_ASSIGN(counts_[key.dtype],
                      NDArray::zeros(runtime_, base::Shape{}, key.dtype, options_.device));
  }
  pushes_of_ = fmt::format("rank {}", options_.rank);
  if (options_.sums != nullptr) {
    way_ = options_.sums->way(options_.rank);
    pushes_of_ = options_.sums->ranks_text(options_.rank);
  }
  TROUPE_TRY_ASSIGN(arrays_, StoreArrays::create(runtime_, keys_, computed, options_.device,
                                                 options_.run_bytes, way_));
  TROUPE_TRY_ASSIGN(step_, NDArray::zeros(runtime_, {}, base::DType::i64));
  arena_ = std::make_shared<symbol::Arena>(runtime_, options_.device);
  return options_.loss_scale ? write_first_scale() : base::Status();
}

base::Status Module::write_first_scale() {
  const NDArray& last = parameter(static_cast<std::uint32_t>(keys_.size() - 1));
  const base::Buffer values = base::make_host_buffer(last.bytes());
  store::write_loss_scale({options_.loss_scale->first, 0}, values);
  return last.copy_from(values);
}

base::Result<Module::Bound> Module::bind(std::int64_t batch, bool trains) {
  symbol::Bindings bindings;
  symbol::ExecutorOptions how;
  how.train = trains;
  how.inputs = {options_.inputs.data, options_.inputs.label};
  for (const KeyInfo& key : keys_) {
    if (key.kind == KeyKind::loss_scale) {
      if (trains) how.loss_scale = parameter(key.id);
      continue;
    }
    if (key.kind == KeyKind::average) {
      bindings.auxiliary[key.name] = parameter(key.id);
      continue;
    }
    bindings.arguments[key.name] = parameter(key.id);
    if (!trains || !with_gradient_[key.id]) continue;
    bindings.grad_req[key.name] = symbol::GradReq::write;
    bindings.gradients[key.name] = gradient(key.id);
  }
  Bound made{batch, trains, {}, {}, {}};
  const auto add_input = [&](const std::string& name, const base::Shape& shape) -> base::Status {
    const auto make = [&] {
      return NDArray::empty(runtime_, shape, options_.inputs.dtype, options_.device, "batch");
    };
    TROUPE_TRY_ASSIGN(bindings.arguments[name], make());
    if (!ndarray::uses_stream(options_.device)) return {};
    TROUPE_TRY_ASSIGN(made.next[name], make());
    return {};
  };
  TROUPE_TRY(add_input(options_.inputs.data, batch_shape(batch, options_.inputs.sample)));
  TROUPE_TRY(add_input(options_.inputs.label, base::Shape{batch}));
  how.device = options_.device;
  how.layouts = options_.layouts;
  how.reference_only = options_.reference_only;
  how.winograd = options_.winograd;
  how.tf32 = options_.tf32;
  how.products = options_.products;
  how.kernels = options_.kernels;
  how.memory = options_.memory;
  how.recompute = options_.recompute;
  how.budget = options_.budget;
  how.sub_batch = options_.sub_batch;
  how.monitor = options_.monitor;
  how.seed = options_.seed;
  how.rank = options_.rank;
  how.arena = arena_;
  how.step = step_;
  TROUPE_TRY_ASSIGN(made.executor,
                    symbol::Executor::bind(runtime_, symbol_, std::move(bindings), how));
  if (!trains) return made;
  if (!std::exchange(plan_told_, true) && options_.rank == 0) {
    tell_plan(options_, made.executor->report());
    if (options_.kernels) tell_choices(options_.kernels->name, made.executor->report());
  }
  for (const KeyInfo& key : keys_) {
    if (key.kind != KeyKind::average) continue;
    TROUPE_TRY_ASSIGN(made.averages[key.id],
                      WeighedAverage::create(made.executor->batch_values().at(key.name),
                                             counts_.at(key.dtype), gradient(key.id)));
  }
  return made;
}

base::Result<symbol::Executor*> Module::executor(std::int64_t batch) {
  TROUPE_TRY_ASSIGN(const Bound* found, bound(batch, true));
  return found->executor.get();
}

// A batch of another size than training's may be far larger: it costs what predictions need.
base::Result<Module::Bound*> Module::bound(std::int64_t batch, bool trains) {
  const auto known = std::find_if(executors_.begin(), executors_.end(),
                                  [batch](const Bound& bound) { return bound.batch == batch; });
  if (known != executors_.end() && (known->trains || !trains)) {
    executors_.splice(executors_.begin(), executors_, known);
    return &executors_.front();
  }
  TROUPE_TRY_ASSIGN(Bound made, bind(batch, trains));
  if (known != executors_.end()) executors_.erase(known);  // for prediction alone
  if (executors_.size() >= options_.executors_max) {
    if (&executors_.back() == last_trained_) {
      last_trained_ = nullptr;
      outputs_lost_ = true;
    }
    executors_.pop_back();
  }
  executors_.push_front(std::move(made));
  return &executors_.front();
}

// Both graphs of an executor put their outputs into the same arrays.
base::Result<Module::Bound*> Module::bound_for_prediction(std::int64_t batch) {
  TROUPE_TRY_ASSIGN(Bound * taken, bound(batch, false));
  if (taken == last_trained_) outputs_lost_ = true;
  return taken;
}

base::Status Module::init_params(const schemas::InitializerSpec& initializer) {
  for (const KeyInfo& key : keys_) {
    if (key.kind == KeyKind::loss_scale) {
      TROUPE_TRY(write_first_scale());
      continue;
    }
    const base::Buffer values = base::make_host_buffer(parameter(key.id).bytes());
    const base::TensorView view{values.data(), key.dtype, key.shape, {}, {}};
    TROUPE_TRY(store::initialize(initializer, options_.seed, key, 0, view));
    TROUPE_TRY(parameter(key.id).copy_from(values));
  }
  return {};
}

base::Status Module::init_params(const std::map<std::string, NDArray>& values) {
  // Nothing is copied before all are known to fit.
  std::vector<std::pair<std::uint32_t, const NDArray*>> checked;
  for (const auto& [name, value] : values) {
    const auto key = std::find_if(keys_.begin(), keys_.end(),
                                  [&wanted = name](const KeyInfo& k) { return k.name == wanted; });
    if (key == keys_.end() && name == store::kLossScaleName) continue;  // of training in f16
    if (key == keys_.end()) {
      return base::error(base::Errc::not_found, "the network has no parameter '{}'", name);
    }
    TROUPE_TRY(value.check_usable().with_context(
        [&name = name] { return fmt::format("parameter '{}'", name); }));
    if (value.shape() != key->shape || value.dtype() != key->dtype) {
      return base::error(base::Errc::invalid_argument,
                         "parameter '{}' has shape {} and dtype {}, given are {} and {}", name,
                         key->shape.to_string(), base::dtype_name(key->dtype),
                         value.shape().to_string(), base::dtype_name(value.dtype()));
    }
    if (!runtime_.engine.owns(value.variable())) {
      return base::error(base::Errc::invalid_argument,
                         "parameter '{}': the array belongs to another engine", name);
    }
    checked.emplace_back(key->id, &value);
  }
  for (const auto& [id, value] : checked) TROUPE_TRY(parameter(id).copy_from(*value));
  return {};
}

base::Status Module::init_optimizer(store::KVStore& store, const store::UpdateRule& rule,
                                    bool publish) {
  store_ = &store;
  TROUPE_TRY(store.init(keys_, publish ? std::span<const NDArray>(arrays_->parameters())
                                       : std::span<const NDArray>()));
  return store.set_updater(rule);
}

base::Status Module::load(const Bound& bound, const ModuleBatch& batch) {
  const InputSpec& inputs = options_.inputs;
  const auto fill = [&](const std::string& name, const base::Buffer& values) -> base::Status {
    const NDArray& argument = bound.executor->arguments().at(name);
    if (values.size() != argument.bytes()) {
      return base::error(base::Errc::invalid_argument,
                         "argument '{}' of shape {} takes {} bytes, the batch has {}", name,
                         argument.shape().to_string(), argument.bytes(), values.size());
    }
    const auto next = bound.next.find(name);
    if (next == bound.next.end()) return argument.rebind(values, true);
    // The way from the host is long: it is gone while the step before still reads the argument.
    TROUPE_TRY(next->second.copy_from(values));
    return argument.copy_from(next->second);
  };
  TROUPE_TRY(fill(inputs.data, batch.data));
  return fill(inputs.label, batch.labels);
}

base::Status Module::forward_backward(const ModuleBatch& batch, std::uint64_t step) {
  if (batch.size == 0) {
    last_trained_ = nullptr;
    outputs_lost_ = false;
    // Nobody reads these zeros; writing them makes this step's pushes wait for the last one's.
    for (const NDArray& gradient : arrays_->pushed()) TROUPE_TRY(gradient.clear());
    return {};
  }
  TROUPE_TRY_ASSIGN(last_trained_, bound(batch.size, true));
  outputs_lost_ = false;
  symbol::Executor& executor = *last_trained_->executor;
  TROUPE_TRY(load(*last_trained_, batch));
  TROUPE_TRY(executor.set_step(static_cast<std::int64_t>(step)));
  TROUPE_TRY(executor.forward(true));
  return executor.backward();
}

// The check writes, as the engine sees it: its error is the gradient's from then on.
void Module::push_gradient(std::uint32_t key, const store::PushInfo& info) {
  const NDArray& gradient = pushed_gradient(key);
  const bool computed = keys_[key].kind == KeyKind::average || with_gradient_[key];
  const bool checked = options_.check_gradients && !options_.loss_scale;
  const engine::Variable writes[] = {gradient.variable()};
  if (!computed) {
    // Nothing else writes this array, and a store takes the steps of a key in their order.
    runtime_.engine.push({"order", {}, writes, engine::kHostCopyLane, info.priority},
                         [](engine::RunContext&) { return base::Status(); });
  } else if (checked && way_ != GradientWay::sum_member && (info.counted || info.count > 0.0)) {
    runtime_.engine.push(
        {"check", {}, writes, engine::kHostCopyLane, info.priority},
        [gradient, name = keys_[key].name, dtype = keys_[key].dtype, info,
         of = pushes_of_](engine::RunContext&) -> base::Status {
          if (info.ready_count() == 0.0) return {};
          const std::uint64_t found =
              base::count_not_finite(gradient.dtype(), gradient.buffer().as<std::byte>());
          if (found == 0) return {};
          const bool narrow = gradient.dtype() != dtype && gradient.dtype() == base::DType::f16;
          return base::error(
              base::Errc::not_finite,
              "the gradient of '{}' of {} at step {} holds {} values that are {}; {}", name, of,
              info.step, found,
              narrow ? "NaN, infinite or beyond the range of f16, in which it travels (bf16 has "
                       "the range of f32)"
                     : "NaN or infinite",
              info.step == 0 ? "look at the initial weights and the data"
                             : "a lower train.optimizer.lr may help");
        });
  }
  store_->push(key, gradient, info);
}

base::Status Module::push(std::uint64_t step, double count) {
  TROUPE_CHECK(store_ != nullptr, "push before init_optimizer");
  if (count > 0.0 && last_trained_ == nullptr) {
    return base::error(base::Errc::failed_precondition,
                       "push of step {}: its executor went out of use", step);
  }
  // A state's batch value enters the tree weighed by its count, like a gradient.
  const bool weighed = last_trained_ != nullptr;
  if (weighed && count != counted_) {
    for (const auto& [dtype, number] : counts_) TROUPE_TRY(set_count(number, count));
    counted_ = count;
  }
  // Backward writes the last layer's gradients first: they are pushed first, while keys that the
  // next forward uses first go ahead of what waits.
  std::size_t index = 0;
  for (const auto& run : arrays_->gradient_runs()) {
    const auto priority = [](std::uint32_t key) { return -static_cast<int>(key); };
    for (const std::uint32_t key : run->keys) {
      if (!weighed || keys_[key].kind != KeyKind::average) continue;
      last_trained_->averages.at(key)->push(priority(key));
    }
    const int first = priority(run->keys.front());
    std::shared_ptr<const double> counted;
    if (way_ != GradientWay::to_host && !run->parts.empty()) {
      if (weighed) StoreArrays::round(run, first);
      counted = options_.sums->push(
          runtime_, {options_.rank, index, step, weighed ? count : 0.0, first}, run);
    } else if (weighed) {
      StoreArrays::to_host(run, first);
    }
    for (const std::uint32_t key : run->keys) {
      push_gradient(key, {step, count, priority(key), counted});
    }
    ++index;
  }
  return {};
}

base::Status Module::pull(std::uint64_t step, bool barrier) {
  for (const KeyInfo& key : keys_) {  // as the forward pass wants them
    store_->pull(key.id, parameter(key.id), {step, barrier, -static_cast<int>(key.id)});
  }
  return {};
}

base::Status Module::update(std::uint64_t step, double count, bool barrier) {
  TROUPE_TRY(push(step, count));
  return pull(step + 1, barrier);
}

base::Status Module::wait_gradients() const {
  for (const NDArray& gradient : arrays_->gradients()) TROUPE_TRY(gradient.wait());
  return {};
}

base::Status Module::wait_pushed() const {
  for (const NDArray& gradient : arrays_->pushed()) TROUPE_TRY(gradient.wait());
  return {};
}

base::Result<ModuleBatch> Module::batch(const data::Batch& batch) {
  ModuleBatch made;
  made.size = static_cast<std::int64_t>(batch.count());
  TROUPE_TRY_ASSIGN(made.data, in_dtype(batch.images));
  TROUPE_TRY_ASSIGN(made.labels, in_dtype(batch.labels));
  return made;
}

// Batches are f32; modules in f64 read them as such.
base::Result<base::Buffer> Module::in_dtype(const base::Buffer& values) {
  if (options_.inputs.dtype == base::DType::f32 || values.empty()) return values;
  const auto from = values.as<float>();
  base::BufferPool& pool = host_pool(runtime_.storage, options_.device);
  TROUPE_TRY_ASSIGN(base::Buffer wide, pool.allocate(from.size() * sizeof(double), "batch"));
  std::copy(from.begin(), from.end(), wide.as<double>().begin());
  return wide;
}

base::Result<BatchMetrics> Module::training_metrics() const {
  if (outputs_lost_) {
    return base::error(base::Errc::failed_precondition,
                       "the last training batch's outputs are gone: a prediction, or another "
                       "batch size, has used their memory since");
  }
  if (last_trained_ == nullptr) return BatchMetrics();
  const symbol::Executor& executor = *last_trained_->executor;
  return BatchMetrics::compute(executor.outputs().front(),
                               executor.arguments().at(options_.inputs.label), label_reading_);
}

// Operators that draw in predictions, too, draw anew in each: at steps that no training reaches.
base::Status Module::push_prediction(symbol::Executor& executor) {
  constexpr std::uint64_t kFirst = std::uint64_t{1} << 47, kOfScores = kFirst / 2;
  if (draws_) {
    const std::uint64_t number =
        scored_ ? (*scored_)++ % kOfScores : kOfScores + predictions_++ % kOfScores;
    TROUPE_TRY(executor.set_step(static_cast<std::int64_t>(kFirst + number)));
  }
  return executor.forward(false);
}

base::Result<BatchMetrics> Module::score(const ModuleBatch& batch) {
  TROUPE_TRY_ASSIGN(const Bound* taken, bound_for_prediction(batch.size));
  TROUPE_TRY(load(*taken, batch));
  symbol::Executor& executor = *taken->executor;
  TROUPE_TRY(push_prediction(executor));
  return BatchMetrics::compute(executor.outputs().front(),
                               executor.arguments().at(options_.inputs.label), label_reading_);
}

base::Result<MetricValues> Module::score(data::BatchIterator& batches,
                                         std::chrono::milliseconds deadline,
                                         const std::atomic<bool>* stop) {
  scored_ = 0;  // draws begin anew: a score hangs on the weights and the data alone
  base::Result<MetricValues> sums = score_all(batches, deadline, stop);
  scored_.reset();
  return sums;
}

base::Result<MetricValues> Module::score_all(data::BatchIterator& batches,
                                             std::chrono::milliseconds deadline,
                                             const std::atomic<bool>* stop) {
  MetricValues sums;
  // The engine has a batch to compute while the numbers of the one before are read.
  std::optional<BatchMetrics> before;
  batches.seek(0);
  while (true) {
    if (stop != nullptr && stop->load()) {
      return base::error(base::Errc::cancelled, "scoring was stopped");
    }
    data::BatchIterator::Item item = batches.next(deadline);
    TROUPE_TRY(item.status());
    const bool end = !item->has_value();
    if (!end && (*item)->count() == 0) continue;
    std::optional<BatchMetrics> pushed;
    if (!end) {
      TROUPE_TRY_ASSIGN(const ModuleBatch taken, batch(**item));
      TROUPE_TRY_ASSIGN(pushed, score(taken));
    }
    if (before) {
      TROUPE_TRY_ASSIGN(const MetricValues values, before->read());
      for (const auto& [name, pair] : values) sums[name] += pair;
    }
    if (end) return sums;
    before = std::move(pushed);
  }
}

base::Result<std::vector<NDArray>> Module::predict(const NDArray& data) {
  const InputSpec& inputs = options_.inputs;
  TROUPE_TRY(data.status());
  const std::int64_t rows = data.shape().rank() == 0 ? 0 : data.shape()[0];
  if (rows == 0 || data.shape() != batch_shape(rows, inputs.sample) ||
      data.dtype() != inputs.dtype) {
    return base::error(base::Errc::invalid_argument,
                       "predict: '{}' has shape {} and dtype {}, expected are rows of {} in {}",
                       inputs.data, data.shape().to_string(), base::dtype_name(data.dtype()),
                       inputs.sample.to_string(), base::dtype_name(inputs.dtype));
  }
  TROUPE_TRY_ASSIGN(const Bound* taken, bound_for_prediction(rows));
  symbol::Executor& executor = *taken->executor;
  TROUPE_TRY(executor.arguments().at(inputs.data).copy_from(data));
  TROUPE_TRY(executor.arguments().at(inputs.label).clear());  // a loss among the outputs reads it
  TROUPE_TRY(push_prediction(executor));
  std::vector<NDArray> outputs;
  for (const NDArray& output : executor.outputs()) {
    TROUPE_TRY(outputs.emplace_back(output.copy()).status());
  }
  return outputs;
}

}  // namespace troupe::train
