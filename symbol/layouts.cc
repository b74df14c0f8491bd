// SPDX-License-Identifier: Apache-2.0
// choose_layouts: makes the kernels that the search has settled on and writes the graph down, with
// a reorder wherever layouts differ.
#include "symbol/layouts.h"

#include <fmt/core.h>

#include <optional>
#include <unordered_map>
#include <utility>

#include "ops/roofline.h"
#include "symbol/layout_search.h"

namespace troupe::symbol {

namespace {

using base::Layout;
using KernelPointer = std::shared_ptr<const ops::Kernel>;

class Writer {
 public:
  Writer(ndarray::Runtime& runtime, const Graph& graph, const ValueShapes& shapes,
         const ValueDTypes& dtypes, const PrepareOptions& options)
      : runtime_(runtime),
        graph_(graph),
        numbers_(graph),
        shapes_(shapes),
        dtypes_(dtypes),
        search_(runtime.ops, graph, shapes, dtypes, options,
                runtime.engine.team({options.device, engine::LaneKind::compute})),
        builder_(runtime.ops, result_.graph),
        mapped_(numbers_.size()),
        dense_(numbers_.size()) {}

  base::Result<PreparedGraph> run() {
    TROUPE_TRY_ASSIGN(plans_, search_.run());
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (graph_.nodes[i].is_variable()) {
        place(i, {}, nullptr);
        continue;
      }
      if (search_.falls_away(i)) {  // no head does
        mapped_[numbers_.begin(i)] = mapped_[numbers_[graph_.nodes[i].inputs[0]]];
        continue;
      }
      TROUPE_TRY(visit(i));
      // Heads become dense at once: in the pass of their node, and early, for who waits for one.
      for (std::size_t v = numbers_.begin(i); v < numbers_.end(i); ++v) {
        if (!search_.is_head(v)) continue;
        TROUPE_TRY_ASSIGN(dense_[v], reordered(mapped_[v], Layout::dense(), "output"));
      }
    }
    for (const Value head : graph_.heads) {  // variables are dense as they are
      const std::size_t number = numbers_[head];
      result_.graph.heads.push_back(dense_[number].value_or(mapped_[number]));
    }
    return std::move(result_);
  }

 private:
  /// Appends node `index` with inputs that lie as the kernel wants them.
  void place(std::size_t index, std::vector<Value> inputs, KernelPointer kernel) {
    GraphNode node = graph_.nodes[index];
    node.inputs = std::move(inputs);
    const std::vector<Value> outputs = builder_.add_node(std::move(node));
    const NodePlan& plan = plans_[index];
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const std::size_t old = numbers_.begin(index) + k;
      mapped_[old] = outputs[k];
      note(shapes_[old], dtypes_[old], kernel ? plan.offer.outputs[k] : Layout::dense());
    }
    result_.numbers.add_node(static_cast<int>(outputs.size()));
    result_.kernels.push_back(std::move(kernel));
    result_.plans.push_back(std::move(plans_[index]));
  }

  void note(const base::Shape& shape, base::DType dtype, const Layout& layout) {
    result_.shapes.push_back(shape);
    result_.dtypes.push_back(dtype);
    result_.layouts.push_back(layout);
  }

  base::Status visit(std::size_t index) {
    const GraphNode& node = graph_.nodes[index];
    const NodePlan& plan = plans_[index];
    backward_ = node.backward;
    auto kernel = prepare(plan);
    if (!kernel.ok()) return kernel.status().with_context(node_label(node));
    std::vector<Value> inputs;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      Value input = mapped_[numbers_[node.inputs[k]]];
      if (node.reads(k)) {
        TROUPE_TRY_ASSIGN(input, reordered(input, plan.offer.inputs[k], node.name));
      }
      inputs.push_back(input);
    }
    place(index, std::move(inputs), *std::move(kernel));
    // Who reads behind the node what it overwrites wants the new content.
    if (!node.is_variable() && node.op->assign) reorders_.clear();
    return {};
  }

  /// `value` of the result in another layout; made once per value and layout.
  base::Result<Value> reordered(Value value, const Layout& layout, const std::string& user) {
    const std::size_t from = result_.numbers[value];
    if (result_.layouts[from] == layout) return value;
    for (const Value target : reorders_[from]) {
      if (result_.layouts[result_.numbers[target]] == layout) return target;
    }
    ops::OpCall call = search_.call_of(runtime_.ops.at("reorder"), {});
    call.inputs = {{result_.dtypes[from], result_.shapes[from], result_.layouts[from], false}};
    call.outputs = {{result_.dtypes[from], result_.shapes[from], layout, false}};
    const std::string name = result_.graph.value_name(value);
    const std::string context = fmt::format("reorder of {} for {}", name, user);
    auto offers = ops::offers(call);
    if (!offers.ok()) return offers.status().with_context(context);
    NodePlan plan{std::move(call), std::move(offers->front()), {}, {}, false};
    auto kernel = prepare(plan);
    if (!kernel.ok()) return kernel.status().with_context(context);
    result_.reorders.push_back(fmt::format(
        "{} {} -> {} for {}", name, result_.layouts[from].to_string(), layout.to_string(), user));
    builder_.set_prefix(name + "_reorder");
    builder_.set_backward(backward_);
    const Value target = builder_.add("reorder", {value}, {}).front();
    note(base::Shape(result_.shapes[from]), result_.dtypes[from], layout);
    result_.numbers.add_node(1);
    result_.kernels.push_back(*std::move(kernel));
    result_.plans.push_back(std::move(plan));
    reorders_[from].push_back(target);
    return target;
  }

  ndarray::Runtime& runtime_;
  const Graph& graph_;
  const ValueNumbers numbers_;  // of graph_
  const ValueShapes& shapes_;
  const ValueDTypes& dtypes_;
  LayoutSearch search_;
  std::vector<NodePlan> plans_;
  PreparedGraph result_;
  Builder builder_;
  std::vector<Value> mapped_;                // per old value: the value of the result
  std::vector<std::optional<Value>> dense_;  // per old value: the head that it became
  std::unordered_map<std::size_t, std::vector<Value>> reorders_;  // of a value of the result
  bool backward_ = false;  // of the node being visited: its reorders run in the same pass
};

}  // namespace

double NodePlan::seconds() const {
  const bool gpu = call.op != nullptr && call.device.kind == base::DeviceKind::cuda;
  return gpu ? ops::gpu_seconds(call) : offer.seconds;
}

base::Result<std::shared_ptr<const ops::Kernel>> prepare(const NodePlan& plan) {
  TROUPE_TRY_ASSIGN(std::shared_ptr<const ops::Kernel> kernel,
                    plan.offer.maker->prepare(plan.call));
  TROUPE_CHECK(kernel->name() == plan.offer.kernel, "a kernel made again is another one");
  return kernel;
}

base::Result<PreparedGraph> choose_layouts(ndarray::Runtime& runtime, const Graph& graph,
                                           const ValueShapes& shapes, const ValueDTypes& dtypes,
                                           const PrepareOptions& options) {
  return Writer(runtime, graph, shapes, dtypes, options).run();
}

}  // namespace troupe::symbol
