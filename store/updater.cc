// SPDX-License-Identifier: Apache-2.0
// Building an updater's graph, planning it for a number of elements, with its element-wise nodes in
// chains, running it node by node.
#include "store/updater.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "ndarray/run_kernel.h"
#include "symbol/fuse_pointwise.h"
#include "symbol/infer.h"
#include "symbol/passes.h"
#include "symbol/value_numbers.h"

namespace troupe::store {

struct UpdatePlan {
  symbol::Graph graph;  // with chains of element-wise operators
  symbol::ValueShapes shapes;
  symbol::ValueDTypes dtypes;
  symbol::ValueNumbers numbers;
  std::vector<std::shared_ptr<const ops::Kernel>> kernels;  // per node; null for variables
  std::vector<int> heads;                                   // per value: its head, or -1

  std::size_t bytes(std::size_t value) const {
    return static_cast<std::size_t>(shapes[value].elements()) * base::dtype_size(dtypes[value]);
  }
};

namespace {

using symbol::Symbol;

constexpr std::array<std::string_view, 4> kScalars = {"lr", "count", "step", "share"};

bool is_scalar(std::string_view name) {
  return std::find(kScalars.begin(), kScalars.end(), name) != kScalars.end();
}

base::Result<Symbol> optimizer_symbol(const ops::OpTable& table,
                                      const schemas::OptimizerSpec& spec) {
  if (spec.name.empty()) {
    if (spec.symbol_json.empty()) {
      return text_missing("train.optimizer.symbol", spec.symbol, "symbol_json");
    }
    auto symbol = Symbol::from_json(table, spec.symbol_json);
    if (!symbol.ok()) return symbol.status().with_context(spec.symbol);
    return symbol;
  }
  if (spec.name != "sgd") {
    return base::error(base::Errc::invalid_argument, "unknown optimizer '{}' (known: sgd)",
                       spec.name);
  }
  symbol::Inputs inputs;
  for (const char* name : {"weight", "gradient", "momentum", "lr", "count"}) {
    inputs.positional.push_back(Symbol::variable(name));
  }
  return Symbol::create(table, "sgd_update", "sgd", inputs,
                        {{"momentum", ops::to_attribute(spec.momentum)},
                         {"wd", ops::to_attribute(spec.wd)},
                         {"clip_gradient", ops::to_attribute(spec.clip_gradient)}});
}

// A graph without `count` takes the mean gradient: the division by the count goes in front.
base::Result<Symbol> with_mean_gradient(const ops::OpTable& table, const Symbol& update) {
  const auto arguments = update.list_arguments();
  auto has = [&](std::string_view name) {
    return std::find(arguments.begin(), arguments.end(), name) != arguments.end();
  };
  for (const char* name : {"weight", "gradient"}) {
    if (has(name)) continue;
    return base::error(base::Errc::invalid_argument, "[updater] the graph has no argument '{}'",
                       name);
  }
  if (has("count")) return update;
  symbol::Inputs inputs;
  inputs.positional = {Symbol::variable("gradient"), Symbol::variable("count")};
  TROUPE_TRY_ASSIGN(const Symbol mean, Symbol::create(table, "divide", "mean_gradient", inputs));
  return update.compose({{"gradient", mean}});
}

base::Status check_elementwise(const symbol::Graph& graph) {
  for (const symbol::GraphNode& node : graph.nodes) {
    if (node.is_variable() || node.op->elementwise) continue;
    return base::error(base::Errc::invalid_argument,
                       "{} is not element-wise: an updater runs on slices of a key",
                       symbol::node_label(node));
  }
  return {};
}

/// Of the arguments, for slices of so many elements.
std::map<std::string, base::Shape> shapes_of(const symbol::Graph& graph, std::int64_t elements) {
  std::map<std::string, base::Shape> shapes;
  for (const std::int64_t node : graph.arguments()) {
    const std::string& name = graph.nodes[static_cast<std::size_t>(node)].name;
    shapes[name] = is_scalar(name) ? base::Shape{} : base::Shape{elements};
  }
  return shapes;
}

/// Whether it takes slices at all: what depends on axes is element-wise by name only.
base::Status check_shapes(const symbol::Graph& graph) {
  constexpr std::int64_t kAny = 2;
  TROUPE_TRY_ASSIGN(const symbol::ValueShapes shapes,
                    symbol::infer_shapes(graph, shapes_of(graph, kAny)));
  return symbol::check_complete(graph, shapes);
}

base::Status check_heads(const symbol::Graph& graph) {
  for (std::size_t i = 0; i < graph.heads.size(); ++i) {
    const bool repeated = std::count(graph.heads.begin(), graph.heads.end(), graph.heads[i]) > 1;
    if (!repeated && !graph.node(graph.heads[i]).is_variable()) continue;
    return base::error(base::Errc::invalid_argument,
                       "[updater] output {} ({}) must be a value of its own", i,
                       graph.value_name(graph.heads[i]));
  }
  return {};
}

ops::OpCall call_of(const UpdatePlan& plan, std::size_t node, int team) {
  const symbol::Graph& graph = plan.graph;
  ops::OpCall call;
  call.op = graph.nodes[node].op;
  call.params = graph.nodes[node].params;
  call.team = team;
  auto desc = [&](std::size_t value) {
    return ops::TensorDesc{plan.dtypes[value], plan.shapes[value], {}, false};
  };
  for (const symbol::Value input : graph.nodes[node].inputs) {
    call.inputs.push_back(desc(plan.numbers[input]));
  }
  for (std::size_t value = plan.numbers.begin(node); value < plan.numbers.end(node); ++value) {
    call.outputs.push_back(desc(value));
  }
  return call;
}

/// Per value, where weight, gradient and states are of `dtype`.
base::Result<symbol::ValueDTypes> dtypes_of(const symbol::Graph& graph, base::DType dtype) {
  std::map<std::string, base::DType> known;
  for (const std::int64_t node : graph.arguments()) {
    const std::string& name = graph.nodes[static_cast<std::size_t>(node)].name;
    if (!is_scalar(name)) known[name] = dtype;
  }
  return symbol::infer_dtypes(graph, known);
}

/// The numbers of a step are written as f32 or f64 (Application::store).
base::Status check_scalars(const symbol::Graph& graph, base::DType dtype) {
  TROUPE_TRY_ASSIGN(const symbol::ValueDTypes dtypes, dtypes_of(graph, dtype));
  const symbol::ValueNumbers numbers(graph);
  for (const std::int64_t node : graph.arguments()) {
    const std::string& name = graph.nodes[static_cast<std::size_t>(node)].name;
    const base::DType own = dtypes[numbers[{node, 0}]];
    if (is_scalar(name) && own != base::DType::f32 && own != base::DType::f64) {
      return base::error(base::Errc::invalid_argument, "[updater] '{}' is {}, not f32 or f64", name,
                         base::dtype_name(own));
    }
  }
  return {};
}

// One application of a plan: the views of all values and the buffers behind them.
class Application {
 public:
  Application(const UpdatePlan& plan, const UpdateContext& context)
      : graph_(plan.graph), plan_(plan), context_(context), views_(plan.numbers.size()) {}

  // Addresses of the graph's variables.
  void bind(const std::vector<std::string>& slots, const SliceValues& current,
            const base::Buffer& gradient, const UpdateNumbers& numbers) {
    const std::array<double, kScalars.size()> values = {
        numbers.lr, numbers.count, static_cast<double>(numbers.step), numbers.share};
    for (const std::int64_t i : graph_.arguments()) {
      const std::string& name = graph_.nodes[static_cast<std::size_t>(i)].name;
      base::TensorView& view = describe(plan_.numbers[{i, 0}]);
      const auto scalar = std::find(kScalars.begin(), kScalars.end(), name) - kScalars.begin();
      if (name == "weight") {
        view.data = current.weight.data();
      } else if (name == "gradient") {
        view.data = gradient.data();
      } else if (is_scalar(name)) {
        view.data = store(static_cast<std::size_t>(scalar), values, view.dtype);
      } else {
        const auto slot = std::find(slots.begin(), slots.end(), name) - slots.begin();
        view.data = current.slots[static_cast<std::size_t>(slot)].data();
      }
    }
  }

  base::Status run(std::size_t node, SliceValues& next) {
    const std::size_t begin = plan_.numbers.begin(node), end = plan_.numbers.end(node);
    for (std::size_t value = begin; value < end; ++value) {
      TROUPE_TRY(allocate(value, next));
    }
    std::vector<base::TensorView> inputs;
    for (const symbol::Value input : graph_.nodes[node].inputs) {
      inputs.push_back(views_[plan_.numbers[input]]);
    }
    const auto& kernel = plan_.kernels[node];
    TROUPE_TRY_ASSIGN(base::Buffer scratch,
                      context_.pool.allocate(kernel->scratch_bytes(), "update"));
    const ndarray::KernelBuffers buffers{.inputs = inputs,
                                         .outputs = std::span(views_).subspan(begin, end - begin),
                                         .scratch = {scratch.data(), scratch.size()},
                                         .fresh = true};
    return ndarray::run_kernel(kernel, buffers, context_.lane)
        .with_context(symbol::node_label(graph_.nodes[node]));
  }

 private:
  base::TensorView& describe(std::size_t value) {
    views_[value].dtype = plan_.dtypes[value];
    views_[value].shape = plan_.shapes[value];
    return views_[value];
  }

  void* store(std::size_t scalar, std::span<const double> values, base::DType dtype) {
    void* place = scalars_[scalar].data();
    if (dtype == base::DType::f64) {
      std::memcpy(place, &values[scalar], sizeof(double));
    } else {
      const auto number = static_cast<float>(values[scalar]);
      std::memcpy(place, &number, sizeof(float));
    }
    return place;
  }

  base::Status allocate(std::size_t value, SliceValues& next) {
    const int head = plan_.heads[value];
    TROUPE_TRY_ASSIGN(base::Buffer buffer,
                      context_.pool.allocate(plan_.bytes(value), head < 0 ? "update" : "weights"));
    describe(value).data = buffer.data();
    if (head == 0) {
      next.weight = std::move(buffer);
    } else if (head > 0) {
      next.slots[static_cast<std::size_t>(head) - 1] = std::move(buffer);
    } else {
      held_.push_back(std::move(buffer));
    }
    return {};
  }

  const symbol::Graph& graph_;
  const UpdatePlan& plan_;
  const UpdateContext& context_;
  std::vector<base::TensorView> views_;
  std::vector<base::Buffer> held_;
  std::array<std::array<std::byte, 8>, kScalars.size()> scalars_{};
};

}  // namespace

base::Status text_missing(std::string_view key, std::string_view path, std::string_view field) {
  return base::error(base::Errc::invalid_argument,
                     "{}: the text of '{}' is not in {}: whoever makes the job reads the file", key,
                     path, field);
}

base::Result<std::unique_ptr<Updater>> Updater::create(const ops::OpTable& table,
                                                       const schemas::OptimizerSpec& spec,
                                                       base::DType dtype) {
  TROUPE_TRY_ASSIGN(const Symbol given, optimizer_symbol(table, spec));
  TROUPE_TRY_ASSIGN(const Symbol update, with_mean_gradient(table, given));
  return from_symbol(table, update, dtype);
}

base::Result<std::unique_ptr<Updater>> Updater::create_average(const ops::OpTable& table,
                                                               double momentum, base::DType dtype) {
  symbol::Inputs inputs;
  for (const char* name : {"weight", "gradient", "count", "share"}) {
    inputs.positional.push_back(Symbol::variable(name));
  }
  TROUPE_TRY_ASSIGN(const Symbol update,
                    Symbol::create(table, "average_update", "average", inputs,
                                   {{"momentum", ops::to_attribute(momentum)}}));
  return from_symbol(table, update, dtype);
}

base::Result<std::unique_ptr<Updater>> Updater::from_symbol(const ops::OpTable& table,
                                                            const Symbol& update,
                                                            base::DType dtype) {
  TROUPE_TRY(update.validate());
  symbol::Graph graph = symbol::prune(update.graph());
  TROUPE_TRY(check_elementwise(graph));
  TROUPE_TRY(check_heads(graph));
  TROUPE_TRY(check_scalars(graph, dtype));
  std::vector<std::string> slots;
  for (const std::string& name : update.list_arguments()) {
    if (name != "weight" && name != "gradient" && !is_scalar(name)) slots.push_back(name);
  }
  if (graph.heads.size() != slots.size() + 1) {
    return base::error(base::Errc::invalid_argument,
                       "[updater] {} outputs for a weight and {} states: one each is needed",
                       graph.heads.size(), slots.size());
  }
  TROUPE_TRY(check_shapes(graph));
  return std::unique_ptr<Updater>(new Updater(table, std::move(graph), std::move(slots), dtype));
}

Updater::Updater(const ops::OpTable& table, symbol::Graph graph, std::vector<std::string> slots,
                 base::DType dtype)
    : table_(table),
      graph_(std::move(graph)),
      slots_(std::move(slots)),
      dtype_(dtype),
      reads_rate_(std::ranges::any_of(graph_.nodes, [](const symbol::GraphNode& node) {
        return node.is_variable() && node.name == "lr";
      })) {}

base::Result<std::vector<base::Buffer>> Updater::first_slots(std::int64_t elements,
                                                             base::BufferPool& pool) const {
  std::vector<base::Buffer> buffers;
  const std::size_t bytes = static_cast<std::size_t>(elements) * base::dtype_size(dtype_);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    TROUPE_TRY_ASSIGN(base::Buffer buffer, pool.allocate(bytes, "optimizer state"));
    std::memset(buffer.data(), 0, bytes);
    buffers.push_back(std::move(buffer));
  }
  return buffers;
}

base::Result<std::shared_ptr<const UpdatePlan>> Updater::plan(std::int64_t elements,
                                                              const UpdateContext& context) const {
  {
    const base::MutexLock lock(mutex_);
    const auto known = plans_.find(elements);
    if (known != plans_.end()) return known->second;
  }
  // Without the lock: others need not wait. Two threads may make the same plan, the first one
  // stays.
  TROUPE_TRY_ASSIGN(auto made, make_plan(elements, context));
  const base::MutexLock lock(mutex_);
  return plans_.emplace(elements, std::move(made)).first->second;
}

base::Result<std::shared_ptr<const UpdatePlan>> Updater::make_plan(
    std::int64_t elements, const UpdateContext& context) const {
  const std::map<std::string, base::Shape> shapes = shapes_of(graph_, elements);
  auto plan = std::make_shared<UpdatePlan>();
  symbol::Graph& graph = plan->graph;
  {
    TROUPE_TRY_ASSIGN(const symbol::ValueShapes whole, symbol::infer_shapes(graph_, shapes));
    TROUPE_TRY(symbol::check_complete(graph_, whole));
    TROUPE_TRY_ASSIGN(const symbol::ValueDTypes dtypes, dtypes_of(graph_, dtype_));
    graph = symbol::fuse_pointwise(table_, graph_, whole, dtypes);
  }
  TROUPE_TRY_ASSIGN(plan->shapes, symbol::infer_shapes(graph, shapes));
  TROUPE_TRY_ASSIGN(plan->dtypes, dtypes_of(graph, dtype_));
  plan->numbers = symbol::ValueNumbers(graph);
  plan->heads.assign(plan->numbers.size(), -1);
  for (std::size_t head = 0; head < graph.heads.size(); ++head) {
    const std::size_t value = plan->numbers[graph.heads[head]];
    if (plan->shapes[value] != base::Shape{elements} || plan->dtypes[value] != dtype_) {
      return base::error(base::Errc::invalid_argument,
                         "[updater] output {} has shape {} and dtype {}, not those of the weight",
                         head, plan->shapes[value].to_string(),
                         base::dtype_name(plan->dtypes[value]));
    }
    plan->heads[value] = static_cast<int>(head);
  }
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    plan->kernels.emplace_back();
    if (graph.nodes[i].is_variable()) continue;
    const ops::OpCall call = call_of(*plan, i, context.lane.team);
    TROUPE_TRY_ASSIGN(plan->kernels.back(), context.kernels.get(call));
  }
  return std::shared_ptr<const UpdatePlan>(std::move(plan));
}

base::Result<SliceValues> Updater::apply(const SliceValues& current, const base::Buffer& gradient,
                                         const UpdateNumbers& numbers,
                                         const UpdateContext& context) const {
  const auto elements = static_cast<std::int64_t>(current.weight.size() / base::dtype_size(dtype_));
  TROUPE_CHECK(gradient.size() == current.weight.size(), "gradient and weight differ in size");
  TROUPE_CHECK(current.slots.size() == slots_.size(), "slice without its optimizer slots");
  TROUPE_TRY_ASSIGN(const auto plan, this->plan(elements, context));

  Application application(*plan, context);
  application.bind(slots_, current, gradient, numbers);
  SliceValues next;
  next.slots.resize(slots_.size());
  for (std::size_t node = 0; node < plan->graph.nodes.size(); ++node) {
    if (plan->graph.nodes[node].is_variable()) continue;
    TROUPE_TRY(application.run(node, next));
  }
  return next;
}

}  // namespace troupe::store
