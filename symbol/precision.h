// SPDX-License-Identifier: Apache-2.0
// Mixed precision: a network of f32 whose products are computed in 16 bits (Micikevicius et al.
// 2018). Weights, states, gradients and outputs stay f32 at the ports.
#pragma once

#include "symbol/graph.h"
#include "symbol/infer.h"

namespace troupe::symbol {

/// The graph with casts around operators, so that each computes in f32 or in `narrow` (f16 or
/// bf16), as its ops::MixedPrecision says; one whose own rule of types takes its inputs as they
/// are, some in 16 bits, has no casts (batch_norm). What is not f32 in `graph`, by `dtypes`, stays
/// as it is, and so do the values of heads and variables. A value is cast to a type once.
Graph compute_in(const ops::OpTable& table, const Graph& graph, base::DType narrow,
                 const ValueDTypes& dtypes);

/// The graph in which what can give f32 from 16 bits (ops/support/wide_gradients.h) does so where
/// nobody reads it but casts to f32, which go: gradients of weights. Pruned.
Graph widen_gradients(const Graph& graph, const ValueDTypes& dtypes);

}  // namespace troupe::symbol
