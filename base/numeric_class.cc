// SPDX-License-Identifier: Apache-2.0
// Text of a numeric class.
#include "base/numeric_class.h"

#include <fmt/core.h>

namespace troupe::base {

std::string NumericClass::to_string() const {
  return fmt::format("build={} onednn={} libm={} isa={} caches={} threads={} device={}", build,
                     onednn, libm, isa, caches, threads, device_model);
}

}  // namespace troupe::base
