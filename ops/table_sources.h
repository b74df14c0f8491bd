// SPDX-License-Identifier: Apache-2.0
// What the table's generated source offers: CMake lists the stems and back-end files of ops/ and
// writes its two functions into the build folder (cmake/OpsTable.cmake).
#pragma once

#include <span>
#include <vector>

#include "ops/table.h"

namespace troupe::ops {

/// The definitions of every stem, in order of path.
std::vector<std::span<const OpDef>> stem_operators();
/// The kernels of every back-end file, best back-end first.
std::vector<std::span<const BackendKernel>> stem_backend_kernels();

}  // namespace troupe::ops
