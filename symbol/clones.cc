// SPDX-License-Identifier: Apache-2.0
// One walk writes a draft: late nodes find their inputs, which makes clones on the way.
#include "symbol/clones.h"

#include <utility>

#include "symbol/passes.h"
#include "symbol/views.h"

namespace troupe::symbol {

namespace {

/// True for nodes that give the same outputs once more, and do nothing else. The step that a
/// random one counts by may change between the passes.
bool repeats(const GraphNode& node) {
  return !node.is_variable() && !node.op->random;
}

/// Per value: whether an input or a head names it.
std::vector<bool> named_values(const Graph& graph, const ValueNumbers& numbers) {
  std::vector<bool> named(numbers.size(), false);
  for (const GraphNode& node : graph.nodes) {
    for (const Value input : node.inputs) named[numbers[input]] = true;
  }
  for (const Value head : graph.heads) named[numbers[head]] = true;
  return named;
}

/// True when the node has hidden outputs, could leave them out, and none is `named`. `first`: its
/// first value.
bool is_idle(const GraphNode& node, std::size_t first, const std::vector<bool>& named) {
  if (node.is_variable() || node.op->keeps_hidden.empty()) return false;
  const int visible = node.op->visible_output_count(node.params);
  for (int output = visible; output < node.outputs; ++output) {
    if (named[first + static_cast<std::size_t>(output)]) return false;
  }
  return node.outputs > visible;
}

class Walk {
 public:
  Walk(const Cloner& cloner, const Draft& from, const std::vector<bool>& keep)
      : cloner_(cloner),
        from_(from),
        numbers_(from.graph),
        keep_(keep),
        index_(from.graph.nodes.size(), -1),
        clones_(from.graph.nodes.size(), -1) {}

  Draft run() {
    result_.seconds = from_.seconds;
    for (std::size_t i = 0; i < from_.graph.nodes.size(); ++i) {
      GraphNode node = from_.graph.nodes[i];
      find_inputs(node, from_.is_late(i));
      index_[i] = append(std::move(node), i, *from_.plans[i], from_.clone[i]);
    }
    for (const Value head : from_.graph.heads) result_.graph.heads.push_back(map(head));
    return std::move(result_);
  }

 private:
  Value map(Value value) const { return {index_[node_index(value)], value.output}; }

  void find_inputs(GraphNode& node, bool late) {
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      const bool again = late && !node.is_variable() && node.reads(k);
      node.inputs[k] = again ? again_of(node.inputs[k]) : map(node.inputs[k]);
    }
  }

  /// True when late nodes read a clone of the value's node.
  bool is_cloned(Value value) const {
    const std::size_t node = node_index(value);
    return !keep_[node] && static_cast<std::size_t>(value.output) < cloner_.outputs(from_, node);
  }

  /// The value as late nodes read it.
  Value again_of(Value value) {
    if (!is_cloned(value)) return map(value);
    make_clone(node_index(value));
    return {clones_[node_index(value)], value.output};
  }

  /// A node's clone behind those of what it reads: by a list, since chains may be long.
  void make_clone(std::size_t wanted) {
    struct Open {
      std::size_t node;
      GraphNode call;
      std::size_t next = 0;  // input to look at
    };
    std::vector<Open> open;
    if (clones_[wanted] < 0) open.push_back({wanted, cloner_.call(from_, wanted)});
    while (!open.empty()) {
      Open& top = open.back();
      if (top.next < top.call.inputs.size()) {
        const std::size_t k = top.next++;
        const Value input = top.call.inputs[k];
        const bool missing =
            top.call.reads(k) && is_cloned(input) && clones_[node_index(input)] < 0;
        if (missing) open.push_back({node_index(input), cloner_.call(from_, node_index(input))});
        continue;
      }
      const std::size_t node = top.node;
      GraphNode call = std::move(top.call);
      open.pop_back();
      find_inputs(call, true);
      const NodePlan& plan = cloner_.plan(from_, node);
      result_.seconds += plan.seconds();
      clones_[node] = append(std::move(call), node, plan, true);
    }
  }

  std::int64_t append(GraphNode node, std::size_t from, const NodePlan& plan, bool clone) {
    for (int output = 0; output < node.outputs; ++output) {
      const std::size_t value = numbers_.begin(from) + static_cast<std::size_t>(output);
      result_.values.push_back(from_.values[value]);
    }
    result_.nodes.push_back(from_.nodes[from]);
    result_.plans.push_back(&plan);
    result_.clone.push_back(clone);
    result_.graph.nodes.push_back(std::move(node));
    return static_cast<std::int64_t>(result_.graph.nodes.size()) - 1;
  }

  const Cloner& cloner_;
  const Draft& from_;
  const ValueNumbers numbers_;  // of from_
  const std::vector<bool>& keep_;
  std::vector<std::int64_t> index_, clones_;  // per node of from_
  Draft result_;
};

}  // namespace

Cloner::Cloner(const ops::OpTable& table, PreparedGraph prepared)
    : prepared_(std::move(prepared)),
      assigns_(assigns(prepared_.graph)),
      base_(plan_request(prepared_, std::vector<bool>(prepared_.numbers.size(), false))),
      forms_(prepared_.graph.nodes.size()),
      lean_(prepared_.graph.nodes.size()) {
  for (std::size_t i = 0; i < forms_.size(); ++i) {
    forms_[i] = find_form(table, i);
    lean_[i] = find_lean(i);
  }
}

std::optional<Cloner::Form> Cloner::form_of(std::size_t index, GraphNode call, const ops::OpDef& op,
                                            const ops::Attributes& attributes) const {
  Form form{std::move(call), prepared_.plans[index]};
  form.node.op = &op;
  form.node.params = ops::parse_params(op, attributes).value();
  form.node.outputs = static_cast<int>(op.outputs(form.node.params).size());
  const auto tensor = [this](Value value) {
    const std::size_t v = prepared_.numbers[value];
    return ops::TensorDesc{prepared_.dtypes[v], prepared_.shapes[v], prepared_.layouts[v], false};
  };
  ops::OpCall& planned = form.plan.call;
  planned.op = &op;
  planned.params = form.node.params;
  planned.inputs.clear();
  planned.outputs.clear();
  for (const Value input : form.node.inputs) planned.inputs.push_back(tensor(input));
  for (int output = 0; output < form.node.outputs; ++output) {
    planned.outputs.push_back(tensor({static_cast<std::int64_t>(index), output}));
  }
  auto offers = ops::offers(planned, nullptr, {.named = form.plan.offer.maker->name});
  if (!offers.ok()) return std::nullopt;
  form.plan.offer = std::move(offers->front());
  return form;
}

std::optional<Cloner::Form> Cloner::find_form(const ops::OpTable& table, std::size_t index) const {
  const GraphNode& node = prepared_.graph.nodes[index];
  if (node.is_variable() || node.backward || !node.op->recomputation) return std::nullopt;
  const ops::OpDef& op = table.at(node.op->recomputation->op);
  ops::Attributes attributes;
  for (const auto& [name, value] : node.params.to_attributes()) {
    if (op.find_param(name) != nullptr) attributes.emplace(name, value);
  }
  GraphNode call = node;
  for (const auto& [input, output] : node.op->recomputation->kept) {
    // Rounded to 16 bits, it does not give the kept one's bits.
    const Value kept{static_cast<std::int64_t>(index), output};
    if (base::is_16_bit(prepared_.dtypes[prepared_.numbers[kept]])) return std::nullopt;
    call.inputs[static_cast<std::size_t>(input)] = {static_cast<std::int64_t>(index), output};
  }
  return form_of(index, std::move(call), op, attributes);
}

std::optional<Cloner::Form> Cloner::find_lean(std::size_t index) const {
  const GraphNode& node = prepared_.graph.nodes[index];
  if (node.is_variable() || node.op->keeps_hidden.empty()) return std::nullopt;
  if (node.outputs == node.op->visible_output_count(node.params)) return std::nullopt;
  ops::Attributes attributes = node.params.to_attributes();
  attributes[node.op->keeps_hidden] = "False";
  return form_of(index, node, *node.op, attributes);
}

Draft Cloner::original() const {
  Draft draft;
  draft.graph = prepared_.graph;
  const std::size_t count = draft.graph.nodes.size();
  draft.clone.assign(count, false);
  for (std::size_t i = 0; i < count; ++i) {
    draft.nodes.push_back(i);
    draft.plans.push_back(&prepared_.plans[i]);
  }
  for (std::size_t v = 0; v < prepared_.numbers.size(); ++v) draft.values.push_back(v);
  leave_out_idle(draft);
  return draft;
}

void Cloner::leave_out_idle(Draft& draft) const {
  const ValueNumbers numbers(draft.graph);
  const std::vector<bool> named = named_values(draft.graph, numbers);
  std::vector<std::size_t> values;
  for (std::size_t i = 0; i < draft.graph.nodes.size(); ++i) {
    GraphNode& node = draft.graph.nodes[i];
    const std::optional<Form>& lean = lean_[draft.nodes[i]];
    if (lean && !draft.clone[i] && is_idle(node, numbers.begin(i), named)) {
      node.params = lean->node.params;
      node.outputs = lean->node.outputs;
      draft.plans[i] = &lean->plan;
    }
    for (int output = 0; output < node.outputs; ++output) {
      values.push_back(draft.values[numbers.begin(i) + static_cast<std::size_t>(output)]);
    }
  }
  draft.values = std::move(values);
}

Draft Cloner::clone(const Draft& from, const std::vector<bool>& keep) const {
  Draft draft = Walk(*this, from, keep).run();
  leave_out_idle(draft);
  return draft;
}

std::size_t Cloner::outputs(const Draft& draft, std::size_t node) const {
  const GraphNode& n = draft.graph.nodes[node];
  if (assigns_ || draft.is_late(node) || !repeats(n)) return 0;
  if (draft.clone[node] || !n.op->recomputation) return static_cast<std::size_t>(n.outputs);
  const std::optional<Form>& form = forms_[draft.nodes[node]];
  return form ? static_cast<std::size_t>(form->node.outputs) : 0;
}

const NodePlan& Cloner::plan(const Draft& draft, std::size_t node) const {
  const std::optional<Form>& form = forms_[draft.nodes[node]];
  return form ? form->plan : *draft.plans[node];
}

GraphNode Cloner::call(const Draft& draft, std::size_t index) const {
  const GraphNode& original = draft.graph.nodes[index];
  GraphNode node = original;
  if (const std::optional<Form>& form = forms_[draft.nodes[index]]; form && !draft.clone[index]) {
    node.op = form->node.op;
    node.params = form->node.params;
    node.outputs = form->node.outputs;
    for (const auto& [input, output] : original.op->recomputation->kept) {
      node.inputs[static_cast<std::size_t>(input)] = {static_cast<std::int64_t>(index), output};
    }
  }
  node.name += draft.clone[index] ? "_again" : "_recomputed";
  node.backward = true;
  return node;
}

PlanRequest Cloner::request(const Draft& draft, MemoryMode mode) const {
  PlanRequest request;
  request.graph = &draft.graph;
  request.mode = mode;
  for (const std::size_t value : draft.values) {
    request.value_bytes.push_back(base_.value_bytes[value]);
    request.value_kind.push_back(base_.value_kind[value]);
  }
  request.external.assign(draft.values.size(), false);
  const ValueNumbers numbers(draft.graph);
  for (const Value head : draft.graph.heads) request.external[numbers[head]] = true;
  for (std::size_t i = 0; i < draft.graph.nodes.size(); ++i) {
    const bool variable = draft.graph.nodes[i].is_variable();
    if (variable) request.external[numbers.begin(i)] = true;
    request.scratch_bytes.push_back(variable ? 0 : draft.plans[i]->offer.scratch_bytes);
    add_views(i, *draft.plans[i], request.views);
  }
  return request;
}

base::Result<PreparedGraph> Cloner::finish(const Draft& draft) {
  PreparedGraph result;
  result.graph = draft.graph;
  result.numbers = ValueNumbers(draft.graph);
  for (const std::size_t value : draft.values) {
    result.shapes.push_back(prepared_.shapes[value]);
    result.dtypes.push_back(prepared_.dtypes[value]);
    result.layouts.push_back(prepared_.layouts[value]);
  }
  for (std::size_t i = 0; i < draft.graph.nodes.size(); ++i) {
    result.plans.push_back(*draft.plans[i]);
    const std::size_t from = draft.nodes[i];
    if (!draft.clone[i] && draft.plans[i] == &prepared_.plans[from]) {
      result.kernels.push_back(std::move(prepared_.kernels[from]));
      continue;
    }
    if (draft.clone[i]) result.plans.back().alternatives.clear();  // nothing was weighed
    auto kernel = symbol::prepare(*draft.plans[i]);
    if (!kernel.ok()) return kernel.status().with_context(node_label(draft.graph.nodes[i]));
    result.kernels.push_back(*std::move(kernel));
  }
  result.reorders = std::move(prepared_.reorders);
  return result;
}

bool has_idle_outputs(const Graph& graph) {
  const ValueNumbers numbers(graph);
  const std::vector<bool> named = named_values(graph, numbers);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (is_idle(graph.nodes[i], numbers.begin(i), named)) return true;
  }
  return false;
}

}  // namespace troupe::symbol
