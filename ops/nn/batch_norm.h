// SPDX-License-Identifier: Apache-2.0
// How the parameters of the batch_norm operators read, for all their kernels.
// Plain values; any thread.
#pragma once

#include <cstdint>

#include "ops/nn/epilogue.h"

namespace troupe::ops {

/// data seen as (outer, channels, inner) around the channel axis.
struct BatchNorm {
  int axis = 1;  ///< of the channels
  std::int64_t outer = 1, channels = 0, inner = 1;
  double eps = 1e-3;
  bool fix_gamma = true;
  bool global = false;  ///< normalise with given statistics, not with the batch's
  Epilogue epilogue;    ///< of gradients: relu alone

  /// Elements per channel.
  std::int64_t count() const { return outer * inner; }
};

/// CHECKs that the parameters were accepted by shape inference. `global` for batch_norm_inference.
inline BatchNorm read_batch_norm(const OpCall& call, const base::Shape& data) {
  const Params& p = call.params;
  BatchNorm v;
  v.axis = resolve_axis(p.integer("axis"), data).value();
  v.outer = data.elements(0, v.axis);
  v.channels = data[v.axis];
  v.inner = data.elements(v.axis + 1, data.rank());
  v.eps = p.real("eps");
  v.fix_gamma = p.boolean("fix_gamma");
  v.global = call.op->name == "batch_norm_inference" || p.boolean("use_global_stats");
  v.epilogue.relu = ends_in_relu(p);
  v.epilogue.sum = call.op->epilogue && p.boolean("with_sum");
  return v;
}

}  // namespace troupe::ops
