// SPDX-License-Identifier: Apache-2.0
// Keys by inference over the symbol.
#include "train/keys.h"

#include <algorithm>
#include <map>

#include "symbol/states.h"

namespace troupe::train {
namespace {

using schemas::KeyInfo;
using schemas::KeyKind;

base::Result<std::string> find_label(const std::vector<std::string>& arguments,
                                     const std::string& wanted) {
  if (std::find(arguments.begin(), arguments.end(), wanted) != arguments.end()) return wanted;
  std::vector<std::string> found;
  for (const std::string& name : arguments) {
    if (name.ends_with("label")) found.push_back(name);
  }
  if (found.size() == 1) return found.front();
  return base::error(base::Errc::invalid_argument,
                     "the network has {} arguments that end in 'label' and none named '{}'",
                     found.size(), wanted);
}

}  // namespace

base::Shape batch_shape(std::int64_t batch, const base::Shape& sample) {
  base::Shape shape{batch};
  for (const std::int64_t extent : sample.dims()) shape.push_back(extent);
  return shape;
}

base::Result<NetworkKeys> network_keys(const symbol::Symbol& symbol, const InputSpec& inputs) {
  TROUPE_TRY(symbol.validate());
  NetworkKeys network;
  network.inputs = inputs;
  const auto arguments = symbol.list_arguments();
  const auto states = symbol.list_auxiliary_states();
  TROUPE_TRY_ASSIGN(network.inputs.label, find_label(arguments, inputs.label));
  if (std::find(arguments.begin(), arguments.end(), inputs.data) == arguments.end()) {
    return base::error(base::Errc::invalid_argument, "the network has no argument named '{}'",
                       inputs.data);
  }
  TROUPE_TRY_ASSIGN(const symbol::InferredShapes shapes,
                    symbol.infer_shapes({{inputs.data, batch_shape(1, inputs.sample)},
                                         {network.inputs.label, base::Shape{1}}}));
  TROUPE_TRY_ASSIGN(const symbol::InferredDTypes dtypes,
                    symbol.infer_dtypes({{inputs.data, inputs.dtype}}));
  auto declare = [&](const std::string& name, const base::Shape& shape,
                     base::DType dtype) -> base::Result<KeyInfo*> {
    if (!shape.complete()) {
      return base::error(base::Errc::invalid_argument,
                         "the shape of parameter '{}' is not known: {}", name, shape.to_string());
    }
    KeyInfo& key = network.keys.emplace_back();
    key.id = static_cast<std::uint32_t>(network.keys.size() - 1);
    key.name = name;
    key.shape = shape;
    key.dtype = key.gradient_wire = key.weight_wire = dtype;
    return &key;
  };
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == inputs.data || arguments[i] == network.inputs.label) continue;
    TROUPE_TRY(declare(arguments[i], shapes.arguments[i], dtypes.arguments[i]).status());
  }
  if (network.keys.empty()) {
    return base::error(base::Errc::invalid_argument, "the network has nothing to learn");
  }
  std::map<std::string, double> momenta;
  for (const symbol::StateUpdate& update : symbol::state_updates(symbol.graph())) {
    momenta.emplace(update.state, update.momentum);
  }
  for (std::size_t i = 0; i < states.size(); ++i) {
    TROUPE_TRY_ASSIGN(KeyInfo * key, declare(states[i], shapes.auxiliary[i], dtypes.auxiliary[i]));
    key->kind = KeyKind::average;
    key->momentum = momenta.at(states[i]);
  }
  return network;
}

}  // namespace troupe::train
