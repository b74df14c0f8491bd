// SPDX-License-Identifier: Apache-2.0
// Operands of imperative calls that a kernel cannot work on where they lie: they get memory of
// their own, which is copied before and after. Any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "ndarray/ndarray.h"
#include "ops/kernel.h"

namespace troupe::ndarray {

/// The arrays of a call, which outlive this.
struct Operands {
  std::vector<NDArray>& inputs;
  std::vector<NDArray>& outputs;
  std::optional<std::size_t> number = {};  ///< the operator's input that is no array

  /// Which of the operator's inputs inputs[i] is.
  std::size_t place(std::size_t i) const { return number && i >= *number ? i + 1 : i; }
};

/// Whether kernels of the operator bear that this output lies where this input does.
bool may_overwrite(const ops::OpDef& op, std::size_t input, std::size_t output);

/// Whether kernels that load wide (Kernel::loads_wide()) take it: it begins at a multiple of
/// ops::kWideLoadBytes, as allocations do, and slices may not.
bool begins_wide(const NDArray& array);

/// Gives memory of their own to
/// - outputs that overlap an input in a way the operator does not allow. Kernels add to an output
///   before they have read all of an input, so in add mode no overlap is allowed;
/// - with `loads_wide` (Kernel::loads_wide()), slices that do not begin wide: another kernel would
///   take them, but bits must not depend on addresses.
/// What such memory must hold is copied to it here; the pairs (own, wanted) are to be copied behind
/// the call. Errors are those of NDArray::empty().
base::Result<std::vector<std::pair<NDArray, NDArray>>> separate(Runtime& runtime,
                                                                const ops::OpCall& call,
                                                                bool loads_wide, Operands operands);

}  // namespace troupe::ndarray
