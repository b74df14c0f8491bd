// SPDX-License-Identifier: Apache-2.0
// Learning rates at their corners: what the formulas say at the start, the end and between.
#include "store/schedule.h"

#include <catch2/catch.hpp>

namespace troupe::store {
namespace {

TEST_CASE("a cosine schedule falls from lr to final_lr behind its warm-up", "[schedule]") {
  schemas::ScheduleSpec spec;
  spec.kind = schemas::ScheduleKind::cosine;
  spec.warmup = {10, schemas::Period::Unit::steps};
  spec.final_lr = 0.01;
  const ScheduleSpan span{50, 110};
  CHECK(learning_rate(spec, 0.1, span, 0) == Approx(0.01));
  CHECK(learning_rate(spec, 0.1, span, 9) == Approx(0.1));
  CHECK(learning_rate(spec, 0.1, span, 10) == Approx(0.1));
  CHECK(learning_rate(spec, 0.1, span, 60) == Approx(0.055));
  CHECK(learning_rate(spec, 0.1, span, 110) == Approx(0.01));
  CHECK(learning_rate(spec, 0.1, span, 500) == Approx(0.01));
}

TEST_CASE("a constant schedule is constant and warms up by epochs", "[schedule]") {
  schemas::ScheduleSpec spec;
  spec.warmup = {1, schemas::Period::Unit::epochs};
  const ScheduleSpan span{4, 8};
  CHECK(learning_rate(spec, 0.4, span, 0) == Approx(0.1));
  CHECK(learning_rate(spec, 0.4, span, 3) == Approx(0.4));
  CHECK(learning_rate(spec, 0.4, span, 7) == Approx(0.4));
}

}  // namespace
}  // namespace troupe::store
