// SPDX-License-Identifier: Apache-2.0
// What a call of fused_pointwise does: element-wise operators (OpDef::pointwise), each of inputs of
// the call and results of those before it. All tensors have one shape and one dtype; inputs may
// also be numbers, which are 0-d and count for every element. Plain values, pure functions; any
// thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/device.h"
#include "base/status.h"
#include "ops/op.h"

namespace troupe::ops {

/// One operator of a chain.
struct PointwiseStep {
  const OpDef* op = nullptr;
  Params params;
  /// Below PointwiseChain::inputs: that input; from there on the result of a step before this one.
  std::vector<std::size_t> operands;
};

/// Steps in their order; the last one's result is the chain's.
struct PointwiseChain {
  std::size_t inputs = 0;
  std::vector<PointwiseStep> steps;
  std::vector<std::size_t> numbers = {};  ///< inputs that are 0-d, in order

  /// For each input and step: it is a number, a step if all its operands are.
  std::vector<bool> is_number() const;
};

/// Most inputs, of these numbers, and steps, and operands of a step.
inline constexpr std::size_t kChainInputsMost = 16;
inline constexpr std::size_t kChainNumbersMost = base::kRankMax;
inline constexpr std::size_t kChainStepsMost = 32;
inline constexpr std::size_t kStepOperandsMost = 16;
/// Most bytes of its text.
inline constexpr std::size_t kChainTextMost = std::size_t{16} << 10;

/// True when a call of `op` can be a step: it has a term, not too many inputs, and attributes that
/// can be part of a text.
bool can_be_step(const OpDef& op, const Params& params);

/// False on GPUs for which no kernel can be compiled: there a chain takes no less than its steps
/// one by one, and more memory. Tried once for each device. resource_exhausted: the device has no
/// memory now to tell.
base::Result<bool> worth_fusing(base::Device device);

/// The parameter `steps` of a chain: "exp 0; clip 2 a_max=0.5 a_min=-0.5", an operator, its
/// operands, its attributes.
std::string to_text(const PointwiseChain& chain);
/// All parameters of a call that does what the chain says.
Attributes to_attributes(const PointwiseChain& chain);

/// The chain of a call of fused_pointwise with these parameters. invalid_argument names the step
/// and what is wrong with it.
base::Result<PointwiseChain> parse_chain(const Params& params);

/// parse_chain() of parameters that inference has taken; CHECKs.
PointwiseChain chain_of(const Params& params);

}  // namespace troupe::ops
