// SPDX-License-Identifier: Apache-2.0
// Monitor: looks at the values inside a network while it runs, for debugging and tests.
#pragma once

#include <functional>
#include <string>

#include "base/tensor_view.h"

namespace troupe::symbol {

/// Is shown every value that a node has computed: name ("conv1_output") and the value, in its
/// layout. It is called on threads of the engine, from several at once if executors run at once;
/// `value` ends with the call. It must not wait for arrays and must not throw. It is copied, and
/// called until what was pushed has run, which may be after the executor's end: what it refers to
/// outlives the engine.
/// Where a prediction runs in parts, it is shown the samples of a part, one part after the other;
/// the last one may begin with samples of the one before. Weights that a prediction prepares are
/// shown when they are made anew.
/// What is shown is what runs: where operators were fused, or moved behind others, inner values
/// are missing or come later than the symbol has them.
using Monitor = std::function<void(const std::string& name, const base::TensorView& value)>;

}  // namespace troupe::symbol
