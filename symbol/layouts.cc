// SPDX-License-Identifier: Apache-2.0
// choose_layouts: one walk in topological order, asking each operator's kernels what they like.
#include "symbol/layouts.h"

#include <fmt/core.h>

#include <map>
#include <utility>

namespace troupe::symbol {

namespace {

using base::Layout;
using KernelPointer = std::shared_ptr<const ops::Kernel>;

/// A kernel, and the better ones that declined.
struct Choice {
  KernelPointer kernel;
  std::vector<ops::Decline> declines;
};

/// What a kernel says, with "empty: all dense" written out.
std::vector<Layout> stated(std::vector<Layout> layouts, std::size_t count) {
  if (layouts.empty()) layouts.resize(count);
  TROUPE_CHECK(layouts.size() == count, "a kernel must state one layout per input and output");
  return layouts;
}

class Chooser {
 public:
  Chooser(ndarray::Runtime& runtime, const Graph& graph, const ValueShapes& shapes,
          const ValueDTypes& dtypes, const PrepareOptions& options)
      : runtime_(runtime),
        graph_(graph),
        numbers_(graph),
        shapes_(shapes),
        dtypes_(dtypes),
        options_(options),
        team_(runtime.engine.team({options.device, engine::LaneKind::compute})),
        builder_(runtime.ops, result_.graph),
        mapped_(numbers_.size()) {}

  base::Result<PreparedGraph> run() {
    std::vector<bool> is_head(numbers_.size(), false);
    for (Value head : graph_.heads) is_head[numbers_[head]] = true;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (graph_.nodes[i].is_variable()) {
        place(i, {}, {}, {Layout::dense()});
        continue;
      }
      if (is_identity(i) && !is_head[numbers_.begin(i)]) {
        mapped_[numbers_.begin(i)] = mapped_[numbers_[graph_.nodes[i].inputs[0]]];
        continue;
      }
      TROUPE_TRY(visit(i));
      // Heads become dense at once: who waits for a gradient must not wait for the whole pass.
      for (std::size_t v = numbers_.begin(i); v < numbers_.end(i); ++v) {
        if (is_head[v]) TROUPE_TRY(reordered(mapped_[v], Layout::dense(), "output").status());
      }
    }
    for (Value head : graph_.heads) {
      TROUPE_TRY_ASSIGN(const Value dense,
                        reordered(mapped_[numbers_[head]], Layout::dense(), "output"));
      result_.graph.heads.push_back(dense);
    }
    return std::move(result_);
  }

 private:
  /// The node gives its first input as it is. (A head needs memory of its own.)
  bool is_identity(std::size_t index) const {
    const GraphNode& node = graph_.nodes[index];
    if (!node.op->identity_if_alike) return false;
    return shapes_[numbers_[node.inputs[0]]] == shapes_[numbers_.begin(index)];
  }

  /// The layout that a value of the given graph has in the result.
  const Layout& layout_of(Value value) const {
    return result_.layouts[result_.numbers[mapped_[numbers_[value]]]];
  }

  /// Appends node `index` with inputs that lie as the kernel wants them.
  void place(std::size_t index, std::vector<Value> inputs, Choice choice,
             const std::vector<Layout>& layouts) {
    GraphNode node = graph_.nodes[index];
    node.inputs = std::move(inputs);
    const std::vector<Value> outputs = builder_.add_node(std::move(node));
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const std::size_t old = numbers_.begin(index) + k;
      mapped_[old] = outputs[k];
      note(shapes_[old], dtypes_[old], layouts[k]);
    }
    result_.numbers.add_node(static_cast<int>(outputs.size()));
    result_.kernels.push_back(std::move(choice.kernel));
    result_.declines.push_back(std::move(choice.declines));
  }

  void note(const base::Shape& shape, base::DType dtype, const Layout& layout) {
    result_.shapes.push_back(shape);
    result_.dtypes.push_back(dtype);
    result_.layouts.push_back(layout);
  }

  ops::OpCall call_of(const ops::OpDef& op, const ops::Params& params) const {
    ops::OpCall call;
    call.op = &op;
    call.params = params;
    call.device = options_.device;
    call.team = team_;
    call.reference_only = options_.reference_only;
    return call;
  }

  /// The kernel for fixed inputs, or for inputs that it may choose.
  base::Result<Choice> prepare(std::size_t index, bool free_inputs) {
    const GraphNode& node = graph_.nodes[index];
    ops::OpCall call = call_of(*node.op, node.params);
    const bool choose = options_.layouts == base::LayoutPolicy::chosen;
    for (Value input : node.inputs) {
      const std::size_t v = numbers_[input];
      call.inputs.push_back({dtypes_[v], shapes_[v], layout_of(input), choose && free_inputs});
    }
    for (std::size_t v = numbers_.begin(index); v < numbers_.end(index); ++v) {
      call.outputs.push_back({dtypes_[v], shapes_[v], Layout::dense(), choose});
    }
    Choice choice;
    TROUPE_TRY_ASSIGN(choice.kernel, ndarray::PreparedKernels::make(call, &choice.declines));
    return choice;
  }

  /// Which inputs must be reordered for `kernel`, and does one of them only become dense again?
  bool falls_back_to_dense(std::size_t index, const ops::Kernel& kernel) const {
    const GraphNode& node = graph_.nodes[index];
    const std::vector<Layout> wanted = stated(kernel.input_layouts(), node.inputs.size());
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      const Layout& present = layout_of(node.inputs[k]);
      if (node.reads(k) && !present.is_dense() && wanted[k].is_dense()) return true;
    }
    return false;
  }

  /// Kernels choose freely; one that would only undo a layout is asked to take things as they are
  /// (element-wise operators and pooling do).
  base::Result<Choice> choose_kernel(std::size_t index) {
    base::Result<Choice> free_choice = prepare(index, true);
    if (options_.layouts == base::LayoutPolicy::dense) return free_choice;
    if (free_choice.ok() && !falls_back_to_dense(index, *free_choice->kernel)) return free_choice;
    base::Result<Choice> as_it_is = prepare(index, false);
    if (as_it_is.ok() && !falls_back_to_dense(index, *as_it_is->kernel)) return as_it_is;
    return free_choice;
  }

  base::Status visit(std::size_t index) {
    const GraphNode& node = graph_.nodes[index];
    backward_ = node.backward;
    base::Result<Choice> choice = choose_kernel(index);
    if (!choice.ok()) return choice.status().with_context(node_label(node));
    const ops::Kernel& kernel = *choice->kernel;
    const std::vector<Layout> wanted = stated(kernel.input_layouts(), node.inputs.size());
    std::vector<Value> inputs;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      Value input = mapped_[numbers_[node.inputs[k]]];
      if (node.reads(k)) {
        TROUPE_TRY_ASSIGN(input, reordered(input, wanted[k], node.name));
      }
      inputs.push_back(input);
    }
    const std::vector<Layout> given =
        stated(kernel.output_layouts(), static_cast<std::size_t>(node.outputs));
    place(index, std::move(inputs), *std::move(choice), given);
    return {};
  }

  /// `value` of the result in another layout; made once per value and layout.
  base::Result<Value> reordered(Value value, const Layout& layout, const std::string& user) {
    const std::size_t from = result_.numbers[value];
    if (result_.layouts[from] == layout) return value;
    for (const auto& [source, target] : reorders_) {
      if (source == value && result_.layouts[result_.numbers[target]] == layout) return target;
    }
    ops::OpCall call = call_of(runtime_.ops.at("reorder"), {});
    call.inputs = {{result_.dtypes[from], result_.shapes[from], result_.layouts[from], false}};
    call.outputs = {{result_.dtypes[from], result_.shapes[from], layout, false}};
    base::Result<KernelPointer> kernel = ndarray::PreparedKernels::make(call);
    const std::string name = result_.graph.value_name(value);
    if (!kernel.ok()) {
      return kernel.status().with_context(fmt::format("reorder of {} for {}", name, user));
    }
    result_.reorders.push_back(fmt::format(
        "{} {} -> {} for {}", name, result_.layouts[from].to_string(), layout.to_string(), user));
    builder_.set_prefix(name + "_reorder");
    builder_.set_backward(backward_);
    const Value target = builder_.add("reorder", {value}, {}).front();
    note(base::Shape(result_.shapes[from]), result_.dtypes[from], layout);
    result_.numbers.add_node(1);
    result_.kernels.push_back(*kernel);
    result_.declines.emplace_back();
    reorders_.emplace_back(value, target);
    return target;
  }

  ndarray::Runtime& runtime_;
  const Graph& graph_;
  const ValueNumbers numbers_;  // of graph_
  const ValueShapes& shapes_;
  const ValueDTypes& dtypes_;
  const PrepareOptions& options_;
  const int team_;
  PreparedGraph result_;
  Builder builder_;
  std::vector<Value> mapped_;  // per old value: the value of the result
  std::vector<std::pair<Value, Value>> reorders_;
  bool backward_ = false;  // of the node being visited: its reorders run in the same pass
};

}  // namespace

base::Result<PreparedGraph> choose_layouts(ndarray::Runtime& runtime, const Graph& graph,
                                           const ValueShapes& shapes, const ValueDTypes& dtypes,
                                           const PrepareOptions& options) {
  return Chooser(runtime, graph, shapes, dtypes, options).run();
}

}  // namespace troupe::symbol
