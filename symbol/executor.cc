// SPDX-License-Identifier: Apache-2.0
// Binding: from a symbol and arrays to two programs, one for training and one for prediction.
#include "symbol/executor.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "ndarray/operands.h"
#include "ndarray/run_kernel.h"
#include "ops/pointwise_chain.h"
#include "ops/support/wide_loads.h"
#include "symbol/arena.h"
#include "symbol/fuse.h"
#include "symbol/fuse_pointwise.h"
#include "symbol/gradient.h"
#include "symbol/layouts.h"
#include "symbol/overlaps.h"
#include "symbol/passes.h"
#include "symbol/precision.h"
#include "symbol/program.h"
#include "symbol/prologue.h"
#include "symbol/recompute.h"
#include "symbol/rectifiers.h"
#include "symbol/states.h"
#include "symbol/sub_batch.h"
#include "symbol/value_numbers.h"

namespace troupe::symbol {

using base::Errc;
using ndarray::NDArray;

namespace {

using Arrays = std::map<std::string, NDArray>;

/// A graph with the memory of its variables and heads.
struct BoundGraph {
  Graph graph;
  Arrays variables;
  std::vector<NDArray> heads;           // empty handles: to be made
  std::vector<std::string> head_names;  // of the first ones, as the symbol calls its outputs
  bool train = true;
  std::set<std::string> weights;  // prediction keeps what it reorders of these
};

base::Status check_known(const char* what, const std::set<std::string>& names,
                         const std::set<std::string>& given) {
  for (const std::string& name : given) {
    if (!names.contains(name)) {
      return base::error(Errc::not_found, "bind: the symbol has no {} '{}'", what, name);
    }
  }
  return {};
}

std::set<std::string> set_of(const std::vector<std::string>& names) {
  return {names.begin(), names.end()};
}

template <typename T>
std::set<std::string> keys(const std::map<std::string, T>& map) {
  std::set<std::string> names;
  for (const auto& [name, unused] : map) names.insert(name);
  return names;
}

/// An error unless `array` can be used by operations of `runtime`'s engine on `device`.
base::Status check_array(const ndarray::Runtime& runtime, const std::string& name,
                         const NDArray& array, base::Device device) {
  if (!array.status().ok()) return array.status().with_context("bind: '" + name + "'");
  if (!array) return base::error(Errc::invalid_argument, "bind: '{}' has no array", name);
  if (!runtime.engine.owns(array.variable())) {
    return base::error(Errc::invalid_argument, "bind: the array of '{}' belongs to another engine",
                       name);
  }
  const bool both_host = array.device().host_memory() && device.host_memory();
  if (array.device() == device || both_host) return {};
  return base::error(Errc::invalid_argument, "bind: the array of '{}' is on {}, not on {}", name,
                     array.device().to_string(), device.to_string());
}

/// The names of the symbol's variables with arrays; label inputs may be missing for prediction.
base::Status check_bindings(const ndarray::Runtime& runtime, const Symbol& symbol,
                            const Bindings& bindings, base::Device device) {
  const std::set<std::string> arguments = set_of(symbol.list_arguments());
  const std::set<std::string> states = set_of(symbol.list_auxiliary_states());
  TROUPE_TRY(check_known("argument", arguments, keys(bindings.arguments)));
  TROUPE_TRY(check_known("argument", arguments, keys(bindings.grad_req)));
  TROUPE_TRY(check_known("argument", arguments, keys(bindings.gradients)));
  TROUPE_TRY(check_known("auxiliary state", states, keys(bindings.auxiliary)));
  for (const Arrays* arrays : {&bindings.arguments, &bindings.gradients, &bindings.auxiliary}) {
    for (const auto& [name, array] : *arrays) TROUPE_TRY(check_array(runtime, name, array, device));
  }
  const std::vector<std::string> outputs = symbol.list_outputs();
  for (std::size_t i = 0; i < std::min(outputs.size(), bindings.outputs.size()); ++i) {
    const NDArray& output = bindings.outputs[i];
    if (output || !output.status().ok()) {
      TROUPE_TRY(check_array(runtime, outputs[i], output, device));
    }
  }
  return {};
}

base::Status check_given(const Graph& graph, const Arrays& variables) {
  for (const GraphNode& node : graph.nodes) {
    if (node.is_variable() && !variables.contains(node.name)) {
      return base::error(Errc::invalid_argument, "bind: variable '{}' has no array", node.name);
    }
  }
  return {};
}

std::map<std::string, base::Shape> shapes_of(const Graph& graph, const Arrays& variables) {
  std::map<std::string, base::Shape> shapes;
  for (const GraphNode& node : graph.nodes) {
    const auto it = node.is_variable() ? variables.find(node.name) : variables.end();
    if (it != variables.end()) shapes.emplace(node.name, it->second.shape());
  }
  return shapes;
}

std::map<std::string, base::DType> dtypes_of(const Graph& graph, const Arrays& variables) {
  std::map<std::string, base::DType> dtypes;
  for (const GraphNode& node : graph.nodes) {
    const auto it = node.is_variable() ? variables.find(node.name) : variables.end();
    if (it != variables.end()) dtypes.emplace(node.name, it->second.dtype());
  }
  return dtypes;
}

/// Arrays for the heads that have none; errors for those that do not fit.
base::Status complete_heads(ndarray::Runtime& runtime, base::Device device,
                            const PreparedGraph& prepared, BoundGraph& bound) {
  std::vector<NDArray>& heads = bound.heads;
  heads.resize(prepared.graph.heads.size());
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const Value head = prepared.graph.heads[i];
    const std::size_t v = prepared.numbers[head];
    if (!heads[i]) {
      TROUPE_TRY_ASSIGN(heads[i], NDArray::empty(runtime, prepared.shapes[v], prepared.dtypes[v],
                                                 device, "executor output"));
    }
    if (heads[i].shape() != prepared.shapes[v] || heads[i].dtype() != prepared.dtypes[v]) {
      const bool named = i < bound.head_names.size();
      return base::error(Errc::invalid_argument, "bind: {} is {} {}, its array is {} {}",
                         named ? bound.head_names[i] : prepared.graph.value_name(head),
                         base::dtype_name(prepared.dtypes[v]), prepared.shapes[v].to_string(),
                         base::dtype_name(heads[i].dtype()), heads[i].shape().to_string());
    }
  }
  return {};
}

/// Per value: the array that is its memory.
std::vector<NDArray> externals_of(const PreparedGraph& prepared, const BoundGraph& bound) {
  const Graph& graph = prepared.graph;
  const ValueNumbers& numbers = prepared.numbers;
  std::vector<NDArray> externals(numbers.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].is_variable()) {
      externals[numbers.begin(i)] = bound.variables.at(graph.nodes[i].name);
    }
  }
  for (std::size_t i = 0; i < graph.heads.size(); ++i) {
    externals[numbers[graph.heads[i]]] = bound.heads[i];
  }
  return externals;
}

/// Kernels that load wide take a value where it lies, at each step: a copy would be one per step.
base::Status check_wide_loads(const PreparedGraph& prepared,
                              const std::vector<NDArray>& externals) {
  const Graph& graph = prepared.graph;
  const auto check = [&](std::size_t node, Value value) -> base::Status {
    const NDArray& array = externals[prepared.numbers[value]];
    if (!array || ndarray::begins_wide(array)) return {};
    return base::error(
        Errc::invalid_argument,
        "bind: the array of {} begins at byte {} of its memory, and {} takes it by {} only where "
        "it begins at a multiple of {}: bind a copy of the slice",
        graph.value_name(value), array.offset(), node_label(graph.nodes[node]),
        prepared.kernels[node]->name(), ops::kWideLoadBytes);
  };
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
    if (graph.nodes[node].is_variable() || !prepared.kernels[node]->loads_wide()) continue;
    for (std::size_t k = 0; k < graph.nodes[node].inputs.size(); ++k) {
      if (graph.nodes[node].reads(k)) TROUPE_TRY(check(node, graph.nodes[node].inputs[k]));
    }
    for (int output = 0; output < graph.nodes[node].outputs; ++output) {
      TROUPE_TRY(check(node, {static_cast<std::int64_t>(node), output}));
    }
  }
  return {};
}

/// Complete shapes and dtypes of the graph's values.
base::Status infer_values(const BoundGraph& bound, ValueShapes& shapes, ValueDTypes& dtypes) {
  TROUPE_TRY_ASSIGN(shapes, infer_shapes(bound.graph, shapes_of(bound.graph, bound.variables)));
  TROUPE_TRY(check_complete(bound.graph, shapes));
  TROUPE_TRY_ASSIGN(dtypes, infer_dtypes(bound.graph, dtypes_of(bound.graph, bound.variables)));
  return {};
}

/// Passes, kernels and memory for one graph. Fills in missing arrays of heads.
base::Result<std::unique_ptr<Program>> make_program(ndarray::Runtime& runtime, BoundGraph& bound,
                                                    const ExecutorOptions& options,
                                                    ExecutorReport& report) {
  TROUPE_TRY(check_given(bound.graph, bound.variables));
  ValueShapes shapes;
  ValueDTypes dtypes;
  TROUPE_TRY(infer_values(bound, shapes, dtypes));
  bool fuses = options.fused;
  if (fuses) {
    TROUPE_TRY_ASSIGN(fuses, ops::worth_fusing(options.device));
  }
  if (fuses) {
    bound.graph = fuse_pointwise(runtime.ops, bound.graph, shapes, dtypes);
    TROUPE_TRY(infer_values(bound, shapes, dtypes));
  }
  const PrepareOptions prepare{.device = options.device,
                               .layouts = options.layouts,
                               .reference_only = options.reference_only,
                               .winograd = options.winograd,
                               .tf32 = options.tf32,
                               .train = bound.train,
                               .weights = &bound.weights,
                               .kernels = options.kernels.get(),
                               .tuner = options.tuner};
  ProgramRequest request;
  TROUPE_TRY_ASSIGN(request.prepared,
                    choose_layouts(runtime, bound.graph, shapes, dtypes, prepare));
  if (bound.train) {
    TROUPE_TRY_ASSIGN(Recomputed recomputed,
                      recompute(runtime.ops, std::move(request.prepared),
                                {options.recompute, options.budget, options.memory}));
    request.prepared = std::move(recomputed.prepared);
    report.recomputed = recomputed.clones;
    report.recompute_seconds = recomputed.seconds;
    report.step_seconds = recomputed.step_seconds;
  }
  if (!bound.train) {
    TROUPE_TRY_ASSIGN(request.prepared, take_sub_batches(std::move(request.prepared), bound.weights,
                                                         options.sub_batch));
  }
  TROUPE_TRY(complete_heads(runtime, options.memory_device(), request.prepared, bound));
  request.externals = externals_of(request.prepared, bound);
  TROUPE_TRY(check_wide_loads(request.prepared, request.externals));
  request.prologue = prologue_nodes(request.prepared.graph, bound.weights);
  request.step = options.step;
  request.device = options.device;
  request.seed = options.seed;
  request.rank = options.rank;
  request.priority = options.priority;
  request.memory = options.memory;
  request.monitor = options.monitor;
  return std::make_unique<Program>(runtime, std::move(request), *options.arena);
}

}  // namespace

/// The steps of Executor::bind, which share their findings.
class Binder {
 public:
  Binder(ndarray::Runtime& runtime, Executor& executor, const Symbol& symbol)
      : runtime_(runtime),
        executor_(executor),
        flat_(symbol.graph()),
        outputs_(symbol.list_outputs()) {
    for (const std::string& name : symbol.list_arguments()) {
      const auto it = executor.bindings_.grad_req.find(name);
      if (it != executor.bindings_.grad_req.end() && it->second != GradReq::null) {
        wanted_.push_back(name);
      }
    }
    variables_ = executor.bindings_.arguments;
    variables_.insert(executor.bindings_.auxiliary.begin(), executor.bindings_.auxiliary.end());
    for (const std::string& name : symbol.list_parameters()) weights_.insert(name);
    for (const std::string& name : executor.options_.inputs) weights_.erase(name);
    for (const std::string& name : symbol.list_auxiliary_states()) weights_.insert(name);
  }

  base::Status bind_training();
  base::Status bind_prediction();
  base::Status reserve();

 private:
  bool narrow() const;
  base::Result<Graph> in_precision(Graph forward) const;
  base::Result<Differentiated> differentiate_wanted(const Graph& forward);
  std::string scale_name() const;
  base::Status add_head_gradients(const std::vector<HeadGradient>& gradients,
                                  const ValueShapes& shapes, BoundGraph& bound);
  base::Result<GradientHeads> prepare_gradients(BoundGraph& bound);
  void keep(const BoundGraph& bound, const std::vector<StateUpdate>& updates);

  ndarray::Runtime& runtime_;
  Executor& executor_;
  const Graph flat_;
  const std::vector<std::string> outputs_;
  std::vector<std::string> wanted_;  // arguments with gradients, in topological order
  std::set<std::string> weights_;    // parameters and auxiliary states
  Arrays variables_;
};

/// A forward graph with products in the type that the options name.
base::Result<Graph> Binder::in_precision(Graph forward) const {
  const base::DType products = executor_.options_.products;
  if (!base::is_16_bit(products)) return forward;
  TROUPE_TRY_ASSIGN(const ValueDTypes dtypes,
                    infer_dtypes(forward, dtypes_of(forward, variables_)));
  return compute_in(runtime_.ops, forward, products, dtypes);
}

base::Result<Differentiated> Binder::differentiate_wanted(const Graph& forward) {
  TROUPE_TRY_ASSIGN(const ValueDTypes dtypes,
                    infer_dtypes(forward, dtypes_of(forward, variables_)));
  if (wanted_.empty()) return Differentiated{forward, {}};
  return differentiate(runtime_.ops, forward, wanted_, dtypes, scale_name());
}

/// A name that no argument has; empty: gradients are not scaled.
std::string Binder::scale_name() const {
  std::string name = executor_.options_.loss_scale ? "loss_scale" : "";
  while (variables_.contains(name)) name += "_";
  return name;
}

base::Status Binder::add_head_gradients(const std::vector<HeadGradient>& gradients,
                                        const ValueShapes& shapes, BoundGraph& bound) {
  if (gradients.empty()) return {};
  TROUPE_TRY(check_complete(flat_, shapes));
  TROUPE_TRY_ASSIGN(const ValueDTypes dtypes, infer_dtypes(flat_, dtypes_of(flat_, variables_)));
  const ValueNumbers numbers(flat_);
  for (const HeadGradient& gradient : gradients) {
    const std::size_t v = numbers[flat_.heads[gradient.head]];
    TROUPE_TRY_ASSIGN(NDArray array, NDArray::empty(runtime_, shapes[v], dtypes[v],
                                                    executor_.options_.memory_device()));
    bound.variables.emplace(gradient.name, array);
    executor_.head_gradients_.push_back(std::move(array));
    executor_.needs_head_gradients_ |= gradient.leads;
  }
  return {};
}

/// Gradient arrays that bind makes, and accumulators for GradReq::add.
base::Result<GradientHeads> Binder::prepare_gradients(BoundGraph& bound) {
  Bindings& bindings = executor_.bindings_;
  GradientHeads gradients{flat_.heads.size(), flat_.heads.size() + wanted_.size()};
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    const std::string& name = wanted_[i];
    const NDArray& argument = bindings.arguments.at(name);
    NDArray& gradient = bindings.gradients[name];
    if (!gradient) {
      TROUPE_TRY_ASSIGN(gradient, NDArray::zeros(runtime_, argument.shape(), argument.dtype(),
                                                 executor_.options_.memory_device()));
    }
    bound.heads.push_back(gradient);
    if (bindings.grad_req.at(name) != GradReq::add) continue;
    std::string accumulator = name + "_gradient_sum";
    while (bound.variables.contains(accumulator)) accumulator += "_";
    gradients.accumulators.emplace(gradients.begin + i, accumulator);
    bound.variables.emplace(accumulator, gradient);
  }
  return gradients;
}

/// Whether arrays have 16 bits, and not products alone.
bool Binder::narrow() const {
  return std::ranges::any_of(
      variables_, [](const auto& variable) { return base::is_16_bit(variable.second.dtype()); });
}

base::Status Binder::bind_training() {
  TROUPE_TRY(check_given(flat_, variables_));  // before others get names that none of these has
  TROUPE_TRY_ASSIGN(const ValueShapes shapes, infer_shapes(flat_, shapes_of(flat_, variables_)));
  const bool fused = executor_.options_.fused;
  TROUPE_TRY_ASSIGN(
      Graph forward,
      in_precision(fused ? fuse_epilogues(delay_rectifiers(flat_, shapes), narrow()) : flat_));
  const std::vector<StateUpdate> updates = state_updates(forward);
  Builder builder(runtime_.ops, forward);
  std::vector<Value> batch_values;
  for (const StateUpdate& update : updates) batch_values.push_back(batch_value(builder, update));
  TROUPE_TRY_ASSIGN(Differentiated result, differentiate_wanted(forward));
  std::vector<Value>& heads = result.graph.heads;
  heads.insert(heads.end(), batch_values.begin(), batch_values.end());

  BoundGraph bound;
  bound.variables = variables_;
  if (const std::string name = scale_name(); !name.empty()) {
    bound.variables.emplace(name, executor_.options_.loss_scale);
  }
  bound.heads = executor_.bindings_.outputs;
  bound.heads.resize(flat_.heads.size());
  bound.head_names = outputs_;
  TROUPE_TRY(add_head_gradients(result.head_gradients, shapes, bound));
  TROUPE_TRY_ASSIGN(const GradientHeads gradients, prepare_gradients(bound));
  Graph merged = eliminate_common_subexpressions(prune(result.graph));
  if (base::is_16_bit(executor_.options_.products)) {
    TROUPE_TRY_ASSIGN(const ValueDTypes dtypes,
                      infer_dtypes(merged, dtypes_of(merged, bound.variables)));
    merged = widen_gradients(merged, dtypes);
  }
  if (fused) merged = fuse_gradient_sums(merged);
  bound.graph = separate_heads(runtime_.ops, merged, gradients);
  TROUPE_TRY_ASSIGN(executor_.train_,
                    make_program(runtime_, bound, executor_.options_, executor_.report_));
  keep(bound, updates);
  return {};
}

void Binder::keep(const BoundGraph& bound, const std::vector<StateUpdate>& updates) {
  const auto outputs = bound.heads.begin() + static_cast<std::ptrdiff_t>(flat_.heads.size());
  executor_.bindings_.outputs.assign(bound.heads.begin(), outputs);
  for (std::size_t i = 0; i < updates.size(); ++i) {
    const std::size_t head = bound.heads.size() - updates.size() + i;
    executor_.batch_values_.emplace(updates[i].state, bound.heads[head]);
    executor_.momenta_.emplace(updates[i].state, updates[i].momentum);
  }
}

base::Status Binder::bind_prediction() {
  const bool fused = executor_.options_.fused;
  TROUPE_TRY_ASSIGN(Graph frozen,
                    freeze(runtime_.ops, fused ? fuse_epilogues(flat_, false) : flat_));
  if (fused) {
    TROUPE_TRY_ASSIGN(const ValueDTypes dtypes,
                      infer_dtypes(frozen, dtypes_of(frozen, variables_)));
    frozen = fold_batch_norms(runtime_.ops, frozen, dtypes);
  }
  TROUPE_TRY_ASSIGN(frozen, in_precision(std::move(frozen)));
  BoundGraph bound;
  bound.graph = separate_heads(runtime_.ops, eliminate_common_subexpressions(frozen));
  bound.variables = variables_;
  bound.train = false;
  bound.weights = weights_;
  bound.heads = executor_.bindings_.outputs;
  bound.head_names = outputs_;
  TROUPE_TRY_ASSIGN(executor_.predict_,
                    make_program(runtime_, bound, executor_.options_, executor_.report_));
  executor_.bindings_.outputs = bound.heads;
  return {};
}

base::Status Binder::reserve() {
  std::size_t bytes = 0;
  for (const Program* program : {executor_.train_.get(), executor_.predict_.get()}) {
    if (program != nullptr) bytes = std::max(bytes, program->plan().arena_bytes);
  }
  return executor_.options_.arena->reserve(bytes);
}

Executor::Executor(ndarray::Runtime& runtime, Bindings bindings, const ExecutorOptions& options)
    : runtime_(runtime), options_(options), bindings_(std::move(bindings)) {}

Executor::~Executor() {
  for (std::unique_ptr<Program>* program : {&train_, &predict_}) {
    if (*program) Program::release(std::move(*program));
  }
}

base::Result<std::unique_ptr<Executor>> Executor::bind(ndarray::Runtime& runtime,
                                                       const Symbol& symbol, Bindings bindings,
                                                       const ExecutorOptions& options) {
  TROUPE_TRY(symbol.validate());
  if (!options.train && !options.predict) {
    return base::error(Errc::invalid_argument,
                       "bind: neither training nor prediction is asked for");
  }
  TROUPE_TRY(check_bindings(runtime, symbol, bindings, options.memory_device()));
  if (options.loss_scale || !options.loss_scale.status().ok()) {
    const NDArray& scale = options.loss_scale;
    TROUPE_TRY(check_array(runtime, "loss_scale", scale, options.memory_device()));
    if (scale.dtype() != base::DType::f32 || scale.shape().rank() != 1 || scale.bytes() == 0) {
      return base::error(Errc::invalid_argument, "bind: the loss scale is {} {}, not f32 (n,)",
                         base::dtype_name(scale.dtype()), scale.shape().to_string());
    }
  }
  TROUPE_TRY(options.step.status());
  if (options.sub_batch < 0) {
    return base::error(Errc::invalid_argument, "bind: parts of {} samples", options.sub_batch);
  }
  if (options.products != base::DType::f32 && !base::is_16_bit(options.products)) {
    return base::error(Errc::invalid_argument, "bind: products in {}; there are f32, f16 and bf16",
                       base::dtype_name(options.products));
  }
  if (options.monitor && ndarray::uses_stream(options.device)) {
    return base::error(Errc::unimplemented, "bind: a monitor of values on {}",
                       options.device.to_string());
  }
  if (!bindings.outputs.empty() && bindings.outputs.size() != symbol.output_count()) {
    return base::error(Errc::invalid_argument, "bind: the symbol has {} outputs, {} are given",
                       symbol.output_count(), bindings.outputs.size());
  }
  TROUPE_TRY(check_overlaps(symbol.graph(), symbol.list_outputs(), bindings));
  std::unique_ptr<Executor> executor(new Executor(runtime, std::move(bindings), options));
  ExecutorOptions& own = executor->options_;
  if (!own.arena) own.arena = std::make_shared<Arena>(runtime, own.memory_device());
  if (!own.step) {
    TROUPE_TRY_ASSIGN(own.step, NDArray::zeros(runtime, {}, base::DType::i64));
  }
  TROUPE_TRY(check_array(runtime, "step", own.step, base::Device{}));
  if (!runtime.engine.owns(own.arena->memory()->variable)) {
    return base::error(Errc::invalid_argument, "bind: the arena belongs to another engine");
  }
  if (own.arena->device() != own.memory_device()) {
    return base::error(Errc::invalid_argument, "bind: the arena is of {}, the executor of {}",
                       own.arena->device().to_string(), own.memory_device().to_string());
  }
  if (own.step.dtype() != base::DType::i64 || own.step.shape() != base::Shape() ||
      !own.step.whole() || own.step.device() != base::Device{}) {
    return base::error(Errc::invalid_argument,
                       "bind: the step must be an own 0-d i64 array of the host");
  }
  Binder binder(runtime, *executor, symbol);
  if (own.train) TROUPE_TRY(binder.bind_training());
  if (own.predict) TROUPE_TRY(binder.bind_prediction());
  own.tuner = nullptr;
  TROUPE_TRY(binder.reserve());
  executor->make_report();
  return executor;
}

base::Status Executor::check_engine() const {
  if (options_.plan_only) {
    return base::error(Errc::failed_precondition, "the executor was bound to be looked at alone");
  }
  if (options_.step.variable().engine_stands()) return {};
  return base::error(Errc::failed_precondition, "the engine of this executor has ended");
}

base::Status Executor::forward(bool train) {
  TROUPE_TRY(check_engine());
  Program* const program = train ? train_.get() : predict_.get();
  if (program == nullptr) {
    return base::error(Errc::failed_precondition, "the executor was bound without the graph for {}",
                       train ? "training" : "prediction");
  }
  if (options_.arena->bytes() < program->plan().arena_bytes) {
    return base::error(Errc::resource_exhausted, "the shared arena has {} of {} bytes",
                       options_.arena->bytes(), program->plan().arena_bytes);
  }
  TROUPE_TRY(program->push(false));
  options_.arena->claim(program);  // what has failed has pushed nothing
  trained_ = train;
  return {};
}

base::Status Executor::backward(std::span<const NDArray> head_gradients) {
  TROUPE_TRY(check_engine());
  if (!trained_) {
    return base::error(Errc::failed_precondition, "backward needs forward(train = true) before it");
  }
  if (!options_.arena->claimed_by(train_.get())) {
    return base::error(Errc::failed_precondition,
                       "another executor has used the shared arena since forward");
  }
  const bool wanted = std::ranges::any_of(
      bindings_.grad_req, [](const auto& request) { return request.second != GradReq::null; });
  if (!wanted) head_gradients = {};  // nobody wants what follows from them
  const bool left_out = head_gradients.empty() && !needs_head_gradients_;
  if (!left_out && head_gradients.size() != head_gradients_.size()) {
    return base::error(Errc::invalid_argument, "backward takes {} head gradients, {} are given",
                       head_gradients_.size(), head_gradients.size());
  }
  for (std::size_t i = 0; i < head_gradients.size(); ++i) {
    const base::Status copied = head_gradients_[i].copy_from(head_gradients[i]);
    if (!copied.ok()) return copied.with_context(fmt::format("backward: head gradient {}", i));
  }
  TROUPE_TRY(train_->push(true));
  trained_ = false;
  return {};
}

base::Status Executor::set_step(std::int64_t step) {
  TROUPE_TRY(check_engine());
  constexpr std::int64_t kStepsMax = std::int64_t{1} << 48;  // as counters of draws have them
  if (step < 0 || step >= kStepsMax) {
    return base::error(Errc::invalid_argument, "step {} is not from 0 to 2^48 - 1", step);
  }
  const engine::Operation operation{.name = "set step",
                                    .lane = {{}, engine::LaneKind::priority},
                                    .priority = options_.priority,
                                    .overwrites = {&options_.step.variable(), 1}};
  runtime_.engine.push(operation, [chunk = options_.step.chunk(), step](engine::RunContext&) {
    if (chunk->shared) {
      return base::error(Errc::failed_precondition, "the step's array has shared bytes");
    }
    std::memcpy(chunk->buffer.data(), &step, sizeof step);
    return base::Status();
  });
  return {};
}

}  // namespace troupe::symbol
