// SPDX-License-Identifier: Apache-2.0
// What the kernels of leaky_relu and of its gradient must agree upon. Pure functions; any thread.
#pragma once

#include <string>

#include "ops/params.h"

namespace troupe::ops {

/// True where the sign and size of the output say all that the gradient must know.
inline bool gradient_reads_output(const Params& p) {
  const std::string& type = p.text("act_type");
  return type == "selu" || ((type == "leaky" || type == "elu") && p.real("slope") >= 0);
}

}  // namespace troupe::ops
