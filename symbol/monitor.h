// SPDX-License-Identifier: Apache-2.0
// Monitor: looks at the values inside a network while it runs, for debugging and tests.
#pragma once

#include <functional>
#include <string>

#include "base/tensor_view.h"

namespace troupe::symbol {

/// Is shown every value that a node has computed: name ("conv1_output") and the value, in its
/// layout, of the samples of one part where a prediction runs in parts. It is called on threads of
/// the engine, from several at once if executors run at once; `value` ends with the call. It must
/// not wait for arrays and must not throw.
/// What is shown is what runs: where operators were fused, or moved behind others, inner values
/// are missing or come later than the symbol has them.
using Monitor = std::function<void(const std::string& name, const base::TensorView& value)>;

}  // namespace troupe::symbol
