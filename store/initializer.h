// SPDX-License-Identifier: Apache-2.0
// First values of weights and states: functions of (seed, key, shape, element), so every owner of a
// slice computes its part alone and a job's start does not depend on shards or machines. Any
// thread.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "base/tensor_view.h"
#include "schemas/job_spec.h"
#include "schemas/messages.h"

namespace troupe::store {

/// The scales that an initialiser may have, both ends included.
struct ScaleRange {
  double least = 0.0;
  double most = 0.0;
};

/// Of a constant, whose scale is its value, any number that f32 holds; of others none below 0.
ScaleRange scale_range(schemas::InitializerKind kind);

/// Fills `part` (f32 or f64, host memory) with elements [first, first + part.elements()) of the
/// key's dense row-major form, by the key's own initialiser or, where it has none, by the job's.
///   uniform: U(-s, s), s = scale (0.07)
///   normal:  N(0, s), s = scale (0.01)
///   xavier:  U(-a, a) or N(0, a), a = sqrt(magnitude / fan), magnitude 3 (Glorot & Bengio 2010, in
///            MXNet's form)
///   msra:    N(0, sqrt(2 / ((1 + slope^2) fan))) (He et al. 2015)
///   constant: scale (0) in every element
/// fan: of shape (out, in, k...): in = in * prod(k), out = out * prod(k), average = their mean.
/// invalid_argument for other dtypes.
base::Status initialize(const schemas::InitializerSpec& job, std::uint64_t seed,
                        const schemas::KeyInfo& key, std::int64_t first,
                        const base::TensorView& part);

}  // namespace troupe::store
