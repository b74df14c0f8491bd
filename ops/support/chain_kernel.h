// SPDX-License-Identifier: Apache-2.0
// A chain of element-wise operators by their own kernels, one after the other.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/kernel.h"
#include "ops/pointwise_chain.h"

namespace troupe::ops {

/// How the kernels of a chain's steps run.
enum class ChainForm : std::uint8_t {
  blocks,     ///< over pieces that stay in a processor's cache
  reference,  ///< likewise, reference kernels
  device,     ///< kernels for GPUs, each over the whole of its tensors
};

/// The kernel of a call of fused_pointwise; its name shows the steps and their kernels. Same bits
/// as the operators one by one. Of results between steps it keeps as many as are needed at once in
/// scratch memory: of blocks or, in ChainForm::device, of whole tensors. Between steps, tensors of
/// 16 bits are f32.
base::Result<std::unique_ptr<Kernel>> make_chain_kernel(const std::string& name, const OpCall& call,
                                                        ChainForm form);

/// What the call takes by rule: one pass over memory, or, where that is longer, the steps that have
/// no other kernel than the reference's.
double chain_seconds(const OpCall& call, ChainForm form);

/// True where the chain is zero if all its tensors are, whatever its numbers are, by every kernel:
/// steps that map zero to zero, and products of zero and what is finite there (x * sigmoid(x)).
bool maps_zero_to_zero(const PointwiseChain& chain);

/// common_layout() of the chain's tensors; its numbers are dense.
base::Result<base::Layout> chain_layout(const OpCall& call, const PointwiseChain& chain);
/// The layouts of a chain's inputs.
std::vector<base::Layout> chain_input_layouts(const PointwiseChain& chain,
                                              const base::Layout& layout);

}  // namespace troupe::ops
