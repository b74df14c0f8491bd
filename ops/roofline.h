// SPDX-License-Identifier: Apache-2.0
// How long a call takes by rule: the longer of what it computes and what it moves, on a processor
// with vectors as wide as this one's and otherwise the same everywhere (Williams, Waterman and
// Patterson 2009). Kernels and layouts are chosen by these figures, so nothing here is measured.
// Pure functions, any thread.
#pragma once

#include <cstdint>

#include "ops/kernel.h"

namespace troupe::ops {

/// f32 numbers in the widest vectors that kernels use here.
std::int64_t vector_lanes();

/// The processor of the rule: a team of four threads.
struct RuleProcessor {
  double flops_per_second;  ///< that good kernels reach; multiply-adds count as 2
  double bytes_per_second;  ///< of memory
};
RuleProcessor rule_processor();

/// The share of both that a kernel reaches.
struct Speed {
  double compute = 1.0;
  double memory = 1.0;
};

/// What a call computes: OpDef::flops or, where that is empty, one operation an output element.
double flops_of(const OpCall& call);
/// Bytes that a call reads and writes; padding of blocked layouts does not count, so that a tensor
/// weighs the same in all of them.
double bytes_moved(const OpCall& call);
/// The rule, from flops_of() and bytes_moved().
double roofline_seconds(const OpCall& call, const Speed& speed = {});
/// The same of a call on a GPU, an H100 in round figures: what recomputation costs there.
/// roofline_seconds(), by which layouts are chosen on GPUs too, overrates their products.
double gpu_seconds(const OpCall& call);
/// Of a call that another thread would not take over any sooner than it is done.
inline constexpr double kBriefSeconds = 1e-6;
/// True for a call that takes `seconds` by the rule of its kernel and is quicker on one thread: a
/// team comes together and parts in a microsecond or two, and its members spin afterwards.
bool is_quicker_alone(const OpCall& call, double seconds);

}  // namespace troupe::ops
