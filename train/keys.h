// SPDX-License-Identifier: Apache-2.0
// The keys of a network: what workers and servers must agree on before anything is exchanged. A
// function of the symbol and the shape of one sample, so every process finds the same. Any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"
#include "base/status.h"
#include "ops/table.h"
#include "schemas/job_spec.h"
#include "schemas/messages.h"
#include "symbol/symbol.h"

namespace troupe::train {

/// How a symbol's inputs are called and what one sample looks like.
struct InputSpec {
  std::string data = "data";
  std::string label = "label";  ///< no such argument: the only one whose name ends so
  base::Shape sample;           ///< without the batch
  base::DType dtype = base::DType::f32;
};

/// Keys in the order of their ids: parameters (kind dense) as the symbol lists them, then auxiliary
/// states (kind average, with their momentum). First values of a key: as its variable says
/// (__init__); else as its operator says (a state, the slopes of prelu), and a parameter by the end
/// of its name: bias and beta 0, gamma 1, all others by the job's initialiser. Multipliers of a
/// parameter: by the rules for it, else as its variable says (__lr_mult__, __wd_mult__).
struct NetworkKeys {
  InputSpec inputs;  ///< with the label's real name
  std::vector<schemas::KeyInfo> keys;
};

/// invalid_argument when a rule matches no parameter, or the network has no data, label or
/// parameter. Of `inputs` only the names count.
base::Status check_rules(const symbol::Symbol& symbol, const InputSpec& inputs,
                         std::span<const schemas::KeyRule> rules);

/// invalid_argument naming node, operator and shapes when the network does not fit the sample, or a
/// variable and what it says that cannot be obeyed, more keys than schemas::kKeysMax or a name of
/// more than schemas::kNameBytesMax bytes, and what check_rules() says.
base::Result<NetworkKeys> network_keys(const symbol::Symbol& symbol, const InputSpec& inputs,
                                       std::span<const schemas::KeyRule> rules = {});

/// Appends the key of the loss scale. invalid_argument when the network has its name.
base::Status add_loss_scale(NetworkKeys& network);

/// What keys travel in: parameters of two or more axes as chosen. Vectors (biases, scales) and
/// states are a few bytes, and rounding hurts them most: they stay in their own dtype.
void set_wires(std::span<schemas::KeyInfo> keys, schemas::WireType gradients,
               schemas::WireType weights);

/// By id, whether training computes a gradient for the key: it is a parameter, not frozen (lr_mult
/// 0), and an output depends on it in a differentiable way. That of any other parameter is zero.
base::Result<std::vector<bool>> keys_with_gradient(const ops::OpTable& table,
                                                   const symbol::Symbol& symbol,
                                                   std::span<const schemas::KeyInfo> keys);

/// (batch, sample...).
base::Shape batch_shape(std::int64_t batch, const base::Shape& sample);

}  // namespace troupe::train
