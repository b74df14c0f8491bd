// SPDX-License-Identifier: Apache-2.0
// One walk in the graph's order: the type of each node from those of its inputs, casts on demand.
#include "symbol/precision.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "ops/support/wide_gradients.h"
#include "symbol/passes.h"
#include "symbol/value_numbers.h"

namespace troupe::symbol {
namespace {

using base::DType;
using ops::MixedPrecision;

class Caster {
 public:
  Caster(const ops::OpTable& table, const Graph& graph, DType narrow, const ValueDTypes& dtypes)
      : graph_(graph),
        numbers_(graph),
        dtypes_(dtypes),
        narrow_(narrow),
        assigns_(assigns(graph)),
        builder_(table, result_),
        forms_(numbers_.size()) {}

  Graph run() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) take(i);
    for (const Value head : graph_.heads) {
      result_.heads.push_back(is_f32(head) ? form(head, false) : original(head));
    }
    return std::move(result_);
  }

 private:
  /// A value of the graph in the result: as its node gives it, and cast to the other type if
  /// somebody has asked for that.
  struct Forms {
    bool narrow = false;                                         ///< what the node gives
    std::array<Value, 2> values = {Value{-1, 0}, Value{-1, 0}};  ///< in f32, in 16 bits
  };

  bool is_f32(Value value) const { return dtypes_[numbers_[value]] == DType::f32; }
  Value original(Value value) const {
    const Forms& forms = forms_[numbers_[value]];
    return forms.values[forms.narrow ? 1 : 0];
  }
  /// The value in f32 or in 16 bits.
  Value form(Value value, bool narrow) {
    Forms& forms = forms_[numbers_[value]];
    Value& wanted = forms.values[narrow ? 1 : 0];
    // A variable that may be overwritten is cast for each reader.
    const bool lasts = forms.narrow == narrow || !assigns_ || !graph_.node(value).is_variable();
    if (wanted.node >= 0 && lasts) return wanted;
    const DType dtype = narrow ? narrow_ : DType::f32;
    builder_.set_prefix(graph_.value_name(value) + "_" + std::string(base::dtype_name(dtype)));
    wanted =
        builder_.add1("cast", {original(value)}, {{"dtype", std::string(base::dtype_name(dtype))}});
    return wanted;
  }

  /// How a node computes: which of its inputs and outputs are in 16 bits.
  struct Form {
    std::vector<bool> inputs, outputs;
  };

  bool has_narrow(Value value) const { return is_f32(value) && forms_[numbers_[value]].narrow; }

  Form form_of(const GraphNode& node, std::size_t outputs) const {
    const Form wide{std::vector<bool>(node.inputs.size(), false),
                    std::vector<bool>(outputs, false)};
    if (node.is_variable() || node.op->mixed == MixedPrecision::wide) return wide;
    std::size_t floating = 0, narrow = 0;
    for (const Value input : node.inputs) {
      floating += is_f32(input) ? 1 : 0;
      narrow += has_narrow(input) ? 1 : 0;
    }
    if (floating == 0) return wide;
    if (node.op->mixed == MixedPrecision::narrow || narrow == floating) {
      return {std::vector<bool>(node.inputs.size(), true), std::vector<bool>(outputs, true)};
    }
    return narrow > 0 ? mixed_form(node, wide) : wide;
  }

  /// With the types that its inputs have now, where the operator takes them so: batch normalisation
  /// takes data in 16 bits beside vectors of f32.
  Form mixed_form(const GraphNode& node, const Form& wide) const {
    Form form = wide;
    std::vector<std::optional<DType>> in, out(wide.outputs.size());
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      const Value input = node.inputs[k];
      form.inputs[k] = has_narrow(input);
      in.emplace_back(form.inputs[k] ? narrow_ : dtypes_[numbers_[input]]);
    }
    if (!ops::infer_dtypes(*node.op, node.params, in, out).ok()) return wide;
    for (std::size_t o = 0; o < out.size(); ++o) form.outputs[o] = out[o] == narrow_;
    return form;
  }

  void take(std::size_t index) {
    GraphNode node = graph_.nodes[index];
    const Form computed = form_of(node, numbers_.end(index) - numbers_.begin(index));
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      Value& input = node.inputs[k];
      input = is_f32(input) ? form(input, computed.inputs[k]) : original(input);
    }
    const std::vector<Value> outputs = builder_.add_node(std::move(node));
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      const Value value{static_cast<std::int64_t>(index), static_cast<int>(o)};
      Forms& forms = forms_[numbers_[value]];
      forms.narrow = computed.outputs[o] && is_f32(value);
      forms.values[forms.narrow ? 1 : 0] = outputs[o];
    }
  }

  const Graph& graph_;
  const ValueNumbers numbers_;
  const ValueDTypes& dtypes_;
  const DType narrow_;
  const bool assigns_;
  Graph result_;
  Builder builder_;
  std::vector<Forms> forms_;
};

}  // namespace

Graph compute_in(const ops::OpTable& table, const Graph& graph, DType narrow,
                 const ValueDTypes& dtypes) {
  TROUPE_CHECK(base::is_16_bit(narrow), "products in a type of 16 bits");
  return Caster(table, graph, narrow, dtypes).run();
}

namespace {

/// Where the gradients that can be wide are read by casts to f32 alone.
class GradientWidener {
 public:
  GradientWidener(const Graph& graph, const ValueDTypes& dtypes)
      : graph_(graph), numbers_(graph), dtypes_(dtypes), widened_(graph.nodes.size()) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) widened_[i] = can_be_wide(i);
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      const std::vector<Value>& inputs = graph.nodes[i].inputs;
      for (std::size_t k = casts_to_f32(i) ? 1 : 0; k < inputs.size(); ++k) {
        widened_[node_index(inputs[k])] = false;
      }
    }
    for (const Value head : graph.heads) widened_[node_index(head)] = false;
  }

  Graph run() const {
    Graph result = graph_;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      GraphNode& node = result.nodes[i];
      if (widened_[i]) {
        ops::Attributes attributes = node.params.to_attributes();
        attributes[std::string(ops::kWideGradients)] = "True";
        node.params = ops::parse_params(*node.op, attributes).value();
      }
      for (Value& input : node.inputs) input = source(input);
    }
    for (Value& head : result.heads) head = source(head);
    return prune(result);
  }

 private:
  DType dtype(std::size_t node) const {
    return dtypes_[numbers_[Value{static_cast<std::int64_t>(node), 0}]];
  }
  bool can_be_wide(std::size_t index) const {
    const GraphNode& node = graph_.nodes[index];
    return !node.is_variable() && node.op->find_param(ops::kWideGradients) != nullptr &&
           base::is_16_bit(dtype(index));
  }
  bool casts_to_f32(std::size_t index) const {
    const GraphNode& node = graph_.nodes[index];
    return !node.is_variable() && (node.op->name == "cast" || node.op->name == "cast_like") &&
           dtype(index) == DType::f32;
  }
  /// A value, or what it is a cast of that is no more needed.
  Value source(Value value) const {
    const std::size_t index = node_index(value);
    if (!casts_to_f32(index)) return value;
    const Value of = graph_.nodes[index].inputs[0];
    return widened_[node_index(of)] ? of : value;
  }

  const Graph& graph_;
  const ValueNumbers numbers_;
  const ValueDTypes& dtypes_;
  std::vector<bool> widened_;  // by node
};

}  // namespace

Graph widen_gradients(const Graph& graph, const ValueDTypes& dtypes) {
  return GradientWidener(graph, dtypes).run();
}

}  // namespace troupe::symbol
