// SPDX-License-Identifier: Apache-2.0
// Keys by inference over the symbol.
#include "train/keys.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "base/text.h"
#include "schemas/codec.h"
#include "store/loss_scale.h"
#include "symbol/gradient.h"
#include "symbol/infer.h"
#include "symbol/states.h"
#include "train/key_attributes.h"

namespace troupe::train {
namespace {

using schemas::KeyInfo;
using schemas::KeyKind;

/// The real name of the label beside the data.
base::Result<std::string> find_label(const std::vector<std::string>& arguments,
                                     const InputSpec& inputs) {
  const auto has = [&](const std::string& name) {
    return std::find(arguments.begin(), arguments.end(), name) != arguments.end();
  };
  if (!has(inputs.data)) {
    return base::error(base::Errc::invalid_argument, "the network has no argument named '{}'",
                       inputs.data);
  }
  if (has(inputs.label)) return inputs.label;
  std::vector<std::string> found;
  for (const std::string& name : arguments) {
    if (name.ends_with("label")) found.push_back(name);
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    return base::error(base::Errc::invalid_argument,
                       "the network has no loss: none of its arguments is named '{}' or ends in "
                       "'label'; put softmax_output on its scores (docs/job-file.md, Networks)",
                       inputs.label);
  }
  return base::error(base::Errc::invalid_argument,
                     "the network has {} arguments that end in 'label' and none named '{}'",
                     found.size(), inputs.label);
}

/// An auxiliary state as its operators declare and move it.
struct StateRule {
  double momentum = 0.0;
  double initial = 0.0;
};

/// By the state's name.
std::map<std::string, StateRule> state_rules(const symbol::Graph& graph) {
  std::map<std::string, StateRule> found;
  for (const symbol::GraphNode& node : graph.nodes) {
    if (node.is_variable()) continue;
    for (const ops::AuxiliaryState& state : node.op->auxiliary) {
      found[graph.node(node.input(state.input)).name].initial = state.initial;
    }
  }
  for (const symbol::StateUpdate& update : symbol::state_updates(graph)) {
    found[update.state].momentum = update.momentum;
  }
  return found;
}

schemas::InitializerSpec constant(double value) {
  return {schemas::InitializerKind::constant, value};
}

/// What parameters begin at as their operators say, by name.
std::map<std::string, double> initial_of_inputs(const symbol::Graph& graph) {
  std::map<std::string, double> found;
  for (const symbol::GraphNode& node : graph.nodes) {
    if (node.is_variable()) continue;
    for (const auto& [input, value] : node.op->initial) {
      if (static_cast<std::size_t>(input) >= node.inputs.size()) continue;
      const symbol::GraphNode& source = graph.node(node.input(input));
      if (source.is_variable()) found[source.name] = value;
    }
  }
  return found;
}

/// Parameters by MXNet's convention of names; without a value: by the job's initialiser.
std::optional<schemas::InitializerSpec> initializer_by_name(std::string_view name) {
  if (name.ends_with("bias") || name.ends_with("beta")) return constant(0.0);
  if (name.ends_with("gamma")) return constant(1.0);
  return std::nullopt;
}

/// What the symbol's variables say, by name.
base::Result<std::map<std::string, KeyAttributes>> attributes_of(const symbol::Graph& graph) {
  std::map<std::string, KeyAttributes> found;
  for (const symbol::GraphNode& node : graph.nodes) {
    if (!node.is_variable()) continue;
    TROUPE_TRY_ASSIGN(found[node.name], read_key_attributes(node));
  }
  return found;
}

/// Whether `name` is `pattern` with each * replaced by some letters or none.
bool matches(std::string_view pattern, std::string_view name) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  name.remove_prefix(star);
  pattern.remove_prefix(star + 1);
  // The first place of each piece leaves the most room for the next one.
  while (true) {
    const std::size_t end = pattern.find('*');
    const std::string_view piece = pattern.substr(0, end);
    if (end == std::string_view::npos) return name.ends_with(piece);
    const std::size_t place = name.find(piece);
    if (place == std::string_view::npos) return false;
    name.remove_prefix(place + piece.size());
    pattern.remove_prefix(end + 1);
  }
}

/// The arguments that training changes: all but the data and the label.
base::Result<std::vector<std::string>> parameter_names(const symbol::Symbol& symbol,
                                                       const InputSpec& inputs) {
  std::vector<std::string> names = symbol.list_arguments();
  TROUPE_TRY_ASSIGN(const std::string label, find_label(names, inputs));
  std::erase_if(names,
                [&](const std::string& name) { return name == inputs.data || name == label; });
  if (!names.empty()) return names;
  return base::error(base::Errc::invalid_argument, "the network has nothing to learn");
}

/// A checkpoint names all keys: what it cannot hold is refused before the first step. `inputs` has
/// the label's real name.
base::Status check_names(const symbol::Symbol& symbol, const InputSpec& inputs) {
  std::size_t count = 0;
  for (const auto& names : {symbol.list_arguments(), symbol.list_auxiliary_states()}) {
    for (const std::string& name : names) {
      if (name == inputs.data || name == inputs.label) continue;
      ++count;
      if (name.size() <= schemas::kNameBytesMax) continue;
      return base::error(
          base::Errc::invalid_argument, "the name of parameter '{}' has {} bytes; the limit is {}",
          base::shortened(name, base::kQuotedBytesMax), name.size(), schemas::kNameBytesMax);
    }
  }
  if (count <= schemas::kKeysMax) return {};
  return base::error(base::Errc::invalid_argument,
                     "the network has {} parameters and states; the limit is {}", count,
                     schemas::kKeysMax);
}

void apply_rules(std::span<const schemas::KeyRule> rules, KeyInfo& parameter) {
  for (const schemas::KeyRule& rule : rules) {
    if (!matches(rule.match, parameter.name)) continue;
    parameter.lr_mult = rule.lr_mult.value_or(parameter.lr_mult);
    if (rule.wd_mult) parameter.wd_mult = rule.wd_mult;
  }
}

/// Appends keys in the order of their ids.
struct Declarer {
  std::vector<KeyInfo>& keys;
  const std::map<std::string, KeyAttributes>& attributes;

  base::Result<KeyInfo*> add(const std::string& name, const base::Shape& shape, base::DType dtype) {
    if (!shape.complete()) {
      return base::error(base::Errc::invalid_argument,
                         "the shape of parameter '{}' is not known: {}", name, shape.to_string());
    }
    KeyInfo& key = keys.emplace_back();
    key.id = static_cast<std::uint32_t>(keys.size() - 1);
    key.name = name;
    key.shape = shape;
    key.dtype = key.gradient_wire = key.weight_wire = dtype;
    key.initializer = attributes.at(name).initializer;
    return &key;
  }
};

}  // namespace

base::Shape batch_shape(std::int64_t batch, const base::Shape& sample) {
  base::Shape shape{batch};
  for (const std::int64_t extent : sample.dims()) shape.push_back(extent);
  return shape;
}

base::Status check_rules(const symbol::Symbol& symbol, const InputSpec& inputs,
                         std::span<const schemas::KeyRule> rules) {
  TROUPE_TRY_ASSIGN(const std::vector<std::string> names, parameter_names(symbol, inputs));
  for (const schemas::KeyRule& rule : rules) {
    const bool any = std::any_of(names.begin(), names.end(), [&rule](const std::string& name) {
      return matches(rule.match, name);
    });
    if (any) continue;
    return base::error(base::Errc::invalid_argument,
                       "train.keys: '{}' matches no parameter of the network ('{}', ...)",
                       rule.match, names.front());
  }
  return {};
}

base::Result<NetworkKeys> network_keys(const symbol::Symbol& symbol, const InputSpec& inputs,
                                       std::span<const schemas::KeyRule> rules) {
  TROUPE_TRY(symbol.validate());
  NetworkKeys network;
  network.inputs = inputs;
  const auto arguments = symbol.list_arguments();
  const auto states = symbol.list_auxiliary_states();
  TROUPE_TRY_ASSIGN(network.inputs.label, find_label(arguments, inputs));
  TROUPE_TRY(check_names(symbol, network.inputs));
  TROUPE_TRY_ASSIGN(const symbol::InferredShapes shapes,
                    symbol.infer_shapes({{inputs.data, batch_shape(1, inputs.sample)},
                                         {network.inputs.label, base::Shape{1}}}));
  TROUPE_TRY_ASSIGN(const symbol::InferredDTypes dtypes,
                    symbol.infer_dtypes({{inputs.data, inputs.dtype}}));
  TROUPE_TRY(check_rules(symbol, inputs, rules));
  const symbol::Graph graph = symbol.graph();
  TROUPE_TRY_ASSIGN(const auto attributes, attributes_of(graph));
  const auto initials = initial_of_inputs(graph);
  Declarer declarer{network.keys, attributes};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == inputs.data || arguments[i] == network.inputs.label) continue;
    TROUPE_TRY_ASSIGN(KeyInfo * key,
                      declarer.add(arguments[i], shapes.arguments[i], dtypes.arguments[i]));
    const auto initial = initials.find(key->name);
    if (!key->initializer && initial != initials.end())
      key->initializer = constant(initial->second);
    if (!key->initializer) key->initializer = initializer_by_name(key->name);
    const KeyAttributes& said = attributes.at(key->name);
    key->lr_mult = said.lr_mult.value_or(1.0);
    key->wd_mult = said.wd_mult;
    apply_rules(rules, *key);
  }
  const auto rules_of_states = state_rules(graph);
  for (std::size_t i = 0; i < states.size(); ++i) {
    TROUPE_TRY_ASSIGN(KeyInfo * key,
                      declarer.add(states[i], shapes.auxiliary[i], dtypes.auxiliary[i]));
    const StateRule& rule = rules_of_states.at(states[i]);
    key->kind = KeyKind::average;
    key->momentum = rule.momentum;
    if (!key->initializer) key->initializer = constant(rule.initial);
  }
  return network;
}

base::Status add_loss_scale(NetworkKeys& network) {
  const auto taken = [](std::string_view name) { return name == store::kLossScaleName; };
  const InputSpec& inputs = network.inputs;
  const bool key = std::any_of(network.keys.begin(), network.keys.end(),
                               [&](const KeyInfo& known) { return taken(known.name); });
  if (key || taken(inputs.data) || taken(inputs.label)) {
    return base::error(
        base::Errc::invalid_argument,
        "the network has a variable '{}': with numerics.dtype = \"f16\" that name is "
        "the loss scale's; rename the variable",
        store::kLossScaleName);
  }
  network.keys.push_back(store::loss_scale_key(static_cast<std::uint32_t>(network.keys.size())));
  return {};
}

void set_wires(std::span<KeyInfo> keys, schemas::WireType gradients, schemas::WireType weights) {
  const auto dtype_of = [](schemas::WireType wire, base::DType own) {
    if (wire == schemas::WireType::same) return own;
    return wire == schemas::WireType::bf16 ? base::DType::bf16 : base::DType::f16;
  };
  for (KeyInfo& key : keys) {
    if (key.kind != KeyKind::dense || key.shape.rank() < 2) continue;
    key.gradient_wire = dtype_of(gradients, key.dtype);
    key.weight_wire = dtype_of(weights, key.dtype);
  }
}

base::Result<std::vector<bool>> keys_with_gradient(const ops::OpTable& table,
                                                   const symbol::Symbol& symbol,
                                                   std::span<const KeyInfo> keys) {
  std::vector<std::string> learned;
  for (const KeyInfo& key : keys) {
    if (key.kind == KeyKind::dense && key.lr_mult != 0.0) learned.push_back(key.name);
  }
  std::map<std::string, base::DType> known;
  for (const KeyInfo& key : keys) known[key.name] = key.dtype;
  const symbol::Graph graph = symbol.graph();
  TROUPE_TRY_ASSIGN(const auto dtypes, symbol::infer_dtypes(graph, known));
  TROUPE_TRY_ASSIGN(const auto without, symbol::without_gradient(table, graph, learned, dtypes));
  std::set<std::string_view> reached(learned.begin(), learned.end());
  for (const std::string& name : without) reached.erase(name);
  std::vector<bool> with;
  for (const KeyInfo& key : keys) with.push_back(reached.contains(key.name));
  return with;
}

}  // namespace troupe::train
