// SPDX-License-Identifier: Apache-2.0
// Figures of a processor of 2023, rounded; only their ratios matter.
#include "ops/roofline.h"

#include <algorithm>

#include "ops/op.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/roofline.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace troupe::ops::HWY_NAMESPACE {

std::int64_t count_vector_lanes() {
  return static_cast<std::int64_t>(
      hwy::HWY_NAMESPACE::Lanes(hwy::HWY_NAMESPACE::ScalableTag<float>()));
}

}  // namespace troupe::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::ops {

HWY_EXPORT(count_vector_lanes);

std::int64_t vector_lanes() {
  return HWY_DYNAMIC_DISPATCH(count_vector_lanes)();
}

namespace {
constexpr double kTeam = 4.0;
}

RuleProcessor rule_processor() {
  constexpr double kFlopsPerLane = 7e9, kBytesPerSecond = 3e10;
  return {kTeam * kFlopsPerLane * static_cast<double>(vector_lanes()), kBytesPerSecond};
}

double flops_of(const OpCall& call) {
  if (call.op->flops) return call.op->flops(call);
  return static_cast<double>(call.outputs.front().shape.elements());
}

double bytes_moved(const OpCall& call) {
  double bytes = 0.0;
  const auto add = [&bytes](const TensorDesc& tensor) {
    const bool opaque = !tensor.any_layout && tensor.layout.kind == base::Layout::Kind::opaque;
    const base::Layout layout = opaque ? tensor.layout : base::Layout::dense();
    bytes += static_cast<double>(layout.buffer_bytes(tensor.shape, base::dtype_size(tensor.dtype)));
  };
  const std::vector<int>& unread = call.op->shape_only_inputs;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (std::find(unread.begin(), unread.end(), static_cast<int>(i)) == unread.end()) {
      add(call.inputs[i]);
    }
  }
  for (const TensorDesc& tensor : call.outputs) add(tensor);
  return bytes;
}

double roofline_seconds(const OpCall& call, const Speed& speed) {
  const RuleProcessor processor = rule_processor();
  return std::max(flops_of(call) / (processor.flops_per_second * speed.compute),
                  bytes_moved(call) / (processor.bytes_per_second * speed.memory));
}

double gpu_seconds(const OpCall& call) {
  constexpr double kBytesPerSecond = 2.5e12, kFlopsPerSecond = 4e13;
  constexpr double kTensorCores = 4e14, kTensorCoresTf32 = 1.5e14;  // those of products
  double flops = kFlopsPerSecond;
  if (call.op->multiplies_and_adds && !call.inputs.empty()) {
    const base::DType dtype = call.inputs.front().dtype;
    if (base::is_16_bit(dtype)) flops = kTensorCores;
    if (dtype == base::DType::f32 && call.tf32) flops = kTensorCoresTf32;
  }
  return std::max(flops_of(call) / flops, bytes_moved(call) / kBytesPerSecond);
}

bool is_quicker_alone(const OpCall& call, double seconds) {
  constexpr double kWorthTeam = 4e-6;
  // As much slower alone as a kernel at full speed; memory is no faster for a team.
  const double team = roofline_seconds(call), alone = roofline_seconds(call, {1.0 / kTeam, 1.0});
  return team > 0.0 && seconds / team * alone < kWorthTeam;
}

}  // namespace troupe::ops
#endif  // HWY_ONCE
