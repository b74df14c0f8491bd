// SPDX-License-Identifier: Apache-2.0
// Calls on tensors of f16 and bf16 by kernels of f32: converted before, rounded once behind. So
// every operator takes 16 bits on every processor, and sums are taken in f32.
#pragma once

#include <memory>

#include "ops/kernel.h"

namespace troupe::ops {

/// The values of `from` in the memory of `to`, which has the same elements in the same layout;
/// padding is zero in every dtype.
void cast_memory(const KernelContext& context, const base::TensorView& from,
                 const base::TensorView& to);
/// to[i] += from[i] over the memory of both, which have one dtype and layout; 16 bits are added in
/// f32. An error names a dtype that is no real number's. Chunks follow from the size alone.
base::Status add_memory(const KernelContext& context, const base::TensorView& from,
                        const base::TensorView& to);
/// True when an input or output has this dtype; when one has 16 bits.
bool has_dtype(const OpCall& call, base::DType dtype);
bool has_16_bits(const OpCall& call);
/// The call with these in f32.
OpCall widened_call(OpCall call);
/// What converting around one run takes by rule.
double widening_seconds(const OpCall& call);
/// A kernel for `call` around the one that `make` makes for widened_call(call). unimplemented where
/// that one wants a tensor of 16 bits in a layout of its library's own; else what `make` answers.
base::Result<std::unique_ptr<Kernel>> make_widened(const OpCall& call, const PrepareFunction& make);

}  // namespace troupe::ops
