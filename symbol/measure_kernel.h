// SPDX-License-Identifier: Apache-2.0
// How long a kernel takes, for autotune.h: run on the device that its call names, with tensors of
// its own. One thread.
#pragma once

#include <functional>

#include "base/status.h"
#include "ndarray/runtime.h"
#include "ops/kernel.h"

namespace troupe::symbol {

/// Seconds of one run of the kernel that the offer's maker prepares for the call.
using MeasureFunction = std::function<base::Result<double>(const ops::OpCall&, const ops::Offer&)>;

/// Runs kernels on the compute lane of `runtime`'s engine, on made-up tensors: once to warm up,
/// then the median of a few runs, on a device with streams of a few runs of eight. A kernel that is
/// taken by choice alone (KernelDef::by_choice) must compute what the first of the call's others
/// did that was measured, to 2e-5 of the norm in f32: else data_loss, and a line in the log, or
/// failed_precondition without such a one. `runtime` outlives it.
MeasureFunction measure_on(ndarray::Runtime& runtime);

/// Seconds that all runs of a kernel take there, on threads, where one takes `seconds`.
double seconds_of_runs(double seconds);

}  // namespace troupe::symbol
