// SPDX-License-Identifier: Apache-2.0
// Codecs of what parameter servers tell each other about a step.
#include "schemas/codec_internal.h"

namespace troupe::schemas {

void put(wire::SliceFacts::Builder out, const SliceFacts& m) {
  const auto& [squares, not_finite] = m;
  out.setSquares(squares);
  out.setNotFinite(not_finite);
}

/// A sum of squares may be infinite: the judge names the step.
void get(wire::SliceFacts::Reader in, SliceFacts& out, Intake&) {
  out.squares = in.getSquares();
  out.not_finite = in.getNotFinite();
}

void put(wire::StepFacts::Builder out, const StepFacts& m) {
  const auto& [step, shard, count, loss_scale, slices] = m;
  out.setStep(step);
  out.setShard(shard);
  out.setCount(count);
  out.setLossScale(loss_scale);
  put_structs(out.initSlices(size_of(slices)), slices);
}

void get(wire::StepFacts::Reader in, StepFacts& out, Intake& intake) {
  out.step = in.getStep();
  out.shard = in.getShard();
  intake.finite(in.getCount(), "count", out.count);
  intake.finite(in.getLossScale(), "loss_scale", out.loss_scale);
  intake.structs(in.getSlices(), kFactsMax, "slices", out.slices);
}

void put(wire::StepVerdict::Builder out, const StepVerdict& m) {
  const auto& [step, skip, divisor, norm] = m;
  out.setStep(step);
  out.setSkip(skip);
  out.setDivisor(divisor);
  out.setNorm(norm);
}

void get(wire::StepVerdict::Reader in, StepVerdict& out, Intake& intake) {
  out.step = in.getStep();
  out.skip = in.getSkip();
  intake.finite(in.getDivisor(), "divisor", out.divisor);
  intake.finite(in.getNorm(), "norm", out.norm);
  if (!(out.divisor > 0.0)) intake.fail("divisor", fmt::format("is {}", out.divisor));
}

}  // namespace troupe::schemas
