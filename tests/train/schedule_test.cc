// SPDX-License-Identifier: Apache-2.0
// Learning rates at their corners, initial values by element.
#include "train/schedule.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "train/initializer.h"

namespace troupe::train {
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

std::vector<float> values(const schemas::InitializerSpec& spec, const schemas::KeyInfo& key,
                          std::int64_t first, std::int64_t count) {
  std::vector<float> part(static_cast<std::size_t>(count));
  const base::TensorView view{part.data(), base::DType::f32, base::Shape{count}, {}, {}};
  REQUIRE(initialize(spec, 7, key, first, view).ok());
  return part;
}

TEST_CASE("any part of a key holds the same values as the whole", "[initializer]") {
  schemas::KeyInfo key;
  key.name = "conv1_weight";
  key.shape = base::Shape{20, 1, 5, 5};
  for (auto kind : {schemas::InitializerKind::uniform, schemas::InitializerKind::normal,
                    schemas::InitializerKind::xavier, schemas::InitializerKind::msra}) {
    schemas::InitializerSpec spec;
    spec.kind = kind;
    const auto whole = values(spec, key, 0, 500);
    const auto part = values(spec, key, 123, 77);
    CHECK(std::equal(part.begin(), part.end(), whole.begin() + 123));
    double sum = 0.0;
    for (float v : whole) sum += v * v;
    CHECK(sum > 0.0);
  }
}

TEST_CASE("spreads follow the formulas and names choose constants", "[initializer]") {
  schemas::KeyInfo key;
  key.name = "fc_weight";
  key.shape = base::Shape{100, 300};
  const auto drawn = values({}, key, 0, 30000);
  const double bound = std::sqrt(3.0 / 200.0);
  double most = 0.0;
  double square = 0.0;
  for (float v : drawn) {
    most = std::max(most, std::abs(static_cast<double>(v)));
    square += static_cast<double>(v) * v;
  }
  CHECK(most <= bound);
  CHECK(std::sqrt(square / 30000.0) == Approx(bound / std::sqrt(3.0)).epsilon(0.02));
  key.name = "bn_gamma";
  CHECK(values({}, key, 5, 3) == std::vector<float>{1, 1, 1});
  key.name = "fc_bias";
  CHECK(values({}, key, 5, 3) == std::vector<float>{0, 0, 0});
}

}  // namespace
}  // namespace troupe::train
